#!/usr/bin/env python3
"""Writes tests/golden/quants.txt: rows of pseudo-random blocks of each type with their values by the package gguf.

    golden_quants.py > tests/golden/quants.txt

Needs the Python packages gguf and numpy. The output depends on this file only.
"""

import random

import numpy
from gguf import GGML_QUANT_SIZES, GGMLQuantizationType, quants

# Type, and the bytes of a block at which a half-precision scale starts: random bits there could be infinite.
TYPES = {
    "F32": [], "F16": [0], "BF16": [], "Q4_0": [0], "Q4_1": [0, 2], "Q5_0": [0], "Q5_1": [0, 2], "Q8_0": [0],
    "Q2_K": [80, 82], "Q3_K": [108], "Q4_K": [0, 2], "Q5_K": [0, 2], "Q6_K": [208], "IQ4_NL": [0], "IQ4_XS": [0],
    "MXFP4": [],
}


def row_of(name, size, blocks, rng):
    """Random blocks whose scales are ordinary numbers."""
    row = bytearray()
    for _ in range(blocks):
        block = bytearray(rng.randbytes(size))
        for at in TYPES[name]:
            block[at:at + 2] = numpy.float16(rng.uniform(-2, 2)).tobytes()
        if name in ("F32", "BF16"):
            block = bytearray(numpy.float32(rng.uniform(-2, 2)).tobytes()[-size:])
        if name == "MXFP4":
            block[0] = rng.randrange(100, 150)
        row += block
    return bytes(row)


def main():
    """Prints a line per type."""
    rng = random.Random(1)
    print("# Made by scripts/golden_quants.py: type, bytes of a row, bits of the values of its elements")
    for name in TYPES:
        kind = GGMLQuantizationType[name]
        elements, size = GGML_QUANT_SIZES[kind]
        row = row_of(name, size, {1: 8, 32: 3, 64: 2}.get(elements, 1), rng)
        values = quants.dequantize(numpy.frombuffer(row, dtype=numpy.uint8), kind).astype(numpy.float32)
        ggml = name.lower().replace("_k", "_K")
        print(ggml, row.hex(), values.view(numpy.uint32).astype(">u4").tobytes().hex())


if __name__ == "__main__":
    main()
