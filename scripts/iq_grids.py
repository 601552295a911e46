#!/usr/bin/env python3
"""Writes src/graph/grids/TYPE: the points of the grids that IQ types choose from, packed.

    iq_grids.py DIRECTORY

Needs the Python packages gguf and numpy, which has the grids. A point is 8 numbers of 2 bits, or 4 numbers of 3 bits
(IQ3), each an index into the few values that the type has; two points make a word, the first in the low half. Every
number takes 12 characters, so that the scalar reference can find one by its place.
"""

import sys
from pathlib import Path

import numpy
from gguf import quants

TYPES = ["IQ1_S", "IQ2_XXS", "IQ2_XS", "IQ2_S", "IQ3_XXS", "IQ3_S"]


def main():
    """Writes a file per grid."""
    for name in TYPES:
        traits = getattr(quants, name)
        traits.init_grid()
        points = traits.grid.reshape(traits.grid_shape)
        values = list(traits.grid_map)
        bits = 2 if points.shape[1] == 8 else 3
        packed = [sum(values.index(int(v)) << (bits * i) for i, v in enumerate(point)) for point in points]
        words = [low | high << 16 for low, high in zip(packed[::2], packed[1::2])]
        text = [f"0x{word:08x}" for word in words]
        lines = [", ".join(text[i:i + 8]) for i in range(0, len(text), 8)]
        Path(sys.argv[1], name.lower()).write_text(",\n".join(lines) + "\n")
        print(name, len(points), numpy.array(values).tolist())


if __name__ == "__main__":
    main()
