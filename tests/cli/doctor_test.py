"""`spillway doctor` and the GPU worker's start against stand-ins of the driver's libraries, whose answers come from a
scenario: each ends with its cause, remedy and exit code."""

import json
import os
import pathlib
import subprocess
import unittest

from spillway_command import BINARY, temporary_folder

STAND_INS = pathlib.Path(os.environ.get("SPILLWAY_STAND_INS", "build/release/stand-in")).absolute()
GIB = 1 << 30
DEADLINE = 20  # seconds, of the command as a whole; far more than any scenario takes

# Scenario -> cause and its number, what the detail names.
SCENARIOS = {
    "healthy": ("", None, None, ""),
    "mismatched": ("call.cuInit = fail 803\ncall.nvmlInit_v2 = fail 18\n", "driver_mismatch", 2, "cuInit returned 803"),
    "too old": ("cuda.version = 11040\n", "driver_too_old", 3, "CUDA 11.4"),
    "never ready": ("call.cuInit = fail 802\n", "device_not_ready", 4, "cuInit returned 802"),
    "cgroup denied": ("call.cuInit = fail 999\ncall.nvmlInit_v2 = fail 17\n", "cgroup_denied", 6, "cuInit returned 999"),
    "lost": ("call.cuInit = fail 999\ncall.nvmlDeviceGetHandleByIndex_v2 = fail 15\n", "device_lost", 8,
             "cuInit returned 999"),
    "broken at the first context": ("call.cuDevicePrimaryCtxRetain = fail 214\n", "device_lost", 8,
                                    "cuDevicePrimaryCtxRetain returned 214"),
    "Xid": ("device.0.xid = 79\n", "device_lost", 8, "Xid 79"),
    "unsupported architecture": ("device.0.cc_major = 6\ndevice.0.cc_minor = 1\n", "arch_unsupported", 9,
                                 "compute capability 6.1"),
    "foreign memory": (f"device.0.memory_used = {20 * GIB}\ndevice.0.process_pid = 4711\n"
                       f"device.0.process_bytes = {19 * GIB}\n", "vram_foreign", 14, "process 4711 (ollama) 19456 MiB"),
    "hanging probe": ("call.cuInit = hang\n", "probe_timeout", 18, "cuInit did not return"),
    "crashing probe": ("call.cuDeviceGetCount = crash\n", "probe_timeout", 18, "crashed in cuDeviceGetCount"),
    "hanging NVML": ("call.nvmlDeviceGetTemperature = hang\n", "probe_timeout", 18, "nvmlDeviceGetTemperature"),
    "crashing NVML": ("call.nvmlInit_v2 = crash\n", "probe_timeout", 18, "crashed in nvmlInit_v2"),
    "garbage": ("garbage = yes\n", "unknown", 0, "cannot be true"),
    "throttled": ("device.0.throttle_reasons = 0x40\n", "slow_gpu", 21, "hardware thermal slowdown"),
}


class MachineTest(unittest.TestCase):
    def setUp(self):
        owner = temporary_folder()
        self.addCleanup(owner.cleanup)
        self.folder = pathlib.Path(owner.name)
        self.root = self.folder / "root"
        self.put("proc/driver/nvidia/version", "NVRM version: NVIDIA UNIX x86_64 Kernel Module  580.65.06  Sun\n")
        self.put("proc/4711/comm", "ollama\n")
        self.put("sys/bus/pci/devices/0000:01:00.0/vendor", "0x10de\n")
        self.put("sys/bus/pci/devices/0000:01:00.0/class", "0x030200\n")
        for node in ("nvidiactl", "nvidia-uvm", "nvidia0"):
            self.put(f"dev/{node}", "")

    def put(self, path, text):
        (self.root / path).parent.mkdir(parents=True, exist_ok=True)
        (self.root / path).write_text(text)

    def run_program(self, scenario, *command, libraries=STAND_INS, **variables):
        (self.folder / "scenario").write_text(scenario)
        environment = {**os.environ, "SPILLWAY_SYSTEM_ROOT": str(self.root), "SPILLWAY_DRIVER_LIBRARIES": str(libraries),
                       "SPILLWAY_STAND_IN_SCENARIO": str(self.folder / "scenario"), **variables}
        return subprocess.run([str(part) for part in command], capture_output=True, check=False, timeout=DEADLINE,
                              env=environment)

    def doctor(self, scenario, wait=0.3, **keywords):
        """The JSON object on its one line."""
        process = self.run_program(scenario, BINARY, "doctor", "--json", "--deadline", 2, "--wait", wait, **keywords)
        self.assertEqual(process.stdout.count(b"\n"), 1, process)
        report = json.loads(process.stdout)
        self.assertEqual(report["exit_code"], process.returncode)
        return report

    def check(self, report, cause, number, detail):
        self.assertEqual(report["cause"], cause, report)
        if cause is None:
            self.assertTrue(report["ok"])
            self.assertEqual(report["exit_code"], 0)
            return
        self.assertEqual(report["id"], f"F{number}")
        self.assertEqual(report["exit_code"], 10 + number)
        self.assertIn(detail, report["detail"])
        self.assertTrue(report["remedy"])
        self.assertFalse(report["ok"])


class Doctor(MachineTest):
    def test_every_scenario_has_its_cause_remedy_and_exit_code(self):
        for name, (scenario, *expected) in SCENARIOS.items():
            with self.subTest(name):
                self.check(self.doctor(scenario), *expected)

    def test_absent_libraries_are_the_drivers_absence(self):
        report = self.doctor("", libraries=self.folder / "nothing")
        self.check(report, "driver_absent", 1, "libcuda.so.1")

    def test_a_library_folder_is_never_taken_from_the_working_directory(self):
        report = self.doctor("", libraries="stand-in")
        self.check(report, "driver_absent", 1, "stand-in is no absolute path")

    def test_a_hidden_device_names_the_variable(self):
        report = self.doctor("", CUDA_VISIBLE_DEVICES="7")
        self.check(report, "device_hidden", 5, 'CUDA_VISIBLE_DEVICES="7"')

    def test_a_device_that_becomes_ready_is_waited_for(self):
        scenario = f"call.cuInit = fail 802 times 2\ncounter = {self.folder / 'counter'}\n"
        report = self.doctor(scenario, wait=15)
        self.check(report, None, None, "")
        self.assertEqual(report["attempts"], 3)

    def test_no_device_is_well_and_said_in_one_line(self):
        self.root = self.folder / "bare"
        report = self.doctor("", libraries=self.folder / "nothing")
        self.check(report, None, None, "")
        self.assertFalse(report["nvidia"]["present"])
        process = self.run_program("", BINARY, "doctor", libraries=self.folder / "nothing")
        self.assertEqual(process.returncode, 0, process)
        self.assertIn(b"\nnvidia: no NVIDIA device in this machine", process.stdout)

    def test_every_device_is_shown_with_its_facts(self):
        report = self.doctor("devices = 2\ndevice.1.name = Other GPU\n")
        self.assertEqual([device["name"] for device in report["nvidia"]["cuda"]["devices"]], ["Stand-in GPU", "Other GPU"])
        device = report["nvidia"]["nvml"]["devices"][0]
        self.assertEqual(device["memory_total_bytes"], 24 * GIB)
        self.assertEqual(device["power_watts"], 60)
        self.assertEqual(report["nvidia"]["cuda"]["driver_version"], 13000)
        self.assertGreater(report["host"]["processors"], 0)

    def test_text_has_a_row_for_each_check_and_the_remedy(self):
        process = self.run_program("device.0.throttle_reasons = 0x8\n", BINARY, "doctor")
        text = process.stdout.decode()
        self.assertEqual(process.returncode, 31, text)
        for words in ("kernel module", "driver library", "driver start", "cuda:0 memory", "cuda:0 link", "hardware slowdown",
                      "cause=slow_gpu (F21)", "Remedy: "):
            self.assertIn(words, text)
        self.assertIn("All is well.", self.run_program("", BINARY, "doctor").stdout.decode())

    def test_options_that_make_no_sense_are_usage_errors(self):
        for arguments in (("--deadline", "0"), ("--wait", "-1"), ("--nothing",)):
            self.assertEqual(self.run_program("", BINARY, "doctor", *arguments).returncode, 2)


class GpuWorker(MachineTest):
    def worker(self, scenario, device="cuda:0", **keywords):
        process = self.run_program(scenario, BINARY.parent / "spillway-gpu-worker", "--model", "none.gguf", "--device", device,
                                   **keywords)
        self.assertEqual(process.returncode, 4, process)
        return process.stderr.decode()

    def test_a_broken_driver_is_named_before_the_missing_backend(self):
        self.assertIn("cause=driver_mismatch (F2)", self.worker("call.cuInit = fail 803\n"))
        self.assertIn("cause=device_lost (F8)", self.worker("device.0.xid = 79\n"))
        self.assertIn("cause=driver_absent (F1)", self.worker("", libraries=self.folder / "nothing"))
        self.assertIn("cause=device_hidden (F5)", self.worker("", device="cuda:1"))

    def test_what_does_not_stop_a_device_does_not_stop_the_worker(self):
        for scenario in ("", "device.0.throttle_reasons = 0x40\n", "call.nvmlInit_v2 = crash\n", "garbage = yes\n"):
            self.assertIn("backend_missing", self.worker(scenario))


if __name__ == "__main__":
    unittest.main()
