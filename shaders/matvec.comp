// dst[m, n] = weights[k, m] x activations[k, n] for quantised weights and int8 activations and small n; or, of two such
// products, the second times a function of the first. The result is also written as int8 blocks if wanted.
//
// A subgroup computes ROWS rows for COLS columns. Lane l takes the units l, l + SUBGROUP, ... of each row in ascending
// order and the parts of a unit in an order that is the lane's own; then the lanes are added by a butterfly from the
// largest distance to the smallest. The order depends on neither ROWS nor COLS, so neither do the bits of the result.
//
// On a software device it computes ROWS x SUBGROUP rows, and lane l has the rows l, l + SUBGROUP, ... to itself: it goes
// through all units in their order. Activations are loaded once for all lanes, and there is nothing to add up.
// variant matvec_q4_0 TYPE_Q4_0 FORM=FORM_OFFSET OFFSET=8
// variant matvec_q4_1 TYPE_Q4_1 FORM=FORM_MINIMUM
// variant matvec_q5_0 TYPE_Q5_0 FORM=FORM_OFFSET OFFSET=16
// variant matvec_q5_1 TYPE_Q5_1 FORM=FORM_MINIMUM
// variant matvec_q8_0 TYPE_Q8_0 FORM=FORM_PLAIN
// variant matvec_q2_k TYPE_Q2_K FORM=FORM_HALVES_MIN TYPE_K
// variant matvec_q3_k TYPE_Q3_K FORM=FORM_HALVES TYPE_K
// variant matvec_q4_k TYPE_Q4_K FORM=FORM_MINIMUM TYPE_K
// variant matvec_q5_k TYPE_Q5_K FORM=FORM_MINIMUM TYPE_K
// variant matvec_q6_k TYPE_Q6_K FORM=FORM_HALVES TYPE_K
// variant matvec_iq4_nl TYPE_IQ4_NL FORM=FORM_PLAIN TYPE_TABLE
// variant matvec_iq4_xs TYPE_IQ4_XS FORM=FORM_PLAIN TYPE_K TYPE_TABLE
// variant matvec_mxfp4 TYPE_MXFP4 FORM=FORM_PLAIN
#version 460
#extension GL_GOOGLE_include_directive : require
#ifndef OFFSET
#define OFFSET 0
#endif
#include "memory.glsl"
#include "q8.glsl"
#include "dot.glsl"
#include "functions.glsl"
layout(local_size_x_id = 0) in;  // before what uses gl_WorkGroupSize
#ifdef TYPE_K
#include "dot_k.glsl"
#else
#include "dot_small.glsl"
#endif

layout(constant_id = 1) const uint SUBGROUP = 32;
layout(constant_id = 2) const uint ROWS = 1;
layout(constant_id = 3) const uint COLS = 1;
layout(constant_id = 4) const uint DEPTH = 1;  // units of a row that a lane loads at once
layout(constant_id = 5) const uint MODE = 0;

const uint MODE_EXPERTS = 1;  // the matrix of each column is chosen by an index
const uint MODE_ADD = 2;      // a tensor is added to the result
const uint MODE_SWIGLU = 4;   // there are two matrices of weights; as in binary.comp
const uint MODE_GEGLU = 8;
const uint MODE_INT8 = 16;    // the result is also written as int8 blocks; a workgroup has 32 rows

layout(push_constant, scalar) uniform Push {
    uint64_t w;       // weights
    uint64_t w2;      // the second ones, in the shape of the first
    uint64_t x;       // int8 columns
    uint64_t dst;
    uint64_t int8;    // the result's int8 columns
    uint64_t add;
    uint64_t ids;
    uint     k;
    uint     m;
    uint     w_nb[3];    // bytes between rows, matrices, stacks of matrices
    uint     dst_nb[3];
    uint     add_nb[3];
    uint     columns;    // of x in each matrix
    uint     matrices;   // of x in each stack
    uint     share[2];   // matrices, stacks of x that share one of w
    uint     results;    // columns of each matrix of the result
    uint     ids_nb;
} p;

const bool PAIR = (MODE & (MODE_SWIGLU | MODE_GEGLU)) != 0;
const uint STRIDE = SOFTWARE ? SUBGROUP : 1;  // rows from one of a lane to its next
const uint TALL = PAIR ? ROWS * 2 : ROWS;  // rows of weights: those of the second matrix follow those of the first
const uint CELLS = ROWS * COLS;            // results; the sums of the second matrix follow those of the first
// The most cells that a lane still holds after the exchange over the distance in the name; see the end.
const uint HELD32 = SUBGROUP > 32 ? (CELLS + 1) / 2 : CELLS;
const uint HELD16 = SUBGROUP > 16 ? (HELD32 + 1) / 2 : CELLS;
const uint HELD8 = SUBGROUP > 8 ? (HELD16 + 1) / 2 : CELLS;
const uint HELD4 = SUBGROUP > 4 ? (HELD8 + 1) / 2 : CELLS;
const uint HELD2 = SUBGROUP > 2 ? (HELD4 + 1) / 2 : CELLS;
const uint HELD1 = (HELD2 + 1) / 2;
const uint CELLS_AT_END = SOFTWARE ? CELLS : HELD1;

// Of `before` cells from `at` on, a lane keeps the lower `after` if its bit is clear, else the rest; the partner's sums are
// added.
#define EXCHANGE(distance, before, after, at) \
    if (SUBGROUP > distance) { \
        const bool upper = (lane & distance) != 0; \
        [[unroll]] for (uint i = 0; i < after; i++) { \
            const float low = acc[at + i]; \
            const float high = i + after < before ? acc[at + i + after] : 0.0; \
            acc[at + i] = (upper ? high : low) + subgroupShuffleXor(upper ? low : high, distance); \
        } \
        first += upper ? after : 0; \
        held = upper ? held - min(held, after) : min(held, after); \
    }
// The butterfly for all cells together: at each distance a lane hands half of its cells to its partner and takes over the
// other half, so that the number of exchanges is that of the cells, not cells x distances. Every sum has the same two terms
// as if each cell had its own butterfly.
#define BUTTERFLY(at) \
    held = CELLS; \
    first = 0; \
    EXCHANGE(32, CELLS, HELD32, at) \
    EXCHANGE(16, HELD32, HELD16, at) \
    EXCHANGE(8, HELD16, HELD8, at) \
    EXCHANGE(4, HELD8, HELD4, at) \
    EXCHANGE(2, HELD4, HELD2, at) \
    EXCHANGE(1, HELD2, HELD1, at)

shared float results[(MODE & MODE_INT8) != 0 ? COLS * 32 : 1];

void main() {
#ifdef TYPE_TABLE
    iq4_init();
#endif
    const uint lane = gl_SubgroupInvocationID;
    // Pieces of the same rows run side by side, so that all but the first find the weights in the cache.
    const uint column = gl_WorkGroupID.x * COLS;
    const uint first_row = (gl_WorkGroupID.y * (gl_WorkGroupSize.x / SUBGROUP) + gl_SubgroupID) * ROWS * STRIDE;
    const uint row = SOFTWARE ? first_row + lane : first_row;
    if (first_row >= p.m) {
        return;
    }
    const uint i2 = gl_WorkGroupID.z % p.matrices;
    const uint i3 = gl_WorkGroupID.z / p.matrices;
    uint64_t matrix = 0;
    bool unknown = false;
    if ((MODE & MODE_EXPERTS) != 0) {
        // Here share[0] is the number of experts; an unknown one gives no number, and touches the last one's memory.
        const uint expert = load_u32(p.ids + (column * 4 + i2 * p.ids_nb));
        unknown = expert >= p.share[0];
        matrix = uint64_t(min(expert, p.share[0] - 1)) * p.w_nb[1];
    } else {
        matrix = uint64_t(i2 / p.share[0]) * p.w_nb[1] + uint64_t(i3 / p.share[1]) * p.w_nb[2];
    }
    uint64_t rows[TALL];
    [[unroll]] for (uint r = 0; r < TALL; r++) {
        rows[r] = (r < ROWS ? p.w : p.w2) + matrix + uint64_t(min(row + r % ROWS * STRIDE, p.m - 1)) * p.w_nb[0];
    }
    // Where all experts of a token share its column, there is one column for many results.
    const uint     stride = q8_column(p.k);
    const uint64_t x = p.x + uint64_t(gl_WorkGroupID.z * p.columns) * stride;

    float acc[TALL * COLS];
    [[unroll]] for (uint i = 0; i < TALL * COLS; i++) {
        acc[i] = 0;
    }
    // These two bits let the lanes that are served together read from different banks of the cache.
    const uint half_first = SOFTWARE ? 0 : (lane >> 2) & 1;
    const uint part_first = PARTS == 1 || SOFTWARE ? 0 : (lane >> 1) & 1;
    const uint units = p.k / (32 * PARTS);
    const uint step = SOFTWARE ? 1 : SUBGROUP * DEPTH;
    uint base = SOFTWARE ? 0 : lane;
    // llvmpipe goes once more through the body of a loop whose condition stands before it, with all lanes masked.
    if (base < units) {
        do {
            Unit u[DEPTH * TALL];
            [[unroll]] for (uint d = 0; d < DEPTH; d++) {
                [[unroll]] for (uint r = 0; r < TALL; r++) {
                    u[d * TALL + r] = unit_load(rows[r], min(base + d * SUBGROUP, units - 1), half_first);
                }
            }
            [[unroll]] for (uint d = 0; d < DEPTH; d++) {
                const uint unit = base + d * SUBGROUP;
                if (DEPTH > 1 && unit >= units) {
                    break;
                }
                [[dont_unroll]] for (uint part = 0; part < PARTS; part++) {
                    const uint h = part ^ part_first;
                    Part q[TALL];
                    [[unroll]] for (uint r = 0; r < TALL; r++) {
                        q[r] = unit_part(u[d * TALL + r], unit, h, half_first);
                    }
                    [[unroll]] for (uint j = 0; j < COLS; j++) {
                        const uint64_t from = x + uint64_t(min(column + j, p.columns - 1)) * stride;
                        Act a;
                        if (SOFTWARE) {
                            a = act_share(from, p.k, unit_block(unit, h), lane);
                        } else {
                            a = act_load(from, p.k, unit_block(unit, h), half_first);
                        }
                        [[unroll]] for (uint r = 0; r < TALL; r++) {
                            const uint i = r / ROWS * CELLS + j * ROWS + r % ROWS;
                            acc[i] = accumulate(acc[i], q[r], a);
                        }
                    }
                }
            }
            base += step;
        } while (base < units);
    }

    uint held = CELLS;  // cells of this lane
    uint first = 0;     // the first of them
    if (!SOFTWARE) {
        BUTTERFLY(0)
        if (PAIR) {
            BUTTERFLY(CELLS)
        }
    }
    [[unroll]] for (uint i = 0; i < CELLS_AT_END; i++) {
        const uint r = row + (first + i) % ROWS * STRIDE;
        const uint j = column + (first + i) / ROWS;
        if (i < held && r < p.m && (COLS == 1 || j < p.columns)) {
            float value = acc[i];
            if ((MODE & MODE_SWIGLU) != 0) {
                value = silu(value) * acc[CELLS + i];
            } else if ((MODE & MODE_GEGLU) != 0) {
                value = gelu(value) * acc[CELLS + i];
            } else if ((MODE & MODE_ADD) != 0) {
                value += load_f32(p.add + (r * 4 + j * p.add_nb[0] + i2 * p.add_nb[1] + i3 * p.add_nb[2]));
            }
            if ((MODE & MODE_EXPERTS) != 0 && unknown) {
                value = uintBitsToFloat(0x7fc00000);
            }
            store_f32(p.dst + (r * 4 + j * p.dst_nb[0] + i2 * p.dst_nb[1] + i3 * p.dst_nb[2]), value);
            if ((MODE & MODE_INT8) != 0) {
                results[(j - column) * 32 + r % 32] = value;
            }
        }
    }
    if ((MODE & MODE_INT8) != 0) {
        barrier();
        // Eight invocations for each column of this piece.
        for (uint base = 0; base < COLS * 8; base += gl_WorkGroupSize.x) {
            const uint i = base + gl_LocalInvocationID.x;
            const uint j = min(i / 8, COLS - 1);
            const uint at = j * 32 + i % 8 * 4;
            const vec4 four = vec4(results[at], results[at + 1], results[at + 2], results[at + 3]);
            const uint of = gl_WorkGroupID.z * p.results + column + j;
            const bool live = i < COLS * 8 && column + j < p.results;
            q8_store(p.int8 + uint64_t(of) * q8_column(p.m), p.m, row / 32, four, live);
        }
    }
}
