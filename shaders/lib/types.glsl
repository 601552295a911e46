// The values of weights. For each type T, by ggml's name of it: BLOCK_T elements in BYTES_T bytes, and for element k of
// the row that starts at `row`
//   float dequant_T(uint64_t row, uint k)
//   vec4  dequant4_T(uint64_t row, uint k)    elements k to k + 3, where k is a multiple of 4
// A shader names its type by a macro: with -DWEIGHT=q4_K, OF(dequant4, WEIGHT)(row, k) is dequant4_q4_K(row, k). Functions
// that are not called cost nothing in the module.
//
// A shader for iq1_s, iq1_m, iq2_xxs, iq2_xs, iq2_s, iq3_xxs or iq3_s first sets `weight_grid` to what `Lowering::grid`
// gave for the type.
//
// A row starts at a multiple of its type's largest power of two that divides BYTES_T, up to 16: ggml aligns tensors, and
// the strides of quantised tensors are whole blocks. Plain numbers need their own size only.
//
// All products below are exact in f32 (11 bits of scale times at most 13 bits of integers), so that the only rounding is
// that of subtracting a minimum, and contraction to fma changes nothing.
uint64_t weight_grid = 0;

#define PASTE_(a, b) a##_##b
#define PASTE(a, b) PASTE_(a, b)
#define OF(name, type) PASTE(name, type)

// Four bytes at an address of which less is known than that it is a multiple of 4.
uint word_at2(uint64_t a) { return load_u16(a) | (load_u16(a + 2) << 16); }
uint word_at1(uint64_t a) {
    return load_u8(a) | (load_u8(a + 1) << 8) | (load_u8(a + 2) << 16) | (load_u8(a + 3) << 24);
}
uvec4 bytes_of(uint w) { return uvec4(w, w >> 8, w >> 16, w >> 24) & 0xff; }
ivec4 signed_bytes_of(uint w) { return ivec4(uvec4(w << 24, w << 16, w << 8, w)) >> 24; }
// The same nibble of four bytes: the low one (shift 0) or the high one (shift 4).
uvec4 nibbles_of(uint w, uint shift) { return bytes_of((w >> shift) & 0x0f0f0f0f); }
// Bit `bit` of four consecutive bytes.
uvec4 bit_of_bytes(uint w, uint bit) { return bytes_of((w >> bit) & 0x01010101); }
// The low four bits of a word.
uvec4 bits_of(uint w) { return uvec4(w, w >> 1, w >> 2, w >> 3) & 1; }
vec2 half2_of(uint w) { return unpackHalf2x16(w); }

#define BLOCK_f32 1
#define BYTES_f32 4
float dequant_f32(uint64_t row, uint k) { return load_f32(row + 4 * k); }
vec4 dequant4_f32(uint64_t row, uint k) {
    const uint64_t a = row + 4 * k;
    return vec4(load_f32(a), load_f32(a + 4), load_f32(a + 8), load_f32(a + 12));
}

#define BLOCK_f16 1
#define BYTES_f16 2
float dequant_f16(uint64_t row, uint k) { return load_f16(row + 2 * k); }
vec4 dequant4_f16(uint64_t row, uint k) {
    const uint64_t a = row + 2 * k;
    return vec4(load_f16(a), load_f16(a + 2), load_f16(a + 4), load_f16(a + 6));
}

#define BLOCK_bf16 1
#define BYTES_bf16 2
float dequant_bf16(uint64_t row, uint k) { return load_bf16(row + 2 * k); }
vec4 dequant4_bf16(uint64_t row, uint k) {
    const uint64_t a = row + 2 * k;
    return vec4(load_bf16(a), load_bf16(a + 2), load_bf16(a + 4), load_bf16(a + 6));
}

// Four plain numbers in one load, from a multiple of 4 times their size.
vec4 aligned4_f32(uint64_t a) { return load_f32x4(a); }
vec4 aligned4_f16(uint64_t a) {
    const uvec2 w = load_u32x2(a);
    return vec4(unpackHalf2x16(w.x), unpackHalf2x16(w.y));
}
vec4 aligned4_bf16(uint64_t a) {
    const uvec2 w = load_u32x2(a);
    return uintBitsToFloat(uvec4(w.x << 16, w.x & 0xffff0000, w.y << 16, w.y & 0xffff0000));
}

// A single element of a quantised type: one of four.
#define ONE_OF_FOUR(T) \
    float dequant_##T(uint64_t row, uint k) { return dequant4_##T(row, k & ~3u)[k & 3]; }

// 32 elements: the first 16 are the low nibbles of 16 bytes, the others the high ones.
#define BLOCK_q4_0 32
#define BYTES_q4_0 18
vec4 dequant4_q4_0(uint64_t row, uint k) {
    const uint64_t b = row + (k / 32) * 18;
    const uint     w = word_at2(b + 2 + (k & 15));
    return load_f16(b) * vec4(ivec4(nibbles_of(w, (k & 16) / 4)) - 8);
}
ONE_OF_FOUR(q4_0)

#define BLOCK_q4_1 32
#define BYTES_q4_1 20
vec4 dequant4_q4_1(uint64_t row, uint k) {
    const uint64_t b  = row + (k / 32) * 20;
    const vec2     dm = half2_of(load_u32(b));
    return dm.x * vec4(nibbles_of(load_u32(b + 4 + (k & 15)), (k & 16) / 4)) + dm.y;
}
ONE_OF_FOUR(q4_1)

// As q4_0, with a fifth bit per element in a word of 32.
#define BLOCK_q5_0 32
#define BYTES_q5_0 22
vec4 dequant4_q5_0(uint64_t row, uint k) {
    const uint64_t b    = row + (k / 32) * 22;
    const uvec4    high = bits_of(word_at2(b + 2) >> (k & 31)) * 16;
    const uint     w    = word_at2(b + 6 + (k & 15));
    return load_f16(b) * vec4(ivec4(nibbles_of(w, (k & 16) / 4) | high) - 16);
}
ONE_OF_FOUR(q5_0)

#define BLOCK_q5_1 32
#define BYTES_q5_1 24
vec4 dequant4_q5_1(uint64_t row, uint k) {
    const uint64_t b    = row + (k / 32) * 24;
    const vec2     dm   = half2_of(load_u32(b));
    const uvec4    high = bits_of(load_u32(b + 4) >> (k & 31)) * 16;
    return dm.x * vec4(nibbles_of(load_u32(b + 8 + (k & 15)), (k & 16) / 4) | high) + dm.y;
}
ONE_OF_FOUR(q5_1)

#define BLOCK_q8_0 32
#define BYTES_q8_0 34
vec4 dequant4_q8_0(uint64_t row, uint k) {
    const uint64_t b = row + (k / 32) * 34;
    return load_f16(b) * vec4(signed_bytes_of(word_at2(b + 2 + (k & 31))));
}
ONE_OF_FOUR(q8_0)

// 256 elements in 16 parts of 16 with a scale and a minimum of 4 bits each; the four crumbs of a byte lie 32 elements apart.
#define BLOCK_q2_K 256
#define BYTES_q2_K 84
vec4 dequant4_q2_K(uint64_t row, uint k) {
    const uint64_t b     = row + (k / 256) * 84;
    const uint     e     = k & 255;
    const vec2     dm    = half2_of(load_u32(b + 80));
    const uint     scale = load_u8(b + e / 16);
    const uint     w     = load_u32(b + 16 + (e / 128) * 32 + (e & 31)) >> (2 * ((e / 32) & 3));
    return dm.x * float(scale & 15) * vec4(bytes_of(w & 0x03030303)) - dm.y * float(scale >> 4);
}
ONE_OF_FOUR(q2_K)

// As q2_K without minima; the third bit is in a mask of 32 bytes, one bit of a byte for each 32 elements. The 16 scales
// have their low four bits in 8 bytes and their high two bits in 4 bytes.
#define BLOCK_q3_K 256
#define BYTES_q3_K 110
vec4 dequant4_q3_K(uint64_t row, uint k) {
    const uint64_t b    = row + (k / 256) * 110;
    const uint     e    = k & 255;
    const uint     part = e / 16;
    const uint     low  = (load_u8(b + 96 + (part & 7)) >> (4 * (part / 8))) & 15;
    const uint     high = (load_u8(b + 104 + (part & 3)) >> (2 * (part / 4))) & 3;
    const float    d    = load_f16(b + 108) * float(int(low | (high << 4)) - 32);
    const uint     w    = word_at2(b + 32 + (e / 128) * 32 + (e & 31)) >> (2 * ((e / 32) & 3));
    const uvec4    bit  = bit_of_bytes(word_at2(b + (e & 31)), e / 32);
    return d * vec4(ivec4(bytes_of(w & 0x03030303) | (bit * 4)) - 4);
}
ONE_OF_FOUR(q3_K)

// The first 16 bytes of q4_K and q5_K are d, dmin and eight pairs of a 6-bit scale and a 6-bit minimum. Returns scale and
// minimum of part `j`, multiplied.
vec2 scale_and_minimum(uvec4 head, uint j) {
    const uint shift = 8 * (j & 3);
    const uint a = head.y >> shift, b = head.z >> shift, c = head.w >> shift;
    const uvec2 sm = j < 4 ? uvec2(a & 63, b & 63)
                           : uvec2((c & 15) | ((a >> 2) & 48), ((c >> 4) & 15) | ((b >> 2) & 48));
    return half2_of(head.x) * vec2(sm);
}

// 256 elements in 8 parts of 32; a byte has an element of an even part and, high, one of the next.
#define BLOCK_q4_K 256
#define BYTES_q4_K 144
vec4 dequant4_q4_K(uint64_t row, uint k) {
    const uint64_t b  = row + (k / 256) * 144;
    const uint     e  = k & 255;
    const vec2     dm = scale_and_minimum(load_u32x4(b), e / 32);
    const uint     w  = load_u32(b + 16 + (e / 64) * 32 + (e & 31));
    return dm.x * vec4(nibbles_of(w, (e & 32) / 8)) - dm.y;
}
ONE_OF_FOUR(q4_K)

#define BLOCK_q5_K 256
#define BYTES_q5_K 176
vec4 dequant4_q5_K(uint64_t row, uint k) {
    const uint64_t b    = row + (k / 256) * 176;
    const uint     e    = k & 255;
    const vec2     dm   = scale_and_minimum(load_u32x4(b), e / 32);
    const uvec4    high = bit_of_bytes(load_u32(b + 16 + (e & 31)), e / 32) * 16;
    const uint     w    = load_u32(b + 48 + (e / 64) * 32 + (e & 31));
    return dm.x * vec4(nibbles_of(w, (e & 32) / 8) | high) - dm.y;
}
ONE_OF_FOUR(q5_K)

// 256 elements in 16 parts of 16 with a signed byte of scale. Of 128 elements, 64 bytes have the low nibbles (elements 64
// apart share a byte) and 32 bytes the high crumbs (32 apart).
#define BLOCK_q6_K 256
#define BYTES_q6_K 210
vec4 dequant4_q6_K(uint64_t row, uint k) {
    const uint64_t b     = row + (k / 256) * 210;
    const uint     e     = k & 255;
    const uint     upper = e / 128;  // which 128
    const uint     low   = word_at2(b + upper * 64 + (e & 63));
    const uint     high  = word_at2(b + 128 + upper * 32 + (e & 31)) >> (2 * ((e / 32) & 3));
    const int      scale = int(load_u8(b + 192 + e / 16) << 24) >> 24;
    const uvec4    q     = nibbles_of(low, (e & 64) / 16) | (bytes_of(high & 0x03030303) << 4);
    return load_f16(b + 208) * float(scale) * vec4(ivec4(q) - 32);
}
ONE_OF_FOUR(q6_K)

// 16 signed bytes in four words, by index; selections in registers are cheaper than a table in memory.
vec4 lookup16(uvec4 table, uvec4 index) {
    const uvec4 words = uvec4(table[index.x / 4], table[index.y / 4], table[index.z / 4], table[index.w / 4]);
    return vec4(ivec4(words << (24 - 8 * (index & 3))) >> 24);
}
// -127 -104 -83 -65 | -49 -35 -22 -10 | 1 13 25 38 | 53 69 89 113
#define VALUES_IQ4 uvec4(0xbfad9881, 0xf6eaddcf, 0x26190d01, 0x71594535)
// Twice the values of e2m1: 0 1 2 3 | 4 6 8 12 | and negated
#define VALUES_E2M1 uvec4(0x03020100, 0x0c080604, 0xfdfeff00, 0xf4f8fafc)

#define BLOCK_iq4_nl 32
#define BYTES_iq4_nl 18
vec4 dequant4_iq4_nl(uint64_t row, uint k) {
    const uint64_t b = row + (k / 32) * 18;
    const uint     w = word_at2(b + 2 + (k & 15));
    return load_f16(b) * lookup16(VALUES_IQ4, nibbles_of(w, (k & 16) / 4));
}
ONE_OF_FOUR(iq4_nl)

// 8 parts of 32 as in iq4_nl; their 6-bit scales have four bits in 4 bytes and two in 16 bits.
#define BLOCK_iq4_xs 256
#define BYTES_iq4_xs 136
vec4 dequant4_iq4_xs(uint64_t row, uint k) {
    const uint64_t b    = row + (k / 256) * 136;
    const uint     part = (k / 32) & 7;
    const uvec2    head = load_u32x2(b);
    const uint     low  = (head.y >> (4 * part)) & 15;
    const uint     high = (head.x >> (16 + 2 * part)) & 3;
    const float    d    = half2_of(head.x).x * float(int(low | (high << 4)) - 32);
    return d * lookup16(VALUES_IQ4, nibbles_of(load_u32(b + 8 + part * 16 + (k & 15)), (k & 16) / 4));
}
ONE_OF_FOUR(iq4_xs)

// The scale is half of a power of two, to undo the doubled values; the two smallest are subnormal.
#define BLOCK_mxfp4 32
#define BYTES_mxfp4 17
vec4 dequant4_mxfp4(uint64_t row, uint k) {
    const uint64_t b = row + (k / 32) * 17;
    const uint     e = load_u8(b);
    const float    d = uintBitsToFloat(e < 2 ? 0x00200000 << e : (e - 1) << 23);
    return d * lookup16(VALUES_E2M1, nibbles_of(word_at1(b + 1 + (k & 15)), (k & 16) / 4));
}
ONE_OF_FOUR(mxfp4)

#include "types_grid.glsl"
