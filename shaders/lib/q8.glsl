// Activations as int8 blocks: what the integer products read. Mirrors `ops/quantize.rs` and `graph::reference::q8`.
//
// A column of K numbers (K % 32 == 0) is K signed bytes and then, for each block of 32, two floats: d, the value of one
// step, and s = d * (sum of the block's bytes). Every shader that writes this form calls `q8_store`, so that the bits are
// the same whoever wrote them: the largest magnitude and the sum of the bytes do not depend on an order.

// Bytes of a column.
uint q8_column(uint k) { return (k + k / 4 + 15) & ~15u; }

// Quantises block `block` of a column of k numbers at `column`. Eight neighbouring invocations (a multiple of eight and the
// seven after it) call it together with four numbers each, in order; all eight must be active, and agree in `live`, which
// says whether there is such a block.
void q8_store(uint64_t column, uint k, uint block, vec4 x, bool live) {
    float largest = max(max(abs(x.x), abs(x.y)), max(abs(x.z), abs(x.w)));
    for (uint i = 1; i < 8; i *= 2) {
        largest = max(largest, subgroupShuffleXor(largest, i));
    }
    // Below this the reciprocal would overflow; the block is zero as far as floats can tell.
    const bool  zero = largest < 1e-36;
    const float inverse = zero ? 0.0 : 127.0 / largest;
    const float d = zero ? 0.0 : largest * (1.0 / 127.0);
    const ivec4 q = ivec4(roundEven(x * inverse));
    int sum = q.x + q.y + q.z + q.w;
    for (uint i = 1; i < 8; i *= 2) {
        sum += subgroupShuffleXor(sum, i);
    }
    if (live) {
        const uint part = gl_SubgroupInvocationID % 8;
        const uint bytes = (q.x & 0xff) | (q.y & 0xff) << 8 | (q.z & 0xff) << 16 | q.w << 24;
        store_u32(column + block * 32 + part * 4, bytes);
        if (part < 2) {
            store_f32(column + k + block * 8 + part * 4, part == 0 ? d : d * float(sum));
        }
    }
}
