"""A worker whose machine refuses the memory of its stage: `up` ends with the cause, a running gateway keeps saying it.
The refusal is the system's own: the CPU worker runs under a limit of address space far below its planned state."""

import json
import os
import pathlib
import shutil
import subprocess
import unittest

from running_cluster import request, wait_until
from spillway_command import BINARY, make_tiny_model, run, temporary_folder

LIMIT_KIB = 4_000_000
WORKER = BINARY.parent.resolve() / "spillway-cpu-worker"
LIMITED = f'ulimit -v {LIMIT_KIB}; exec "{WORKER}" "$@"'
# 6 GiB of state on the CPU worker, next to nothing on the other.
PLACEMENT = ("--n-gpu-layers", 0, "--ctx-size", 2048, "--parallel", 4096)


def worker_runs_limited():
    return subprocess.run(["sh", "-c", LIMITED, "sh", "--version"], capture_output=True, check=False).returncode == 0


@unittest.skipUnless(worker_runs_limited(), "this build needs more address space than the limit (sanitizers do)")
class NoMemory(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder_owner = temporary_folder()
        cls.folder = pathlib.Path(cls.folder_owner.name)
        cls.model = make_tiny_model(cls.folder / "tiny.gguf", n_layer=6)

    @classmethod
    def tearDownClass(cls):
        cls.folder_owner.cleanup()

    def limited_spillway(self):
        """`spillway` beside programs of which the CPU worker is limited, on a machine that claims a lot of memory."""
        programs = self.folder / "bin"
        if not programs.exists():
            programs.mkdir()
            shutil.copy(BINARY, programs / "spillway")
            for name in ("spillway-gateway", "spillway-gpu-worker", "spillway-monitor"):
                (programs / name).symlink_to(BINARY.parent.resolve() / name)
            (programs / "spillway-cpu-worker").write_text("#!/bin/sh\n" + LIMITED + "\n")
            (programs / "spillway-cpu-worker").chmod(0o755)
            (self.folder / "proc").mkdir()
            (self.folder / "proc/meminfo").write_text("MemTotal: 999999999 kB\nMemAvailable: 999999999 kB\n")
        return programs / "spillway"

    def check_refused(self, command, *arguments):
        runtime = self.folder / command
        runtime.mkdir()
        process = subprocess.run(
            [str(self.limited_spillway()), command, str(self.model), "--device", "host", "--vram-budget", "64MiB",
             *map(str, PLACEMENT), "--port", "0", "--port-base", "0", *arguments], stdin=subprocess.DEVNULL,
            capture_output=True, check=False, timeout=120,
            env={**os.environ, "SPILLWAY_SYSTEM_ROOT": str(self.folder), "XDG_RUNTIME_DIR": str(runtime)})
        text = process.stderr.decode()
        self.assertEqual(process.returncode, 4, text)
        reason = text.splitlines()[-1]
        for word in ("cpu-worker-0", "kv_cache", "cause=alloc_failed", "Remedy:"):
            self.assertIn(word, reason)
        kept = list(runtime.glob("*/*"))
        self.assertEqual({path.name for path in kept},
                         {"cpu-worker-0.log", "gateway.log", "gpu-worker.log", "monitor.log"})
        self.assertIn(str(kept[0].parent), text)
        self.assertIn("event=load_failed", text)  # the log's telling line

    def test_up_ends_with_the_cause_and_keeps_the_logs(self):
        self.check_refused("up", "--json")

    def test_run_ends_with_the_cause_and_keeps_the_logs(self):
        self.check_refused("run", "--prompt", "hello")

    def test_the_state_stays_between_tries(self):
        processes = []

        def start(command, *arguments):
            ports = self.folder / f"{len(processes)}.ports"
            processes.append(subprocess.Popen(
                [*command, "--model", str(self.model), *map(str, arguments), "--metrics", "127.0.0.1:0", "--port-file",
                 str(ports)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL))
            wait_until(lambda: ports.exists() or processes[-1].poll() is not None, 120, "listening")
            self.assertIsNone(processes[-1].poll(), command)
            return json.loads(ports.read_text())

        try:
            cpu = start(["sh", "-c", LIMITED, "sh"], "--listen", "127.0.0.1:0", "--threads", 1, "--ram-budget", "1TiB")
            gpu = start([str(BINARY.parent / "spillway-gpu-worker")], "--listen", "127.0.0.1:0", "--threads", 1,
                        "--device", "host", "--vram-budget", "64MiB")
            gateway = start([str(BINARY.parent / "spillway-gateway")], "--gpu-worker", gpu["grpc"], "--cpu-worker",
                            cpu["grpc"], *PLACEMENT, "--http", "127.0.0.1:0", "--grpc", "127.0.0.1:0", "--admin",
                            "127.0.0.1:0")

            def stage():
                return json.loads(run("ps", "--admin", gateway["admin"], "--json").stdout)["stages"][0]

            def failures():
                text = request(f"http://{cpu['metrics']}/metrics")[1]
                name = "spillway_device_allocation_failures_total{"
                return sum(float(line.rsplit(" ", 1)[1]) for line in text.splitlines() if line.startswith(name))

            wait_until(lambda: stage()["state"] == "degraded", 60, "the refusal")
            seen = failures()

            def tried_three_times_more():
                now = stage()
                self.assertEqual((now["state"], now["cause"]), ("degraded", "alloc_failed"), now)
                self.assertIn("kv_cache", now["detail"])
                self.assertNotEqual(now["remedy"], "")
                return failures() >= seen + 3

            wait_until(tried_three_times_more, 60, "three more tries")
            self.assertIn("alloc_failed", request(f"http://{cpu['metrics']}/readyz")[1])
        finally:
            for process in reversed(processes):
                process.terminate()
                process.wait(timeout=60)


if __name__ == "__main__":
    unittest.main()
