"""As much of the GGUF file format as the model makers need, without any package.

A file is: header, key-value pairs, one record for each tensor, then the tensors' bytes, each aligned to 32 bytes.
Dimensions are in ggml's order, the length of a row first.
"""

import math
import mmap
import struct

ALIGNMENT = 32
STRING, ARRAY = 8, 9
FIXED = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}
TYPES = {  # name: (number in the file, weights in a block, bytes of a block)
    "F32": (0, 1, 4),
    "F16": (1, 1, 2),
    "Q4_0": (2, 32, 18),
    "Q8_0": (8, 32, 34),
    "Q4_K": (12, 256, 144),
    "Q6_K": (14, 256, 210),
}


def text(value):
    data = value.encode()
    return struct.pack("<Q", len(data)) + data


def pair(key, value):
    """Returns the bytes of one key-value pair: text, a float (f32) or a whole number (u32)."""
    if isinstance(value, str):
        return text(key) + struct.pack("<I", STRING) + text(value)
    kind = 6 if isinstance(value, float) else 4
    return text(key) + struct.pack("<I" + FIXED[kind], kind, value)


class Reader:
    """The metadata of a file: `pairs` maps each key to the bytes of its pair, `tensors` each name to its dimensions,
    `sizes` each name to the bytes in the file, with the padding up to the next tensor."""

    def __init__(self, path):
        with open(path, "rb") as file:
            self.data = memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))
        self.at = 0
        magic, version, tensors, pairs = self.take("<4sIQQ")
        if magic != b"GGUF" or version not in (2, 3):
            raise SystemExit(f"error: {path} is not a GGUF file of version 2 or 3")
        self.pairs = {}
        for _ in range(pairs):
            begin = self.at
            key = self.string()
            self.skip(self.take("<I")[0])
            self.pairs[key] = bytes(self.data[begin : self.at])
        self.tensors, offsets = {}, {}
        for _ in range(tensors):
            name = self.string()
            self.tensors[name] = self.take(f"<{self.take('<I')[0]}Q")
            offsets[name] = self.take("<IQ")[1]
        bounds = sorted(offsets.values()) + [len(self.data) - aligned(self.at)]
        following = dict(zip(bounds, bounds[1:]))
        self.sizes = {name: following[offset] - offset for name, offset in offsets.items()}

    def take(self, layout):
        values = struct.unpack_from(layout, self.data, self.at)
        self.at += struct.calcsize(layout)
        return values

    def string(self):
        size = self.take("<Q")[0]
        self.at += size
        return bytes(self.data[self.at - size : self.at]).decode()

    def skip(self, kind):
        if kind == STRING:
            self.at += 8 + struct.unpack_from("<Q", self.data, self.at)[0]
        elif kind == ARRAY:
            inner, count = self.take("<IQ")
            if inner in FIXED:
                self.at += count * struct.calcsize("<" + FIXED[inner])
            else:
                for _ in range(count):
                    self.skip(inner)
        else:
            self.at += struct.calcsize("<" + FIXED[kind])

    def value_text(self, key):
        """Returns the value of a pair that is a text."""
        return self.pairs[key][8 + len(key.encode()) + 4 + 8 :].decode()

    def number(self, key):
        """Returns the value of a pair that is one number."""
        kind = struct.unpack_from("<I", self.pairs[key], 8 + len(key.encode()))[0]
        return struct.unpack_from("<" + FIXED[kind], self.pairs[key], 8 + len(key.encode()) + 4)[0]

    def array_length(self, key):
        return struct.unpack_from("<Q", self.pairs[key], 8 + len(key.encode()) + 4 + 4)[0]


class Writer:
    """Collects pairs and tensors; `write` makes the file. The bytes of a tensor are made only when they are written."""

    def __init__(self):
        self.pairs = []
        self.tensors = []

    def add(self, key, value):
        self.pairs.append(pair(key, value))

    def add_tensor(self, name, kind, dims, make):
        """`make(blocks)` returns the bytes of that many blocks; it is called several times for a large tensor."""
        self.tensors.append((name, kind, dims, make))

    def write(self, path, blocks_at_once=1 << 16):
        header = struct.pack("<4sIQQ", b"GGUF", 3, len(self.tensors), len(self.pairs)) + b"".join(self.pairs)
        offset = 0
        for name, kind, dims, _ in self.tensors:
            number, per_block, size = TYPES[kind]
            header += text(name) + struct.pack(f"<I{len(dims)}QIQ", len(dims), *dims, number, offset)
            offset += aligned(math.prod(dims) // per_block * size)
        with open(path, "wb") as file:
            file.write(header.ljust(aligned(len(header)), b"\0"))
            for name, kind, dims, make in self.tensors:
                _, per_block, size = TYPES[kind]
                left = math.prod(dims) // per_block
                length = left * size
                while left:
                    count = min(left, blocks_at_once)
                    file.write(make(count))
                    left -= count
                file.write(b"\0" * (aligned(length) - length))


def aligned(size):
    return -(-size // ALIGNMENT) * ALIGNMENT
