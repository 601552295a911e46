// FLASH_ATTN_EXT, end: puts the pieces of each row together in their order, adds the sink, and divides. One workgroup for
// one row. A piece of which the mask hides all counts exactly nothing. With INT8 the result is left as int8 blocks too, a
// query's heads being one column, for the product that follows.
// variant attention_join
#version 460
#extension GL_GOOGLE_include_directive : require
#include "memory.glsl"
#include "attention.glsl"
#include "q8.glsl"

layout(local_size_x_id = 0) in;
layout(constant_id = 0) const uint WG = 32;
layout(constant_id = 1) const uint SUBGROUP = 32;
layout(constant_id = 2) const uint DV = 128;
layout(constant_id = 3) const uint MAX_PIECES = 256;
layout(constant_id = 4) const bool INT8 = false;  // then DV is a multiple of 32

layout(push_constant, scalar) uniform Push {
    uint64_t parts, dst, sinks, columns;  // sinks: 0 when there are none; columns: the int8 form
    uint     pieces;
    uint     heads;
    uint     rows;   // all
    uint     run;    // rows that follow each other in the result, one sequence
    uint     stride; // rows of the result from one sequence to the next
} p;

shared vec2 weights[MAX_PIECES];

void main() {
    const uint id = gl_WorkGroupID.y * gl_NumWorkGroups.x + gl_WorkGroupID.x;
    if (id >= p.rows) {
        return;
    }
    const uint     size = 4 * DV + 16;
    const uint64_t from = p.parts + uint64_t(id * p.pieces) * size;
    const float    sink = p.sinks != 0 ? load_f32(p.sinks + 4 * (id % p.heads)) : NONE;

    // Every subgroup finds the maximum by itself.
    float top = sink;
    for (uint i = gl_SubgroupInvocationID; i < p.pieces; i += SUBGROUP) {
        top = max(top, load_f32(from + i * size));
    }
    top = subgroupMax(top);
    for (uint i = gl_LocalInvocationID.x; i < p.pieces; i += WG) {
        const vec4 x = load_f32x4(from + i * size);
        weights[i] = vec2(weight(x.x, top), x.y);
    }
    barrier();
    float sum = 0;
    for (uint i = 0; i < p.pieces; i++) {
        sum = fma(weights[i].x, weights[i].y, sum);
    }
    sum += weight(sink, top);
    const float    scale = sum == 0 ? 0.0 : 1.0 / sum;
    const uint     row   = id / p.run * p.stride + id % p.run;
    const uint64_t to    = p.dst + uint64_t(row) * (4 * DV);
    const uint64_t column = p.columns + uint64_t(row / p.heads) * q8_column(p.heads * DV);
    for (uint d = gl_LocalInvocationID.x; d < DV / 4; d += WG) {
        vec4 x = vec4(0);
        for (uint i = 0; i < p.pieces; i++) {
            x = fma(vec4(weights[i].x), load_f32x4(from + i * size + 16 + 16 * d), x);
        }
        store_f32x4(to + 16 * d, x * scale);
        if (INT8) {
            q8_store(column, p.heads * DV, row % p.heads * (DV / 32) + d / 8, x * scale, true);
        }
    }
}
