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
    "MXFP4": [], "IQ1_S": [0], "IQ1_M": [], "IQ2_XXS": [0], "IQ2_XS": [0], "IQ2_S": [0], "IQ3_XXS": [0], "IQ3_S": [0],
    "TQ1_0": [52], "TQ2_0": [64], "NVFP4": [], "Q1_0": [0], "Q2_0": [0],
}
# Those that the package does not compute: elements and bytes of a block, bits of an element.
PLAIN_BITS = {"Q1_0": (128, 18, 1), "Q2_0": (64, 18, 2)}


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
        if name == "IQ1_M":  # its scale is spread over the top nibbles of the last bytes
            block[55] = 0x30 | block[55] & 0x0f
        row += block
    return bytes(row)


def values_of(name, row):
    """The values of a row."""
    raw = numpy.frombuffer(row, dtype=numpy.uint8)
    if name not in PLAIN_BITS:
        return quants.dequantize(raw, GGMLQuantizationType[name]).astype(numpy.float32)
    elements, size, bits = PLAIN_BITS[name]
    blocks = raw.reshape(-1, size)
    scale = blocks[:, :2].copy().view(numpy.float16).astype(numpy.float32)
    flat = numpy.unpackbits(blocks[:, 2:], axis=1, bitorder="little").reshape(len(blocks), elements, bits)
    # One bit means -1 or 1, two mean -1 to 2.
    number = 2.0 * flat[:, :, 0] - 1 if bits == 1 else flat[:, :, 0] + 2.0 * flat[:, :, 1] - 1
    return (scale * number).astype(numpy.float32)


def main():
    """Prints a line per type."""
    rng = random.Random(1)
    print("# Made by scripts/golden_quants.py: type, bytes of a row, bits of the values of its elements")
    for name in TYPES:
        elements, size = PLAIN_BITS[name][:2] if name in PLAIN_BITS else GGML_QUANT_SIZES[GGMLQuantizationType[name]]
        row = row_of(name, size, {1: 8, 32: 3, 64: 2}.get(elements, 1), rng)
        values = values_of(name, row)
        ggml = name.lower().replace("_k", "_K")
        print(ggml, row.hex(), values.view(numpy.uint32).astype(">u4").tobytes().hex())


if __name__ == "__main__":
    main()
