// MUL_MAT of many columns with cooperative matrices: d = a * b, f16 x f16 -> f32.
// A workgroup computes a tile of BM x BN results. It walks along k in tiles of 64: the weights are decoded to f16 in shared
// memory, the activations come as f16 from matmul_pack.comp. The k tiles can be shared out over workgroups, whose sums
// matmul_sum.comp then adds.
//
// MUL_MAT_ID of many tokens: a tile's columns are pairs of a token and an expert, all of one expert. They are gathered
// from the activations and scattered into the result.
// variant matmul_f16 PIECE_f16
// variant matmul_q4_0 PIECE_q4_0
// variant matmul_q4_1 PIECE_q4_1
// variant matmul_q5_0 PIECE_q5_0
// variant matmul_q5_1 PIECE_q5_1
// variant matmul_q8_0 PIECE_q8_0
// variant matmul_q4_K PIECE_q4_K
// variant matmul_q5_K PIECE_q5_K
// variant matmul_q6_K PIECE_q6_K
// variant matmul_q2_K WEIGHT=q2_K
// variant matmul_q3_K WEIGHT=q3_K
// variant matmul_iq4_nl WEIGHT=iq4_nl
// variant matmul_iq4_xs WEIGHT=iq4_xs
// variant matmul_mxfp4 WEIGHT=mxfp4
#version 460
#pragma use_vulkan_memory_model
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require
#extension GL_KHR_memory_scope_semantics : require
#extension GL_KHR_cooperative_matrix : require
#include "memory.glsl"
#ifdef WEIGHT
#include "types.glsl"
#endif

// Two invocations for each row of the tile.
layout(local_size_x_id = 0) in;
layout(constant_id = 1) const uint BM = 128;
layout(constant_id = 2) const uint BN = 128;
// The part of the tile that a subgroup computes.
layout(constant_id = 3) const uint WM = 64;
layout(constant_id = 4) const uint WN = 32;
// Whether f16 weights can be loaded 16 bytes at a time.
layout(constant_id = 5) const uint ALIGNED = 1;
// Whether this is a MUL_MAT_ID.
layout(constant_id = 6) const bool BY_ID = false;
#include "matmul_pieces.glsl"
#include "matmul_experts.glsl"

layout(push_constant, scalar) uniform Push {
    uint64_t a;
    uint64_t b;
    uint64_t d;
    uint     m, n, k;
    uint     row;            // bytes from a row of weights to the next
    uint     a2, a3;         // ... and in the dimensions above
    uint     column;         // bytes from a column of activations to the next
    uint     matrix;         // ... and to the next batch
    uint     d1, d2, d3;     // bytes between results
    uint     ne2;            // batches in dimension 2 of the result
    uint     r2, r3;         // of which so many share their weights
    uint     batches;
    uint     tiles;          // k tiles of a workgroup
    uint     share;          // bytes between the sums of workgroups that share a tile
    // MUL_MAT_ID: d1 is between the uses of a token, d2 between tokens, a2 between experts.
    uint64_t groups;
    uint64_t pairs;
    uint     used;           // pairs of a token
    uint     together;       // of which so many share a column of activations
};

layout(buffer_reference, scalar, buffer_reference_align = 4) buffer Results { float v[]; };

// A row of 64 halves and 8 of padding: neighbouring rows then begin in different banks.
const uint ROW = 9;
shared uvec4 tile_a[BM * ROW];
shared uvec4 tile_b[BN * ROW];
// Where the results of each pair begin.
shared uint result_at[BN];

const uint ROWS = WM / 16;
const uint COLUMNS = WN / 16;
const uint LOADS = 4 * BN / BM;

void main() {
    const uint t     = gl_LocalInvocationID.x;
    const uint m0    = gl_WorkGroupID.y * BM;
    const uint n0    = BY_ID ? 0 : gl_WorkGroupID.x * BN;
    const uint batch = gl_WorkGroupID.z % batches;
    const uint i2    = batch % ne2;
    const uint i3    = batch / ne2;
    const uint first = gl_WorkGroupID.z / batches * tiles;
    const uint last  = min(first + tiles, (k + 63) / 64);
    Group      group = Group(0, 0, 0, true);
    uint       width = n;
    if (BY_ID) {
        group = group_load(groups, gl_WorkGroupID.x);
        width = group.count;
        if (width == 0) {
            return;
        }
        for (uint c = t; c < BN; c += gl_WorkGroupSize.x) {
            const uint pair = group_pair(pairs, group, c);
            result_at[c]    = pair % used * d1 + pair / used * d2;
        }
    }

    // Rows beyond the last repeat it; their results are not stored.
    const uint     part    = t % 2;
    const uint     matrix_a = BY_ID ? group.expert : i2 / r2;
    const uint64_t weights  = a + uint64_t(matrix_a) * a2 + uint64_t(i3 / r3) * a3 + uint64_t(min(m0 + t / 2, m - 1)) * row;
    const uint     to_a    = t / 2 * ROW;
    const uint     column_0 = BY_ID ? 0 : n0 + t / 8;
    uint64_t       columns_at = b + uint64_t(batch) * matrix + uint64_t(column_0) * column + t % 8 * 16 + first * 128;
    const uint     to_b    = t / 8 * ROW + t % 8;

    const uint warp_m = gl_SubgroupID % (BM / WM) * WM;
    const uint warp_n = gl_SubgroupID / (BM / WM) * WN;
    coopmat<float, gl_ScopeSubgroup, 16, 16, gl_MatrixUseAccumulator> sums[ROWS * COLUMNS];
    [[unroll]] for (uint i = 0; i < ROWS * COLUMNS; i++) {
        sums[i] = coopmat<float, gl_ScopeSubgroup, 16, 16, gl_MatrixUseAccumulator>(0.0);
    }

    uint gathered[LOADS];
    [[unroll]] for (uint i = 0; i < LOADS; i++) {
        gathered[i] = BY_ID ? group_pair(pairs, group, t / 8 + i * (BM / 4)) / together * column : i * (BM / 4) * column;
    }

    Piece piece;
    uvec4 next_b[LOADS];
    piece = piece_load(piece, weights, first, part, k);
    [[unroll]] for (uint i = 0; i < LOADS; i++) {
        next_b[i] = load_u32x4(columns_at + gathered[i]);
    }
    for (uint tile = first; tile < last; tile++) {
        uvec4 run[4];
        piece_decode(piece, tile, part, run);
        tile_a[to_a + FIRST_RUN(part)]      = run[0];
        tile_a[to_a + FIRST_RUN(part) + 1]  = run[1];
        tile_a[to_a + SECOND_RUN(part)]     = run[2];
        tile_a[to_a + SECOND_RUN(part) + 1] = run[3];
        [[unroll]] for (uint i = 0; i < LOADS; i++) {
            tile_b[to_b + i * (BM / 4) * ROW] = next_b[i];
        }
        barrier();
        if (tile + 1 < last) {
            columns_at += 128;
            piece = piece_load(piece, weights, tile + 1, part, k);
            [[unroll]] for (uint i = 0; i < LOADS; i++) {
                next_b[i] = load_u32x4(columns_at + gathered[i]);
            }
        }
        [[unroll]] for (uint step = 0; step < 4; step++) {
            coopmat<float16_t, gl_ScopeSubgroup, 16, 16, gl_MatrixUseA> x[ROWS];
            [[unroll]] for (uint i = 0; i < ROWS; i++) {
                coopMatLoad(x[i], tile_a, (warp_m + i * 16) * ROW + step * 2, ROW, gl_CooperativeMatrixLayoutRowMajor);
            }
            [[unroll]] for (uint j = 0; j < COLUMNS; j++) {
                coopmat<float16_t, gl_ScopeSubgroup, 16, 16, gl_MatrixUseB> y;
                coopMatLoad(y, tile_b, (warp_n + j * 16) * ROW + step * 2, ROW, gl_CooperativeMatrixLayoutColumnMajor);
                [[unroll]] for (uint i = 0; i < ROWS; i++) {
                    sums[j * ROWS + i] = coopMatMulAdd(x[i], y, sums[j * ROWS + i]);
                }
            }
        }
        barrier();
    }

    const uint64_t result = d + uint64_t(gl_WorkGroupID.z / batches) * share + uint64_t(i2) * d2 + uint64_t(i3) * d3;
    // A matrix that reaches over the edge of the result, or whose columns lie apart, goes through the subgroup's own 1 KiB of the weights' tile.
    const uint stage = gl_SubgroupID * 64;
    [[unroll]] for (uint j = 0; j < COLUMNS; j++) {
        [[unroll]] for (uint i = 0; i < ROWS; i++) {
            const uint     m1 = m0 + warp_m + i * 16;
            const uint     n1 = n0 + warp_n + j * 16;
            const uint64_t to = result + uint64_t(n1) * d1 + m1 * 4;
            // matmul_pack.comp divided the activations.
            sums[j * ROWS + i] *= coopmat<float, gl_ScopeSubgroup, 16, 16, gl_MatrixUseAccumulator>(32.0);
            if (!BY_ID && m1 + 16 <= m && n1 + 16 <= n) {
                coopMatStore(sums[j * ROWS + i], Results(checked(to, 15 * d1 + 64)).v, 0, d1 / 4,
                             gl_CooperativeMatrixLayoutColumnMajor);
            } else if (m1 < m && n1 < width) {
                coopMatStore(sums[j * ROWS + i], tile_a, stage, 4, gl_CooperativeMatrixLayoutColumnMajor);
                subgroupBarrier();
                for (uint e = gl_SubgroupInvocationID; e < 256; e += gl_SubgroupSize) {
                    if (m1 + e % 16 < m && n1 + e / 16 < width) {
                        const uint x = group.known ? tile_a[stage + e / 4][e % 4] : 0x7fc00000;
                        store_u32(BY_ID ? result + result_at[n1 + e / 16] + (m1 + e % 16) * 4
                                        : to + e / 16 * d1 + e % 16 * 4, x);
                    }
                }
                subgroupBarrier();
            }
        }
    }
}
