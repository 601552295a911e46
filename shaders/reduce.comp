// What is made of each row by one workgroup: its sum (SUM_ROWS, SUM, MEAN), its running sums (CUMSUM), the place of its
// largest element (ARGMAX). f32; columns and rows may lie apart.
// variant sum_rows
// variant cumsum CUMSUM
// variant argmax ARGMAX
#version 460
#extension GL_GOOGLE_include_directive : require
#include "memory.glsl"
#include "tensor.glsl"
#include "rows.glsl"

layout(local_size_x_id = 0) in;

layout(buffer_reference, scalar) readonly buffer Params {
    Tensor dst;
    Tensor a;
    float  divisor;
    uint   pair;  // whether the result is followed by what its rounding lost, for a sum of such sums
};
layout(push_constant) uniform Push { Params p; };

#ifdef ARGMAX
// The larger of two elements as (order of the value, index); of equal ones the later, as ggml-cpu has it.
uvec2 later(uvec2 a, uvec2 b) { return b.x > a.x || (b.x == a.x && b.y > a.y) ? b : a; }

uvec2 subgroup_later(uvec2 x) {
    for (uint d = gl_SubgroupSize / 2; d > 0; d /= 2) {
        x = later(x, uvec2(subgroupShuffleXor(x.x, d), subgroupShuffleXor(x.y, d)));
    }
    return x;
}

shared uvec2 found[128];
#endif

#if !defined(ARGMAX) && !defined(CUMSUM)
// (sum, what was lost) of two such pairs, by Knuth's exact sum of two floats.
vec2 exact(vec2 a, vec2 b) {
    precise float sum = a.x + b.x;
    precise float part = sum - a.x;
    precise float lost = (a.x - (sum - part)) + (b.x - part);
    precise float all = lost + (a.y + b.y);
    return vec2(sum, all);
}

vec2 subgroup_exact(vec2 x) {
    for (uint d = gl_SubgroupSize / 2; d > 0; d /= 2) {
        // Both sides of a pair add the lower lane's first, so that they agree.
        const vec2 other = vec2(subgroupShuffleXor(x.x, d), subgroupShuffleXor(x.y, d));
        x = (gl_SubgroupInvocationID & d) == 0 ? exact(x, other) : exact(other, x);
    }
    return x;
}

shared vec2 sums[128];
#endif

void main() {
    const uint row = group_number();
    const uint ne0 = p.a.ne[0];
    if (row >= p.a.ne[1] * p.a.ne[2] * p.a.ne[3]) {
        return;
    }
    const uvec4    i = uvec4(0, row % p.a.ne[1], row / p.a.ne[1] % p.a.ne[2], row / p.a.ne[1] / p.a.ne[2]);
    const uint64_t source = element(p.a, i);
    const uint     lane = gl_LocalInvocationID.x, size = gl_WorkGroupSize.x;

#if defined(CUMSUM)
    const uint64_t target = element(p.dst, i);
    precise float  before = 0.0;  // the sum of all earlier tiles of four elements for each invocation
    for (uint first = 0; first < ne0; first += 4 * size) {
        const uint    piece = first / 4 + lane;
        precise vec4  x = load_four(source, piece, ne0, p.a.nb[0], false);
        x.y += x.x;
        x.z += x.y;
        x.w += x.z;
        precise float sum = x.w;
        for (uint d = 1; d < gl_SubgroupSize; d *= 2) {
            const float other = subgroupShuffle(sum, gl_SubgroupInvocationID - min(d, gl_SubgroupInvocationID));
            sum += gl_SubgroupInvocationID >= d ? other : 0.0;
        }
        if (gl_SubgroupInvocationID == gl_SubgroupSize - 1) {
            row_shared[gl_SubgroupID] = sum;
        }
        barrier();
        precise float shift = before;
        for (uint s = 0; s < gl_NumSubgroups; s++) {
            before += row_shared[s];
            shift = s < gl_SubgroupID ? before : shift;
        }
        const float mine = subgroupShuffle(sum, gl_SubgroupInvocationID - min(1, gl_SubgroupInvocationID));
        shift += gl_SubgroupInvocationID > 0 ? mine : 0.0;
        store_four(target, piece, ne0, false, x + shift);
        barrier();  // all have read the subgroups' sums
    }
#elif defined(ARGMAX)
    uvec2 best = uvec2(0);
    for (uint e = lane; e < ne0; e += size) {
        best = later(best, uvec2(order_of(load_f32(source + e * p.a.nb[0])), e));
    }
    best = subgroup_later(best);
    if (gl_SubgroupInvocationID == 0) {
        found[gl_SubgroupID] = best;
    }
    barrier();
    for (uint s = gl_SubgroupInvocationID; s < gl_NumSubgroups; s += gl_SubgroupSize) {
        best = later(best, found[s]);
    }
    best = subgroup_later(best);
    if (lane == 0) {
        store_u32(element(p.dst, uvec4(row, 0, 0, 0)), best.y);
    }
#else
    // A sum and what its roundings lost: numbers of both signs can leave a sum that is smaller than the roundings on the way.
    vec2 sum = vec2(0.0);
    for (uint piece = lane; piece < (ne0 + 3) / 4; piece += size) {
        const vec4 x = load_four(source, piece, ne0, p.a.nb[0], false);
        sum = exact(exact(exact(exact(sum, vec2(x.x, 0.0)), vec2(x.y, 0.0)), vec2(x.z, 0.0)), vec2(x.w, 0.0));
    }
    sum = subgroup_exact(sum);
    if (gl_NumSubgroups > 1) {
        if (gl_SubgroupInvocationID == 0) {
            sums[gl_SubgroupID] = sum;
        }
        barrier();
        sum = vec2(0.0);
        for (uint s = gl_SubgroupInvocationID; s < gl_NumSubgroups; s += gl_SubgroupSize) {
            sum = exact(sum, sums[s]);
        }
        sum = subgroup_exact(sum);
    }
    if (lane == 0) {
        const uint64_t to = element(p.dst, i);
        // What infinities lost is no number.
        precise float  all = isnan(sum.y) || isinf(sum.y) ? sum.x : sum.x + sum.y;
        store_f32(to, all / p.divisor);
        if (p.pair != 0) {
            precise float lost = (sum.x - all) + sum.y;
            store_f32(to + 4, lost);
        }
    }
#endif
}
