"""A second real model, Gemma 3 270M Q4_K_M, against llama.cpp (PyPI `xllamacpp`): its greedy tokens and ours agree wherever
its own margin is clear. Ours are read off teacher-forced logits, so that every position counts, not only those before the
first difference; the running cluster must then say the same tokens."""

import array
import importlib.util
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

from running_cluster import RunningCluster
from spillway_command import run

MODEL = pathlib.Path(os.environ.get("SPILLWAY_GEMMA3", "models/gemma-3-270m-q4_k_m.gguf"))
NO_MODEL = f"no second model: {MODEL} is no file (test.sh downloads it); set SPILLWAY_GEMMA3"
NO_PEER = "xllamacpp is not installed (test.sh puts it into .venv)"
CLEAR = 0.3  # nats between llama.cpp's first two tokens; its activations are rounded to 8 bits, as ours are
TOKENS = 32
PROMPTS = ["The capital of France is", "def fibonacci(n):\n", "Once upon a time there was a small dam",
           "1, 2, 3, 5, 8, 13,", "Die Hauptstadt von Deutschland ist"]

# In a process of its own: llama.cpp's threads and memory end with it.
PEER = """
import json, sys, xllamacpp
request = json.load(sys.stdin)
params = xllamacpp.CommonParams()
params.model.path = request["model"]
params.cpuparams.n_threads = 1
params.n_ctx = 256
params.n_parallel = 1
params.warmup = False
server = xllamacpp.Server(params)
answers = []
for prompt in request["prompts"]:
    reply = server.handle_completions({"prompt": prompt, "n_predict": request["tokens"], "temperature": 0, "n_probs": 2,
                                       "ignore_eos": True, "cache_prompt": False})
    reply = json.loads(reply) if isinstance(reply, (str, bytes)) else reply
    steps = []
    for step in reply["choices"][0]["logprobs"]["content"]:
        first, second = (top["logprob"] for top in step["top_logprobs"][:2])
        steps.append({"id": step["id"], "margin": first - second})
    answers.append(steps)
json.dump(answers, open(request["out"], "w"))
"""


@unittest.skipUnless(MODEL.is_file(), NO_MODEL)
@unittest.skipUnless(importlib.util.find_spec("xllamacpp"), NO_PEER)
class SecondModel(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.prompts = []
        for text in PROMPTS:
            cls.prompts.append([2] + json.loads(run("tokenize", "--model", MODEL, stdin=text.encode()).stdout))  # BOS
        with tempfile.TemporaryDirectory(prefix="spillway-test-") as folder:
            out = pathlib.Path(folder) / "peer.json"
            request = {"model": str(MODEL), "prompts": cls.prompts, "tokens": TOKENS, "out": str(out)}
            subprocess.run([sys.executable, "-c", PEER], input=json.dumps(request).encode(), check=True, timeout=600,
                           stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            cls.answers = json.loads(out.read_text())

    def test_every_clear_token_of_llama_cpp_is_ours(self):
        clear = 0
        for text, prompt, steps in zip(PROMPTS, self.prompts, self.answers):
            tokens = prompt + [step["id"] for step in steps[:-1]]
            process = run("logits", "--model", MODEL, "--tokens", ",".join(map(str, tokens)), "--out", "-")
            self.assertEqual(process.returncode, 0, process.stderr.decode())
            logits = array.array("f", process.stdout)
            n_vocab = len(logits) // len(tokens)
            for i, step in enumerate(steps):
                if step["margin"] < CLEAR:
                    continue
                clear += 1
                begin = (len(prompt) - 1 + i) * n_vocab
                row = logits[begin:begin + n_vocab]
                self.assertEqual(row.index(max(row)), step["id"], f"{text!r}, token {i}, margin {step['margin']:.2f}")
        self.assertGreater(clear, len(PROMPTS) * TOKENS // 2)

    def test_the_cluster_says_the_same_until_a_margin_is_small(self):
        with RunningCluster(MODEL, "--ctx-size", 128, "--cpu-stages", 1, "--vram-budget", "400MiB", "--n-gpu-layers",
                            9) as cluster:
            for text, prompt, steps in zip(PROMPTS, self.prompts, self.answers):
                sure = next((i for i, step in enumerate(steps) if step["margin"] < CLEAR), len(steps))
                if sure == 0:
                    continue
                wanted = run("tokenize", "--model", MODEL, "--detokenize",
                             stdin=json.dumps([step["id"] for step in steps[:sure]]).encode()).stdout.decode(errors="replace")
                answer = cluster.complete(prompt, max_tokens=sure)["choices"][0]["text"]
                with self.subTest(text):
                    self.assertEqual(answer.strip().rstrip("\ufffd"), wanted.strip().rstrip("\ufffd"))


if __name__ == "__main__":
    unittest.main()
