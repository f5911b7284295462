#!/usr/bin/env python3
"""What splitting one stream over processes costs: decode tokens/s through gateway, CPU worker and GPU worker against the same
engine in one process, one compute thread each, alternating.

    bench/split_ratio.py --bin build/release/bin --model models/SmolLM2-135M-Instruct.Q4_1.gguf

Prints the ratio and one JSON line; --save keeps it in bench/results/."""
import argparse
import json
import pathlib
import signal
import subprocess
import urllib.request

import measure


class Cluster:
    """`spillway up` on free ports, stopped at the end."""

    def __init__(self, binary, model, layers, context):
        self.process = subprocess.Popen(
            [binary, "up", model, "--device", "host", "--vram-budget", "1GiB", "--n-gpu-layers", str(layers), "--cpu-stages", "1",
             "--threads", "1", "--ctx-size", str(context), "--parallel", "1", "--port", "0", "--port-base", "0", "--json"],
            stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        self.info = json.loads(self.process.stdout.readline())

    def decode(self, prompt, generate):
        body = {"prompt": prompt, "max_tokens": generate, "temperature": 0, "ignore_eos": True}
        api = self.info["api"]
        url = (api if api.startswith("http") else "http://" + api).rstrip("/")
        request = urllib.request.Request(url + "/v1/completions", json.dumps(body).encode(), {"Content-Type": "application/json"})
        reply = json.load(urllib.request.urlopen(request, timeout=300))
        return {"decode_tokens_per_second": reply["timings"]["predicted_per_second"]}

    def close(self):
        self.process.send_signal(signal.SIGTERM)
        self.process.wait(30)


def main():
    here = pathlib.Path(__file__).parent
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bin", default=str(here.parent / "build/release/bin"))
    parser.add_argument("--model", default=str(here.parent / "models/SmolLM2-135M-Instruct.Q4_1.gguf"))
    parser.add_argument("--n-gpu-layers", type=int, default=15)
    parser.add_argument("--prompt", type=int, default=64)
    parser.add_argument("--generate", type=int, default=192)
    parser.add_argument("--runs", type=int, default=7)
    parser.add_argument("--save", action="store_true")
    args = parser.parse_args()

    prompt = [(i * 7919) % 49152 for i in range(args.prompt)]
    cluster = Cluster(f"{args.bin}/spillway", args.model, args.n_gpu_layers, 1024)
    try:
        cluster.decode(prompt, 16)  # warm
        results = measure.alternate(
            {
                "split": lambda: cluster.decode(prompt, args.generate),
                "unsplit": [f"{args.bin}/spillway-bench-host", "--model", args.model, "--threads", "1", "--prompt", str(args.prompt),
                            "--generate", str(args.generate)],
            },
            args.runs,
        )
    finally:
        cluster.close()
    key = "decode_tokens_per_second"
    split, unsplit = (measure.median(results[name], key) for name in ("split", "unsplit"))
    ratios = sorted(s[key] / u[key] for s, u in zip(results["split"], results["unsplit"]))
    result = {
        "machine": measure.machine(),
        "model": pathlib.Path(args.model).name,
        "n_gpu_layers": args.n_gpu_layers,
        "generated_tokens": args.generate,
        "runs": args.runs,
        "split_tokens_per_second": round(split, 1),
        "unsplit_tokens_per_second": round(unsplit, 1),
        "ratio": round(split / unsplit, 3),
        "paired_ratios": [round(r, 3) for r in ratios],
    }
    print(f"split {split:.1f} tokens/s, unsplit {unsplit:.1f} tokens/s, ratio {split / unsplit:.3f}")
    print(json.dumps(result))
    if args.save:
        print("saved", measure.save("split-ratio", result))


if __name__ == "__main__":
    main()
