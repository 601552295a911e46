// The 16 values of IQ4_NL and IQ4_XS, looked up by pairs of nibbles in shared memory.
shared uint iq4_table[256];

void iq4_init() {
    const int values[16] = int[16](-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113);
    for (uint i = gl_LocalInvocationID.x; i < 256; i += gl_WorkGroupSize.x) {
        iq4_table[i] = uint(values[i % 16] & 0xff) | uint(values[i / 16] & 0xff) << 8;
    }
    barrier();
}

// Four values of four nibbles, one in each byte.
ivec4 iq4(ivec4 n) {
    // A nibble of the first byte beside one of the second makes an index; so do those of the third and fourth.
    const ivec4 pairs = n | (n >> 4);
    ivec4 r;
    [[unroll]] for (uint i = 0; i < 4; i++) {
        r[i] = int(iq4_table[pairs[i] & 0xff] | iq4_table[(pairs[i] >> 16) & 0xff] << 16);
    }
    return r;
}
