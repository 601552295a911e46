// Part of types.glsl: types whose weights are points of a grid, or of fewer than four bits each.
// A point is 16 bits of a table in memory, which stays in the nearest cache: compilers make slow code of large constants.
#define point_of_grid(index) load_u16(weight_grid + 2 * (index))

// Numbers k & 7 and the next three of a point of eight, each of two bits; and the four of a point of four, of three bits.
uvec4 half_point(uint point, uint k) { return uvec4(point, point >> 2, point >> 4, point >> 6) >> (2 * (k & 4)) & 3; }
uvec4 whole_point(uint point) { return uvec4(point, point >> 3, point >> 6, point >> 9) & 7; }
// The three values of the IQ2 grids: 8, 25, 43.
vec4 values_iq2(uvec4 index) { return vec4(uvec4(0x002b1908u) >> (8 * index) & 0xff); }
// Negates those of elements k & 7 to k & 7 + 3 whose bit is set.
vec4 with_signs(vec4 x, uint signs, uint k) { return mix(x, -x, equal(bits_of(signs >> (k & 4)), uvec4(1))); }
// Seven signs; the eighth makes the number of negative ones even.
uint all_signs(uint seven) { return (seven & 127) | ((bitCount(seven & 127) & 1) << 7); }

// 128 bits: +d or -d.
#define BLOCK_q1_0 128
#define BYTES_q1_0 18
vec4 dequant4_q1_0(uint64_t row, uint k) {
    const uint64_t b = row + (k / 128) * 18;
    const uvec4 bit = bits_of(load_u8(b + 2 + (k & 127) / 8) >> (k & 4));
    return load_f16(b) * vec4(ivec4(2 * bit) - 1);
}
ONE_OF_FOUR(q1_0)

// 64 times two bits in order: -1, 0, 1 or 2.
#define BLOCK_q2_0 64
#define BYTES_q2_0 18
vec4 dequant4_q2_0(uint64_t row, uint k) {
    const uint64_t b = row + (k / 64) * 18;
    return load_f16(b) * vec4(ivec4(half_point(load_u8(b + 2 + (k & 63) / 4), 0)) - 1);
}
ONE_OF_FOUR(q2_0)

// Digits of base three, as fractions of 256: digit n of a byte is the integer part of 3 * frac(byte * 3^n / 256). Elements
// 0 to 159 are five digits of 32 bytes, up to 239 five digits of 16 bytes, then four digits of four bytes.
#define BLOCK_tq1_0 256
#define BYTES_tq1_0 54
vec4 dequant4_tq1_0(uint64_t row, uint k) {
    const uint64_t b = row + (k / 256) * 54;
    const uint     e = k & 255;
    const uvec2 digit_byte = e < 160 ? uvec2(e / 32, e & 31)
                           : e < 240 ? uvec2((e - 160) / 16, 32 + (e & 15)) : uvec2((e - 240) / 4, 48);
    const uint  power = uint[](1, 3, 9, 27, 81)[digit_byte.x];
    const uvec4 trits = ((bytes_of(word_at2(b + digit_byte.y)) * power & 0xff) * 3) >> 8;
    return load_f16(b + 52) * vec4(ivec4(trits) - 1);
}
ONE_OF_FOUR(tq1_0)

#define BLOCK_tq2_0 256
#define BYTES_tq2_0 66
vec4 dequant4_tq2_0(uint64_t row, uint k) {
    const uint64_t b = row + (k / 256) * 66;
    const uint     e = k & 255;
    const uint     w = word_at2(b + (e / 128) * 32 + (e & 31)) >> (2 * ((e / 32) & 3));
    return load_f16(b + 64) * vec4(ivec4(bytes_of(w & 0x03030303)) - 1);
}
ONE_OF_FOUR(tq2_0)

// 32 elements: a word of four points of eight, and a word of four times seven signs and a scale.
#define BLOCK_iq2_xxs 256
#define BYTES_iq2_xxs 66
vec4 dequant4_iq2_xxs(uint64_t row, uint k) {
    const uint64_t b     = row + (k / 256) * 66;
    const uint64_t part  = b + 2 + ((k & 255) / 32) * 8;
    const uint     l     = (k / 8) & 3;
    const uint     point = point_of_grid(load_u8(part + l));
    const uint     w     = word_at2(part + 4);
    const float    d     = load_f16(b) * (0.5 + float(w >> 28)) * 0.25;
    return d * with_signs(values_iq2(half_point(point, k)), all_signs(w >> (7 * l)), k);
}
ONE_OF_FOUR(iq2_xxs)

// 8 elements: 9 bits of a point, 7 signs. 16 elements have a scale of four bits.
#define BLOCK_iq2_xs 256
#define BYTES_iq2_xs 74
vec4 dequant4_iq2_xs(uint64_t row, uint k) {
    const uint64_t b     = row + (k / 256) * 74;
    const uint     e     = k & 255;
    const uint     q     = load_u16(b + 2 + e / 8 * 2);
    const uint     scale = (load_u8(b + 66 + e / 32) >> ((e & 16) / 4)) & 15;
    const float    d     = load_f16(b) * (0.5 + float(scale)) * 0.25;
    return d * with_signs(values_iq2(half_point(point_of_grid(q & 511), k)), all_signs(q >> 9), k);
}
ONE_OF_FOUR(iq2_xs)

// 8 elements: a byte of a point and, elsewhere, two more bits and a byte of signs.
#define BLOCK_iq2_s 256
#define BYTES_iq2_s 82
vec4 dequant4_iq2_s(uint64_t row, uint k) {
    const uint64_t b     = row + (k / 256) * 82;
    const uint     e     = k & 255;
    const uint     high  = (load_u8(b + 66 + e / 32) >> (2 * ((e / 8) & 3))) & 3;
    const uint     point = point_of_grid(load_u8(b + 2 + e / 8) | (high << 8));
    const uint     scale = (load_u8(b + 74 + e / 32) >> ((e & 16) / 4)) & 15;
    const float    d     = load_f16(b) * (0.5 + float(scale)) * 0.25;
    return d * with_signs(values_iq2(half_point(point, k)), load_u8(b + 34 + e / 8), k);
}
ONE_OF_FOUR(iq2_s)

// Points of four. The eight values are 4, 12, 20 and so on; the last is 62.
#define BLOCK_iq3_xxs 256
#define BYTES_iq3_xxs 98
vec4 dequant4_iq3_xxs(uint64_t row, uint k) {
    const uint64_t b     = row + (k / 256) * 98;
    const uint     e     = k & 255;
    const uvec4    index = whole_point(point_of_grid(load_u8(b + 2 + e / 4)));
    const vec4     value = vec4(4 + 8 * index + 2 * (index / 7));
    const uint     w     = word_at2(b + 66 + e / 32 * 4);
    const float    d     = load_f16(b) * (0.5 + float(w >> 28)) * 0.5;
    return d * with_signs(value, all_signs(w >> (7 * ((e / 8) & 3))), k);
}
ONE_OF_FOUR(iq3_xxs)

// Points of four of odd numbers, with a ninth bit elsewhere and a byte of signs for eight elements.
#define BLOCK_iq3_s 256
#define BYTES_iq3_s 110
vec4 dequant4_iq3_s(uint64_t row, uint k) {
    const uint64_t b     = row + (k / 256) * 110;
    const uint     e     = k & 255;
    const uint     ninth = (load_u8(b + 66 + e / 32) >> ((e / 4) & 7)) & 1;
    const uvec4    index = whole_point(point_of_grid(load_u8(b + 2 + e / 4) | (ninth << 8)));
    const uint     scale = (load_u8(b + 106 + e / 64) >> ((e & 32) / 8)) & 15;
    const float    d     = load_f16(b) * float(1 + 2 * scale);
    return d * with_signs(vec4(1 + 2 * index), load_u8(b + 74 + e / 8), k);
}
ONE_OF_FOUR(iq3_s)

// A point of eight of -1, 0 and 1, and a shift of all by an eighth up, or down if `down`.
vec4 shifted_point(uint index, uint k, bool down) {
    return vec4(ivec4(half_point(point_of_grid(index), k)) - 1) + (down ? -0.125 : 0.125);
}

#define BLOCK_iq1_s 256
#define BYTES_iq1_s 50
vec4 dequant4_iq1_s(uint64_t row, uint k) {
    const uint64_t b    = row + (k / 256) * 50;
    const uint     e    = k & 255;
    const uint     head = load_u16(b + 34 + e / 32 * 2);  // four times three bits of points, a scale, the shift
    const uint     high = (head >> (3 * ((e / 8) & 3))) & 7;
    const float    d    = load_f16(b) * float(2 * ((head >> 12) & 7) + 1);
    return d * shifted_point(load_u8(b + e / 8 + 2) | (high << 8), k, (head & 0x8000) != 0);
}
ONE_OF_FOUR(iq1_s)

// As iq1_s with a nibble of high bits and shift for each point; the scales of 16 elements and, in their top nibbles, the
// scale of all are the last four half words.
#define BLOCK_iq1_m 256
#define BYTES_iq1_m 56
vec4 dequant4_iq1_m(uint64_t row, uint k) {
    const uint64_t b     = row + (k / 256) * 56;
    const uint     e     = k & 255;
    const uvec2    s     = load_u32x2(b + 48);
    const uint     whole = ((s.x >> 12) & 0xf) | ((s.x >> 24) & 0xf0) | ((s.y >> 4) & 0xf00) | ((s.y >> 16) & 0xf000);
    const uint     scale = (s[e / 128] >> (16 * ((e / 64) & 1) + 3 * ((e / 16) & 3))) & 7;
    const uint     high  = load_u8(b + 32 + e / 16) >> ((e & 8) / 2);
    const float    d     = half2_of(whole).x * float(2 * scale + 1);
    return d * shifted_point(load_u8(b + e / 8) | ((high & 7) << 8), k, (high & 8) != 0);
}
ONE_OF_FOUR(iq1_m)

// Four parts of 16 in eight bytes each, with a scale of four bits of exponent (biased by 7) and three of mantissa, halved to
// undo the doubled values. 0x7f is no number and means 0.
#define BLOCK_nvfp4 64
#define BYTES_nvfp4 36
vec4 dequant4_nvfp4(uint64_t row, uint k) {
    const uint64_t b        = row + (k / 64) * 36;
    const uint     part     = (k / 16) & 3;
    const uint     scale    = load_u8(b + part);
    const uint     exponent = (scale >> 3) & 15, mantissa = scale & 7;
    const float    normal   = uintBitsToFloat(((exponent + 119) << 23) | (mantissa << 20));
    const float    d        = scale == 0x7f ? 0 : exponent == 0 ? float(mantissa) / 1024 : normal;
    return d * lookup16(VALUES_E2M1, nibbles_of(load_u32(b + 4 + part * 8 + (k & 7)), (k & 8) / 2));
}
ONE_OF_FOUR(nvfp4)
