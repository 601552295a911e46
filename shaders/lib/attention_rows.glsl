// What the attention shaders that read Q, K and V share: their constants and numbers, and where a row's things are. A row
// is one query of one head; the rows of a KV head are numbered query by query, the heads that share it next to each other.
#include "attention.glsl"

layout(constant_id = 0) const uint WG = 128;
layout(constant_id = 1) const uint SUBGROUP = 32;
layout(constant_id = 2) const uint DK = 128;      // elements of a head of K, a multiple of 8
layout(constant_id = 3) const uint DV = 128;      // ... of V
layout(constant_id = 4) const uint SIZE = 4;      // rows of a workgroup, or positions of a tile
layout(constant_id = 5) const uint SHARING = 4;   // heads of Q that share a KV head
layout(constant_id = 6) const uint K_TYPE = 17;
layout(constant_id = 7) const uint V_TYPE = 17;
layout(constant_id = 8) const uint FLAGS = 0;
const bool MASK    = (FLAGS & 1) != 0;
const bool SOFTCAP = (FLAGS & 2) != 0;
const bool ALIBI   = (FLAGS & 4) != 0;
const bool SKIP    = (FLAGS & 8) != 0;   // look for tiles that the mask hides from all rows; changes no bit of a row
const bool WHOLE   = (FLAGS & 16) != 0;  // whole tiles only, and the mask can be loaded 8 bytes at a time

layout(push_constant, scalar) uniform Push {
    uint64_t q, k, v, mask, to;
    uint     q_nb[3], k_nb[3], v_nb[3], mask_nb[3];  // bytes to the next position, head, sequence
    uint     n, n_kv;
    uint     mask_heads; // heads of the mask, and << 16 its sequences
    uint     kv_heads;   // and << 16 the largest power of two up to the number of heads of Q
    float    scale;      // divided by `softcap`, if there is one
    float    softcap, max_bias;
    uint     step;       // attention_piece: positions of a piece. attention_tile: rows of the result between sequences
    uint64_t more;       // attention_piece: its `End`. attention_tile: one score per head, the sinks; 0 when there are none
} p;

uint kv_heads() { return p.kv_heads & 0xffff; }
uint kv_head() { return gl_WorkGroupID.z % kv_heads(); }
uint sequence() { return gl_WorkGroupID.z / kv_heads(); }
uint head_of(uint row) { return kv_head() * SHARING + row % SHARING; }
uint query_of(uint row) { return row / SHARING; }

uint64_t query_at(uint row) {
    return p.q + uint64_t(query_of(row)) * p.q_nb[0] + uint64_t(head_of(row)) * p.q_nb[1]
         + uint64_t(sequence()) * p.q_nb[2];
}
uint64_t keys_at() { return p.k + uint64_t(kv_head()) * p.k_nb[1] + uint64_t(sequence()) * p.k_nb[2]; }
uint64_t values_at() { return p.v + uint64_t(kv_head()) * p.v_nb[1] + uint64_t(sequence()) * p.v_nb[2]; }
uint64_t mask_at(uint row) {
    return p.mask + uint64_t(query_of(row)) * p.mask_nb[0]
         + uint64_t(head_of(row) % (p.mask_heads & 0xffff)) * p.mask_nb[1]
         + uint64_t(sequence() % (p.mask_heads >> 16)) * p.mask_nb[2];
}
float slope_of(uint row) { return ALIBI ? slope(head_of(row), p.max_bias, p.kv_heads >> 16) : 1.0; }

// What half a mask `bits` adds to a score.
float mask_value(uint bits, float slope) { return bits == 0xfc00 ? NONE : slope * unpackHalf2x16(bits).x; }

// The score of a dot product; `add` is what `mask_value` said.
float score(float dot, float add) {
    return add == NONE ? NONE : SOFTCAP ? fma(tanh(dot * p.scale), p.softcap, add) : fma(dot, p.scale, add);
}
