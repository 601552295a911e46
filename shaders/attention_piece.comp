// FLASH_ATTN_EXT over one piece of the KV length, for up to ROWS rows (a row: one query of one head) that share a KV
// head, so that K and V are read once for all of them. Leaves (max, sum, sum over V) of each row in scratch memory, which
// attention_join puts together. What a row computes depends on its own numbers only: not on ROWS, not on the other rows.
// variant attention_piece
#version 460
#extension GL_GOOGLE_include_directive : require
#extension GL_KHR_shader_subgroup_vote : require
#include "memory.glsl"
#include "attention_rows.glsl"

layout(local_size_x_id = 0) in;
const uint ROWS = SIZE;

const uint TILE  = 64;                 // positions that are scored together
const uint LANES = 4;                  // invocations that share the dot products of a position
const uint EACH  = TILE * LANES / WG;  // positions of an invocation
const uint NSG   = WG / SUBGROUP;
const uint OWN   = (ROWS + NSG - 1) / NSG;  // rows whose softmax is one subgroup's
const uint PER   = TILE / SUBGROUP;         // scores of such a row in one invocation
const uint CHUNKS = DK / 8;
const uint WIDE   = DV / 8;    // invocations that share a row of V
const uint SPLIT  = WG / WIDE; // rows of V that are read at the same time

shared vec4  query[ROWS * DK / 4];
shared float scores[TILE * ROWS];  // [position][row]; the dot products, then the weights
shared float fade[ROWS];           // weight of what was summed before this tile
shared vec4  sums[WG * 2];
shared uint  seen;

void main() {
    const uint tid      = gl_SubgroupID * SUBGROUP + gl_SubgroupInvocationID;
    const uint total    = SHARING * p.n;
    const uint first    = gl_WorkGroupID.x * ROWS;
    const uint begin    = gl_WorkGroupID.y * p.step;
    const uint end      = min(begin + p.step, p.n_kv);
    const uint64_t keys = keys_at(), values = values_at();

    // Rows beyond the last repeat it, and are not stored.
    for (uint i = tid; i < ROWS * DK / 4; i += WG) {
        const uint64_t at = query_at(min(first + i / (DK / 4), total - 1)) + 16 * (i % (DK / 4));
        query[i] = vec4(load_f32(at), load_f32(at + 4), load_f32(at + 8), load_f32(at + 12));
    }

    vec4 acc[ROWS * 2];
    for (uint i = 0; i < ROWS * 2; i++) {
        acc[i] = vec4(0);
    }
    float top[OWN], sum[OWN];
    for (uint i = 0; i < OWN; i++) {
        top[i] = NONE;
        sum[i] = 0;
    }
    const uint lane  = tid % LANES;
    const uint chunk = tid % WIDE;
    const uint split = tid / WIDE;

    for (uint at = begin; at < end; at += TILE) {
        // What the mask adds, asked for early. Only the subgroup's own rows.
        float add[OWN * PER];
        bool any_seen = false;
        for (uint i = 0; i < OWN; i++) {
            const uint     r   = gl_SubgroupID + i * NSG;
            const uint     row = min(first + r, total - 1);
            const float    m   = slope_of(row);
            const uint64_t at_mask = mask_at(row);
            for (uint j = 0; j < PER; j++) {
                const uint pos = at + j * SUBGROUP + gl_SubgroupInvocationID;
                float x = pos < end ? 0.0 : NONE;
                if (MASK && pos < end && r < ROWS) {
                    x = mask_value(load_u16(at_mask + 2 * pos), m);
                }
                add[i * PER + j] = x;
                any_seen = any_seen || (x != NONE && r < ROWS);
            }
        }
        barrier();  // the tile before is done with the scores, and `query` is there
        if (SKIP) {
            if (tid == 0) {
                seen = 0;
            }
            barrier();
            if (any_seen) {
                seen = 1;
            }
            barrier();
            if (seen == 0) {
                continue;
            }
        }

        // Dot products: LANES invocations share a position, chunk by chunk; then they add up in a fixed order.
        float dots[EACH * ROWS];
        for (uint i = 0; i < EACH * ROWS; i++) {
            dots[i] = 0;
        }
        for (uint c = 0; c < (CHUNKS + LANES - 1) / LANES; c++) {
            const uint own = c * LANES + lane;
            if (CHUNKS % LANES == 0 || own < CHUNKS) {
                Eight key[EACH];
                for (uint e = 0; e < EACH; e++) {
                    const uint pos = min(at + e * (WG / LANES) + tid / LANES, p.n_kv - 1);
                    key[e] = load8(K_TYPE, keys + uint64_t(pos) * p.k_nb[0], own * 8);
                }
                for (uint r = 0; r < ROWS; r++) {
                    const vec4 a = query[r * (DK / 4) + own * 2], b = query[r * (DK / 4) + own * 2 + 1];
                    for (uint e = 0; e < EACH; e++) {
                        float d = dots[e * ROWS + r];
                        d = fma(key[e].lo.x, a.x, d);
                        d = fma(key[e].lo.y, a.y, d);
                        d = fma(key[e].lo.z, a.z, d);
                        d = fma(key[e].lo.w, a.w, d);
                        d = fma(key[e].hi.x, b.x, d);
                        d = fma(key[e].hi.y, b.y, d);
                        d = fma(key[e].hi.z, b.z, d);
                        d = fma(key[e].hi.w, b.w, d);
                        dots[e * ROWS + r] = d;
                    }
                }
            }
        }
        for (uint e = 0; e < EACH; e++) {
            for (uint r = 0; r < ROWS; r++) {
                float d = dots[e * ROWS + r];
                d += subgroupShuffleXor(d, 1);
                d += subgroupShuffleXor(d, 2);
                if (r % LANES == lane) {
                    scores[(e * (WG / LANES) + tid / LANES) * ROWS + r] = d;
                }
            }
        }
        barrier();

        // Softmax of the tile, each row by one subgroup.
        for (uint i = 0; i < OWN; i++) {
            const uint r = gl_SubgroupID + i * NSG;
            if (r < ROWS) {
                float s[PER];
                float best = top[i];
                for (uint j = 0; j < PER; j++) {
                    const float x = scores[(j * SUBGROUP + gl_SubgroupInvocationID) * ROWS + r];
                    s[j] = score(x, add[i * PER + j]);
                    best = max(best, s[j]);
                }
                best = subgroupMax(best);
                float part = 0;
                for (uint j = 0; j < PER; j++) {
                    const float w = weight(s[j], best);
                    scores[(j * SUBGROUP + gl_SubgroupInvocationID) * ROWS + r] = w;
                    part += w;
                }
                const float old = weight(top[i], best);
                sum[i] = fma(sum[i], old, subgroupAdd(part));
                top[i] = best;
                if (gl_SubgroupInvocationID == 0) {
                    fade[r] = old;
                }
            }
        }
        barrier();

        // V: WIDE invocations share a position.
        if (split < SPLIT) {
            for (uint r = 0; r < ROWS; r++) {
                acc[2 * r] *= fade[r];
                acc[2 * r + 1] *= fade[r];
            }
            for (uint j = split; j < TILE; j += SPLIT) {
                const uint pos = min(at + j, p.n_kv - 1);
                const Eight x = load8(V_TYPE, values + uint64_t(pos) * p.v_nb[0], chunk * 8);
                for (uint r = 0; r < ROWS; r++) {
                    const vec4 w = vec4(scores[j * ROWS + r]);
                    acc[2 * r] = fma(w, x.lo, acc[2 * r]);
                    acc[2 * r + 1] = fma(w, x.hi, acc[2 * r + 1]);
                }
            }
        }
    }

    // Each row: add up what the SPLIT groups have, in their order, and leave it with the maximum and the sum.
    for (uint r = 0; r < ROWS; r++) {
        if (split < SPLIT) {
            sums[tid * 2] = acc[2 * r];
            sums[tid * 2 + 1] = acc[2 * r + 1];
        }
        barrier();
        const uint row = first + r;
        if (row < total) {
            const uint id = (sequence() * p.n + query_of(row)) * kv_heads() * SHARING + head_of(row);
            const uint64_t to = p.to + uint64_t(id * gl_NumWorkGroups.y + gl_WorkGroupID.y) * (4 * DV + 16);
            for (uint d = tid; d < DV / 4; d += WG) {
                vec4 x = sums[d];
                for (uint g = 1; g < SPLIT; g++) {
                    x += sums[g * (DV / 4) + d];
                }
                store_f32x4(to + 16 + 16 * d, x);
            }
            for (uint i = 0; i < OWN; i++) {
                if (gl_SubgroupID + i * NSG == r && gl_SubgroupInvocationID == 0) {
                    store_f32x4(to, vec4(top[i], sum[i], 0, 0));
                }
            }
        }
        barrier();
    }
}
