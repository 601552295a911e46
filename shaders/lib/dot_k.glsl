// Weights in blocks of 256; a lane's unit is 64 weights, the two parts of 32 that share the bytes of their bits.
// Defines Unit, unit_load, unit_part and unit_block for the TYPE_*.

const uint PARTS = 2;

#if defined(TYPE_Q6_K)
// The parts lie in the low and the high nibbles of the same bytes, which makes them 64 weights apart.
uint unit_block(uint unit, uint h) { return unit / 2 * 4 + unit % 2 + 2 * h; }
#else
uint unit_block(uint unit, uint h) { return unit * 2 + h; }
#endif

// Turns bytes of 0 .. 2 * middle into signed bytes around `middle`.
ivec4 around(ivec4 q, int middle) { return (q + (0x80 - middle) * 0x01010101) ^ 0x80808080; }

#if defined(TYPE_Q4_K) || defined(TYPE_Q5_K)
// The halves are loaded in the order of the lane.
struct Unit {
    uvec4 head;  // d and minimum, then 12 bytes of scales
    ivec4 q0;
    ivec4 q1;
#if defined(TYPE_Q5_K)
    ivec4 high0;
    ivec4 high1;
#endif
};
Unit unit_load(uint64_t row, uint unit, uint b) {
    Unit u;
#if defined(TYPE_Q5_K)
    const uint64_t block = row + unit / 4 * 176;
    u.high0 = ivec4(load_u32x4(block + 16 + b * 16));
    u.high1 = ivec4(load_u32x4(block + 32 - b * 16));
    const uint64_t q = block + 48 + unit % 4 * 32;
#else
    const uint64_t block = row + unit / 4 * 144;
    const uint64_t q = block + 16 + unit % 4 * 32;
#endif
    u.head = load_u32x4(block);
    u.q0 = ivec4(load_u32x4(q + b * 16));
    u.q1 = ivec4(load_u32x4(q + (16 - b * 16)));
    return u;
}
Part unit_part(Unit u, uint unit, uint h, uint b) {
    Part p;
#if defined(TYPE_Q5_K)
    const int bit = int(unit % 4 * 2 + h);
    p.w0 = ((u.q0 >> int(4 * h)) & 0x0f0f0f0f) | ((u.high0 >> bit) & 0x01010101) << 4;
    p.w1 = ((u.q1 >> int(4 * h)) & 0x0f0f0f0f) | ((u.high1 >> bit) & 0x01010101) << 4;
    const float weight = 1.0;
#else
    // The high nibbles stay where they are, as unsigned bytes 16 times the weights.
    const int mask = h == 0 ? 0x0f0f0f0f : 0xf0f0f0f0;
    p.w0 = u.q0 & mask;
    p.w1 = u.q1 & mask;
    const float weight = h == 0 ? 1.0 : 1.0 / 16.0;
#endif
    // Scales and minima of six bits: those of parts 0 .. 3 whole in bytes 0 .. 3 and 4 .. 7; of parts 4 .. 7 the low four
    // bits in the nibbles of bytes 8 .. 11 and the high two above those of parts 0 .. 3. Both parts of a unit at once.
    const uint  shift = unit % 2 * 16;
    const uvec3 s = u.head.yzw >> shift;
    const bool  upper = unit % 4 >= 2;
    const uint  scales = upper ? (s.z & 0x0f0f) | ((s.x >> 2) & 0x3030) : s.x & 0x3f3f;
    const uint  minima = upper ? ((s.z >> 4) & 0x0f0f) | ((s.y >> 2) & 0x3030) : s.y & 0x3f3f;
    const vec2  dm = halves(u.head.x);
    precise const float d = dm.x * (float((scales >> (8 * h)) & 0xff) * weight);
    precise const float m = -dm.y * float((minima >> (8 * h)) & 0xff);
    p.d = d;
    p.m = m;
    return p;
}
#elif defined(TYPE_Q6_K)
struct Unit {
    ivec4 q0;
    ivec4 q1;
    ivec4 high0;
    ivec4 high1;
    uint  scales;  // two signed bytes of each part
    float d;
};
Unit unit_load(uint64_t row, uint unit, uint b) {
    const uint64_t block = row + unit / 4 * 210;
    const uint n = unit / 2 % 2;
    const uint t = unit % 2;
    const Window q = window(block + n * 64 + t * 32, 32);
    const Window high = window(block + 128 + n * 32, 32);
    const Window tail = window(block + 192, 18);
    Unit u;
    u.q0 = window_u32x4(q, 0);
    u.q1 = window_u32x4(q, 16);
    u.high0 = window_u32x4(high, 0) >> int(2 * t);
    u.high1 = window_u32x4(high, 16) >> int(2 * t);
    const uvec2 scales = n == 0 ? uvec2(window_u32(tail, 0), window_u32(tail, 4))
        : uvec2(window_u32(tail, 8), window_u32(tail, 12));
    const uvec2 mine = scales >> (16 * t);
    u.scales = (mine.x & 0xffff) | mine.y << 16;
    u.d = halves(window_u16(tail, 16)).x;
    return u;
}
Part unit_part(Unit u, uint unit, uint h, uint b) {
    Part p;
    const int shift = int(4 * h);
    const ivec4 w0 = around(((u.q0 >> shift) & 0x0f0f0f0f) | ((u.high0 >> shift) & 0x03030303) << 4, 32);
    const ivec4 w1 = around(((u.q1 >> shift) & 0x0f0f0f0f) | ((u.high1 >> shift) & 0x03030303) << 4, 32);
    p.w0 = b == 0 ? w0 : w1;
    p.w1 = b == 0 ? w1 : w0;
    const int scales = int(u.scales >> (16 * h));
    p.scale = ivec2(bitfieldExtract(scales, int(8 * b), 8), bitfieldExtract(scales, int(8 - 8 * b), 8));
    p.d = u.d;
    return p;
}
#elif defined(TYPE_Q2_K) || defined(TYPE_Q3_K)
// Two bits: byte i of 32 holds weight i of four parts.
struct Unit {
    ivec4 q0;
    ivec4 q1;
#if defined(TYPE_Q3_K)
    ivec4 high0;
    ivec4 high1;
#endif
    uint  scales;  // two bytes of each part
    vec2  dm;
};
Unit unit_load(uint64_t row, uint unit, uint b) {
    Unit u;
    const uint n = unit / 2 % 2;
    const int shift = int(unit % 2 * 4);
#if defined(TYPE_Q2_K)
    const uint64_t block = row + unit / 4 * 84;
    const Window q = window(block + 16 + n * 32, 32);
    u.scales = load_u32(block + unit % 4 * 4);
    u.dm = halves(load_u32(block + 80));
#else
    const uint64_t block = row + unit / 4 * 110;
    const Window q = window(block + 32 + n * 32, 32);
    const Window high = window(block, 32);
    const Window tail = window(block + 96, 14);
    u.high0 = window_u32x4(high, 0) >> int(unit % 4 * 2);
    u.high1 = window_u32x4(high, 16) >> int(unit % 4 * 2);
    // 16 scales of six bits around 32: the low four bits in the nibbles of bytes 0 .. 7, the high two in bytes 8 .. 11.
    const uint low = (unit % 2 == 0 ? window_u32(tail, 0) : window_u32(tail, 4)) >> (n * 4);
    u.scales = (low & 0x0f0f0f0f) | ((window_u32(tail, 8) >> (unit % 4 * 2)) & 0x03030303) << 4;
    u.dm = vec2(halves(window_u16(tail, 12)).x, 0);
#endif
    u.q0 = window_u32x4(q, 0) >> shift;
    u.q1 = window_u32x4(q, 16) >> shift;
    return u;
}
Part unit_part(Unit u, uint unit, uint h, uint b) {
    Part p;
    ivec4 w0 = (u.q0 >> int(2 * h)) & 0x03030303;
    ivec4 w1 = (u.q1 >> int(2 * h)) & 0x03030303;
    const uint scales = u.scales >> (16 * h);
    const ivec2 mine = ivec2(scales >> (8 * b), scales >> (8 - 8 * b)) & 0xff;
    p.d = u.dm.x;
#if defined(TYPE_Q2_K)
    p.scale = mine & 15;
    p.minimum = mine >> 4;
    p.m = -u.dm.y;
#else
    w0 = around(w0 | ((u.high0 >> int(h)) & 0x01010101) << 2, 4);
    w1 = around(w1 | ((u.high1 >> int(h)) & 0x01010101) << 2, 4);
    p.scale = mine - 32;
#endif
    p.w0 = b == 0 ? w0 : w1;
    p.w1 = b == 0 ? w1 : w0;
    return p;
}
#elif defined(TYPE_IQ4_XS)
#include "dot_iq4.glsl"
struct Unit {
    ivec4 q[2];
    uint  scales;  // six bits of each part, in a byte
    float d;
};
Unit unit_load(uint64_t row, uint unit, uint b) {
    Unit u;
    const uint64_t block = row + unit / 4 * 136;
    const uint64_t q = block + 8 + unit % 4 * 32;
    u.q[0] = ivec4(load_u32x2(q), load_u32x2(q + 8));
    u.q[1] = ivec4(load_u32x2(q + 16), load_u32x2(q + 24));
    const uvec2 head = load_u32x2(block);
    const uint low = head.y >> (unit % 4 * 8);
    const uint high = head.x >> (16 + unit % 4 * 4);
    u.scales = (low & 15) | (high & 3) << 4 | (low & 0xf0) << 4 | (high & 12) << 10;
    u.d = halves(head.x).x;
    return u;
}
Part unit_part(Unit u, uint unit, uint h, uint b) {
    Part p;
    const ivec4 q = h == 0 ? u.q[0] : u.q[1];
    p.w0 = iq4((q >> int(4 * b)) & 0x0f0f0f0f);
    p.w1 = iq4((q >> int(4 - 4 * b)) & 0x0f0f0f0f);
    precise const float d = u.d * float(int((u.scales >> (8 * h)) & 63) - 32);
    p.d = d;
    return p;
}
#endif
