#!/usr/bin/env python3
"""Writes a GGUF model with random weights: for speed measurements and tests where no trained model has the shape.

    random_model.py SHAPE TYPE OUT.gguf [--seed N] [--tokenizer MODEL.gguf]

SHAPE: tiny (4 layers of 512), small (0.3 billion weights), 1b and 8b (Llama 3.2 1B and Llama 3.1 8B, with a head of
its own), moe (8 experts, 2 used; 0.25 billion weights).
TYPE: q4_0, q4_k_m, q8_0, f16; the quantised ones with the mix of types that llama-quantize makes.
The architecture is llama, so that every llama.cpp loads it. All weights have a standard deviation near 0.03, as
trained ones do, so activations stay finite; each block has its own scale, so that a swapped scale shows. The text
of such a model means nothing. With --tokenizer, vocabulary and chat template come from that model; without, it has
none and only tools that feed token numbers (llama-bench) can use it. In 1b and 8b, whose bytes would take minutes to
draw, the same 128 Ki blocks of each type follow each other again and again, in step with no matrix.
"""

import argparse
import random
import struct
import sys
from dataclasses import dataclass
from statistics import NormalDist

sys.dont_write_bytecode = True
from lib import gguf  # noqa: E402

STD = 0.03  # of the weights


@dataclass
class Shape:
    layers: int
    width: int  # of the residual stream
    hidden: int  # of the feed-forward part, of one expert where there are experts
    heads: int
    kv_heads: int
    experts: int = 0
    experts_used: int = 0
    vocabulary: int = 32000  # where there is no tokenizer
    repeats: bool = False  # blocks come from a pool


SHAPES = {
    "tiny": Shape(4, 512, 1536, 8, 2),
    "small": Shape(16, 1024, 4096, 16, 4),
    "1b": Shape(16, 2048, 8192, 32, 8, vocabulary=128256, repeats=True),
    "8b": Shape(32, 4096, 14336, 32, 8, vocabulary=128256, repeats=True),
    "moe": Shape(8, 768, 1024, 12, 4, 8, 2),
}
POOL = (1 << 17) - 1  # blocks; odd, so that the rows of a matrix do not repeat each other


def table(values):
    """Returns the translation of a random byte to the high byte of the f16 nearest to values[byte]."""
    return bytes(struct.pack("<e", value)[1] for value in values)


NORMAL = table(NormalDist(0, STD).inv_cdf((i + 0.5) / 256) for i in range(256))


def around(middle):
    """The same for scales: evenly from 0.6 to 1.4 times `middle`."""
    return table(middle * (0.6 + 0.8 * i / 255) for i in range(256))


SCALE = {"Q4_0": around(STD / 4.6), "Q8_0": around(STD / 74), "Q4_K": around(STD / 260), "Q6_K": around(STD / 1600)}
SUB_SCALE = bytes((40 + i % 128 * 88 // 128) * (1 if i < 128 else -1) & 255 for i in range(256))  # int8, 40 to 127


def maker(rng, kind):
    """Returns a function that makes random blocks of one type."""

    def make(count):
        size = gguf.TYPES[kind][2]
        out = bytearray(rng.randbytes(count * size))
        if kind == "F16":
            out[1::2] = out[1::2].translate(NORMAL)
        elif kind in ("Q4_0", "Q8_0"):  # f16 d, then 4-bit q with weight d (q - 8), or int8 q with weight d q
            out[1::size] = out[1::size].translate(SCALE[kind])
        elif kind == "Q4_K":  # f16 d, f16 dmin, 6-bit scales s and m, 4-bit q; weight d s q - dmin m
            out[1::size] = out[1::size].translate(SCALE[kind])
            # dmin is 8 d (three more in the exponent), close to d times the mean of q: weights have a mean near 0.
            out[2::size] = out[0::size]
            out[3::size] = out[1::size].translate(bytes((i + (3 << 2)) & 255 for i in range(256)))
        elif kind == "Q6_K":  # 4 and 2 bits of q, 16 x int8 s, f16 d; weight d s (q - 32)
            for i in range(192, 208):
                out[i::size] = out[i::size].translate(SUB_SCALE)
            out[209::size] = out[209::size].translate(SCALE[kind])
        return out

    return make


class Pool:
    """Makes blocks of one type quickly: drawn once, then handed out round and round."""

    def __init__(self, make, kind):
        self.size = gguf.TYPES[kind][2]
        self.blocks = memoryview(bytes(make(POOL)) * 2)
        self.at = 0

    def __call__(self, count):
        begin = self.at
        self.at = (begin + count) % POOL
        return self.blocks[begin * self.size : (begin + count) * self.size]


def type_of(base, shape, name, layer):
    """Returns the type that llama-quantize gives the matrix `name` of a layer."""
    if base in ("q8_0", "f16"):
        return base.upper()
    if name == "output":
        return "Q6_K"
    if base == "q4_0":
        return "Q4_0"
    if shape.experts == 8 and name in ("attn_k", "attn_v"):
        return "Q8_0"
    eighth = shape.layers // 8
    more = layer < eighth or layer >= 7 * shape.layers // 8 or (layer - eighth) % 3 == 2
    return "Q6_K" if more and name in ("attn_v", "ffn_down", "ffn_down_exps") else "Q4_K"


def write(shape, base, path, seed, tokenizer):
    rng = random.Random(seed)
    out = gguf.Writer()
    out.add("general.architecture", "llama")
    out.add("general.name", f"random {base} {shape}")
    out.add("llama.block_count", shape.layers)
    out.add("llama.context_length", 8192)
    out.add("llama.embedding_length", shape.width)
    out.add("llama.feed_forward_length", shape.hidden)
    out.add("llama.attention.head_count", shape.heads)
    out.add("llama.attention.head_count_kv", shape.kv_heads)
    out.add("llama.attention.layer_norm_rms_epsilon", 1e-5)
    out.add("llama.rope.dimension_count", shape.width // shape.heads)
    out.add("llama.rope.freq_base", 100000.0)
    if shape.experts:
        out.add("llama.expert_count", shape.experts)
        out.add("llama.expert_used_count", shape.experts_used)
    if tokenizer:
        model = gguf.Reader(tokenizer)
        out.pairs += [data for key, data in model.pairs.items() if key.startswith("tokenizer.")]
        vocabulary = model.array_length("tokenizer.ggml.tokens")
    else:
        out.add("tokenizer.ggml.model", "no_vocab")
        vocabulary = shape.vocabulary
    out.add("llama.vocab_size", vocabulary)

    def floats(name, dims, draw):
        out.add_tensor(name + ".weight", "F32", dims, lambda n: struct.pack(f"<{n}f", *(draw() for _ in range(n))))

    def norm(name):
        floats(name, (shape.width,), lambda: rng.uniform(0.8, 1.2))

    pools = {}

    def blocks(kind):
        if not shape.repeats:
            return maker(rng, kind)
        if kind not in pools:
            pools[kind] = Pool(maker(rng, kind), kind)
        return pools[kind]

    def matrix(name, *dims, layer=0):
        kind = type_of(base, shape, name.rsplit(".", 1)[-1], layer)
        out.add_tensor(name + ".weight", kind, dims, blocks(kind))

    width, hidden, kv = shape.width, shape.hidden, shape.width // shape.heads * shape.kv_heads
    matrix("token_embd", width, vocabulary)
    norm("output_norm")
    matrix("output", width, vocabulary)
    for layer in range(shape.layers):
        block = f"blk.{layer}."
        norm(block + "attn_norm")
        matrix(block + "attn_q", width, width, layer=layer)
        matrix(block + "attn_k", width, kv, layer=layer)
        matrix(block + "attn_v", width, kv, layer=layer)
        matrix(block + "attn_output", width, width, layer=layer)
        norm(block + "ffn_norm")
        suffix, experts = ("_exps", (shape.experts,)) if shape.experts else ("", ())
        if shape.experts:
            floats(block + "ffn_gate_inp", (width, shape.experts), lambda: rng.gauss(0, STD))
        matrix(block + "ffn_gate" + suffix, width, hidden, *experts, layer=layer)
        matrix(block + "ffn_up" + suffix, width, hidden, *experts, layer=layer)
        matrix(block + "ffn_down" + suffix, hidden, width, *experts, layer=layer)
    out.write(path)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("shape", choices=SHAPES)
    parser.add_argument("type", choices=["q4_0", "q4_k_m", "q8_0", "f16"])
    parser.add_argument("out")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--tokenizer", metavar="MODEL.gguf")
    given = parser.parse_args()
    write(SHAPES[given.shape], given.type, given.out, given.seed, given.tokenizer)


if __name__ == "__main__":
    main()
