"""Shared by the bench scripts: the machine's name, alternating runs, medians, results files."""
import datetime
import json
import os
import pathlib
import statistics
import subprocess


def machine():
    """CPU model and cores; peers' results without them mean nothing."""
    model = "unknown"
    for line in pathlib.Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            model = line.split(":", 1)[1].strip()
            break
    flags = pathlib.Path("/proc/cpuinfo").read_text().split("flags", 1)[-1].split("\n", 1)[0]
    levels = [f for f in ("avx2", "avx_vnni", "avx512f", "avx512_vnni", "amx_int8") if f" {f}" in flags]
    return {"cpu": model, "cores": len(os.sched_getaffinity(0)), "isa": levels, "load": os.getloadavg()[0]}


def json_of(command):
    """Runs a command and returns the JSON object on its last line of output that is one."""
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    for line in reversed(done.stdout.splitlines()):
        if line.startswith("{"):
            return json.loads(line)
    raise RuntimeError(f"no JSON from {command}: {done.stdout[-500:]} {done.stderr[-500:]}")


def alternate(commands, runs):
    """{name: command or callable} run in turn, A B A B ...; {name: [results]}."""
    results = {name: [] for name in commands}
    for _ in range(runs):
        for name, command in commands.items():
            results[name].append(command() if callable(command) else json_of(command))
    return results


def median(results, key):
    return statistics.median(r[key] for r in results)


def save(name, result):
    """Writes bench/results/NAME-CPU.json and returns its path."""
    cpu = "".join(c if c.isalnum() else "-" for c in result["machine"]["cpu"]).strip("-").lower()
    while "--" in cpu:
        cpu = cpu.replace("--", "-")
    folder = pathlib.Path(__file__).parent / "results"
    folder.mkdir(exist_ok=True)
    path = folder / f"{name}-{cpu}.json"
    result = {"date": datetime.date.today().isoformat(), **result}
    path.write_text(json.dumps(result, indent=1) + "\n")
    return path
