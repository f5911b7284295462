#!/usr/bin/env python3
"""Checks deploy/: promtool on configuration and rules, the dashboard's rules, and that every metric named in a rule or a
panel is in the catalogue with the labels it is asked for.

Usage: deploy_test.py METRICS_DOC [SPILLWAY]   (from the repository root; exit code 77 = skipped)
"""
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import unittest

DEPLOY = pathlib.Path("deploy")
RULES = sorted((DEPLOY / "prometheus" / "rules").glob("*.rules.yml"))
DASHBOARDS = sorted((DEPLOY / "grafana" / "dashboards").glob("*.json"))
METRIC = re.compile(r"\b(?:spillway|process)_[a-z0-9_]+")
# Labels that Prometheus adds or that a query makes; every other one must be the metric's own.
ADDED_LABELS = {"job", "instance", "le"}

METRICS_DOC = None
SPILLWAY = None


def run(*command, cwd=None):
    done = subprocess.run(command, cwd=cwd, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=120)
    return done.returncode, done.stdout


def catalogue():
    code, out = run(METRICS_DOC, "--json")
    assert code == 0, out
    names = {}
    for metric in json.loads(out)["metrics"]:
        labels = metric["labels"]
        names[metric["name"]] = labels
        if metric["type"] == "histogram":
            for suffix in ("_bucket", "_sum", "_count"):
                names[metric["name"] + suffix] = labels
    return names


def panels_of(dashboard):
    for panel in dashboard["panels"]:
        if panel["type"] != "row":
            yield panel
        yield from panel.get("panels", [])


def expressions(dashboard):
    for panel in panels_of(dashboard):
        for target in panel["targets"]:
            yield panel["title"], target["expr"]
    for annotation in dashboard["annotations"]["list"]:
        yield annotation["name"], annotation["expr"]
    for variable in dashboard["templating"]["list"]:
        if variable["type"] == "query":
            yield variable["name"], variable["definition"]


class Prometheus(unittest.TestCase):
    def test_configuration_is_valid(self):
        code, out = run("promtool", "check", "config", "prometheus.yml", cwd=DEPLOY / "prometheus")
        self.assertEqual(code, 0, out)

    def test_rules_are_valid(self):
        self.assertTrue(RULES)
        code, out = run("promtool", "check", "rules", "--lint=all", "--lint-fatal", *map(str, RULES))
        self.assertEqual(code, 0, out)

    def test_rules_alert_in_time_and_stay_quiet_when_healthy(self):
        for test in sorted((DEPLOY / "prometheus" / "tests").glob("*.yml")):
            code, out = run("promtool", "test", "rules", test.name, cwd=test.parent)
            self.assertEqual(code, 0, out)


class Names(unittest.TestCase):
    def check(self, where, expression, names):
        for name in METRIC.findall(expression):
            self.assertIn(name, names, where)
        for name, selector in re.findall(r"\b((?:spillway|process)_[a-z0-9_]+)\{([^}]*)\}", expression):
            for label, operator, value in re.findall(r'([a-z_]+)(=~|!~|!=|=)"([^"]*)"', selector):
                if label in ADDED_LABELS:
                    continue
                self.assertIn(label, names[name], f"{where}: {name}")
                closed = names[name][label]
                for part in value.split("|"):
                    self.assertTrue(not closed or part in closed, f"{where}: {name} {label} {part}")

    def test_rules_name_only_metrics_of_the_catalogue(self):
        names = catalogue()
        for path in RULES:
            text = path.read_text(encoding="utf-8")
            self.check(path.name, re.sub(r"(?m)^\s*(-\s*name|#).*$", "", text), names)

    def test_dashboards_name_only_metrics_of_the_catalogue(self):
        names = catalogue()
        for path in DASHBOARDS:
            for title, expression in expressions(json.loads(path.read_text(encoding="utf-8"))):
                self.check(f"{path.name}: {title}", expression, names)

    def test_every_alert_has_its_section_in_the_runbook(self):
        runbook = pathlib.Path("docs/runbook.md").read_text(encoding="utf-8")
        for path in RULES:
            text = path.read_text(encoding="utf-8")
            alerts = re.findall(r"- alert: (\w+)", text)
            self.assertEqual(re.findall(r"runbook_url: docs/runbook\.md#(\w+)", text), [a.lower() for a in alerts])
            for alert in alerts:
                self.assertIn(f"\n### {alert}\n", runbook)


class Dashboards(unittest.TestCase):
    def setUp(self):
        self.dashboards = [json.loads(path.read_text(encoding="utf-8")) for path in DASHBOARDS]
        self.assertTrue(self.dashboards)

    def test_files_are_what_build_py_writes(self):
        code, out = run(sys.executable, str(DEPLOY / "grafana" / "build.py"), "--check")
        self.assertEqual(code, 0, "run deploy/grafana/build.py " + out)

    def test_can_be_provisioned(self):
        for dashboard in self.dashboards:
            self.assertIsNone(dashboard["id"])
            self.assertLessEqual(len(dashboard["uid"]), 40)
            self.assertEqual(dashboard["schemaVersion"], 39)
            self.assertNotIn("__inputs", dashboard)
            self.assertNotIn("${DS_", json.dumps(dashboard))

    def test_variables_choose_datasource_job_and_instance(self):
        for dashboard in self.dashboards:
            kinds = {v["name"]: v["type"] for v in dashboard["templating"]["list"]}
            self.assertEqual(kinds, {"datasource": "datasource", "job": "query", "instance": "query"})

    def test_panels_are_complete(self):
        for dashboard in self.dashboards:
            idents = [p["id"] for p in dashboard["panels"]]
            self.assertEqual(len(idents), len(set(idents)))
            for panel in panels_of(dashboard):
                where = panel["title"]
                self.assertTrue(panel["title"] and panel["description"], where)
                self.assertEqual(panel["datasource"]["uid"], "${datasource}", where)
                self.assertTrue(panel["fieldConfig"]["defaults"]["unit"], where)
                self.assertTrue(panel["targets"], where)

    def test_targets_select_job_and_instance_and_never_fix_a_window(self):
        for dashboard in self.dashboards:
            for panel in panels_of(dashboard):
                for target in panel["targets"]:
                    expr = target["expr"]
                    self.assertEqual(target["datasource"]["uid"], "${datasource}")
                    self.assertEqual(len(METRIC.findall(expr)), expr.count('job=~"$job", instance=~"$instance"'), expr)
                    self.assertEqual(set(re.findall(r"\[([^\]]*)\]", expr)) - {"$__rate_interval"}, set(), expr)
                    self.assertEqual(expr.count("("), expr.count(")"), expr)

    def test_queries_parse(self):
        # promtool knows no Grafana variables; as recording rules the substituted queries must pass its parser.
        rules = []
        for dashboard in self.dashboards:
            for _, expr in expressions(dashboard):
                if expr.startswith("label_values("):
                    continue
                expr = expr.replace("$__rate_interval", "1m").replace("$job", ".+").replace("$instance", ".+")
                rules.append({"record": f"panel:query:{len(rules)}", "expr": expr})
        path = pathlib.Path(os.environ.get("TMPDIR", "/tmp")) / f"spillway_panels_{os.getpid()}.rules.yml"
        path.write_text(json.dumps({"groups": [{"name": "panels", "rules": rules}]}), encoding="utf-8")
        try:
            code, out = run("promtool", "check", "rules", str(path))
        finally:
            path.unlink()
        self.assertEqual(code, 0, out)

    def test_layout_has_no_overlaps(self):
        for dashboard in self.dashboards:
            taken = set()
            for panel in dashboard["panels"]:
                g = panel["gridPos"]
                cells = {(x, y) for x in range(g["x"], g["x"] + g["w"]) for y in range(g["y"], g["y"] + g["h"])}
                self.assertFalse(taken & cells, panel["title"])
                self.assertLessEqual(g["x"] + g["w"], 24)
                taken |= cells


class Configuration(unittest.TestCase):
    def test_every_flag_is_known(self):
        if SPILLWAY is None or not os.access(SPILLWAY, os.X_OK):
            self.skipTest("the spillway command is not built")
        code, help_text = run(SPILLWAY, "up", "--help")
        self.assertEqual(code, 0, help_text)
        for path in sorted((DEPLOY / "config").glob("*.flags")):
            for line in path.read_text(encoding="utf-8").splitlines():
                if line and not line.startswith("#"):
                    self.assertRegex(help_text, re.escape(line.split()[0]) + r"\b", path.name)


if __name__ == "__main__":
    METRICS_DOC = sys.argv[1]
    SPILLWAY = sys.argv[2] if len(sys.argv) > 2 else None
    if shutil.which("promtool") is None:
        print("skipped: promtool is absent (Debian package prometheus)")
        sys.exit(77)
    unittest.main(argv=sys.argv[:1], verbosity=1)
