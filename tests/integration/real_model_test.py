"""A real model behind a running cluster: the golden continuation, the `openai` and `ollama` packages, `spillway run`."""

import hashlib
import json
import os
import pathlib
import subprocess
import sys
import unittest

from running_cluster import RunningCluster, with_api
from spillway_command import BINARY, CASES, NO_CASES, NO_REAL_MODEL, REAL_MODEL, run, temporary_folder

API_TESTS = pathlib.Path(__file__).parent / "api"
SKIPPED = 77


@unittest.skipUnless(REAL_MODEL.is_file(), NO_REAL_MODEL)
class RealModel(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.cluster = RunningCluster(REAL_MODEL, "--ctx-size", 512, "--cpu-stages", 1, "--vram-budget", "96MiB")

    @classmethod
    def tearDownClass(cls):
        cls.cluster.stop()

    def test_layers_really_spill(self):
        status = json.loads(run("ps", "--admin", self.cluster.admin(), "--json").stdout)
        self.assertEqual([stage["worker"] for stage in status["stages"]], ["cpu-worker-0", "gpu-worker"])
        for stage in status["stages"]:
            self.assertGreater(stage["layers_planned"], 0)

    @unittest.skipUnless(CASES.is_dir(), NO_CASES)
    def test_continues_as_the_reference_does_where_it_is_sure(self):
        for prompt in json.loads((CASES / "smollm2" / "reference.json").read_text())[:3]:
            with self.subTest(prompt["name"]):
                expected = prompt["generated_ids"]
                sure = next((i for i, step in enumerate(prompt["steps"]) if step["margin"] <= 0.15), len(expected))
                if sure == 0:
                    continue
                wanted = run("tokenize", "--model", REAL_MODEL, "--detokenize",
                             stdin=json.dumps(expected[:sure]).encode()).stdout.decode("utf-8", errors="replace")
                answer = self.cluster.complete(prompt["prompt_ids"], max_tokens=sure)
                self.assertEqual(answer["choices"][0]["text"].rstrip("\ufffd"), wanted.rstrip("\ufffd"))

    def test_the_packages_of_openai_and_ollama_work_unchanged(self):
        for package in ("openai", "ollama"):
            with self.subTest(package):
                program = API_TESTS / f"{package}_client_test.py"
                process = subprocess.run([sys.executable, str(program)], env=with_api(self.cluster), capture_output=True,
                                         check=False, timeout=900)
                if process.returncode == SKIPPED:
                    self.skipTest(f"the {package} package is not installed (test.sh puts it into .venv)")
                self.assertEqual(process.returncode, 0, process.stdout.decode() + process.stderr.decode())

    def test_a_model_of_ollamas_store_is_run_by_its_name(self):
        with temporary_folder() as folder:
            store = pathlib.Path(folder)
            digest = "sha256-" + hashlib.sha256(b"any").hexdigest()
            (store / "blobs").mkdir()
            (store / "blobs" / digest).symlink_to(REAL_MODEL.resolve())
            manifest = store / "manifests/registry.ollama.ai/library/smollm2/135m"
            manifest.parent.mkdir(parents=True)
            layer = {"mediaType": "application/vnd.ollama.image.model", "digest": digest.replace("-", ":")}
            manifest.write_text(json.dumps({"schemaVersion": 2, "layers": [layer]}))
            options = ["--device", "host", "--vram-budget", "64MiB", "--ctx-size", "256"]

            def spillway(*arguments):
                return subprocess.run([str(BINARY), *arguments, *options], stdin=subprocess.DEVNULL, check=False,
                                      capture_output=True, timeout=300, env={**os.environ, "OLLAMA_MODELS": folder})

            plan = spillway("plan", "ollama:smollm2:135m", "--json")
            self.assertEqual(plan.returncode, 0, plan.stderr.decode())
            self.assertEqual(json.loads(plan.stdout)["model"], "smollm2:135m")
            missing = spillway("plan", "ollama:smollm2")
            self.assertEqual(missing.returncode, 1)
            self.assertIn("smollm2:135m", missing.stderr.decode())
            answer = spillway("run", "ollama:smollm2:135m", "--prompt", "Hi.", "-n", "4", "--port", "0", "--port-base", "0")
            self.assertEqual(answer.returncode, 0, answer.stderr.decode())

    def test_run_answers_and_says_what_it_cost(self):
        process = subprocess.run(
            [str(BINARY), "run", str(REAL_MODEL), "--prompt", "Say hello.", "--max-tokens", "8", "--device", "host",
             "--vram-budget", "64MiB", "--ctx-size", "256", "--port", "0", "--port-base", "0"],
            stdin=subprocess.DEVNULL, capture_output=True, check=False, timeout=300)
        text = process.stdout.decode()
        self.assertEqual(process.returncode, 0, process.stderr.decode())
        for word in ("gpu-worker", "cpu-worker-0", "weights", "kv_cache", "tokens/s", "time to first token", "COMPUTE",
                     "TRANSPORT", "/metrics", "/v1"):
            self.assertIn(word, text)


if __name__ == "__main__":
    unittest.main()
