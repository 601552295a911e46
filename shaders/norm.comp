// RMS_NORM, NORM and L2_NORM of rows, with what surrounds them in a model: a residual added before, a weight multiplied
// and a tensor added after. Each step is rounded as if it were a node of its own, so fused and separate nodes agree bit
// by bit. An invocation reads and writes the same elements throughout: any result may lie on any source of its shape.
// variant norm
#version 460
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require
#include "memory.glsl"
#include "q8.glsl"
#include "rows.glsl"

layout(local_size_x_id = 0) in;
layout(constant_id = 1) const uint KIND = 0;      // 0: RMS_NORM, 1: NORM, 2: L2_NORM
layout(constant_id = 2) const bool WIDE = false;  // every row is of 16-byte aligned pieces
layout(constant_id = 3) const bool RESIDUAL = false;
layout(constant_id = 4) const bool WEIGHT = false;
layout(constant_id = 5) const bool ADD = false;
layout(constant_id = 6) const bool INT8 = false;
layout(constant_id = 7) const uint HELD = 0;      // pieces of four of an invocation, when registers hold them all; else 0

layout(push_constant, scalar) uniform Push {
    uint64_t int8;      // receives the int8 form of dst
    uint64_t input_;
    uint64_t dst;
    uint64_t weight;    // one row
    uint64_t add;       // this and the next two: rows without holes between them
    uint64_t residual;
    uint64_t sum;       // receives input + residual
    uint     ne0, ne1, ne2, rows;
    uint     input_nb[4];
    uint     dst_nb[3];  // dimensions 1, 2, 3
    float    eps;
} p;

const uint MAX_HELD = 4;
vec4       held[MAX_HELD];
vec4       weights[MAX_HELD];  // loaded before the sum is known, so that their way is not waited for after it

precise float squares(precise float sum, vec4 x) {
    sum = fma(x.x, x.x, sum);
    sum = fma(x.y, x.y, sum);
    sum = fma(x.z, x.z, sum);
    return fma(x.w, x.w, sum);
}

void main() {
    const uint row = group_number();
    if (row >= p.rows) {
        return;
    }
    const uint i1 = row % p.ne1, i2 = row / p.ne1 % p.ne2, i3 = row / p.ne1 / p.ne2;
    const uint64_t source = p.input_ + (i1 * p.input_nb[1] + i2 * p.input_nb[2] + i3 * p.input_nb[3]);
    const uint64_t target = p.dst + (i1 * p.dst_nb[0] + i2 * p.dst_nb[1] + i3 * p.dst_nb[2]);
    const uint64_t dense = uint64_t(row) * (p.ne0 * 4);
    const uint     lane = gl_LocalInvocationID.x, size = gl_WorkGroupSize.x;
    const uint     pieces = (p.ne0 + 3) / 4;

    const uint     rounds = HELD > 0 ? HELD : (pieces + size - 1) / size;

    precise float total = 0.0;
    // Unrolled, so that the arrays are registers.
    [[unroll]] for (uint k = 0; k < rounds; k++) {
        const uint i = k * size + lane;
        if (i >= pieces) {
            continue;
        }
        if (HELD > 0 && WEIGHT) {
            weights[k] = load_four(p.weight, i, p.ne0, 4, WIDE);
        }
        precise vec4 x = load_four(source, i, p.ne0, p.input_nb[0], WIDE);
        if (RESIDUAL) {
            x += load_four(p.residual + dense, i, p.ne0, 4, WIDE);
            store_four(p.sum + dense, i, p.ne0, WIDE, x);
        }
        if (HELD > 0) {
            held[k] = x;
        }
        if (KIND == 1) {
            total = total + x.x + x.y + x.z + x.w;
        } else {
            total = squares(total, x);
        }
    }
    total = group_sum(total);

    // The row again: from registers, or from where it now is.
    const uint64_t again = RESIDUAL ? p.sum + dense : source;
    const uint     stride = RESIDUAL ? 4 : p.input_nb[0];
#define PIECE(k, i) (HELD > 0 ? held[k] : load_four(again, i, p.ne0, stride, WIDE))
    precise float mean = total / float(p.ne0);
    precise float scale;
    if (KIND == 0) {
        scale = 1.0 / sqrt(mean + p.eps);
    } else if (KIND == 1) {
        // The differences' squares and not the squares' difference, which would lose the digits of a large mean.
        precise float variance = 0.0;
        for (uint k = 0; k < rounds; k++) {
            const uint i = k * size + lane;
            if (i < pieces) {
                precise vec4 x = PIECE(k, i) - mean;
                variance = squares(variance, mix(vec4(0.0), x, lessThan(4 * i + uvec4(0, 1, 2, 3), uvec4(p.ne0))));
            }
        }
        scale = 1.0 / sqrt(group_sum(variance) / float(p.ne0) + p.eps);
    } else {
        scale = 1.0 / max(sqrt(total), p.eps);
    }

    [[unroll]] for (uint k = 0; k < rounds; k++) {
        const uint i = k * size + lane;
        if (i >= pieces) {
            continue;
        }
        precise vec4 x = PIECE(k, i);
        if (KIND == 1) {
            x -= mean;
        }
        x *= scale;
        if (WEIGHT) {
            x *= HELD > 0 ? weights[k] : load_four(p.weight, i, p.ne0, 4, WIDE);
        }
        if (ADD) {
            x += load_four(p.add + dense, i, p.ne0, 4, WIDE);
        }
        store_four(target, i, p.ne0, WIDE, x);
        if (INT8) {
            // Rows are of whole blocks of 32: eight neighbours always come here together.
            q8_store(p.int8 + uint64_t(row) * q8_column(p.ne0), p.ne0, i / 8, x, true);
        }
    }
}
