"""A running cluster for tests: `spillway up` on free ports, its processes, HTTP helpers, waiting on conditions."""

import json
import os
import pathlib
import signal
import subprocess
import time
import urllib.error
import urllib.request

from spillway_command import BINARY

START_LIMIT = 180
STOP_LIMIT = 60
POLL = 0.02


def wait_until(condition, limit=60, what="the condition"):
    """The first true value of `condition()`; fails after `limit` seconds."""
    deadline = time.monotonic() + limit
    while time.monotonic() < deadline:
        value = condition()
        if value:
            return value
        time.sleep(POLL)
    raise AssertionError(f"{what} did not come true within {limit} s")


def alive(pid):
    """Whether the process runs; a zombie does not."""
    try:
        state = pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]
    except OSError:
        return False
    return state not in "ZX"


def request(url, body=None, timeout=120):
    """(status, text) of a GET, or of a POST of a JSON body."""
    data = None if body is None else json.dumps(body).encode()
    call = urllib.request.Request(url, data=data, headers={"Content-Type": "application/json"})
    try:
        with urllib.request.urlopen(call, timeout=timeout) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()


class RunningCluster:
    """Use as a context manager; leaving it stops the cluster with SIGTERM and checks that nothing is left."""

    def __init__(self, model, *arguments):
        command = [str(BINARY), "up", str(model), "--port", "0", "--port-base", "0", "--json", *map(str, arguments)]
        if "--device" not in arguments:
            command += ["--device", "host"]
            if "--vram-budget" not in arguments:
                command += ["--vram-budget", "64MiB"]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        line = self.process.stdout.readline()
        if not line:
            error = self.process.stderr.read().decode()
            raise AssertionError(f"up ended with {self.process.wait()} before it was ready: {error}")
        self.description = json.loads(line)
        self.api = self.description["api"]
        self.pids = {process["name"]: process["pid"] for process in self.description["processes"]}
        self.metrics_urls = {process["name"]: process["metrics"] for process in self.description["processes"]}
        self.grpc = {process["name"]: process["grpc"] for process in self.description["processes"]}

    def __enter__(self):
        return self

    def __exit__(self, *exception):
        self.stop()

    def stop(self, by=signal.SIGTERM):
        if self.process.poll() is None:
            children = self.children()
            self.process.send_signal(by)
            self.process.wait(timeout=STOP_LIMIT)
            for pid in children | set(self.pids.values()):
                wait_until(lambda pid=pid: not alive(pid), 30, f"the end of process {pid}")
        self.process.stdout.close()
        self.process.stderr.close()

    def children(self):
        """Process ids that `up` has now, by /proc."""
        found = set()
        for stat in pathlib.Path("/proc").glob("[0-9]*/stat"):
            try:
                fields = stat.read_text().rsplit(")", 1)[1].split()
            except OSError:
                continue
            if int(fields[1]) == self.process.pid and fields[0] != "Z":
                found.add(int(stat.parent.name))
        return found

    def admin(self):
        """host:port of the Cluster service, from the monitor's command line."""
        words = pathlib.Path(f"/proc/{self.pids['monitor']}/cmdline").read_bytes().decode().split("\0")
        return words[words.index("--gateway-admin") + 1]

    def complete(self, prompt, max_tokens=8, **options):
        """The completion of a text or of token ids, greedy, not ended by an end token."""
        body = {"prompt": prompt, "max_tokens": max_tokens, "temperature": 0, "ignore_eos": True, "logprobs": 2}
        status, text = request(self.api + "/v1/completions", {**body, **options})
        if status != 200:
            raise AssertionError(f"HTTP {status}: {text}")
        return json.loads(text)

    def metrics(self, process):
        status, text = request(self.metrics_urls[process])
        if status != 200:
            raise AssertionError(f"{process}: HTTP {status}: {text}")
        return text

    def sample(self, process, name):
        """Sum of the samples of a metric whose label text contains nothing to choose by: all of them."""
        total = 0.0
        for line in self.metrics(process).splitlines():
            if line.startswith(name + "{") or line.startswith(name + " "):
                total += float(line.rsplit(" ", 1)[1])
        return total


def with_api(cluster):
    """Environment for test programs that are told where the API is."""
    return {**os.environ, "SPILLWAY_API": cluster.api, "SPILLWAY_METRICS": cluster.metrics_urls["gateway"],
            "SPILLWAY_GATEWAY_PID": str(cluster.pids["gateway"])}
