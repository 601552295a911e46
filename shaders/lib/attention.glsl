// What the attention shaders share: the elements of K and V, and the scores that count as nothing.
#include "types.glsl"

// Codes of the types of K and V; mirrors `code` of `ops/attention.rs`. ALIGNED: whole 16-byte loads of plain numbers.
#define T_F32 0
#define T_F16 1
#define T_BF16 2
#define T_Q8_0 3
#define T_Q4_0 4
#define T_Q4_1 5
#define T_Q5_0 6
#define T_Q5_1 7
#define T_IQ4_NL 8
#define ALIGNED 16

struct Eight {
    vec4 lo;
    vec4 hi;
};
#define EIGHT(T) Eight(dequant4_##T(row, k), dequant4_##T(row, k + 4))

// Eight numbers of 16 bits each as they lie in memory.
Eight expand8(uint type, uvec4 w) {
    if (type == T_BF16 + ALIGNED) {
        const uvec4 odd = w & 0xffff0000, even = w << 16;
        return Eight(uintBitsToFloat(uvec4(even.x, odd.x, even.y, odd.y)),
                     uintBitsToFloat(uvec4(even.z, odd.z, even.w, odd.w)));
    }
    return Eight(vec4(unpackHalf2x16(w.x), unpackHalf2x16(w.y)), vec4(unpackHalf2x16(w.z), unpackHalf2x16(w.w)));
}

// Elements k to k + 7 of a row, k a multiple of 8. `type` is a specialisation constant, so that one branch remains.
Eight load8(uint type, uint64_t row, uint k) {
    switch (type) {
    case T_F16 + ALIGNED:
    case T_BF16 + ALIGNED: return expand8(type, load_u32x4(row + 2 * k));
    case T_F32 + ALIGNED: return Eight(load_f32x4(row + 4 * k), load_f32x4(row + 4 * k + 16));
    case T_F16:           return EIGHT(f16);
    case T_BF16:          return EIGHT(bf16);
    case T_Q8_0:          return EIGHT(q8_0);
    case T_Q4_0:          return EIGHT(q4_0);
    case T_Q4_1:          return EIGHT(q4_1);
    case T_Q5_0:          return EIGHT(q5_0);
    case T_Q5_1:          return EIGHT(q5_1);
    case T_IQ4_NL:        return EIGHT(iq4_nl);
    default:              return EIGHT(f32);
    }
}

// The score of a position that the mask hides. Finite, so that no arithmetic with infinities is needed: some devices
// compute exp(-inf) as a tiny number, and a hidden position must count exactly nothing.
const float NONE = -3.0e38;

// exp(x - top), exactly 1 at the top and exactly 0 for hidden positions.
float weight(float x, float top) { return x == top ? (x == NONE ? 0.0 : 1.0) : x == NONE ? 0.0 : exp(x - top); }

// The factor that the mask is multiplied with: 1 without ALiBi. `log_heads`: the largest power of two up to the number
// of heads.
float slope(uint head, float max_bias, uint log_heads) {
    const float step = max_bias / float(log_heads);
    return head < log_heads ? exp2(-step * float(head + 1)) : exp2(-0.5 * step * float(2 * (head - log_heads) + 1));
}
