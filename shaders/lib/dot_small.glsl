// Weights in blocks of 32; a lane's unit is one block. Defines Unit, unit_load, unit_part and unit_block for the TYPE_*.

const uint PARTS = 1;  // parts of 32 weights in a unit
uint unit_block(uint unit, uint h) { return unit; }

// Nibbles: the low ones are the first half, the high ones the second.
void nibbles(ivec4 q, uint b, inout Part p) {
    p.w0 = (q >> int(4 * b)) & 0x0f0f0f0f;
    p.w1 = (q >> int(4 - 4 * b)) & 0x0f0f0f0f;
}
// Adds bit i of `bits` to weight i, as bit 4.
void fifth(uint bits, uint b, inout Part p) {
    const ivec4 first = ivec4(0, 4, 8, 12);
    const ivec4 x0 = (ivec4(bits >> (16 * b)) >> first) & 15;
    const ivec4 x1 = (ivec4(bits >> (16 - 16 * b)) >> first) & 15;
    // The product puts copies of the four bits side by side so that bit k of the nibble is at bit 8 k.
    p.w0 |= ((x0 * 0x204081) & 0x01010101) << 4;
    p.w1 |= ((x1 * 0x204081) & 0x01010101) << 4;
}

#if defined(TYPE_Q4_0) || defined(TYPE_IQ4_NL)
struct Unit { ivec4 q; float d; };
Unit unit_load(uint64_t row, uint unit, uint b) {
    const Window r = window(row + unit * 18, 18);
    return Unit(window_u32x4(r, 2), halves(window_u16(r, 0)).x);
}
#elif defined(TYPE_Q4_1)
struct Unit { ivec4 q; vec2 dm; };
Unit unit_load(uint64_t row, uint unit, uint b) {
    const uint64_t at = row + unit * 20;
    if (SOFTWARE) {
        const Window r = window(at, 20, 4);
        return Unit(window_u32x4(r, 4), halves(window_u32(r, 0)));
    }
    return Unit(ivec4(load_u32(at + 4), load_u32(at + 8), load_u32(at + 12), load_u32(at + 16)), halves(load_u32(at)));
}
#elif defined(TYPE_Q5_0)
struct Unit { ivec4 q; uint high; float d; };
Unit unit_load(uint64_t row, uint unit, uint b) {
    const Window r = window(row + unit * 22, 22);
    return Unit(window_u32x4(r, 6), window_u32(r, 2), halves(window_u16(r, 0)).x);
}
#elif defined(TYPE_Q5_1)
struct Unit { ivec4 q; uint high; vec2 dm; };
Unit unit_load(uint64_t row, uint unit, uint b) {
    const uint64_t at = row + unit * 24;
    const uvec2 head = load_u32x2(at);
    return Unit(ivec4(load_u32x2(at + 8), load_u32x2(at + 16)), head.y, halves(head.x));
}
#elif defined(TYPE_Q8_0)
struct Unit { ivec4 q0; ivec4 q1; float d; };
Unit unit_load(uint64_t row, uint unit, uint b) {
    const Window r = window(row + unit * 34, 34);
    return Unit(window_u32x4(r, 2), window_u32x4(r, 18), halves(window_u16(r, 0)).x);
}
#elif defined(TYPE_MXFP4)
struct Unit { ivec4 q; uint e; };
Unit unit_load(uint64_t row, uint unit, uint b) {
    // 17 bytes: the block starts anywhere, and its first byte is the exponent.
    const uint64_t at = row + unit * 17;
    const Window r = window(at & ~uint64_t(1), 18);
    const ivec4 even = window_u32x4(r, 0);
    const ivec4 next = ivec4(even.yzw, window_u32(r, 16));
    const bool odd = (uint(at) & 1) != 0;
    const ivec4 q = odd ? ivec4(window_u32x4(r, 2)) : ivec4(((uvec4(even) >> 8) | (uvec4(next) << 24)));
    return Unit(q, odd ? (uint(even.x) >> 8) & 0xff : uint(even.x) & 0xff);
}
#endif

#if defined(TYPE_IQ4_NL)
#include "dot_iq4.glsl"
#endif
#if defined(TYPE_MXFP4)
// Floats of four bits, doubled: 0 1 2 3 4 6 8 12 and their negatives, four at a time.
ivec4 e2m1(ivec4 n) {
    const ivec4 low = n & (((n >> 2) & 0x01010101) * 3);  // the low two bits of 4..7
    const ivec4 both = low & (low >> 1) & 0x01010101;     // 7 only
    const ivec4 size = (n & 0x07070707) + low + both * 2;
    const ivec4 negative = ((n >> 3) & 0x01010101) * 255;
    return (size & ~negative) | (((0x80808080 - size) ^ 0x80808080) & negative);
}
#endif

Part unit_part(Unit u, uint unit, uint h, uint b) {
    Part p;
#if defined(TYPE_Q8_0)
    p.w0 = b == 0 ? u.q0 : u.q1;
    p.w1 = b == 0 ? u.q1 : u.q0;
    p.d = u.d;
#else
    nibbles(u.q, b, p);
#endif
#if defined(TYPE_Q4_0)
    p.d = u.d;
#elif defined(TYPE_IQ4_NL)
    p.w0 = iq4(p.w0);
    p.w1 = iq4(p.w1);
    p.d = u.d;
#elif defined(TYPE_Q4_1)
    p.d = u.dm.x;
    p.m = u.dm.y;
#elif defined(TYPE_Q5_0)
    fifth(u.high, b, p);
    p.d = u.d;
#elif defined(TYPE_Q5_1)
    fifth(u.high, b, p);
    p.d = u.dm.x;
    p.m = u.dm.y;
#elif defined(TYPE_MXFP4)
    p.w0 = e2m1(p.w0);
    p.w1 = e2m1(p.w1);
    // Half of two to the power of e - 127, for the values are doubled.
    p.d = uintBitsToFloat(u.e < 2 ? 0x00200000 << u.e : (u.e - 1) << 23);
#endif
    return p;
}
