// Products of quantised weights with int8 activations (lib/q8.glsl), 32 weights at a time.
//
// Within 32 weights everything is integer and so exact. What remains is one short sequence of fma per 32 weights, the same
// in every shader: `accumulate`. A type says which of these it is:
//   FORM_PLAIN       d * sum(w x)                       signed weights
//   FORM_OFFSET      d * (sum(w x) - OFFSET * sum(x))   unsigned weights around OFFSET
//   FORM_MINIMUM     d * sum(w x) + m * sum(x)          unsigned weights above a minimum
//   FORM_HALVES      as PLAIN with an integer scale for each 16 weights
//   FORM_HALVES_MIN  as MINIMUM with integer scales and minima for each 16 weights
//
// The two halves of 32 weights come in the order (b, 1 - b), where b is a bit of the lane: neighbouring lanes then read
// different banks of the cache. The order does not show in the sum, which is exact.
#extension GL_EXT_integer_dot_product : require
#extension GL_EXT_control_flow_attributes : require

const int FORM_PLAIN = 0;
const int FORM_OFFSET = 1;
const int FORM_MINIMUM = 2;
const int FORM_HALVES = 3;
const int FORM_HALVES_MIN = 4;

// 32 weights: 16 in each of w0 (half b) and w1 (half 1 - b), the scale d, the minimum m, and integers for the halves.
struct Part {
    ivec4 w0;
    ivec4 w1;
    float d;
    float m;
    ivec2 scale;
    ivec2 minimum;
};

// 32 activations in the same order.
struct Act {
    ivec4 x0;
    ivec4 x1;
    float d;
    float s;
    ivec2 sum;
};

// Bytes of weights are signed; Q4_K has values up to 240.
#if defined(TYPE_Q4_K)
#define WEIGHTS uint
#else
#define WEIGHTS int
#endif

int dot16(ivec4 w, ivec4 x, int sum) {
    sum += dotPacked4x8EXT(WEIGHTS(w.x), x.x);
    sum += dotPacked4x8EXT(WEIGHTS(w.y), x.y);
    sum += dotPacked4x8EXT(WEIGHTS(w.z), x.z);
    return sum + dotPacked4x8EXT(WEIGHTS(w.w), x.w);
}

// What remains to be set: d and s as they lie in memory, and sums of what is there.
void act_scale(inout Act a, uvec2 ds) {
    a.d = uintBitsToFloat(ds.x);
    a.s = uintBitsToFloat(ds.y);
    if (FORM == FORM_OFFSET) {
        a.s *= -float(OFFSET);
    }
    if (FORM == FORM_HALVES_MIN) {
        const ivec4 ones = ivec4(0x01010101);
        a.sum = ivec2(dot16(ones, a.x0, 0), dot16(ones, a.x1, 0));
    }
}

// Block `block` of a column of k numbers.
Act act_load(uint64_t column, uint k, uint block, uint b) {
    Act a;
    // Offsets of 32 bits beside the address of the column, which all lanes share: they serve every column.
    const uint at = block * 32 + b * 16;
    a.x0 = ivec4(load_u32x4(column + at));
    a.x1 = ivec4(load_u32x4(column + (at ^ 16)));
    act_scale(a, load_u32x2(column + (k + block * 8)));
    return a;
}

// The same where all invocations of a subgroup want the block: each loads a part of it.
Act act_share(uint64_t column, uint k, uint block, uint lane) {
    const uint mine = load_u32(column + (block * 32 + lane % 8 * 4));
    Act a;
    [[unroll]] for (uint i = 0; i < 4; i++) {
        a.x0[i] = int(subgroupShuffle(mine, i));
        a.x1[i] = int(subgroupShuffle(mine, i + 4));
    }
    act_scale(a, load_u32x2(column + (k + block * 8)));
    return a;
}

float accumulate(float acc, Part p, Act a) {
    precise float sum = acc;
    if (FORM == FORM_HALVES || FORM == FORM_HALVES_MIN) {
        const int total = p.scale.x * dot16(p.w0, a.x0, 0) + p.scale.y * dot16(p.w1, a.x1, 0);
        precise const float x = a.d * float(total);
        sum = fma(p.d, x, sum);
        if (FORM == FORM_HALVES_MIN) {
            precise const float y = a.d * float(p.minimum.x * a.sum.x + p.minimum.y * a.sum.y);
            sum = fma(p.m, y, sum);
        }
        return sum;
    }
    const float total = float(dot16(p.w1, a.x1, dot16(p.w0, a.x0, 0)));
    if (FORM == FORM_OFFSET) {
        return fma(p.d, fma(a.d, total, a.s), sum);
    }
    precise const float x = a.d * total;
    sum = fma(p.d, x, sum);
    return FORM == FORM_MINIMUM ? fma(p.m, a.s, sum) : sum;
}

vec2 halves(uint x) { return unpackHalf2x16(x); }

// Bytes that start anywhere at an even address, by aligned loads of 16 bytes: many narrow loads, each of which spreads over
// as many cache lines, would be the bottleneck. An aligned load that holds one byte of a tensor never leaves its memory.
struct Window {
    uint w[10];
    bool odd;  // the bytes start at the upper half of w[0]
};

Window window(uint64_t at, uint bytes) {
    Window r;
    if (SOFTWARE) {
        // One word more than the bytes fill, for where they start between two; as below, the last stands in for it.
        const uint64_t from = at & ~uint64_t(7);
        const uint     off = uint(at) & 7, behind = (off + bytes - 1) & ~7u, words = (bytes + 13) / 8;
        uint64_t       v[6];
        [[unroll]] for (uint i = 0; i < 6; i++) {
            v[i] = i < words ? packUint2x32(load_u64(from + min(i * 8, behind))) : 0;
        }
        [[unroll]] for (uint i = 0; i < 5; i++) {
            const uvec2 two = unpackUint2x32((v[i] >> (off * 8)) | ((v[i + 1] << 1) << (63 - off * 8)));
            r.w[2 * i] = two.x;
            r.w[2 * i + 1] = two.y;
        }
        r.odd = false;
        return r;
    }
    const uint64_t base = at & ~uint64_t(15);
    const uint     skip = uint(at) & 15;
    // A piece that holds none of the bytes may lie behind the memory; the last that does stands in for it.
    const uint  last = (skip + bytes - 1) & ~15u;
    const uvec4 c0 = load_u32x4(base);
    const uvec4 c1 = load_u32x4(base + min(16u, last));
    const uvec4 c2 = bytes > 18 ? load_u32x4(base + min(32u, last)) : uvec4(0);
    uint v[12] = uint[12](c0.x, c0.y, c0.z, c0.w, c1.x, c1.y, c1.z, c1.w, c2.x, c2.y, c2.z, c2.w);
    [[unroll]] for (uint i = 0; i < 10; i++) {
        v[i] = (skip & 8) != 0 ? v[i + 2] : v[i];
    }
    [[unroll]] for (uint i = 0; i < 10; i++) {
        r.w[i] = (skip & 4) != 0 ? v[i + 1] : v[i];
    }
    r.odd = (skip & 2) != 0;
    return r;
}

// The 16 bits, or 32, at an even number of bytes behind the start.
uint window_u16(Window r, uint byte) {
    const uint i = byte / 4;
    const uint at_even = byte % 4 == 0 ? r.w[i] & 0xffff : r.w[i] >> 16;
    const uint at_odd = byte % 4 == 0 ? r.w[i] >> 16 : r.w[i + 1] & 0xffff;
    return r.odd ? at_odd : at_even;
}
uint window_u32(Window r, uint byte) {
    const uint i = byte / 4;
    const uint across = r.w[i] >> 16 | r.w[i + 1] << 16;
    if (byte % 4 == 0) {
        return r.odd ? across : r.w[i];
    }
    return r.odd ? r.w[i + 1] : across;
}
ivec4 window_u32x4(Window r, uint byte) {
    return ivec4(window_u32(r, byte), window_u32(r, byte + 4), window_u32(r, byte + 8), window_u32(r, byte + 12));
}
