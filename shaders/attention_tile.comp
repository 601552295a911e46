// FLASH_ATTN_EXT of prompts with cooperative matrices: each subgroup has 16 rows and goes through the whole KV length in
// tiles of KEYS positions, which the workgroup shares as halves. Products are f16 x f16 -> f32; softmax and sums are f32.
// variant attention_tile
#version 460
#extension GL_GOOGLE_include_directive : require
#extension GL_KHR_shader_subgroup_vote : require
#extension GL_KHR_memory_scope_semantics : require
#extension GL_KHR_cooperative_matrix : require
#include "memory.glsl"
#include "attention_rows.glsl"

layout(local_size_x_id = 0) in;
const uint KEYS  = SIZE;
const uint NSG   = WG / SUBGROUP;
const uint LANES = SUBGROUP / 16;  // invocations of a row in the softmax
const uint COLS  = KEYS / LANES;   // scores of an invocation
// Matrices of 16; what a head lacks is zero.
const uint MK = (DK + 15) / 16;
const uint MV = (DV + 15) / 16;
// Strides of rows in shared memory, in vectors of four. The extra ones spread the rows over the banks.
const uint KS = MK * 4 + 2;
const uint VS = MV * 4 + 2;
const uint PS = KEYS / 4 + 2;
const uint SS = KEYS / 4 + 1;

#define Left coopmat<float16_t, gl_ScopeSubgroup, 16, 16, gl_MatrixUseA>
#define Right coopmat<float16_t, gl_ScopeSubgroup, 16, 16, gl_MatrixUseB>
#define Sum coopmat<float, gl_ScopeSubgroup, 16, 16, gl_MatrixUseAccumulator>

shared f16vec4 keys[KEYS * KS];
shared f16vec4 values[KEYS * VS];
shared f16vec4 shares[NSG * 16 * PS];  // weights of a tile, by row
shared vec4    work[NSG * 16 * SS];    // scores, factors of rows, results
shared uint    seen[3];

// Eight elements of K or V as halves; zero beyond the head.
void stage(bool is_key, uint64_t row, uint k, uint size, uint type, uint to) {
    f16vec4 lo = f16vec4(0), hi = f16vec4(0);
    if (k < size && type == T_F16 + ALIGNED) {
        const uvec4 w = load_u32x4(row + 2 * k);
        lo = f16vec4(unpackFloat2x16(w.x), unpackFloat2x16(w.y));
        hi = f16vec4(unpackFloat2x16(w.z), unpackFloat2x16(w.w));
    } else if (k < size) {
        const Eight x = load8(type, row, k);
        lo = f16vec4(x.lo);
        hi = f16vec4(x.hi);
    }
    if (is_key) {
        keys[to] = lo;
        keys[to + 1] = hi;
    } else {
        values[to] = lo;
        values[to + 1] = hi;
    }
}

void main() {
    const uint lane  = gl_SubgroupInvocationID;
    const uint tid   = gl_SubgroupID * SUBGROUP + lane;
    const uint total = SHARING * p.n;
    const uint base  = gl_SubgroupID * 16;
    // In the softmax an invocation has COLS neighbouring scores of one row. Rows beyond the last repeat it.
    const uint line  = base + lane / LANES;
    const uint part  = lane % LANES;
    const uint wish  = gl_WorkGroupID.x * NSG * 16 + line;
    const uint row   = min(wish, total - 1);
    const float slope = slope_of(row);
    const uint64_t row_mask = mask_at(row), first_key = keys_at(), first_value = values_at();

    // Q goes into registers for good, 16 columns at a time.
    Left query[MK];
    const uint64_t row_query = query_at(row);
    for (uint m = 0; m < MK; m++) {
        for (uint i = part; i < 4; i += LANES) {
            const uint d = m * 16 + i * 4;
            const uint64_t a = row_query + 4 * d;
            shares[line * PS + i] =
                d < DK ? f16vec4(load_f32(a), load_f32(a + 4), load_f32(a + 8), load_f32(a + 12)) : f16vec4(0);
        }
        subgroupBarrier();
        coopMatLoad(query[m], shares, base * PS, PS, gl_CooperativeMatrixLayoutRowMajor);
        subgroupBarrier();
    }
    Sum result[MV];
    for (uint m = 0; m < MV; m++) {
        result[m] = Sum(0.0);
    }
    float top = NONE, sum = 0;
    if (tid < 3) {
        seen[tid] = 0;
    }
    barrier();

    uint turn = 0;
    for (uint at = 0; at < p.n_kv; at += KEYS) {
        // What the mask adds; and whether any row sees anything of this tile.
        float add[COLS];
        bool any = false;
        for (uint j = 0; j < COLS; j += 4) {
            const uint pos = at + part * COLS + j;
            if (MASK && WHOLE) {
                const uvec2 w = load_u32x2(row_mask + 2 * pos);
                add[j] = mask_value(w.x & 0xffff, slope);
                add[j + 1] = mask_value(w.x >> 16, slope);
                add[j + 2] = mask_value(w.y & 0xffff, slope);
                add[j + 3] = mask_value(w.y >> 16, slope);
            } else {
                for (uint i = 0; i < 4; i++) {
                    add[j + i] = pos + i >= p.n_kv ? NONE
                               : MASK ? mask_value(load_u16(row_mask + 2 * (pos + i)), slope) : 0.0;
                }
            }
            for (uint i = 0; i < 4; i++) {
                any = any || add[j + i] != NONE;
            }
        }
        // Three flags in turn: one is written and read, and one is cleared that nobody uses before the next barrier.
        if (any) {
            seen[turn] = 1;
        }
        barrier();  // also: the tile before is done with
        const bool live = seen[turn] != 0;
        if (tid == 0) {
            seen[(turn + 2) % 3] = 0;
        }
        turn = (turn + 1) % 3;
        if (!live) {
            continue;
        }
        for (uint i = tid; i < KEYS * MK * 2; i += WG) {
            const uint j = i / (MK * 2), c = i % (MK * 2);
            const uint pos = min(at + j, p.n_kv - 1);
            stage(true, first_key + uint64_t(pos) * p.k_nb[0], c * 8, DK, K_TYPE, j * KS + c * 2);
        }
        for (uint i = tid; i < KEYS * MV * 2; i += WG) {
            const uint j = i / (MV * 2), c = i % (MV * 2);
            const uint pos = min(at + j, p.n_kv - 1);
            stage(false, first_value + uint64_t(pos) * p.v_nb[0], c * 8, DV, V_TYPE, j * VS + c * 2);
        }
        barrier();

        for (uint c = 0; c < KEYS / 16; c++) {
            Sum dots = Sum(0.0);
            for (uint m = 0; m < MK; m++) {
                Right key;
                coopMatLoad(key, keys, c * 16 * KS + m * 4, KS, gl_CooperativeMatrixLayoutColumnMajor);
                dots = coopMatMulAdd(query[m], key, dots);
            }
            coopMatStore(dots, work, base * SS + c * 4, SS, gl_CooperativeMatrixLayoutRowMajor);
        }
        subgroupBarrier();

        // Softmax of the tile.
        float best = top;
        for (uint j = 0; j < COLS; j++) {
            add[j] = score(work[line * SS + (part * COLS + j) / 4][j % 4], add[j]);
            best = max(best, add[j]);
        }
        for (uint i = 1; i < LANES; i *= 2) {
            best = max(best, subgroupShuffleXor(best, i));
        }
        float new_sum = 0;
        for (uint j = 0; j < COLS; j += 4) {
            vec4 w;
            for (uint i = 0; i < 4; i++) {
                w[i] = weight(add[j + i], best);
                new_sum += w[i];
            }
            shares[line * PS + (part * COLS + j) / 4] = f16vec4(w);
        }
        for (uint i = 1; i < LANES; i *= 2) {
            new_sum += subgroupShuffleXor(new_sum, i);
        }
        const float fade = weight(top, best);
        sum = fma(sum, fade, new_sum);
        top = best;
        subgroupBarrier();
        // A matrix has no rows that could be scaled, so each row's factor is spread over a matrix.
        if (subgroupAny(fade != 1)) {
            for (uint i = part; i < 4; i += LANES) {
                work[line * SS + i] = vec4(fade);
            }
            subgroupBarrier();
            Sum factor;
            coopMatLoad(factor, work, base * SS, SS, gl_CooperativeMatrixLayoutRowMajor);
            for (uint m = 0; m < MV; m++) {
                result[m] = result[m] * factor;
            }
        }
        for (uint c = 0; c < KEYS / 16; c++) {
            Left share;
            coopMatLoad(share, shares, base * PS + c * 4, PS, gl_CooperativeMatrixLayoutRowMajor);
            for (uint m = 0; m < MV; m++) {
                Right value;
                coopMatLoad(value, values, c * 16 * VS + m * 4, VS, gl_CooperativeMatrixLayoutRowMajor);
                result[m] = coopMatMulAdd(share, value, result[m]);
            }
        }
    }

    // The sink, the division, and out.
    const float sink = p.more != 0 ? load_f32(p.more + 4 * head_of(row)) : NONE;
    const float best = max(top, sink);
    sum = fma(sum, weight(top, best), weight(sink, best));
    const float scale = sum == 0 ? 0.0 : weight(top, best) / sum;
    const uint  id    = sequence() * p.step + query_of(row) * kv_heads() * SHARING + head_of(row);
    for (uint m = 0; m < MV; m++) {
        subgroupBarrier();
        coopMatStore(result[m], work, base * SS, SS, gl_CooperativeMatrixLayoutRowMajor);
        subgroupBarrier();
        for (uint i = part; i < 4; i += LANES) {
            const uint d = m * 16 + i * 4;
            if (wish < total && d < DV) {
                store_f32x4(p.to + uint64_t(id * DV + d) * 4, work[line * SS + i] * scale);
            }
        }
    }
}
