// How attention_piece ends: the last workgroup of a KV head's rows to finish puts the pieces together in their order; then
// the sink is added, and the sum over V divided. With INT8 the result is left as int8 blocks too, a query's heads being
// one column, for the product that follows.
#include "meet.glsl"
#include "q8.glsl"

const bool ONE  = (FLAGS & 32) != 0;  // one piece is the whole KV length
const bool INT8 = (FLAGS & 64) != 0;  // then DV is a multiple of 32

const uint MAX_PIECES = 128;
const uint BATCH      = 16; // pieces that are loaded together
const uint VECTORS    = DV / 4;

// Where the result goes; mirrors `end_of` of `ops/attention.rs`.
struct End {
    uint64_t dst, sinks, columns, counters;  // sinks: 0 when there are none; columns: the int8 form
    uint     stride;                         // rows of the result from one sequence to the next
};
End load_end(uint64_t a) {
    const uvec4 x = load_u32x4(a), y = load_u32x4(a + 16);
    return End(packUint2x32(x.xy), packUint2x32(x.zw), packUint2x32(y.xy), packUint2x32(y.zw), load_u32(a + 32));
}

shared vec2  join_stats[ROWS];  // maximum and sum
shared float join_weights[ROWS * MAX_PIECES];

// Where piece `piece` leaves a row: the maximum, the sum, two unused numbers, the sum over V.
uint64_t record(uint row, uint piece) {
    const uint id = (sequence() * p.n + query_of(row)) * kv_heads() * SHARING + head_of(row);
    return p.to + uint64_t(id * gl_NumWorkGroups.y + piece) * (4 * DV + 16);
}

// Four numbers of a row's result, from its maximum, sum and sum over V. `live`: whether there is such a row.
void finish(End end, uint row, bool live, uint d, vec2 stats, vec4 x) {
    const float sink  = end.sinks != 0 ? load_f32(end.sinks + 4 * head_of(row)) : NONE;
    const float top   = max(stats.x, sink);
    const float share = weight(stats.x, top);
    const float sum   = fma(stats.y, share, weight(sink, top));
    const uint  heads = kv_heads() * SHARING;
    const uint  to    = sequence() * end.stride + query_of(row) * heads + head_of(row);
    x *= sum == 0 ? 0.0 : share / sum;
    if (live) {
        store_f32x4(end.dst + uint64_t(to * VECTORS + d) * 16, x);
    }
    if (INT8) {
        const uint64_t column = end.columns + uint64_t(to / heads) * q8_column(heads * DV);
        q8_store(column, heads * DV, head_of(row) * (DV / 32) + d / 8, x, live);
    }
}

// The weights of a row's pieces, and the maximum and the sum of all; for one subgroup.
void weigh(uint r, uint row, uint pieces) {
    vec2  stats[MAX_PIECES / SUBGROUP];
    float top = NONE, sum = 0;
    [[unroll]] for (uint j = 0; j < MAX_PIECES / SUBGROUP; j++) {
        const uint i = j * SUBGROUP + gl_SubgroupInvocationID;
        stats[j] = i < pieces ? meet_load(record(row, i)).xy : vec2(NONE, 0);
        top = max(top, stats[j].x);
    }
    top = subgroupMax(top);
    [[unroll]] for (uint j = 0; j < MAX_PIECES / SUBGROUP; j++) {
        const float w = weight(stats[j].x, top);
        join_weights[r * MAX_PIECES + j * SUBGROUP + gl_SubgroupInvocationID] = w;
        sum = fma(w, stats[j].y, sum);
    }
    sum = subgroupAdd(sum);
    if (gl_SubgroupInvocationID == 0) {
        join_stats[r] = vec2(top, sum);
    }
}

// Puts the pieces of the workgroup's rows together, unless another workgroup of these rows still computes.
void join(End end, uint tid, uint first, uint total) {
    const uint group = gl_WorkGroupID.z * gl_NumWorkGroups.x + gl_WorkGroupID.x, pieces = gl_NumWorkGroups.y;
    if (!meet_is_last(end.counters + 4 * group, pieces)) {
        return;
    }
    // What comes last is asked for first.
    vec4 part[BATCH];
    const uint some = min(tid, ROWS * VECTORS - 1);
    [[unroll]] for (uint i = 0; i < BATCH; i++) {
        const uint64_t from = record(min(first + some / VECTORS, total - 1), min(i, pieces - 1));
        part[i] = meet_load(from + 16 + 16 * (some % VECTORS));
    }
    for (uint turn = 0; turn < (ROWS + NSG - 1) / NSG; turn++) {
        const uint r = turn * NSG + gl_SubgroupID;
        if (r < ROWS) {
            weigh(r, min(first + r, total - 1), pieces);
        }
    }
    barrier();
    for (uint turn = 0; turn < (ROWS * VECTORS + WG - 1) / WG; turn++) {
        const uint item = turn * WG + tid, r = item / VECTORS, d = item % VECTORS, row = min(first + r, total - 1);
        vec4 x = vec4(0);
        for (uint at = 0; at < pieces; at += BATCH) {
            if (turn != 0 || at != 0) {
                [[unroll]] for (uint i = 0; i < BATCH; i++) {
                    part[i] = meet_load(record(row, min(at + i, pieces - 1)) + 16 + 16 * d);
                }
            }
            [[unroll]] for (uint i = 0; i < BATCH; i++) {
                if (at + i < pieces) {
                    x = fma(vec4(join_weights[min(r, ROWS - 1) * MAX_PIECES + at + i]), part[i], x);
                }
            }
        }
        if (r < ROWS) {
            finish(end, row, first + r < total, d, join_stats[r], x);
        }
    }
}
