"""No tracked text names a place on somebody's machine, and every shell script parses."""

import re
import subprocess
import sys

from project_files import ROOT, all_files

# Put together, so that this file does not find itself.
PLACES = re.compile("|".join((r"(?<![\w.])/(?:work" + r"|home/\w+|Users/\w+)/", r"/root/" + r"\.", r"/tmp/bash" + "_jobs")))
MAX_BYTES = 1 << 20


def main():
    wrong = []
    count = 0
    for path in all_files():
        data = (ROOT / path).read_bytes()
        if path.parts[:3] == ("tests", "fuzz", "corpus") and len(data) <= 1 << 14:
            continue  # seeds of fuzzers are bytes
        if b"\0" in data[:8192]:
            wrong.append(f"{path}: a binary file; models and build results are not committed")
            continue
        if len(data) > MAX_BYTES:
            wrong.append(f"{path}: {len(data)} bytes; golden data is not committed")
            continue
        count += 1
        for number, line in enumerate(data.decode("utf-8", errors="replace").splitlines(), 1):
            if PLACES.search(line):
                wrong.append(f"{path}:{number}: names a place on one machine: {line.strip()[:120]}")
        shell = path.suffix == ".sh" or data.startswith((b"#!/bin/sh", b"#!/usr/bin/env bash"))
        if shell and subprocess.run(["bash", "-n", str(ROOT / path)], check=False).returncode != 0:
            wrong.append(f"{path}: does not parse")
    print("\n".join(wrong))
    print(f"{count} files checked, {len(wrong)} complaints")
    return 1 if wrong or not count else 0


if __name__ == "__main__":
    sys.exit(main())
