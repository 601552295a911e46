// MUL_MAT of many columns without cooperative matrices: each row of weights is one invocation's, with COLUMNS sums in
// registers. The invocations of a subgroup load different activations and pass them round by broadcasts, so that a load
// serves many products: on a software device a load costs as much as a dozen additions. MUL_MAT_ID as in matmul.comp.
// Integer dot products over int8 activations (lib/q8.glsl):
// variant matmul_dot_q4_0 BLOCK_OF_q4_0
// variant matmul_dot_q4_1 BLOCK_OF_q4_1
// variant matmul_dot_q5_0 BLOCK_OF_q5_0
// variant matmul_dot_q5_1 BLOCK_OF_q5_1
// variant matmul_dot_q8_0 BLOCK_OF_q8_0
// variant matmul_dot_q4_K BLOCK_OF_q4_K
// variant matmul_dot_q5_K BLOCK_OF_q5_K
// variant matmul_dot_q6_K BLOCK_OF_q6_K
// Floats:
// variant matmul_float_f16 WEIGHT=f16
// variant matmul_float_q4_0 WEIGHT=q4_0
// variant matmul_float_q4_1 WEIGHT=q4_1
// variant matmul_float_q5_0 WEIGHT=q5_0
// variant matmul_float_q5_1 WEIGHT=q5_1
// variant matmul_float_q8_0 WEIGHT=q8_0
// variant matmul_float_q2_K WEIGHT=q2_K
// variant matmul_float_q3_K WEIGHT=q3_K
// variant matmul_float_q4_K WEIGHT=q4_K
// variant matmul_float_q5_K WEIGHT=q5_K
// variant matmul_float_q6_K WEIGHT=q6_K
// variant matmul_float_iq4_nl WEIGHT=iq4_nl
// variant matmul_float_iq4_xs WEIGHT=iq4_xs
// variant matmul_float_mxfp4 WEIGHT=mxfp4
#version 460
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require
#extension GL_KHR_shader_subgroup_ballot : require
#ifndef WEIGHT
#extension GL_EXT_integer_dot_product : require
#endif
#include "memory.glsl"
#ifdef WEIGHT
#include "types.glsl"
#else
#include "matmul_blocks.glsl"
#endif

#include "matmul_experts.glsl"

layout(local_size_x_id = 0) in;
// Invocations of a subgroup: a multiple of 8.
layout(constant_id = 1) const uint SUBGROUP = 8;
// A multiple of SUBGROUP.
layout(constant_id = 2) const uint COLUMNS = 32;
// Whether this is a MUL_MAT_ID.
layout(constant_id = 3) const bool BY_ID = false;

layout(push_constant, scalar) uniform Push {
    uint64_t a;
    uint64_t b;
    uint64_t d;
    uint     m, n, k;
    uint     row;         // bytes from a row of weights to the next
    uint     a2, a3;      // ... and in the dimensions above
    uint     b1, b2, b3;  // bytes between columns of activations, and in the dimensions above
    uint     d1, d2, d3;  // bytes between results
    uint     ne2;         // batches in dimension 2 of the result
    uint     r2, r3;      // of which so many share their weights
    // MUL_MAT_ID: d1 is between the uses of a token, d2 between tokens, a2 between experts; b1 between the columns that
    // `together` pairs share.
    uint64_t groups;
    uint64_t pairs;
    uint     used;        // pairs of a token
    uint     together;
};

// Where the activations of each pair begin.
shared uint column_at[COLUMNS];

// Columns of which a subgroup loads 32 activations at once, by 32 bits or 64.
const uint TOGETHER = SUBGROUP / 8;
const uint TOGETHER_64 = SUBGROUP / 4;

#ifdef WEIGHT
const uint ROWS = 1;
#else
// Rows of an invocation, each SUBGROUP behind the one before.
const uint ROWS = SOFTWARE ? 4 : 1;

vec4 bytes_of(uint x) {
    const int i = int(x);
    return vec4((i << 24) >> 24, (i << 16) >> 24, (i << 8) >> 24, i >> 24);
}
#endif

void main() {
    const uint lane = gl_SubgroupInvocationID;
    const uint i2   = gl_WorkGroupID.z % ne2;
    const uint i3   = gl_WorkGroupID.z / ne2;
    const uint n0   = BY_ID ? 0 : gl_WorkGroupID.x * COLUMNS;
    const uint m0   = (gl_WorkGroupID.y * gl_WorkGroupSize.x + gl_SubgroupID * SUBGROUP) * ROWS + lane;
    Group      group = Group(0, 0, 0, true);
    uint       width = n;
    if (BY_ID) {
        group = group_load(groups, gl_WorkGroupID.x);
        width = group.count;
        if (width == 0) {
            return;
        }
        for (uint c = gl_LocalInvocationID.x; c < COLUMNS; c += gl_WorkGroupSize.x) {
            column_at[c] = group_pair(pairs, group, c) / together * b1;
        }
        barrier();
    }
    // Rows and columns beyond the last repeat it, so that every invocation takes part in the broadcasts.
    const uint     matrix  = BY_ID ? group.expert : i2 / r2;
    const uint64_t weights = a + uint64_t(matrix) * a2 + uint64_t(i3 / r3) * a3;
#define ROW(r) (weights + uint64_t(min(m0 + (r) * SUBGROUP, m - 1)) * row)
    const uint64_t inputs  = b + uint64_t(i2) * b2 + uint64_t(i3) * b3;
#define COLUMN(c) (inputs + (BY_ID ? column_at[c] : min(n0 + (c), n - 1) * b1))

    float sums[COLUMNS * ROWS];
    [[unroll]] for (uint c = 0; c < COLUMNS * ROWS; c++) {
        sums[c] = 0.0;
    }
    for (uint index = 0; index * 32 < k; index++) {
#ifdef WEIGHT
        vec4 w[8];
        [[unroll]] for (uint i = 0; i < 8; i++) {
            const uint at = index * 32 + i * 4;
            w[i] = vec4(0);
            if (at + 4 <= k) {
                w[i] = OF(dequant4, WEIGHT)(ROW(0), at);
            } else {
                for (uint j = 0; at + j < k; j++) {
                    w[i][j] = OF(dequant, WEIGHT)(ROW(0), at + j);
                }
            }
        }
        [[unroll]] for (uint c = 0; c < COLUMNS; c += TOGETHER) {
            const uint     at   = index * 32 + lane % 8 * 4;
            const uint64_t from = COLUMN(c + lane / 8) + at * 4;
            vec4           x    = vec4(0);
            for (uint j = 0; j < 4 && at + j < k; j++) {
                x[j] = load_f32(from + j * 4);
            }
            [[unroll]] for (uint j = 0; j < TOGETHER; j++) {
                [[unroll]] for (uint i = 0; i < 8; i++) {
                    sums[c + j] += dot(w[i], subgroupBroadcast(x, j * 8 + i));
                }
            }
        }
#else
        Block block[ROWS];
        [[unroll]] for (uint r = 0; r < ROWS; r++) {
            block[r] = block_load(ROW(r), index);
        }
        vec2        scale[COLUMNS / SUBGROUP];
        [[unroll]] for (uint c = 0; c < COLUMNS / SUBGROUP; c++) {
            const uint64_t column = COLUMN(c * SUBGROUP + lane);
            scale[c] = uintBitsToFloat(load_u32x2(column + k + index * 8));
        }
#define ADD_PRODUCT(r, c, dots) \
    { \
        const vec2 s = subgroupBroadcast(scale[(c) / SUBGROUP], (c) % SUBGROUP); \
        sums[(c) * ROWS + r] += SCALED(block[r], dots) * s.x + block[r].offset * s.y; \
    }
#ifdef BLOCK_OF_q6_K
#define SCALED(block, dots) dot(block.scale, vec2(dots))
#else
#define SCALED(block, dots) (block.scale.x * float(dots.x + dots.y))
#endif
        if (SOFTWARE) {
            // Floats hold a sum of 32 products of bytes exactly, and CPUs know how to multiply and add those.
            vec4 w[ROWS * 8];
            [[unroll]] for (uint i = 0; i < ROWS * 8; i++) {
                w[i] = bytes_of(block[i / 8].q[i % 8]);
            }
            [[unroll]] for (uint c = 0; c < COLUMNS; c += TOGETHER_64) {
                const uint64_t column = COLUMN(c + lane / 4);
                const uvec2    eight  = load_u64(column + index * 32 + lane % 4 * 8);
                const vec4     x[2]   = vec4[2](bytes_of(eight.x), bytes_of(eight.y));
                [[unroll]] for (uint j = 0; j < TOGETHER_64; j++) {
                    vec2 dots[ROWS];
                    [[unroll]] for (uint r = 0; r < ROWS; r++) {
                        dots[r] = vec2(0);
                    }
                    [[unroll]] for (uint i = 0; i < 32; i++) {
                        const float one = subgroupShuffle(x[i / 4 % 2][i % 4], j * 4 + i / 8);
                        [[unroll]] for (uint r = 0; r < ROWS; r++) {
                            dots[r][i / 16] = fma(w[r * 8 + i / 4][i % 4], one, dots[r][i / 16]);
                        }
                    }
                    [[unroll]] for (uint r = 0; r < ROWS; r++) {
                        ADD_PRODUCT(r, c + j, dots[r])
                    }
                }
            }
            continue;
        }
        [[unroll]] for (uint c = 0; c < COLUMNS; c += TOGETHER) {
            const uint64_t column = COLUMN(c + lane / 8);
            const uint     x      = load_u32(column + index * 32 + lane % 8 * 4);
            [[unroll]] for (uint j = 0; j < TOGETHER; j++) {
                ivec2 dots = ivec2(0);
                [[unroll]] for (uint i = 0; i < 8; i++) {
                    dots[i / 4] += dotPacked4x8EXT(int(block[0].q[i]), int(subgroupBroadcast(x, j * 8 + i)));
                }
                ADD_PRODUCT(0, c + j, dots)
            }
        }
#endif
    }
    const uint64_t result = d + uint64_t(i2) * d2 + uint64_t(i3) * d3;
    [[unroll]] for (uint c = 0; c < COLUMNS; c++) {
        uint to = (n0 + c) * d1;
        if (BY_ID) {
            const uint pair = group_pair(pairs, group, c);
            to = pair % used * d1 + pair / used * d2;
        }
        [[unroll]] for (uint r = 0; r < ROWS; r++) {
            const uint at = m0 + r * SUBGROUP;
            if (n0 + c < width && at < m) {
                store_f32(result + to + at * 4, group.known ? sums[c * ROWS + r] : uintBitsToFloat(0x7fc00000));
            }
        }
    }
}
