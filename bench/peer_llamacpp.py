#!/usr/bin/env python3
"""One measurement of llama.cpp (PyPI xllamacpp, in process): prefill and decode tokens/s as one JSON line.

The same prompt ids as spillway-bench-host, greedy, end-of-sequence ignored, nothing cached."""
import argparse
import json


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", required=True)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--prompt", type=int, default=512)
    parser.add_argument("--generate", type=int, default=64)
    args = parser.parse_args()

    import xllamacpp

    params = xllamacpp.CommonParams()
    params.model.path = args.model
    params.cpuparams.n_threads = args.threads
    params.cpuparams_batch.n_threads = args.threads
    params.n_ctx = args.prompt + args.generate + 32
    params.n_parallel = 1
    server = xllamacpp.Server(params)
    # The vocabulary's size only bounds the ids; both engines get the same ones.
    prompt = [(i * 7919) % 49152 for i in range(args.prompt)]
    reply = server.handle_completions(
        {"prompt": prompt, "n_predict": args.generate, "temperature": 0, "cache_prompt": False, "ignore_eos": True}
    )
    if isinstance(reply, (str, bytes)):
        reply = json.loads(reply)
    timings = reply["timings"]
    print(
        json.dumps(
            {
                "engine": "llama.cpp (xllamacpp)",
                "threads": args.threads,
                "prefill_tokens_per_second": timings["prompt_per_second"],
                "decode_tokens_per_second": timings["predicted_per_second"],
            }
        )
    )


if __name__ == "__main__":
    main()
