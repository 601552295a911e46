#!/usr/bin/env python3
"""Writes tests/golden/quantizers.txt: rows of numbers and their blocks by ggml's reference quantisers.

    golden_quantizers.py path/to/libggml-base.so > tests/golden/quantizers.txt

The numbers are random ones of several sizes, zeros, equal largest magnitudes, and multiples that fall half way between two
levels. The output depends on this file and on ggml only.
"""

import ctypes
import random
import struct
import sys

# Type, and the bytes of a block of 32.
TYPES = {"q4_0": 18, "q4_1": 20, "q5_0": 22, "q5_1": 24, "q8_0": 34, "iq4_nl": 18}


def numbers():
    """Blocks of 32 floats."""
    rng = random.Random(2)
    for size in (1.0, 150.0, 1e-3, 3e4):
        yield [rng.uniform(-size, size) for _ in range(32)]
    yield [rng.gauss(0.1, 1.0) for _ in range(32)]
    yield [0.0] * 32
    yield [rng.choice([-2.5, 2.5, 1.25, -0.625]) for _ in range(32)]
    yield [n * 0.5 - 4.0 for n in range(32)]
    yield [n + 0.5 if n else 127.0 for n in range(32)]
    yield [rng.uniform(0.5, 0.75) for _ in range(32)]


def main():
    """Prints the numbers, then a line per type."""
    ggml = ctypes.CDLL(sys.argv[1])
    values = [v for block in numbers() for v in block]
    row = struct.pack(f"<{len(values)}f", *values)
    print("# Made by scripts/golden_quantizers.py: bits of f32 numbers, then type and blocks")
    print("f32", row.hex())
    for name, size in TYPES.items():
        out = ctypes.create_string_buffer(len(values) // 32 * size)
        quantize = getattr(ggml, f"quantize_row_{name}_ref")
        quantize(ctypes.c_char_p(row), out, ctypes.c_int64(len(values)))
        print(name, out.raw.hex())


if __name__ == "__main__":
    main()
