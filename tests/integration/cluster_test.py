"""The whole product as processes on a tiny model: answers, status, metrics, stopping, refusals."""

import array
import json
import pathlib
import shutil
import signal
import socket
import subprocess
import threading
import unittest

from running_cluster import RunningCluster, alive, request, wait_until
from spillway_command import BINARY, make_tiny_model, run, temporary_folder

N_LAYER = 6
PROMPT = [5, 60, 61, 62, 7, 200, 31, 9, 9, 100, 12, 65, 66, 67, 255, 0, 1]


class TinyClusterTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder_owner = temporary_folder()
        cls.folder = pathlib.Path(cls.folder_owner.name)
        cls.model = make_tiny_model(cls.folder / "tiny.gguf", n_layer=N_LAYER)

    @classmethod
    def tearDownClass(cls):
        cls.folder_owner.cleanup()


    def unsplit_answer(self, *arguments):
        """Six greedy tokens of the model in one process, as text."""
        tokens = list(PROMPT)
        for _ in range(6):
            out = self.folder / "step.f32"
            process = run("logits", "--model", self.model, "--tokens", ",".join(map(str, tokens)), "--out", out,
                          *arguments)
            self.assertEqual(process.returncode, 0, process.stderr)
            row = array.array("f", out.read_bytes())[-320:]
            tokens.append(row.index(max(row)))
        text = run("tokenize", "--model", self.model, "--detokenize", stdin=json.dumps(tokens[len(PROMPT) :]).encode())
        return text.stdout.decode("utf-8", errors="replace")


class RunningTiny(TinyClusterTest):
    """One cluster with two CPU workers in a row for all of these."""

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.cluster = RunningCluster(cls.model, "--cpu-stages", 2, "--n-gpu-layers", 2, "--ctx-size", 256)

    @classmethod
    def tearDownClass(cls):
        cls.cluster.stop()
        super().tearDownClass()

    def test_describes_its_processes(self):
        names = [process["name"] for process in self.cluster.description["processes"]]
        self.assertEqual(names, ["gateway", "gpu-worker", "cpu-worker-0", "cpu-worker-1", "monitor"])
        self.assertTrue(all(alive(pid) for pid in self.cluster.pids.values()))
        self.assertIsNone(self.cluster.grpc["monitor"])
        for name in names[:-1]:
            self.assertRegex(self.cluster.grpc[name], r"^127\.0\.0\.1:\d+$")
        self.assertEqual(request(self.cluster.description["status"])[0], 200)

    def test_answers_with_the_tokens_of_the_unsplit_model(self):
        answer = self.cluster.complete(PROMPT, max_tokens=6)
        self.assertEqual(answer["choices"][0]["text"], self.unsplit_answer())
        self.assertEqual(answer["usage"]["completion_tokens"], 6)
        self.assertEqual(answer["usage"]["prompt_tokens"], len(PROMPT))

    def test_ps_shows_every_stage(self):
        process = run("ps", "--admin", self.cluster.admin(), "--json")
        self.assertEqual(process.returncode, 0, process.stderr)
        status = json.loads(process.stdout)
        self.assertTrue(status["ready"])
        self.assertEqual(status["n_ctx"], 256)
        stages = status["stages"]
        self.assertEqual([stage["worker"] for stage in stages], ["cpu-worker-0", "cpu-worker-1", "gpu-worker"])
        self.assertEqual([(stage["layer_begin"], stage["layer_end"]) for stage in stages], [(0, 2), (2, 4), (4, 6)])
        for stage in stages:
            self.assertEqual(stage["state"], "ready")
            self.assertEqual(stage["device"], "host")
            self.assertEqual(stage["cause"], "")
            self.assertEqual(stage["expected_bytes"], stage["allocated_bytes"])
        table = run("ps", "--admin", self.cluster.admin()).stdout.decode()
        for word in ("cpu-worker-0", "cpu-worker-1", "gpu-worker", "ready"):
            self.assertIn(word, table)

    def test_plan_says_what_the_workers_allocate(self):
        process = run("plan", self.model, "--json", "--device", "host", "--vram-budget", "64MiB", "--cpu-stages", 2,
                      "--n-gpu-layers", 2, "--ctx-size", 256)
        self.assertEqual(process.returncode, 0, process.stderr)
        plan = json.loads(process.stdout)
        status = json.loads(run("ps", "--admin", self.cluster.admin(), "--json").stdout)
        self.assertEqual([stage["bytes"] for stage in plan["stages"]],
                         [stage["allocated_bytes"] for stage in status["stages"]])

    def test_every_process_serves_metrics(self):
        self.cluster.complete(PROMPT)
        promtool = shutil.which("promtool")
        for name in self.cluster.pids:
            text = self.cluster.metrics(name)
            self.assertIn("spillway_build_info", text)
            if promtool:
                check = subprocess.run([promtool, "check", "metrics"], input=text.encode(), capture_output=True,
                                       check=False)
                self.assertEqual(check.returncode, 0, f"{name}: {check.stderr.decode()}")
        self.assertGreater(self.cluster.sample("gateway", "spillway_time_to_first_token_seconds_count"), 0)
        for name in ("gpu-worker", "cpu-worker-0", "cpu-worker-1"):
            self.assertEqual(self.cluster.sample(name, "spillway_stage_layers_planned"), 2)
            self.assertEqual(self.cluster.sample(name, "spillway_stage_layers_loaded"), 2)
            self.assertGreater(self.cluster.sample(name, "spillway_stage_layer_steps_total"), 0)
            self.assertEqual(self.cluster.sample(name, "spillway_fallback_active"), 0)

    def test_bad_requests_are_named_and_harm_nothing(self):
        api = self.cluster.api + "/v1/completions"
        self.assertEqual(request(api, {"prompt": [5] * 300, "max_tokens": 4})[0], 400)
        self.assertEqual(request(api, {"prompt": [99999], "max_tokens": 4})[0], 400)
        self.assertEqual(request(api, {"prompt": "a", "max_tokens": -1})[0], 400)
        self.assertEqual(request(api, ["no", "object"])[0], 400)
        self.cluster.complete(PROMPT)


class Placement(TinyClusterTest):
    def test_every_placement_gives_the_same_bits(self):
        answers = []
        for arguments in (("--cpu-stages", 0, "--n-gpu-layers", "all"), ("--cpu-stages", 1, "--n-gpu-layers", 0),
                          ("--cpu-stages", 3, "--n-gpu-layers", 1, "--threads", 2)):
            with RunningCluster(self.model, "--ctx-size", 128, *arguments) as cluster:
                choice = cluster.complete(PROMPT, max_tokens=12)["choices"][0]
                answers.append((choice["text"], choice["logprobs"]))
        self.assertEqual(answers[0], answers[1])
        self.assertEqual(answers[0], answers[2])


    def test_pages_of_codes_are_what_the_plan_says(self):
        arguments = ("--ctx-size", 128, "-ctk", "q8_0", "-ctv", "q8_0")
        with RunningCluster(self.model, "--n-gpu-layers", 3, *arguments) as cluster:
            text = cluster.complete(PROMPT, max_tokens=6)["choices"][0]["text"]
            self.assertEqual(text, self.unsplit_answer("-ctk", "q8_0", "-ctv", "q8_0"))
            stages = json.loads(run("ps", "--admin", cluster.admin(), "--json").stdout)["stages"]
        plan = run("plan", self.model, "--json", "--device", "host", "--vram-budget", "64MiB", "--n-gpu-layers", 3,
                   *arguments)
        planned = [stage["bytes"] for stage in json.loads(plan.stdout)["stages"]]
        self.assertEqual([stage["allocated_bytes"] for stage in stages], planned)


class Stopping(TinyClusterTest):
    def start(self):
        return RunningCluster(self.model, "--ctx-size", 128, "--n-gpu-layers", 3)

    def test_sigterm_and_ctrl_c_leave_no_process(self):
        for by in (signal.SIGTERM, signal.SIGINT):
            cluster = self.start()
            cluster.stop(by)  # checks every process
            self.assertEqual(cluster.process.returncode, 0)

    def test_the_processes_end_when_up_is_killed(self):
        cluster = self.start()
        cluster.stop(signal.SIGKILL)  # checks every process


class Restarting(TinyClusterTest):
    def test_a_dead_worker_is_said_and_serving_resumes(self):
        with RunningCluster(self.model, "--ctx-size", 256, "--n-gpu-layers", 3) as cluster:
            before = cluster.complete(PROMPT)["choices"][0]["text"]
            dead = cluster.pids["cpu-worker-0"]
            subprocess.run(["kill", "-KILL", str(dead)], check=True)
            reasons = set()

            def serves_again():
                status, text = request(cluster.api + "/v1/completions",
                                       {"prompt": PROMPT, "max_tokens": 8, "temperature": 0, "ignore_eos": True})
                if status == 200:
                    return json.loads(text)
                self.assertEqual(status, 503, text)
                reasons.add(json.loads(text)["error"]["message"])
                return None

            answer = wait_until(serves_again, 60, "serving after the restart")
            self.assertEqual(answer["choices"][0]["text"], before)
            self.assertTrue(any("cpu-worker-0" in reason for reason in reasons), reasons)
            refused = cluster.sample("gateway", "spillway_requests_rejected_total")
            lost = cluster.sample("gateway", "spillway_hop_errors_total")
            self.assertGreater(refused + lost, 0)
            self.assertEqual(cluster.children() & set(cluster.pids.values()), set(cluster.pids.values()) - {dead})
            self.assertEqual(len(cluster.children()), len(cluster.pids))

    def test_a_running_request_ends_with_the_reason(self):
        with RunningCluster(self.model, "--ctx-size", 2048, "--n-gpu-layers", 3) as cluster:
            answers = []

            def ask():
                answers.append(request(cluster.api + "/v1/completions", {"prompt": PROMPT, "max_tokens": 2000,
                                                                         "temperature": 0, "ignore_eos": True}))

            thread = threading.Thread(target=ask)
            thread.start()
            wait_until(lambda: cluster.sample("gateway", "spillway_requests_running") > 0, 30, "the request running")
            subprocess.run(["kill", "-KILL", str(cluster.pids["cpu-worker-0"])], check=True)
            thread.join(timeout=60)
            status, text = answers[0]
            self.assertEqual(status, 503, text)
            self.assertIn("cpu-worker-0", json.loads(text)["error"]["message"])

    def test_every_other_process_comes_back_on_its_ports(self):
        with RunningCluster(self.model, "--ctx-size", 256, "--n-gpu-layers", 3) as cluster:
            for name in ("monitor", "gpu-worker", "gateway"):
                subprocess.run(["kill", "-KILL", str(cluster.pids[name])], check=True)
                wait_until(lambda: not alive(cluster.pids[name]), 30, f"the end of {name}")

                def back(name=name):
                    try:
                        ready = request(cluster.metrics_urls[name].replace("/metrics", "/readyz"))[0] == 200
                        return ready and request(cluster.api + "/readyz")[0] == 200
                    except OSError:
                        return False

                wait_until(back, 60, f"{name} after its restart")
            cluster.complete(PROMPT)


class Refusals(TinyClusterTest):
    def check(self, code, words, *arguments, **options):
        process = run("up", *arguments, "--json", **options)
        text = process.stderr.decode()
        self.assertEqual(process.returncode, code, text)
        self.assertEqual(process.stdout, b"")
        for word in words:
            self.assertIn(word, text)

    def test_a_port_in_use_is_named(self):
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", 0))
            taken.listen()
            port = taken.getsockname()[1]
            host = ("--device", "host", "--vram-budget", "64MiB")
            self.check(1, (str(port), "in use"), self.model, *host, "--port", port, "--port-base", 0)
            self.check(1, (str(port), "in use"), self.model, *host, "--port", 0, "--port-base", port)

    def test_a_plan_that_does_not_fit_is_refused_before_anything_starts(self):
        self.check(3, ("budget",), self.model, "--device", "host", "--vram-budget", "64KiB")
        self.check(3, ("budget", "layers"), self.model, "--device", "host", "--vram-budget", "3MiB", "--n-gpu-layers",
                   "all", "--ctx-size", 2048, "--parallel", 64)
        self.check(3, ("CPU worker",), self.model, "--device", "host", "--vram-budget", "1MiB", "--cpu-stages", 0,
                   "--ctx-size", 128, "--parallel", 1)
        self.check(3, ("cpu-worker-0",), self.model, "--device", "host", "--vram-budget", "64MiB", "--n-gpu-layers", 1,
                   "--ram-budget", "10KiB")

    def test_options_that_make_no_sense_are_usage_errors(self):
        self.check(2, ("--vram-budget",), self.model, "--device", "host")
        self.check(2, ("--device",), self.model, "--device", "tpu")
        self.check(2, ("64MiBB",), self.model, "--device", "host", "--vram-budget", "64MiBB")
        host = ("--device", "host", "--vram-budget", "64MiB")
        self.check(2, ("n-gpu-layers",), self.model, *host, "--n-gpu-layers", N_LAYER + 1)
        self.check(2, ("n-gpu-layers",), self.model, *host, "--n-gpu-layers", "some")
        self.check(2, ("port",), self.model, *host, "--port", 70000)
        self.check(2, ("65536",), self.model, *host, "--port-base", 65533)
        self.check(1, ("absent.gguf",), self.folder / "absent.gguf", *host)

    def test_cuda_is_a_named_cause(self):
        self.check(4, ("backend_missing", "--device host"), self.model, "--device", "cuda:0")
        root = self.folder / "machine"
        (root / "proc/driver/nvidia").mkdir(parents=True)
        (root / "proc/driver/nvidia/version").write_text("NVRM version: NVIDIA UNIX x86_64 Kernel Module  550.1\n")
        process = subprocess.run([str(BINARY), "up", str(self.model)], capture_output=True, check=False, timeout=60,
                                 env={"SPILLWAY_SYSTEM_ROOT": str(root), "SPILLWAY_DRIVER_LIBRARIES": str(root)})
        self.assertEqual(process.returncode, 4, process.stderr)
        self.assertIn(b"driver_absent", process.stderr)  # no library belongs to that module


class OtherModel(TinyClusterTest):
    def test_a_worker_with_another_model_is_named(self):
        other = make_tiny_model(self.folder / "other.gguf", n_layer=N_LAYER, n_vocab=330)
        processes = []

        def start(program, *arguments):
            ports = self.folder / f"{program}.ports"
            command = [str(BINARY.parent / program), *map(str, arguments), "--metrics", "127.0.0.1:0", "--port-file",
                       str(ports), "--exit-with-parent"]
            process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            processes.append(process)
            wait_until(lambda: ports.exists() or process.poll() is not None, 120, f"{program} listening")
            self.assertIsNone(process.poll(), program)
            return json.loads(ports.read_text())

        try:
            gpu = start("spillway-gpu-worker", "--model", self.model, "--device", "host", "--vram-budget", "64MiB",
                        "--listen", "127.0.0.1:0", "--threads", 1)
            cpu = start("spillway-cpu-worker", "--model", other, "--listen", "127.0.0.1:0", "--threads", 1)
            gateway = start("spillway-gateway", "--model", self.model, "--gpu-worker", gpu["grpc"], "--cpu-worker",
                            cpu["grpc"], "--n-gpu-layers", 3, "--ctx-size", 128, "--http", "127.0.0.1:0", "--grpc",
                            "127.0.0.1:0", "--admin", "127.0.0.1:0")

            def incompatible():
                status = json.loads(run("ps", "--admin", gateway["admin"], "--json").stdout)
                stage = status["stages"][0]
                return stage if stage["state"] == "incompatible" else None

            stage = wait_until(incompatible, 60, "cpu-worker-0 being incompatible")
            self.assertIn("identity", stage["detail"].lower())
            status, text = request(f"http://{gateway['api']}/v1/completions", {"prompt": "a", "max_tokens": 2})
            self.assertEqual(status, 503, text)
            self.assertEqual(request(f"http://{gateway['metrics']}/readyz")[0], 503)
        finally:
            for process in reversed(processes):
                process.terminate()
                process.wait(timeout=60)


if __name__ == "__main__":
    unittest.main()
