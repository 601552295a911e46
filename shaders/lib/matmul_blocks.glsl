// Blocks of 32 weights as signed bytes, for integer dot products. The variant names the type by BLOCK_OF_<type>.
//   Block block_load(uint64_t row, uint index)
// A weight is scale * byte + offset, with one scale for each half of the block.
#include "window.glsl"

struct Block {
    uint  q[8];
    vec2  scale;
    float offset;
};

// Four bytes at an even address.
uint word_even(uint64_t a) { return load_u16(a) | (load_u16(a + 2) << 16); }
// Bits 0 to 3 as bit 4 of each byte.
uint spread(uint bits) { return (((bits & 15) * 0x00204081) & 0x01010101) << 4; }

#if defined(BLOCK_OF_q4_0) || defined(BLOCK_OF_q5_0)

Block block_load(uint64_t row, uint index) {
    Block b;
#ifdef BLOCK_OF_q4_0
    const uint64_t at     = row + index * 18;
    const uint64_t quants = at + 2;
    const uint     fifth  = 0;
    const float    bias   = 8.0;
#else
    const uint64_t at     = row + index * 22;
    const uint64_t quants = at + 6;
    const uint     fifth  = word_even(at + 2);
    const float    bias   = 16.0;
#endif
    Window r;
    if (SOFTWARE) {
        r = window(quants, 16);
    }
    [[unroll]] for (uint i = 0; i < 4; i++) {
        const uint w = SOFTWARE ? window_u32(r, i * 4) : word_even(quants + i * 4);
        b.q[i]       = (w & 0x0f0f0f0f) | spread(fifth >> (4 * i));
        b.q[i + 4]   = ((w >> 4) & 0x0f0f0f0f) | spread(fifth >> (4 * i + 16));
    }
    b.scale  = vec2(load_f16(at));
    b.offset = -bias * b.scale.x;
    return b;
}

#elif defined(BLOCK_OF_q4_1) || defined(BLOCK_OF_q5_1)

Block block_load(uint64_t row, uint index) {
    Block b;
#ifdef BLOCK_OF_q4_1
    const uint     bytes  = 20;
    const uint64_t at     = row + index * 20;
    const uint64_t quants = at + 4;
    const uint     fifth  = 0;
#else
    const uint     bytes  = 24;
    const uint64_t at     = row + index * 24;
    const uint64_t quants = at + 8;
    const uint     fifth  = load_u32(at + 4);
#endif
    Window r;
    if (SOFTWARE) {
        r = window(at, bytes, 4);
    }
    [[unroll]] for (uint i = 0; i < 4; i++) {
        const uint w = SOFTWARE ? window_u32(r, bytes - 16 + i * 4) : load_u32(quants + i * 4);
        b.q[i]       = (w & 0x0f0f0f0f) | spread(fifth >> (4 * i));
        b.q[i + 4]   = ((w >> 4) & 0x0f0f0f0f) | spread(fifth >> (4 * i + 16));
    }
    const vec2 d = unpackHalf2x16(SOFTWARE ? window_u32(r, 0) : load_u32(at));
    b.scale  = d.xx;
    b.offset = d.y;
    return b;
}

#elif defined(BLOCK_OF_q8_0)

Block block_load(uint64_t row, uint index) {
    Block          b;
    const uint64_t at = row + index * 34;
    if (SOFTWARE) {
        const Window r = window(at, 34);
        [[unroll]] for (uint i = 0; i < 8; i++) {
            b.q[i] = window_u32(r, 2 + i * 4);
        }
        b.scale = vec2(unpackHalf2x16(window_u16(r, 0)).x);
    } else {
        [[unroll]] for (uint i = 0; i < 8; i++) {
            b.q[i] = word_even(at + 2 + i * 4);
        }
        b.scale = vec2(load_f16(at));
    }
    b.offset = 0.0;
    return b;
}

#elif defined(BLOCK_OF_q4_K) || defined(BLOCK_OF_q5_K)

Block block_load(uint64_t row, uint index) {
    Block b;
#ifdef BLOCK_OF_q4_K
    const uint64_t at     = row + index / 8 * 144;
    const uint64_t quants = at + 16;
#else
    const uint64_t at     = row + index / 8 * 176;
    const uint64_t quants = at + 48;
#endif
    const uint  part = index % 8;
    const uvec4 head = load_u32x4(at);
    // Scales and minima have six bits each: those of the later parts are four bits of the last word, and the two highest
    // bits of the words before.
    const bool late  = part >= 4;
    const uint shift = 8 * (part % 4);
    const uint scale = late ? ((head.w >> shift) & 15) | (((head.y >> shift) >> 2) & 0x30) : (head.y >> shift) & 63;
    const uint least = late ? ((head.w >> shift >> 4) & 15) | (((head.z >> shift) >> 2) & 0x30) : (head.z >> shift) & 63;
    [[unroll]] for (uint i = 0; i < 8; i++) {
        b.q[i] = (load_u32(quants + part / 2 * 32 + i * 4) >> (part % 2 * 4)) & 0x0f0f0f0f;
#ifdef BLOCK_OF_q5_K
        b.q[i] |= ((load_u32(at + 16 + i * 4) >> part) & 0x01010101) << 4;
#endif
    }
    const vec2 d = unpackHalf2x16(head.x);
    b.scale  = vec2(d.x * float(scale));
    b.offset = -d.y * float(least);
    return b;
}

#elif defined(BLOCK_OF_q6_K)

Block block_load(uint64_t row, uint index) {
    Block          b;
    const uint64_t at     = row + index / 8 * 210;
    const uint     part   = index % 8;
    const uint     second = part / 4;
    const uint     low    = part % 4 / 2 * 4;
    const uint     high   = part % 4 * 2;
    [[unroll]] for (uint i = 0; i < 8; i++) {
        const uint four = word_even(at + second * 64 + part % 2 * 32 + i * 4) >> low & 0x0f0f0f0f;
        const uint two  = word_even(at + 128 + second * 32 + i * 4) >> high & 0x03030303;
        // Less 32 in each byte, without a borrow from byte to byte.
        b.q[i] = ((four | (two << 4) | 0x80808080) - 0x20202020) ^ 0x80808080;
    }
    const uint scales = load_u16(at + 192 + part * 2);
    b.scale  = load_f16(at + 208) * vec2(int(scales << 24) >> 24, int(scales << 16) >> 24);
    b.offset = 0.0;
    return b;
}

#endif
