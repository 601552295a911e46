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

#include "window.glsl"

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
