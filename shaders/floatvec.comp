// MUL_MAT and MUL_MAT_ID in float arithmetic for any weights: dst = a * b, each result summed in one fixed order, whatever
// the number of columns. A subgroup computes ROWS x COLS results, so that loaded weights serve several columns; lane l adds
// up elements 4 l to 4 l + 3 of every 4 * (size of the subgroup), in four sums, then the lanes' sums meet in a butterfly.
// variant floatvec_f32 WEIGHT=f32 PLAIN
// variant floatvec_f16 WEIGHT=f16 PLAIN
// variant floatvec_bf16 WEIGHT=bf16 PLAIN
// variant floatvec_q4_0 WEIGHT=q4_0
// variant floatvec_q4_1 WEIGHT=q4_1
// variant floatvec_q5_0 WEIGHT=q5_0
// variant floatvec_q5_1 WEIGHT=q5_1
// variant floatvec_q8_0 WEIGHT=q8_0
// variant floatvec_q2_K WEIGHT=q2_K
// variant floatvec_q3_K WEIGHT=q3_K
// variant floatvec_q4_K WEIGHT=q4_K
// variant floatvec_q5_K WEIGHT=q5_K
// variant floatvec_q6_K WEIGHT=q6_K
// variant floatvec_iq4_nl WEIGHT=iq4_nl
// variant floatvec_iq4_xs WEIGHT=iq4_xs
// variant floatvec_mxfp4 WEIGHT=mxfp4
#version 460
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require
#include "memory.glsl"
#include "types.glsl"

layout(local_size_x_id = 0) in;
layout(constant_id = 1) const uint ROWS = 1;
layout(constant_id = 2) const uint COLS = 1;
layout(constant_id = 3) const bool A_VECTORS = false;  // plain weights: four lie together, aligned
layout(constant_id = 4) const bool B_VECTORS = false;  // the same of b
layout(constant_id = 5) const uint B_TYPE = 0;         // f32, f16, bf16
layout(constant_id = 6) const uint AHEAD = 1;          // steps whose weights are loaded before any is used
layout(constant_id = 7) const bool TAIL = false;       // rows of plain numbers that do not end with a whole four

// A unit has one matrix of a and all columns that meet it: `width` of each of several matrices of b.
layout(push_constant, scalar) uniform Push {
    uint64_t a, b, dst;
    uint64_t ids;      // 0, or which matrix of a is meant by (i2, i3)
    uint     inner;    // elements of a row
    uint     rows;     // of a
    uint     columns;  // of a unit
    uint     width;
    uint     count2;    // units in dimension 2
    uint     units;
    uint     repeat3;   // matrices of b for one of a in dimension 3
    uint     matrices;  // of a, where ids choose one
    uint     a_nb[4];
    uint     b_nb[4];
    uint     dst_nb[3];
    uint     ids_nb[2];
} p;

#ifdef PLAIN
vec4 weights(uint64_t row, uint k) {
    if (A_VECTORS) {
        return OF(aligned4, WEIGHT)(row + k * OF(BYTES, WEIGHT));
    }
    const uint64_t at = row + k * p.a_nb[0];
    return vec4(OF(dequant, WEIGHT)(at, 0), OF(dequant, WEIGHT)(at + p.a_nb[0], 0),
                OF(dequant, WEIGHT)(at + 2 * p.a_nb[0], 0), OF(dequant, WEIGHT)(at + 3 * p.a_nb[0], 0));
}
// Zero after the end of the row.
vec4 last_weights(uint64_t row, uint k) {
    vec4 w = vec4(0);
    [[unroll]] for (uint i = 0; i < 4; i++) {
        const float x = OF(dequant, WEIGHT)(row + min(k + i, p.inner - 1) * p.a_nb[0], 0);
        w[i] = k + i < p.inner ? x : 0;
    }
    return w;
}
#else
vec4 weights(uint64_t row, uint k) { return OF(dequant4, WEIGHT)(row, k); }
#endif

float b_element(uint64_t at) { return B_TYPE == 0 ? load_f32(at) : B_TYPE == 1 ? load_f16(at) : load_bf16(at); }
vec4 b_elements(uint64_t column, uint k) {
    const uint64_t at = column + k * p.b_nb[0];
    if (!B_VECTORS) {
        return vec4(b_element(at), b_element(at + p.b_nb[0]), b_element(at + 2 * p.b_nb[0]), b_element(at + 3 * p.b_nb[0]));
    }
    return B_TYPE == 0 ? aligned4_f32(at) : B_TYPE == 1 ? aligned4_f16(at) : aligned4_bf16(at);
}

void main() {
    const uint group = gl_WorkGroupID.y * gl_NumWorkGroups.x + gl_WorkGroupID.x;
    const uint unit  = group * gl_NumSubgroups + gl_SubgroupID;
    if (unit >= p.units) {
        return;
    }
    // Neighbours share rows of weights, so that all but one find them in a cache.
    const uint column_parts = (p.columns + COLS - 1) / COLS;
    const uint row_parts    = (p.rows + ROWS - 1) / ROWS;
    const uint first_column = unit % column_parts * COLS;
    const uint first_row    = unit / column_parts % row_parts * ROWS;
    const uint matrix       = unit / column_parts / row_parts;
    const uint i2 = matrix % p.count2, i3 = matrix / p.count2;

    uint chosen = i2;
    if (p.ids != 0) {
        chosen = load_u32(p.ids + (i2 * p.ids_nb[0] + i3 * p.ids_nb[1]));
    }
    const bool known = chosen < p.matrices;
    const uint64_t a =
        p.a + uint64_t(min(chosen, p.matrices - 1)) * p.a_nb[2] + uint64_t(i3 / p.repeat3) * p.a_nb[3];
    // Rows and columns after the last are computed as copies of it and not stored.
    uint64_t row[ROWS];
    [[unroll]] for (uint r = 0; r < ROWS; r++) {
        row[r] = a + uint64_t(min(first_row + r, p.rows - 1)) * p.a_nb[1];
    }
    const uint repeat2 = p.columns / p.width;
    uint64_t   column[COLS];
    uint64_t   result[COLS];
    [[unroll]] for (uint c = 0; c < COLS; c++) {
        const uint at = min(first_column + c, p.columns - 1);
        const uint j1 = at % p.width, j2 = i2 * repeat2 + at / p.width;
        column[c] = p.b + uint64_t(j1) * p.b_nb[1] + uint64_t(j2) * p.b_nb[2] + uint64_t(i3) * p.b_nb[3];
        result[c] = p.dst + uint64_t(j1) * p.dst_nb[0] + uint64_t(j2) * p.dst_nb[1] + uint64_t(i3) * p.dst_nb[2];
    }

    vec4 sums[ROWS * COLS];
    [[unroll]] for (uint i = 0; i < ROWS * COLS; i++) {
        sums[i] = vec4(0);
    }
    const uint lane = gl_SubgroupInvocationID;
    const uint step = 4 * gl_SubgroupSize;
    uint       base = 0;
    for (; AHEAD > 1 && base + AHEAD * step <= p.inner; base += AHEAD * step) {
        vec4 w[ROWS * AHEAD];
        [[unroll]] for (uint i = 0; i < ROWS * AHEAD; i++) {
            w[i] = weights(row[i % ROWS], base + i / ROWS * step + 4 * lane);
        }
        [[unroll]] for (uint s = 0; s < AHEAD; s++) {
            [[unroll]] for (uint c = 0; c < COLS; c++) {
                const vec4 x = b_elements(column[c], base + s * step + 4 * lane);
                [[unroll]] for (uint r = 0; r < ROWS; r++) {
                    sums[r * COLS + c] = fma(w[s * ROWS + r], x, sums[r * COLS + c]);
                }
            }
        }
    }
    uint k = base + 4 * lane;
    for (; k + 4 <= p.inner; k += step) {
        vec4 w[ROWS];
        [[unroll]] for (uint r = 0; r < ROWS; r++) {
            w[r] = weights(row[r], k);
        }
        [[unroll]] for (uint c = 0; c < COLS; c++) {
            const vec4 x = b_elements(column[c], k);
            [[unroll]] for (uint r = 0; r < ROWS; r++) {
                sums[r * COLS + c] = fma(w[r], x, sums[r * COLS + c]);
            }
        }
    }
#ifdef PLAIN
    if (TAIL && k < p.inner) {
        vec4 w[ROWS];
        [[unroll]] for (uint r = 0; r < ROWS; r++) {
            w[r] = last_weights(row[r], k);
        }
        [[unroll]] for (uint c = 0; c < COLS; c++) {
            vec4 x;
            [[unroll]] for (uint i = 0; i < 4; i++) {
                const float last = b_element(column[c] + min(k + i, p.inner - 1) * p.b_nb[0]);
                x[i] = k + i < p.inner ? last : 0;
            }
            [[unroll]] for (uint r = 0; r < ROWS; r++) {
                sums[r * COLS + c] = fma(w[r], x, sums[r * COLS + c]);
            }
        }
    }
#endif

    [[unroll]] for (uint i = 0; i < ROWS * COLS; i++) {
        const vec4 s   = sums[i];
        float      sum = (s.x + s.y) + (s.z + s.w);
        for (uint distance = gl_SubgroupSize / 2; distance > 0; distance /= 2) {
            sum += subgroupShuffleXor(sum, distance);
        }
        const uint r = i / COLS, c = i % COLS;
        if (lane == i % gl_SubgroupSize && first_row + r < p.rows && first_column + c < p.columns) {
            // An expert that is not there has no values.
            store_f32(result[c] + 4 * (first_row + r), known ? sum : uintBitsToFloat(0x7fc00000));
        }
    }
}
