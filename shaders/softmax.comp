// SOFT_MAX of rows: dst = softmax(x * scale + slope * mask), with a sink that only the sum knows; f32. An invocation reads
// and writes the same elements throughout, so dst may lie on x.
// variant softmax
#version 460
#extension GL_GOOGLE_include_directive : require
#include "memory.glsl"
#include "rows.glsl"

layout(local_size_x_id = 0) in;
layout(constant_id = 1) const bool WIDE = false;  // x and dst are of 16-byte aligned pieces
layout(constant_id = 2) const uint MASK = 0;      // 0: none, 1: f32, 2: f16
layout(constant_id = 3) const bool SINKS = false;
layout(constant_id = 4) const uint HELD = 0;      // pieces of four of an invocation, when registers hold them all; else 0

layout(push_constant, scalar) uniform Push {
    uint64_t x;
    uint64_t dst;
    uint64_t mask;
    uint64_t sinks;
    uint     ne0, ne1, ne2, rows;
    uint     x_nb[3];     // dimensions 1, 2, 3, as of the next two
    uint     dst_nb[3];
    uint     mask_nb[3];
    uint     mask_ne[2];  // dimensions 2, 3: the mask repeats
    float    scale;
    float    alibi;       // log2 of the slopes' ratio, for the heads below `heads`
    uint     heads;       // the largest power of two in the number of heads
} p;

const uint MAX_HELD = 4;
vec4       held[MAX_HELD];

// Elements 4 * i and on of the row, scaled and masked; those past its end are -infinity, which exp makes 0.
precise vec4 logits(uint64_t x, uint64_t mask, float slope, uint i) {
    precise vec4 v = load_four(x, i, p.ne0, 4, WIDE) * p.scale;
    for (uint k = 0; k < 4; k++) {
        const uint e = 4 * i + k;
        if (e >= p.ne0) {
            v[k] = uintBitsToFloat(0xff800000);
        } else if (MASK > 0) {
            v[k] += slope * (MASK == 1 ? load_f32(mask + e * 4) : load_f16(mask + e * 2));
        }
    }
    return v;
}

void main() {
    const uint row = group_number();
    if (row >= p.rows) {
        return;
    }
    const uint i1 = row % p.ne1, i2 = row / p.ne1 % p.ne2, i3 = row / p.ne1 / p.ne2;
    const uint64_t x = p.x + (i1 * p.x_nb[0] + i2 * p.x_nb[1] + i3 * p.x_nb[2]);
    const uint64_t dst = p.dst + (i1 * p.dst_nb[0] + i2 * p.dst_nb[1] + i3 * p.dst_nb[2]);
    uint64_t mask = p.mask;
    if (MASK > 0) {
        mask += i1 * p.mask_nb[0] + i2 % p.mask_ne[0] * p.mask_nb[1] + i3 % p.mask_ne[1] * p.mask_nb[2];
    }
    float slope = 1.0;
    if (p.alibi != 0.0) {
        slope = i2 < p.heads ? exp2(p.alibi * float(i2 + 1)) : exp2(p.alibi * 0.5 * float(2 * (i2 - p.heads) + 1));
    }
    const uint lane = gl_LocalInvocationID.x, size = gl_WorkGroupSize.x;
    const uint pieces = (p.ne0 + 3) / 4;
    const uint rounds = HELD > 0 ? HELD : (pieces + size - 1) / size;

    float largest = SINKS ? load_f32(p.sinks + i2 * 4) : uintBitsToFloat(0xff800000);
    for (uint k = 0; k < rounds; k++) {
        const uint i = k * size + lane;
        if (i < pieces) {
            const vec4 v = logits(x, mask, slope, i);
            if (HELD > 0) {
                held[k] = v;
            }
            largest = max(largest, max(max(v.x, v.y), max(v.z, v.w)));
        }
    }
    largest = group_max(largest);

    precise float sum = 0.0;
    for (uint k = 0; k < rounds; k++) {
        const uint i = k * size + lane;
        if (i < pieces) {
            const vec4 v = exp((HELD > 0 ? held[k] : logits(x, mask, slope, i)) - largest);
            if (HELD > 0) {
                held[k] = v;
            } else {
                store_four(dst, i, p.ne0, WIDE, v);
            }
            sum = sum + v.x + v.y + v.z + v.w;
        }
    }
    sum = group_sum(sum);
    if (SINKS) {
        sum += exp(load_f32(p.sinks + i2 * 4) - largest);
    }
    const float scale = 1.0 / sum;
    for (uint k = 0; k < rounds; k++) {
        const uint i = k * size + lane;
        if (i < pieces) {
            const vec4 v = HELD > 0 ? held[k] : load_four(dst, i, p.ne0, 4, WIDE);
            store_four(dst, i, p.ne0, WIDE, v * scale);
        }
    }
}
