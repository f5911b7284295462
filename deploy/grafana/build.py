#!/usr/bin/env python3
"""Writes dashboards/*.json from the list of panels below; a test keeps the files current.

Usage: build.py [--check]
"""
import json
import pathlib
import sys

HERE = pathlib.Path(__file__).resolve().parent
DATASOURCE = {"type": "prometheus", "uid": "${datasource}"}
SELECT = 'job=~"$job", instance=~"$instance"'


def select(more=""):
    return "{" + SELECT + (", " + more if more else "") + "}"


HOST = select('device="host"')


def rate(name, more=""):
    return f"rate({name}{select(more)}[$__rate_interval])"


def quantile(q, name):
    return f"histogram_quantile({q}, sum by (le) ({rate(name + '_bucket')}))"


def panel(title, description, unit, targets, kind="timeseries", stack=False, width=12):
    custom = {"fillOpacity": 15 if not stack else 40, "showPoints": "never"}
    if stack:
        custom["stacking"] = {"mode": "normal", "group": "A"}
    if kind != "timeseries":
        custom = {}
    return {
        "type": kind,
        "title": title,
        "description": description,
        "datasource": DATASOURCE,
        "fieldConfig": {"defaults": {"unit": unit, "custom": custom, "min": 0}, "overrides": []},
        "options": {"legend": {"displayMode": "list", "placement": "bottom"}, "tooltip": {"mode": "multi"}}
        if kind == "timeseries" else {},
        "targets": [
            {"refId": chr(ord("A") + i), "datasource": DATASOURCE, "expr": expr, "legendFormat": legend,
             "editorMode": "code", "range": True}
            for i, (expr, legend) in enumerate(targets)
        ],
        "width": width,
    }


FALLBACK = [
    panel("Fallback by cause", "1 while a worker reports that it does not run as planned. Causes and remedies: docs/runbook.md.",
          "none", [(f"max by (instance, cause) (spillway_fallback_active{select()}) > 0 or "
                    f"max by (instance) (spillway_fallback_active{select()})", "{{instance}} {{cause}}")],
          kind="state-timeline", width=24),
    panel("The monitor's verdict", "1 while the monitor judges a worker to be in a fallback, whatever the worker says.", "none",
          [(f"max by (worker) (spillway_monitor_worker_fallback_active{select()})", "{{worker}}")],
          kind="state-timeline", width=24),
    panel("Other engines in VRAM", "Share of the least resident model of each watched engine (Ollama, llama-server).",
          "percentunit", [(f"max by (engine) (spillway_watched_vram_share_ratio{select()})", "{{engine}}"),
                          (f"max by (engine) (spillway_watched_fallback_active{select()})", "{{engine}} fallback")]),
    panel("Layers planned, loaded, executed",
          "What the plan gives to a worker, what it holds, and how many layers a row really passed through.", "none",
          [(f"spillway_monitor_worker_layers_planned{select()}", "{{worker}} planned"),
           (f"spillway_monitor_worker_layers_executed{select()}", "{{worker}} executed"),
           (f"spillway_stage_layers_loaded{select()}", "{{instance}} {{stage}} on {{device}} loaded")]),
    panel("Workers by state", "Configured workers as the gateway sees them.", "none",
          [(f"sum by (stage, state) (spillway_workers{select()})", "{{stage}} {{state}}")], stack=True),
    panel("Memory by purpose", "Each worker's own ledger, stacked; the plan promises it to the byte.", "bytes",
          [(f"sum by (instance, purpose) (spillway_device_memory_purpose_bytes{select()})", "{{instance}} {{purpose}}")], stack=True),
    panel("Memory left in the budget", "Budget less the ledger of each worker that has a budget.", "bytes",
          [(f"max by (instance) (spillway_device_memory_budget_bytes{select()} < Inf) - "
            f"sum by (instance) (spillway_device_memory_purpose_bytes{select()})", "{{instance}}")]),
    panel("Machine memory", "What the machine or the cgroup allows, and what is still available.", "bytes",
          [(f"spillway_device_memory_total_bytes{HOST}", "total"),
           (f"spillway_device_memory_free_bytes{HOST}", "available")]),
    panel("Major page faults", "Faults that read from disk: mapped weights were pushed out of memory.", "cps",
          [(f"{rate('process_major_faults_total')}", "{{job}} {{instance}}")]),
    panel("Verdict changes", "Entries into and exits from a fallback.", "none",
          [(f"sum by (worker) (increase(spillway_monitor_transitions_total{select()}[$__rate_interval]))", "{{worker}}")]),
    panel("Allocation failures", "Allocations that a budget or the device refused.", "none",
          [(f"sum by (instance) (increase(spillway_device_allocation_failures_total{select()}[$__rate_interval]))", "{{instance}}")]),
]

TOKENS = [
    panel("Time to first token", "Arrival until the first token is handed to the client.", "s",
          [(quantile(q, "spillway_time_to_first_token_seconds"), f"p{int(q * 100)}") for q in (0.5, 0.9, 0.99)]),
    panel("Inter-token latency", "Each gap between two tokens; stalls show here.", "s",
          [(quantile(q, "spillway_inter_token_latency_seconds"), f"p{int(q * 100)}") for q in (0.5, 0.9, 0.99)]),
    panel("Tokens per second", "Tokens of finished requests.", "none",
          [(f"sum({rate('spillway_generated_tokens_total')})", "generated"),
           (f"sum({rate('spillway_prompt_tokens_total')})", "prompt")]),
    panel("Requests running and waiting", "Running ones hold pages; waiting ones are accepted.", "none",
          [(f"sum(spillway_requests_running{select()})", "running"),
           (f"sum(spillway_requests_waiting{select()})", "waiting")]),
    panel("A decode hop by component", "Mean parts of one stage's call for a generated token; they sum to the hop.", "s",
          [("sum by (stage, component) (" + rate("spillway_hop_duration_seconds_sum", 'phase="decode"') + ") / sum by (stage, component) ("
            + rate("spillway_hop_duration_seconds_count", 'phase="decode"') + ")", "{{stage}} {{component}}")], stack=True),
    panel("A prefill hop by component", "Mean parts of one stage's call for prompt rows.", "s",
          [("sum by (stage, component) (" + rate("spillway_hop_duration_seconds_sum", 'phase="prefill"') + ") / sum by (stage, component) ("
            + rate("spillway_hop_duration_seconds_count", 'phase="prefill"') + ")", "{{stage}} {{component}}")], stack=True),
    panel("Stage utilisation", "Share of time a stage computes.", "percentunit",
          [(f"sum by (instance, stage) ({rate('spillway_stage_busy_seconds_total')})", "{{stage}} {{instance}}")]),
    panel("Pipeline stall", "Share of time a stage was idle while a sequence was in flight.", "percentunit",
          [(f"sum by (stage) ({rate('spillway_pipeline_stall_seconds_total')})", "{{stage}}")]),
    panel("Activation bytes", "Payload sent to and received from stages, without framing.", "Bps",
          [(f"sum by (stage, direction) ({rate('spillway_hop_payload_bytes_total')})", "{{stage}} {{direction}}")]),
    panel("State pool in use", "Used pages of each worker's pool.", "percentunit",
          [(f"spillway_kv_cache_utilization_ratio{select()}", "{{stage}} {{instance}}")]),
    panel("Requests by outcome", "Finished requests.", "reqps",
          [(f"sum by (outcome) ({rate('spillway_requests_total')})", "{{outcome}}"),
           (f"sum by (reason) ({rate('spillway_requests_rejected_total')})", "rejected: {{reason}}")]),
    panel("Hop errors", "Failed calls of stages by gRPC code.", "cps",
          [(f"sum by (stage, code) ({rate('spillway_hop_errors_total')}) > 0", "{{stage}} {{code}}")]),
]


def variable(name, label, query, include_all=True):
    return {"name": name, "label": label, "type": "query", "datasource": DATASOURCE, "refresh": 2,
            "query": {"query": query, "refId": name}, "definition": query, "includeAll": include_all, "multi": include_all,
            "allValue": ".+", "current": {"selected": True, "text": ["All"], "value": ["$__all"]}, "sort": 1}


def layout(sections):
    panels, y, ident = [], 0, 1
    for title, members in sections:
        panels.append({"type": "row", "id": ident, "title": title, "collapsed": False, "panels": [],
                       "gridPos": {"x": 0, "y": y, "w": 24, "h": 1}})
        ident, y, x = ident + 1, y + 1, 0
        for member in members:
            member = dict(member)
            width = member.pop("width")
            height = 6 if width == 24 else 8
            if x + width > 24:
                x, y = 0, y + 8
            member.update(id=ident, gridPos={"x": x, "y": y, "w": width, "h": height})
            panels.append(member)
            ident, x = ident + 1, x + width
            if width == 24:
                x, y = 0, y + height
        if x:
            y += 8
    return panels


def dashboard():
    return {
        "id": None,
        "uid": "spillway-fallback-tokens",
        "title": "Spillway: fallback, placement and token path",
        "description": "What was planned, what runs, and where a token's time goes.",
        "tags": ["spillway"],
        "schemaVersion": 39,
        "version": 1,
        "editable": True,
        "graphTooltip": 1,
        "time": {"from": "now-30m", "to": "now"},
        "refresh": "5s",
        "timezone": "browser",
        "templating": {"list": [
            {"name": "datasource", "label": "Data source", "type": "datasource", "query": "prometheus", "current": {}, "hide": 0},
            variable("job", "Job", "label_values(spillway_build_info, job)"),
            variable("instance", "Instance", 'label_values(spillway_build_info{job=~"$job"}, instance)'),
        ]},
        "annotations": {"list": [{
            "name": "Verdict changes", "datasource": DATASOURCE, "enable": True, "iconColor": "red",
            "expr": "sum by (worker) (changes(spillway_monitor_transitions_total[15s])) > 0",
            "titleFormat": "Verdict changed", "textFormat": "{{worker}}"}]},
        "panels": layout([("Fallback and placement", FALLBACK), ("Token path", TOKENS)]),
    }


def main():
    path = HERE / "dashboards" / "fallback-and-tokens.json"
    text = json.dumps(dashboard(), indent=1, ensure_ascii=False) + "\n"
    if "--check" in sys.argv[1:]:
        return 0 if path.read_text(encoding="utf-8") == text else 1
    path.write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
