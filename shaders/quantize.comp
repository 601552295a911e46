// Activations to int8 blocks (lib/q8.glsl): f32 rows, in any place, to columns that follow each other.
// variant quantize
#version 460
#extension GL_GOOGLE_include_directive : require
#include "memory.glsl"
#include "tensor.glsl"
#include "q8.glsl"

layout(local_size_x_id = 0) in;

layout(push_constant, scalar) uniform Push {
    uint64_t src;
    uint64_t dst;
    uint     blocks;   // of one row
    uint     ne[3];    // rows in dimensions 1, 2, 3
    uint     nb[3];    // bytes from one to the next
    uint     aligned;  // whether every row starts at a multiple of 16 bytes
} p;

void main() {
    const uint index = invocation() / 8;
    uint row = index / p.blocks;
    const bool live = row < p.ne[0] * p.ne[1] * p.ne[2];
    vec4 x = vec4(0);
    const uint block = index % p.blocks;
    if (live) {
        const uint i3 = row / (p.ne[0] * p.ne[1]);
        const uint i2 = row / p.ne[0] % p.ne[1];
        const uint i1 = row % p.ne[0];
        const uint64_t at = p.src + (i1 * p.nb[0] + i2 * p.nb[1] + i3 * p.nb[2] + block * 128)
            + gl_SubgroupInvocationID % 8 * 16;
        x = p.aligned != 0 ? load_f32x4(at)
            : vec4(load_f32(at), load_f32(at + 4), load_f32(at + 8), load_f32(at + 12));
    } else {
        row = 0;
    }
    q8_store(p.dst + uint64_t(row) * q8_column(p.blocks * 32), p.blocks * 32, block, x, live);
}
