// Bytes that start anywhere at an even address, by aligned loads of 16 bytes: many narrow loads, each of which spreads over
// as many cache lines, would be the bottleneck. An aligned load that holds one byte of a tensor never leaves its memory.
struct Window {
    uint w[10];
    bool odd;  // the bytes start at the upper half of w[0]
};

// The address is a multiple of `align`: 2, or 4.
Window window(uint64_t at, uint bytes, uint align) {
    Window r;
    if (SOFTWARE) {
        // As many words as the bytes can touch; as below, the last that holds any stands in for one that holds none.
        const uint64_t from = at & ~uint64_t(7);
        const uint     off = uint(at) & 7, behind = (off + bytes - 1) & ~7u, words = (bytes + 15 - align) / 8;
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

Window window(uint64_t at, uint bytes) { return window(at, bytes, 2); }

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
