// The values of weights: of the rows that `ids` names (GET_ROWS), or of all elements in order (CPY).
// variant get_word    WORD
// variant get_f16     WEIGHT=f16
// variant get_bf16    WEIGHT=bf16
// variant get_q4_0    WEIGHT=q4_0
// variant get_q4_1    WEIGHT=q4_1
// variant get_q5_0    WEIGHT=q5_0
// variant get_q5_1    WEIGHT=q5_1
// variant get_q8_0    WEIGHT=q8_0
// variant get_q2_K    WEIGHT=q2_K
// variant get_q3_K    WEIGHT=q3_K
// variant get_q4_K    WEIGHT=q4_K
// variant get_q5_K    WEIGHT=q5_K
// variant get_q6_K    WEIGHT=q6_K
// variant get_iq4_nl  WEIGHT=iq4_nl
// variant get_iq4_xs  WEIGHT=iq4_xs
// variant get_mxfp4   WEIGHT=mxfp4
// variant get_iq1_s   WEIGHT=iq1_s
// variant get_iq1_m   WEIGHT=iq1_m
// variant get_iq2_xxs WEIGHT=iq2_xxs
// variant get_iq2_xs  WEIGHT=iq2_xs
// variant get_iq2_s   WEIGHT=iq2_s
// variant get_iq3_xxs WEIGHT=iq3_xxs
// variant get_iq3_s   WEIGHT=iq3_s
// variant get_tq1_0   WEIGHT=tq1_0
// variant get_tq2_0   WEIGHT=tq2_0
// variant get_q1_0    WEIGHT=q1_0
// variant get_q2_0    WEIGHT=q2_0
// variant get_nvfp4   WEIGHT=nvfp4
#version 460
#extension GL_GOOGLE_include_directive : require
#include "memory.glsl"
#include "tensor.glsl"
#include "plain.glsl"
#include "types.glsl"

layout(local_size_x_id = 0) in;
// Elements of an invocation: 4, or 1 where the rows are not that even.
layout(constant_id = 1) const uint WIDTH = 4;
layout(constant_id = 2) const uint BY_ID = 1;

layout(push_constant, scalar) uniform Push {
    Tensor   dst;
    Tensor   src;
    Tensor   ids;
    uint64_t grid;
};

// Place `index`, in pieces of WIDTH elements, of a tensor of shape `ne`; the first coordinate is that of an element.
uvec4 piece(uint index, uint ne[4]) {
    ne[0] /= WIDTH;
    uvec4 i = unravel(index, ne);
    i.x *= WIDTH;
    return i;
}

void main() {
    const uint index = invocation();
    if (index >= elements(dst) / WIDTH) {
        return;
    }
    weight_grid      = grid;
    const uvec4 to   = piece(index, dst.ne);
    uvec4       from = to;
    if (BY_ID != 0) {
        from.y = load_u32(element(ids, uvec4(to.yzw, 0)));
        if (from.y >= src.ne[1]) {
            return;
        }
    } else {
        from = piece(index, src.ne);
    }
    const uint64_t row = src.address + (from.y * src.nb[1] + from.z * src.nb[2] + from.w * src.nb[3]);
#ifdef WORD
    for (uint n = 0; n < WIDTH; n++) {
        store_u32(element(dst, to + uvec4(n, 0, 0, 0)), load_u32(row + (from.x + n) * src.nb[0]));
    }
#else
    if (WIDTH == 1) {
        store_f32(element(dst, to), OF(dequant, WEIGHT)(row, from.x));
    } else {
        const vec4 v = OF(dequant4, WEIGHT)(row, from.x);
        for (uint n = 0; n < 4; n++) {
            store_f32(element(dst, to + uvec4(n, 0, 0, 0)), v[n]);
        }
    }
#endif
}
