#!/usr/bin/env python3
"""Prefill and decode of the host backend against llama.cpp: same file, threads and prompt, alternating runs, medians.

    bench/vs_llamacpp.py --bench build/release/bin/spillway-bench-host --model models/SmolLM2-135M-Instruct.Q4_1.gguf

Needs PyPI xllamacpp. Prints a table and one JSON line; --save keeps it in bench/results/."""
import argparse
import json
import pathlib
import sys

import measure


def main():
    here = pathlib.Path(__file__).parent
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bench", default=str(here.parent / "build/release/bin/spillway-bench-host"))
    parser.add_argument("--model", default=str(here.parent / "models/SmolLM2-135M-Instruct.Q4_1.gguf"))
    parser.add_argument("--threads", default="1,2")
    parser.add_argument("--prompt", type=int, default=512)
    parser.add_argument("--generate", type=int, default=64)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--save", action="store_true")
    args = parser.parse_args()

    rows = []
    for threads in map(int, args.threads.split(",")):
        shape = ["--model", args.model, "--threads", str(threads), "--prompt", str(args.prompt), "--generate", str(args.generate)]
        results = measure.alternate(
            {"spillway": [args.bench, *shape], "llama.cpp": [sys.executable, str(here / "peer_llamacpp.py"), *shape]}, args.runs
        )
        row = {"threads": threads}
        for phase in ("prefill", "decode"):
            key = f"{phase}_tokens_per_second"
            ours, theirs = (measure.median(results[name], key) for name in ("spillway", "llama.cpp"))
            row[phase] = {"spillway": round(ours, 1), "llama.cpp": round(theirs, 1), "ratio": round(ours / theirs, 2)}
        rows.append(row)
    import xllamacpp

    result = {
        "machine": measure.machine(),
        "model": pathlib.Path(args.model).name,
        "prompt_tokens": args.prompt,
        "generated_tokens": args.generate,
        "runs": args.runs,
        "peer": getattr(xllamacpp, "BUILD_INFO", "xllamacpp"),
        "rows": rows,
    }
    print(f"{'threads':>7} {'phase':>8} {'spillway':>9} {'llama.cpp':>10} {'ratio':>6}   (tokens/s, medians of {args.runs})")
    for row in rows:
        for phase in ("prefill", "decode"):
            r = row[phase]
            print(f"{row['threads']:>7} {phase:>8} {r['spillway']:>9} {r['llama.cpp']:>10} {r['ratio']:>6}")
    print(json.dumps(result, default=str))
    if args.save:
        print("saved", measure.save("vs-llamacpp", json.loads(json.dumps(result, default=str))))


if __name__ == "__main__":
    main()
