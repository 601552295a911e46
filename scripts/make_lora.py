#!/usr/bin/env python3
"""Writes a small random LoRA adapter for a model, to be used with --lora.

    make_lora.py MODEL.gguf OUT.gguf [--rank 4] [--type f16|f32] [--seed N]

It changes attention and feed-forward matrices of every layer, strongly enough that the text differs, weakly enough
that it stays finite. Matrices of experts are left out.
"""

import argparse
import random
import struct
import sys

sys.dont_write_bytecode = True
from lib import gguf  # noqa: E402

CHANGED = ("attn_q", "attn_v", "attn_output", "ffn_gate", "ffn_down")


def write(model, path, rank, kind, seed):
    """Returns the number of changed matrices."""
    rng = random.Random(seed)
    code = {"F16": "e", "F32": "f"}[kind]

    def normal(std):
        return lambda n: struct.pack(f"<{n}{code}", *(rng.gauss(0, std) for _ in range(n)))

    source = gguf.Reader(model)
    out = gguf.Writer()
    out.add("general.architecture", source.value_text("general.architecture"))
    out.add("general.type", "adapter")
    out.add("adapter.type", "lora")
    out.add("adapter.lora.alpha", float(2 * rank))
    for name, dims in source.tensors.items():
        part = name.split(".")
        if part[0] == "blk" and part[-1] == "weight" and part[2] in CHANGED and len(dims) == 2:
            columns, rows = dims
            out.add_tensor(name + ".lora_a", kind, (columns, rank), normal(columns**-0.5))
            out.add_tensor(name + ".lora_b", kind, (rank, rows), normal(0.05))
    if not out.tensors:
        raise SystemExit(f"error: {model} has none of {', '.join(CHANGED)}; an adapter needs one of them")
    out.write(path)
    return len(out.tensors) // 2


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model")
    parser.add_argument("out")
    parser.add_argument("--rank", type=int, default=4)
    parser.add_argument("--type", choices=["f16", "f32"], default="f16")
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    print(f"{write(given.model, given.out, given.rank, given.type.upper(), given.seed)} matrices changed")


if __name__ == "__main__":
    main()
