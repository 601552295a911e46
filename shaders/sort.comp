// ARGSORT and TOP_K by bitonic sorting. A key is 64 bits: the value's order above, its place in the row below, so no two
// keys are equal, and equal values stay in the order of their places. Rows are padded to a power of two by the largest key.
//
// sort_block sorts each block of a row in shared memory. For rows of one block that is all. Longer ones are either
// sorted entirely (directions alternate from block to block; sort_step and sort_finish then merge ever larger blocks in
// memory), or only the first `keep` of each block are kept and the shorter row of these is sorted again.
// variant sort_block BLOCK_SORT
// variant sort_finish FINISH
// variant sort_step STEP
#version 460
#extension GL_GOOGLE_include_directive : require
#include "memory.glsl"
#include "tensor.glsl"
#include "rows.glsl"

layout(local_size_x_id = 0) in;
layout(constant_id = 1) const uint BLOCK = 2;  // keys of a block

layout(buffer_reference, scalar) readonly buffer Params {
    Tensor   a;
    Tensor   dst;
    uint64_t from;        // keys, rows without holes; 0: the values of `a`
    uint64_t to;          // keys; 0: the places go to `dst`
    uint     count;       // keys of a row that there are
    uint     blocks;      // of a row
    uint     rows;
    uint     keep;        // keys of a block that are written
    uint     alternate;   // whether odd blocks are sorted backwards
    uint     descending;
};
layout(push_constant, scalar) uniform Push {
    Params p;
    uint   stage;     // sort_finish, sort_step: keys of the blocks that come to be sorted
    uint   distance;  // sort_step: between the keys that are compared
} push;
#define p push.p

const uint64_t LAST = 0xfffffffffffffffful;

uint64_t load_key(uint64_t a) {
    const uvec2 x = load_u32x2(a);
    return uint64_t(x.x) | (uint64_t(x.y) << 32);
}

void store_key(uint64_t a, uint64_t key) {
    store_u32(a, uint(key));
    store_u32(a + 4, uint(key >> 32));
}

#ifdef STEP
void main() {
    const uint n = p.blocks * BLOCK;
    const uint index = invocation();
    const uint row = index / (n / 2), pair = index % (n / 2);
    if (row >= p.rows) {
        return;
    }
    const uint first = pair / push.distance * push.distance * 2 + pair % push.distance;
    const uint64_t a = p.to + (uint64_t(row) * n + first) * 8, b = a + uint64_t(push.distance) * 8;
    const uint64_t x = load_key(a), y = load_key(b);
    if ((x > y) == ((first & push.stage) == 0)) {
        store_key(a, y);
        store_key(b, x);
    }
}
#else
shared uint64_t keys[BLOCK];

// Compares the keys of the block that are `distance` apart; where a bit of `stage` is set, and in a backward block, the
// larger goes to the lower place.
void compare(uint distance, uint stage, bool backward) {
    barrier();
    for (uint pair = gl_LocalInvocationID.x; pair < BLOCK / 2; pair += gl_WorkGroupSize.x) {
        const uint first = pair / distance * distance * 2 + pair % distance;
        const bool upward = ((first & stage) == 0) != backward;
        const uint64_t x = keys[first], y = keys[first + distance];
        if ((x > y) == upward) {
            keys[first] = y;
            keys[first + distance] = x;
        }
    }
}

uint64_t key_of(uvec4 place, uint e) {
    if (p.from != 0) {
        return load_key(p.from + (uint64_t(place.x) * p.count + e) * 8);
    }
    const uint order = order_of(load_f32(element(p.a, uvec4(e, place.yzw))));
    return (uint64_t(p.descending != 0 ? ~order : order) << 32) | e;
}

void main() {
    const uint group = group_number();
    const uint row = group / p.blocks, block = group % p.blocks;
    if (row >= p.rows) {
        return;
    }
    const uvec4 place = uvec4(row, row % p.a.ne[1], row / p.a.ne[1] % p.a.ne[2], row / p.a.ne[1] / p.a.ne[2]);
    const uint lane = gl_LocalInvocationID.x, size = gl_WorkGroupSize.x;
#ifdef FINISH
    const uint64_t at = p.to + (uint64_t(row) * p.blocks + block) * BLOCK * 8;
    for (uint i = lane; i < BLOCK; i += size) {
        keys[i] = load_key(at + i * 8);
    }
    const bool backward = (block * BLOCK & push.stage) != 0;
    for (uint distance = BLOCK / 2; distance > 0; distance /= 2) {
        compare(distance, 0, backward);
    }
    barrier();
    const bool last = push.stage == p.blocks * BLOCK;
    for (uint i = lane; i < BLOCK; i += size) {
        const uint e = block * BLOCK + i;
        if (!last) {
            store_key(at + i * 8, keys[i]);
        } else if (e < p.dst.ne[0]) {
            store_u32(element(p.dst, uvec4(e, place.yzw)), uint(keys[i]));
        }
    }
#else
    for (uint i = lane; i < BLOCK; i += size) {
        const uint e = block * BLOCK + i;
        keys[i] = e < p.count ? key_of(place, e) : LAST;
    }
    const bool backward = p.alternate != 0 && (block & 1) != 0;
    for (uint stage = 2; stage <= BLOCK; stage *= 2) {
        for (uint distance = stage / 2; distance > 0; distance /= 2) {
            // The last stage is of one direction: no place in the block has its bit.
            compare(distance, stage, backward && stage == BLOCK);
        }
    }
    barrier();
    for (uint i = lane; i < p.keep; i += size) {
        if (p.to != 0) {
            store_key(p.to + ((uint64_t(row) * p.blocks + block) * p.keep + i) * 8, keys[i]);
        } else {
            store_u32(element(p.dst, uvec4(i, place.yzw)), uint(keys[i]));
        }
    }
#endif
}
#endif
