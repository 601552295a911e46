// ROPE and ROPE_BACK: pairs of a row rotated by angles that grow with the position; f32 or f16. Each invocation moves the
// two elements of one pair, so dst may lie on x. With ROWS each token's heads become one f16 row of a KV cache, at the place
// that an index says: ROPE and SET_ROWS in one.
// variant rope_f32
// variant rope_f16 HALF
// variant rope_rows ROWS
#version 460
#extension GL_GOOGLE_include_directive : require
#include "memory.glsl"
#include "tensor.glsl"
#include "angle.glsl"

layout(local_size_x_id = 0) in;
layout(constant_id = 1) const uint MODE = 0;  // ggml's: 0 normal, 2 neox, 8 mrope, 24 vision, 40 interleaved mrope
layout(constant_id = 2) const bool BACK = false;
layout(constant_id = 3) const bool FACTORS = false;

layout(push_constant, scalar) uniform Push {
    uint64_t x;
    uint64_t dst;
    uint64_t positions;
    uint64_t factors;
    uint     ne0, ne1, ne2, pairs;  // all pairs of the tensor
    uint     x_nb[3];               // dimensions 1, 2, 3
    uint     dst_nb[3];
    uint     n_dims;                // elements that are rotated, from `first` on
    uint     first;
    uint     sections;              // four bytes: pairs that turn by each of four positions
    float    step;                  // ratio of the angles of neighbouring pairs
    float    freq_scale;
    float    ext_factor;            // YaRN: how much of the unscaled angle the fast pairs keep
    float    magnitude;
    float    low, high;             // YaRN: the pairs between which the share changes
#ifdef ROWS
    uint64_t rows;                  // i64 for each token
#endif
} p;

#ifdef HALF
#define SIZE 2
#define LOAD load_f16
#define STORE store_f16
#else
#define SIZE 4
#define LOAD load_f32
#define STORE store_f32
#endif
#ifdef ROWS
#define DST_SIZE 2
#undef STORE
#define STORE store_f16
#else
#define DST_SIZE SIZE
#endif

uint section(uint i) { return (p.sections >> (8 * i)) & 0xff; }

// Which of the four positions pair `j` turns by, and the pair's rank among those that count from the same angle.
uvec2 source_of(uint j) {
    if (MODE < 8) {
        return uvec2(0, j);
    }
    const uint s0 = section(0), s1 = section(1), s2 = section(2);
    const uint i = j % (s0 + s1 + s2 + section(3));
    if (MODE == 40) {
        const uint which = i % 3;
        return uvec2(i < 3 * section(which) ? which : 3, j);
    }
    const uint which = i < s0 ? 0 : i < s0 + s1 ? 1 : i < s0 + s1 + s2 ? 2 : 3;
    // Each section of a picture's positions starts from the first angle again.
    const uint start = which == 0 ? 0 : which == 1 ? s0 : which == 2 ? s0 + s1 : s0 + s1 + s2;
    return uvec2(which, MODE == 24 ? i - start : j);
}

vec2 rotation(uint j, uint i2) {
    const uvec2   which = source_of(j);
    precise float theta = float(load_i32(p.positions + (i2 + which.x * p.ne2) * 4));
    // Multiplied up one by one, as ggml-cpu does: at large positions any other order would give another angle.
    for (uint i = 0; i < which.y; i++) {
        theta *= p.step;
    }
    if (FACTORS) {
        theta /= load_f32(p.factors + j * 4);
    }
    precise float angle = theta * p.freq_scale;
    if (p.ext_factor != 0.0) {
        precise float share = (1.0 - clamp((float(j) - p.low) / max(0.001, p.high - p.low), 0.0, 1.0)) * p.ext_factor;
        angle = angle * (1.0 - share) + theta * share;
    }
    const vec2 turn = cos_sin(angle) * p.magnitude;
    return BACK ? vec2(turn.x, -turn.y) : turn;
}

void main() {
    const uint index = invocation();
    if (index >= p.pairs) {
        return;
    }
    const uint half_row = p.ne0 / 2;
    const uint j = index % half_row, row = index / half_row;
    const uint i1 = row % p.ne1, i2 = row / p.ne1 % p.ne2, i3 = row / p.ne1 / p.ne2;
    const uint64_t x = p.x + (i1 * p.x_nb[0] + i2 * p.x_nb[1] + i3 * p.x_nb[2]);
#ifdef ROWS
    const uint64_t dst = p.dst + (i1 * p.dst_nb[0] + uint64_t(load_u32(p.rows + i2 * 8)) * p.dst_nb[1]);
#else
    const uint64_t dst = p.dst + (i1 * p.dst_nb[0] + i2 * p.dst_nb[1] + i3 * p.dst_nb[2]);
#endif
    const uint     rotated = MODE == 24 ? p.n_dims : p.n_dims / 2;
    uvec2          e;
    if (j < rotated) {
        e = MODE == 0 ? p.first + 2 * j + uvec2(0, 1) : p.first + j + uvec2(0, rotated);
    } else {
        e = 2 * (j - rotated) + uvec2(0, 1);
        e += e.x >= p.first ? p.n_dims : 0;
    }
    precise vec2 v = vec2(LOAD(x + e.x * SIZE), LOAD(x + e.y * SIZE));
    if (j < rotated) {
        const vec2 turn = rotation(j, i2);
        v = vec2(v.x * turn.x - v.y * turn.y, v.x * turn.y + v.y * turn.x);
    }
    STORE(dst + e.x * DST_SIZE, v.x);
    STORE(dst + e.y * DST_SIZE, v.y);
}
