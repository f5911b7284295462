"""Runs the spillway command for tests. Where things are comes from the environment that ctest sets."""

import os
import pathlib
import subprocess
import tempfile

BINARY = pathlib.Path(os.environ.get("SPILLWAY_BIN", "build/release/bin/spillway"))
TINY_MODEL_MAKER = pathlib.Path(os.environ.get("SPILLWAY_TINY_MODEL_MAKER", "build/release/bin/make-tiny-model"))
CASES = pathlib.Path(os.environ.get("SPILLWAY_CASES", "../shared/cases"))
NO_CASES = f"no golden cases: {CASES} is no folder; set SPILLWAY_CASES"
REAL_MODEL = pathlib.Path(os.environ.get("SPILLWAY_SMOLLM2", "models/SmolLM2-135M-Instruct.Q4_1.gguf"))
NO_REAL_MODEL = f"no real model: {REAL_MODEL} is no file; set SPILLWAY_SMOLLM2"


def run(*arguments, stdin=b"", timeout=300):
    """The finished process; stdout and stderr are bytes."""
    return subprocess.run(
        [str(BINARY), *map(str, arguments)], input=stdin, capture_output=True, timeout=timeout, check=False)


def make_tiny_model(path, n_layer=4, seed=1, n_vocab=320, n_embd=64):
    subprocess.run(
        [str(TINY_MODEL_MAKER), *map(str, (path, n_layer, seed, n_vocab, n_embd))], check=True, timeout=60)
    return pathlib.Path(path)


def temporary_folder():
    return tempfile.TemporaryDirectory(prefix="spillway-test-")
