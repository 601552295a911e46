// FLASH_ATTN_EXT on a software device, where a load costs each invocation as much as a dozen additions: an invocation has a
// row (a query of a head) and goes through the whole KV length with it. The invocations of a subgroup load different
// elements of K and V and pass them round, and no sum goes over invocations: a row's bits do not depend on other rows.
// variant attention_lane
#version 460
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require
#include "memory.glsl"
#include "attention_rows.glsl"

layout(local_size_x_id = 0) in;
const uint STEP     = SIZE;  // positions whose scores are looked at together: 2 or 4
const uint CHUNKS_K = DK / 8;
const uint CHUNKS_V = DV / 8;

float element(Eight x, uint i) { return i < 4 ? x.lo[i] : x.hi[i - 4]; }

// The bits that the mask has for four positions of a row; hidden ones behind the end.
uvec4 mask_bits(uint64_t row, uint at) {
    if (WHOLE) {
        const uvec2 w = load_u32x2(row + 2 * at);
        return uvec4(w.x & 0xffff, w.x >> 16, w.y & 0xffff, w.y >> 16);
    }
    uvec4 bits = uvec4(0xfc00);
    [[unroll]] for (uint i = 0; i < 4; i++) {
        if (at + i < p.n_kv) {
            bits[i] = MASK ? load_u16(row + 2 * (at + i)) : 0;
        }
    }
    return bits;
}

void main() {
    const uint lane  = gl_SubgroupInvocationID;
    const uint total = SHARING * p.n;
    const uint own   = gl_WorkGroupID.x * WG + gl_SubgroupID * SUBGROUP + lane;
    const uint row   = min(own, total - 1);  // rows beyond the last repeat it, and are not stored
    const uint64_t row_mask = mask_at(row), from = query_at(row);

    // Positions that some row of the subgroup sees: all others change no bit of any row.
    uint begin = 0, end = p.n_kv;
    if (MASK) {
        begin = p.n_kv;
        end = 0;
        uint at = 0;
        do {
            if (any(notEqual(mask_bits(row_mask, at), uvec4(0xfc00)))) {
                begin = min(begin, at);
                end = at + 4;
            }
            at += 4;
        } while (at < p.n_kv);
        begin = subgroupMin(begin);
        end = min(subgroupMax(end), p.n_kv);
    }

    float query[DK], acc[DV];
    [[unroll]] for (uint i = 0; i < DK; i++) {
        query[i] = load_f32(from + 4 * i);
    }
    [[unroll]] for (uint i = 0; i < DV; i++) {
        acc[i] = 0;
    }
    float top = NONE, sum = 0;
    const float slope = slope_of(row);
    if (begin < end) {
        uint at = begin;
        do {
            float s[STEP];
            [[unroll]] for (uint j = 0; j < STEP; j++) {
                s[j] = 0;
            }
            [[unroll]] for (uint c = 0; c < CHUNKS_K; c += SUBGROUP) {
                Eight key[STEP];
                [[unroll]] for (uint j = 0; j < STEP; j++) {
                    const uint64_t a = keys_at() + uint64_t(min(at + j, p.n_kv - 1)) * p.k_nb[0];
                    key[j] = load8(K_TYPE, a, min(c + lane, CHUNKS_K - 1) * 8);
                }
                [[unroll]] for (uint i = 0; i < min(SUBGROUP, CHUNKS_K - c); i++) {
                    [[unroll]] for (uint e = 0; e < 8; e++) {
                        [[unroll]] for (uint j = 0; j < STEP; j++) {
                            s[j] = fma(subgroupShuffle(element(key[j], e), i), query[(c + i) * 8 + e], s[j]);
                        }
                    }
                }
            }
            const uvec4 bits = mask_bits(row_mask, at & ~3u);
            const uint  skip = STEP == 4 ? 0 : at & 3;
            float best = top;
            [[unroll]] for (uint j = 0; j < STEP; j++) {
                s[j] = score(s[j], mask_value(bits[skip + j], slope));
                best = max(best, s[j]);
            }
            const float fade = weight(top, best);
            sum *= fade;
            [[unroll]] for (uint j = 0; j < STEP; j++) {
                s[j] = weight(s[j], best);
                sum += s[j];
            }
            top = best;
            [[unroll]] for (uint i = 0; i < DV; i++) {
                acc[i] *= fade;
            }
            [[unroll]] for (uint c = 0; c < CHUNKS_V; c += SUBGROUP) {
                Eight value[STEP];
                [[unroll]] for (uint j = 0; j < STEP; j++) {
                    const uint64_t a = values_at() + uint64_t(min(at + j, p.n_kv - 1)) * p.v_nb[0];
                    value[j] = load8(V_TYPE, a, min(c + lane, CHUNKS_V - 1) * 8);
                }
                [[unroll]] for (uint i = 0; i < min(SUBGROUP, CHUNKS_V - c); i++) {
                    [[unroll]] for (uint e = 0; e < 8; e++) {
                        [[unroll]] for (uint j = 0; j < STEP; j++) {
                            const uint d = (c + i) * 8 + e;
                            acc[d] = fma(s[j], subgroupShuffle(element(value[j], e), i), acc[d]);
                        }
                    }
                }
            }
            at += STEP;
        } while (at < end);
    }

    // The sink, the division, and out.
    const float sink = p.more != 0 ? load_f32(p.more + 4 * head_of(row)) : NONE;
    const float best = max(top, sink);
    sum = fma(sum, weight(top, best), weight(sink, best));
    const float scale = sum == 0 ? 0.0 : weight(top, best) / sum;
    const uint  id    = sequence() * p.step + query_of(row) * kv_heads() * SHARING + head_of(row);
    if (own < total) {
        [[unroll]] for (uint d = 0; d < DV; d += 4) {
            store_f32x4(p.to + uint64_t(id * DV + d) * 4, vec4(acc[d], acc[d + 1], acc[d + 2], acc[d + 3]) * scale);
        }
    }
}
