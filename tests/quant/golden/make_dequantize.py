#!/usr/bin/env python3
"""Makes dequantize.json: random blocks of every format and what gguf-py (PyPI `gguf`) makes of them.

gguf-py's numpy code is independent of ours. Run by hand after adding a format:
    python3 tests/quant/golden/make_dequantize.py > tests/quant/golden/dequantize.json
"""
import json

import gguf
import numpy as np
from gguf import quants

# Offsets of the f16 scales inside a block: random bytes there would make infinities.
SCALES = {
    "Q4_0": [0], "Q4_1": [0, 2], "Q5_0": [0], "Q5_1": [0, 2], "Q8_0": [0], "Q2_K": [80, 82], "Q3_K": [108],
    "Q4_K": [0, 2], "Q5_K": [0, 2], "Q6_K": [208], "IQ4_NL": [0], "IQ4_XS": [0], "MXFP4": [],
}
ELEMENTS = 512


def make_blocks(name, rng):
    block_elements, block_bytes = gguf.GGML_QUANT_SIZES[gguf.GGMLQuantizationType[name]]
    count = ELEMENTS // block_elements
    blocks = rng.integers(0, 256, size=(count, block_bytes), dtype=np.uint8)
    # From subnormal to large, of both signs.
    exponents = np.linspace(-22, 6, count) if count > 2 else np.array([-23.0, -5.0])
    for offset in SCALES[name]:
        scale = (np.exp2(exponents) * rng.choice([-1.0, 1.0], size=count)).astype(np.float16)
        blocks[:, offset:offset + 2] = scale.view(np.uint8).reshape(count, 2)
    if name == "MXFP4":
        blocks[:, 0] = np.linspace(0, 250, count).astype(np.uint8)  # exponent 0 and 1 are subnormal
    return blocks


def main():
    rng = np.random.default_rng(20240607)
    cases = {}
    for name in SCALES:
        blocks = make_blocks(name, rng)
        values = quants.dequantize(blocks.reshape(-1), gguf.GGMLQuantizationType[name]).astype("<f4").reshape(-1)
        assert values.size == ELEMENTS and np.isfinite(values).all(), name
        cases[name] = {"blocks": blocks.tobytes().hex(), "float32": values.tobytes().hex()}
    print(json.dumps(cases, indent=0))


main()
