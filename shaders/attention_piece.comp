// FLASH_ATTN_EXT over one piece of the KV length, for up to ROWS rows (a row: one query of one head) that share a KV
// head, so that K and V are read once for all of them. Each subgroup takes as many positions as it has invocations, and
// then the next ones, without waiting for the others; in the end the workgroup adds up what its subgroups have. Of several
// pieces each leaves (max, sum, sum over V) of each row in scratch memory, and the last one to finish joins them. What a
// row computes depends on its own numbers only: not on ROWS, not on the other rows.
// variant attention_piece
#version 460
#pragma use_vulkan_memory_model
#extension GL_GOOGLE_include_directive : require
#extension GL_KHR_shader_subgroup_vote : require
#extension GL_EXT_control_flow_attributes : require
#include "memory.glsl"
#include "attention_rows.glsl"

layout(local_size_x_id = 0) in;
const uint ROWS = SIZE;
const uint NSG  = WG / SUBGROUP;
#include "attention_join.glsl"

const uint LANES  = 4;  // invocations that share the dot products of as many positions
const uint CHUNKS = DK / 8;
const uint STEPS  = (CHUNKS + LANES - 1) / LANES;
const uint WIDE   = DV / 8;  // invocations that share a row of V, a chunk each; or chunks, if they are more
const uint SPLIT  = WIDE < SUBGROUP ? SUBGROUP / WIDE : 1;  // rows of V that are read at the same time
const uint TURNS  = (SUBGROUP + SPLIT - 1) / SPLIT;
const uint SHARES = (WIDE + SUBGROUP - 1) / SUBGROUP;       // chunks of V of an invocation

// Chunks of 16 bytes are loaded long before they are needed, where registers suffice.
const bool WORDS_K = K_TYPE == T_F16 + ALIGNED || K_TYPE == T_BF16 + ALIGNED;
const bool WORDS_V = V_TYPE == T_F16 + ALIGNED || V_TYPE == T_BF16 + ALIGNED;
const bool FEW_K   = STEPS <= 4;
const bool FEW_V   = TURNS * ROWS <= 64;
const bool ALONE_V = SHARES == 1;
// Only names: glslang makes no constant of an `&&` whose right side is longer.
const bool EARLY_K = WORDS_K && FEW_K;
const bool EARLY_V = WORDS_V && FEW_V && ALONE_V;

uvec4 early_keys[STEPS * LANES];
uvec4 early_values[TURNS];

shared vec4 query[ROWS * DK / 4];
shared vec2 stats[NSG * ROWS];  // maximum and sum of each subgroup's rows
shared vec4 sums[ROWS * NSG * DV / 4];

// Row of K, the e-th of those that this invocation has a share in, of the positions from `at`.
uint64_t key_at(uint at, uint e) {
    const uint pos = min(at + (gl_SubgroupInvocationID & ~(LANES - 1)) + e, p.n_kv - 1);
    return keys_at() + uint64_t(pos) * p.k_nb[0];
}

uint chunk_of(uint c) { return min(c * LANES + gl_SubgroupInvocationID % LANES, CHUNKS - 1); }

void fetch_keys(uint at) {
    if (EARLY_K) {
        [[unroll]] for (uint e = 0; e < LANES; e++) {
            const uint64_t row = key_at(at, e);
            [[unroll]] for (uint c = 0; c < STEPS; c++) {
                early_keys[c * LANES + e] = load_u32x4(row + 16 * chunk_of(c));
            }
        }
    }
}

// Which of the positions a turn of V is about; it can be none: not below SUBGROUP.
uint place_of(uint turn) {
    const uint split = gl_SubgroupInvocationID / WIDE;
    return split < SPLIT ? turn * SPLIT + split : SUBGROUP;
}

uint64_t value_at(uint at, uint turn) {
    return values_at() + uint64_t(min(at + place_of(turn), p.n_kv - 1)) * p.v_nb[0];
}

void fetch_values(uint at) {
    if (EARLY_V) {
        [[unroll]] for (uint t = 0; t < TURNS; t++) {
            early_values[t] = load_u32x4(value_at(at, t) + 16 * (gl_SubgroupInvocationID % WIDE));
        }
    }
}

// Adds four numbers over four invocations; each of them gets the sum with its own number.
float add_lanes(float a, float b, float c, float d) {
    const bool high = (gl_SubgroupInvocationID & 2) != 0, odd = (gl_SubgroupInvocationID & 1) != 0;
    const float even_sum = (high ? c : a) + subgroupShuffleXor(high ? a : c, 2);
    const float odd_sum  = (high ? d : b) + subgroupShuffleXor(high ? b : d, 2);
    return (odd ? odd_sum : even_sum) + subgroupShuffleXor(odd ? even_sum : odd_sum, 1);
}

void main() {
    const uint tid   = gl_SubgroupID * SUBGROUP + gl_SubgroupInvocationID;
    const uint total = SHARING * p.n;
    const uint first = gl_WorkGroupID.x * ROWS;
    const uint begin = gl_WorkGroupID.y * p.step;
    const uint end   = min(begin + p.step, p.n_kv);
    const uint chunk = gl_SubgroupInvocationID % WIDE;

    uint at = begin + gl_SubgroupID * SUBGROUP;
    if (!SKIP) {
        fetch_keys(at);
        fetch_values(at);
    }
    const End out_to = load_end(p.more);
    // Rows beyond the last repeat it, and are not stored.
    for (uint i = tid; i < ROWS * DK / 4; i += WG) {
        const uint64_t a = query_at(min(first + i / (DK / 4), total - 1)) + 16 * (i % (DK / 4));
        query[i] = vec4(load_f32(a), load_f32(a + 4), load_f32(a + 8), load_f32(a + 12));
    }
    vec4  acc[ROWS * SHARES * 2];
    float top[ROWS], sum[ROWS];
    [[unroll]] for (uint i = 0; i < ROWS * SHARES * 2; i++) {
        acc[i] = vec4(0);
    }
    [[unroll]] for (uint r = 0; r < ROWS; r++) {
        top[r] = NONE;
        sum[r] = 0;
    }
    barrier();

    // All subgroups make the same rounds, even if there is nothing for them in one: llvmpipe (Mesa 22) loses invocations
    // where subgroups leave a loop at different times.
    const uint rounds = (end - begin + WG - 1) / WG;
    for (uint round = 0; round < rounds; round++, at += WG) {
        // What the mask adds to the position of this invocation.
        const uint pos = at + gl_SubgroupInvocationID;
        float w[ROWS];
        bool  seen = false;
        [[unroll]] for (uint r = 0; r < ROWS; r++) {
            const uint row = min(first + r, total - 1);
            w[r] = pos < end ? 0.0 : NONE;
            if (MASK && pos < end) {
                w[r] = mask_value(load_u16(mask_at(row) + 2 * pos), slope_of(row));
            }
            seen = seen || w[r] != NONE;
        }
        if (SKIP) {
            if (!subgroupAny(seen)) {
                continue;
            }
            fetch_keys(at);
            fetch_values(at);
        }

        float dots[LANES * ROWS];
        [[unroll]] for (uint i = 0; i < LANES * ROWS; i++) {
            dots[i] = 0;
        }
        [[unroll]] for (uint c = 0; c < STEPS; c++) {
            const uint own = chunk_of(c);
            if (CHUNKS % LANES == 0 || own == c * LANES + gl_SubgroupInvocationID % LANES) {
                [[unroll]] for (uint e = 0; e < LANES; e++) {
                    const Eight key =
                        EARLY_K ? expand8(K_TYPE, early_keys[c * LANES + e]) : load8(K_TYPE, key_at(at, e), own * 8);
                    [[unroll]] for (uint r = 0; r < ROWS; r++) {
                        const vec4 a = query[r * (DK / 4) + own * 2], b = query[r * (DK / 4) + own * 2 + 1];
                        float d = dots[r * LANES + e];
                        d = fma(key.lo.x, a.x, d);
                        d = fma(key.lo.y, a.y, d);
                        d = fma(key.lo.z, a.z, d);
                        d = fma(key.lo.w, a.w, d);
                        d = fma(key.hi.x, b.x, d);
                        d = fma(key.hi.y, b.y, d);
                        d = fma(key.hi.z, b.z, d);
                        d = fma(key.hi.w, b.w, d);
                        dots[r * LANES + e] = d;
                    }
                }
            }
        }
        if (!SKIP && at + WG < end) {
            fetch_keys(at + WG);
        }

        // Softmax: each invocation has the score of its own position.
        [[unroll]] for (uint r = 0; r < ROWS; r++) {
            const uint  i    = r * LANES;
            const float s    = score(add_lanes(dots[i], dots[i + 1], dots[i + 2], dots[i + 3]), w[r]);
            const float best = max(top[r], subgroupMax(s));
            const float fade = weight(top[r], best);
            w[r]   = weight(s, best);
            sum[r] = fma(sum[r], fade, subgroupAdd(w[r]));
            top[r] = best;
            [[unroll]] for (uint j = 0; j < SHARES * 2; j++) {
                acc[r * SHARES * 2 + j] *= fade;
            }
        }

        [[unroll]] for (uint t = 0; t < TURNS; t++) {
            const uint place = place_of(t);
            Eight value[SHARES];
            [[unroll]] for (uint j = 0; j < SHARES; j++) {
                value[j] = EARLY_V ? expand8(V_TYPE, early_values[t])
                                   : load8(V_TYPE, value_at(at, t), min(chunk + j * SUBGROUP, WIDE - 1) * 8);
            }
            [[unroll]] for (uint r = 0; r < ROWS; r++) {
                const float x = subgroupShuffle(w[r], min(place, SUBGROUP - 1));
                const vec4  y = vec4(place < SUBGROUP ? x : 0.0);
                [[unroll]] for (uint j = 0; j < SHARES; j++) {
                    const uint i = (r * SHARES + j) * 2;
                    acc[i]     = fma(y, value[j].lo, acc[i]);
                    acc[i + 1] = fma(y, value[j].hi, acc[i + 1]);
                }
            }
        }
        if (!SKIP && at + WG < end) {
            fetch_values(at + WG);
        }
    }

    // Each subgroup adds up over the positions that it read at the same time.
    [[unroll]] for (uint r = 0; r < ROWS; r++) {
        if (gl_SubgroupInvocationID == 0) {
            stats[r * NSG + gl_SubgroupID] = vec2(top[r], sum[r]);
        }
        [[unroll]] for (uint j = 0; j < SHARES; j++) {
            vec4 lo = vec4(0), hi = vec4(0);
            [[unroll]] for (uint i = 0; i < SPLIT; i++) {
                lo += subgroupShuffle(acc[(r * SHARES + j) * 2], chunk + i * WIDE);
                hi += subgroupShuffle(acc[(r * SHARES + j) * 2 + 1], chunk + i * WIDE);
            }
            const uint to = (r * NSG + gl_SubgroupID) * VECTORS + (chunk + j * SUBGROUP) * 2;
            if (gl_SubgroupInvocationID < WIDE - j * SUBGROUP) {
                sums[to]     = lo;
                sums[to + 1] = hi;
            }
        }
    }
    barrier();
    // The subgroups' sums with a common maximum, in their order; all rows at once.
    for (uint turn = 0; turn < (ROWS * VECTORS + WG - 1) / WG; turn++) {
        const uint item = turn * WG + tid;
        const uint r = min(item / VECTORS, ROWS - 1), d = item % VECTORS, row = first + r;
        float best = NONE, all = 0;
        vec4  x = vec4(0);
        [[unroll]] for (uint i = 0; i < NSG; i++) {
            best = max(best, stats[r * NSG + i].x);
        }
        [[unroll]] for (uint i = 0; i < NSG; i++) {
            const vec2  s     = stats[r * NSG + i];
            const float share = weight(s.x, best);
            all = fma(s.y, share, all);
            x   = fma(vec4(share), sums[(r * NSG + i) * VECTORS + d], x);
        }
        if (item < ROWS * VECTORS) {
            if (ONE) {
                finish(out_to, min(row, total - 1), row < total, d, vec2(best, all), x);
            } else if (row < total) {
                meet_store(record(row, gl_WorkGroupID.y) + 16 + 16 * d, x);
                if (d == 0) {
                    meet_store(record(row, gl_WorkGroupID.y), vec4(best, all, 0, 0));
                }
            }
        }
    }
    if (!ONE) {
        join(out_to, tid, first, total);
    }
}
