// Weights on their way into a tile of 64 columns in shared memory: each invocation takes a piece, 32 weights of one row,
// in two steps, so that the loads of the next tile run while this one is multiplied.
//   Piece piece_load(Piece before, uint64_t row, uint tile, uint part, uint k)   loads; `before` is the piece of tile - 1
//   void piece_decode(Piece p, uint tile, uint part, out uvec4 run[4])           32 halves: two runs of 16
// Runs start at halves 8 * FIRST_RUN(part) and 8 * SECOND_RUN(part) of the tile. Beyond the row's k weights all is zero.
//
// In each four halves the middle two are exchanged, here and in the activations (matmul_pack.comp): a word of packed
// weights then splits into pairs of halves by one shift and one mask. A sum of products does not care.
//
// The variant defines PIECE_<type> for types with their own code here, and WEIGHT for types.glsl otherwise.

// Integers of 0 to 1023 in both halves of a word as f16, less `bias`: 1024 + i has the bits 0x6400 + i.
f16vec2 halves(uint w, float bias) { return unpackFloat2x16(w | 0x64006400) - f16vec2(float16_t(1024.0 + bias)); }

// Four weights scale * (byte - bias) + offset out of a word of four bytes.
uvec2 four(uint w, float bias, f16vec2 scale, f16vec2 offset) {
    return uvec2(packFloat2x16(fma(halves(w & 0x00ff00ff, bias), scale, offset)),
                 packFloat2x16(fma(halves((w >> 8) & 0x00ff00ff, bias), scale, offset)));
}
// Sixteen weights out of four words.
void sixteen(uvec4 w, float bias, float scale, float offset, out uvec4 low, out uvec4 high) {
    const f16vec2 s = f16vec2(float16_t(scale)), o = f16vec2(float16_t(offset));
    low  = uvec4(four(w.x, bias, s, o), four(w.y, bias, s, o));
    high = uvec4(four(w.z, bias, s, o), four(w.w, bias, s, o));
}

#if defined(PIECE_q4_K) || defined(PIECE_q5_K) || defined(PIECE_q6_K)
#define FIRST_RUN(part) (2 * (part))
#define SECOND_RUN(part) (4 + 2 * (part))
#else
#define FIRST_RUN(part) (4 * (part))
#define SECOND_RUN(part) (4 * (part) + 2)
#endif

// 16 bytes from an even address, in words where they are aligned.
uvec4 load_even(uint64_t a) {
    const bool     odd  = (uint(a) & 2) != 0;
    const uint64_t from = odd ? a - 2 : a;
    const uvec4    w    = uvec4(load_u32(from), load_u32(from + 4), load_u32(from + 8), load_u32(from + 12));
    return odd ? (w >> 16) | (uvec4(w.yzw, load_u16(from + 16)) << 16) : w;
}

#if defined(PIECE_q4_K) || defined(PIECE_q5_K)

struct Piece {
    uvec4 head;  // d, dmin, and eight scales and minima of six bits
    uvec4 quants;
#ifdef PIECE_q5_K
    uvec4 fifth;
#endif
};
#ifdef PIECE_q5_K
const uint BYTES = 176, QUANTS = 48;
#else
const uint BYTES = 144, QUANTS = 16;
#endif
Piece piece_load(Piece before, uint64_t row, uint tile, uint part, uint k) {
    const uint64_t block = row + (tile / 4) * BYTES;
    Piece          p     = before;
    if (tile % 4 == 0) {
        p.head = load_u32x4(block);
#ifdef PIECE_q5_K
        p.fifth = load_u32x4(block + 16 + part * 16);
#endif
    }
    p.quants = load_u32x4(block + QUANTS + (tile % 4) * 32 + part * 16);
    return p;
}
void piece_decode(Piece p, uint tile, uint part, out uvec4 run[4]) {
    const uvec4 head = p.head;
    const bool  late = tile % 4 >= 2;
    const uint  six  = 0x3f3f3f3f, four_bits = 0x0f0f0f0f, two = 0x30303030;
    uint scale = late ? (head.w & four_bits) | ((head.y >> 2) & two) : head.y & six;
    uint least = late ? ((head.w >> 4) & four_bits) | ((head.z >> 2) & two) : head.z & six;
    scale >>= 16 * (tile % 2);
    least >>= 16 * (tile % 2);
    const vec2 d    = unpackHalf2x16(head.x);
    uvec4      low  = p.quants & four_bits;
    uvec4      high = (p.quants >> 4) & four_bits;
#ifdef PIECE_q5_K
    const uvec4 fifth = p.fifth >> (2 * (tile % 4));
    low |= (fifth << 4) & 0x10101010;
    high |= (fifth << 3) & 0x10101010;
#endif
    sixteen(low, 0.0, d.x * float(scale & 0xff), -d.y * float(least & 0xff), run[0], run[1]);
    sixteen(high, 0.0, d.x * float((scale >> 8) & 0xff), -d.y * float((least >> 8) & 0xff), run[2], run[3]);
}

#elif defined(PIECE_q6_K)

struct Piece {
    uvec4 first;   // low four bits of 16 weights
    uvec4 second;  // ... and of those 32 further on
    uvec4 high;    // high two bits of both
    vec2  scale;
};
Piece piece_load(Piece before, uint64_t row, uint tile, uint part, uint k) {
    const uint64_t block = row + (tile / 4) * 210;
    const uint     half_ = (tile / 2) % 2;
    const uint     group = half_ * 8 + (tile % 2) * 4 + part;
    Piece          p;
    p.first  = load_even(block + half_ * 64 + part * 16);
    p.second = load_even(block + half_ * 64 + 32 + part * 16);
    p.high   = load_even(block + 128 + half_ * 32 + part * 16);
    const ivec2 scale = ivec2(load_u8(block + 192 + group), load_u8(block + 194 + group)) << 24 >> 24;
    p.scale = load_f16(block + 208) * vec2(scale);
    return p;
}
void piece_decode(Piece p, uint tile, uint part, out uvec4 run[4]) {
    const uint  shift = 4 * (tile % 2);
    const uvec4 high  = p.high >> shift;
    sixteen(((p.first >> shift) & 0x0f0f0f0f) | ((high << 4) & 0x30303030), 32.0, p.scale.x, 0.0, run[0], run[1]);
    sixteen(((p.second >> shift) & 0x0f0f0f0f) | ((high << 2) & 0x30303030), 32.0, p.scale.y, 0.0, run[2], run[3]);
}

#elif defined(PIECE_q4_0) || defined(PIECE_q4_1) || defined(PIECE_q5_0) || defined(PIECE_q5_1)

struct Piece {
    vec2  d;  // value of one step, and of zero
    uint  fifth;
    uvec4 quants;
};
Piece piece_load(Piece before, uint64_t row, uint tile, uint part, uint k) {
    const uint index = tile * 2 + part;
    if (index * 32 >= k) {
        return Piece(vec2(0), 0, uvec4(0));
    }
#if defined(PIECE_q4_0)
    const uint64_t block = row + index * 18;
    return Piece(vec2(load_f16(block), 0), 0, load_even(block + 2));
#elif defined(PIECE_q5_0)
    const uint64_t block = row + index * 22;
    return Piece(vec2(load_f16(block), 0), load_u16(block + 2) | (load_u16(block + 4) << 16), load_even(block + 6));
#elif defined(PIECE_q4_1)
    const uint64_t block = row + index * 20;
    const uvec4    q = uvec4(load_u32(block + 4), load_u32(block + 8), load_u32(block + 12), load_u32(block + 16));
    return Piece(unpackHalf2x16(load_u32(block)), 0, q);
#else
    const uint64_t block = row + index * 24;
    const uvec2    head  = load_u32x2(block);
    return Piece(unpackHalf2x16(head.x), head.y, uvec4(load_u32x2(block + 8), load_u32x2(block + 16)));
#endif
}
// Bits 0 to 3 of each component, as bit 4 of each byte.
uvec4 spread(uvec4 bits) { return (((bits & 15) * 0x00204081) & 0x01010101) << 4; }
void piece_decode(Piece p, uint tile, uint part, out uvec4 run[4]) {
    uvec4 low = p.quants & 0x0f0f0f0f, high = (p.quants >> 4) & 0x0f0f0f0f;
#if defined(PIECE_q5_0) || defined(PIECE_q5_1)
    low |= spread(uvec4(p.fifth) >> uvec4(0, 4, 8, 12));
    high |= spread(uvec4(p.fifth) >> uvec4(16, 20, 24, 28));
#endif
#if defined(PIECE_q4_0)
    const float bias = 8.0;
#elif defined(PIECE_q5_0)
    const float bias = 16.0;
#else
    const float bias = 0.0;
#endif
    sixteen(low, bias, p.d.x, p.d.y, run[0], run[1]);
    sixteen(high, bias, p.d.x, p.d.y, run[2], run[3]);
}

#elif defined(PIECE_q8_0)

struct Piece {
    float d;
    uvec4 first;
    uvec4 second;
};
Piece piece_load(Piece before, uint64_t row, uint tile, uint part, uint k) {
    const uint index = tile * 2 + part;
    if (index * 32 >= k) {
        return Piece(0.0, uvec4(0), uvec4(0));
    }
    const uint64_t block = row + index * 34;
    return Piece(load_f16(block), load_even(block + 2), load_even(block + 18));
}
void piece_decode(Piece p, uint tile, uint part, out uvec4 run[4]) {
    sixteen(p.first ^ 0x80808080, 128.0, p.d, 0.0, run[0], run[1]);
    sixteen(p.second ^ 0x80808080, 128.0, p.d, 0.0, run[2], run[3]);
}

#elif defined(PIECE_f16)

struct Piece {
    uvec4 v[4];
};
Piece piece_load(Piece before, uint64_t row, uint tile, uint part, uint k) {
    Piece p;
    for (uint i = 0; i < 4; i++) {
        const uint     at = tile * 64 + part * 32 + i * 8;
        const uint64_t a  = row + at * 2;
        p.v[i] = uvec4(0);
        if (ALIGNED != 0 && at + 8 <= k) {
            p.v[i] = load_u32x4(a);
        } else {
            for (uint j = 0; j < 8 && at + j < k; j++) {
                p.v[i][j / 2] |= load_u16(a + j * 2) << (16 * (j % 2));
            }
        }
    }
    return p;
}
void piece_decode(Piece p, uint tile, uint part, out uvec4 run[4]) {
    for (uint i = 0; i < 4; i++) {
        const uvec2 even = p.v[i].xz, odd = p.v[i].yw;
        const uvec2 a = (even & 0xffff) | (odd << 16), b = (even >> 16) | (odd & 0xffff0000);
        run[i] = uvec4(a.x, b.x, a.y, b.y);
    }
}

#else

// Any type of types.glsl: decoded when it is needed.
struct Piece {
    uint64_t row;
    uint     k;
};
Piece piece_load(Piece before, uint64_t row, uint tile, uint part, uint k) { return Piece(row, k); }
uvec2 four_at(Piece p, uint at) {
    if (at >= p.k) {
        return uvec2(0);
    }
    const vec4 x = clamp(OF(dequant4, WEIGHT)(p.row, at), -65504.0, 65504.0);
    return uvec2(packHalf2x16(x.xz), packHalf2x16(x.yw));
}
void piece_decode(Piece p, uint tile, uint part, out uvec4 run[4]) {
    for (uint i = 0; i < 4; i++) {
        const uint at = tile * 64 + part * 32 + i * 8;
        run[i] = uvec4(four_at(p, at), four_at(p, at + 4));
    }
}

#endif
