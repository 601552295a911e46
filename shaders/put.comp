// Numbers stored as another type, block by block: into the rows that `ids` names (SET_ROWS), or in the order of the
// elements (CPY).
// variant put_f32    TYPE=f32    PLAIN=0
// variant put_f16    TYPE=f16    PLAIN=1
// variant put_bf16   TYPE=bf16   PLAIN=2
// variant put_i32    TYPE=i32    PLAIN=3
// variant put_q4_0   TYPE=q4_0
// variant put_q4_1   TYPE=q4_1
// variant put_q5_0   TYPE=q5_0
// variant put_q5_1   TYPE=q5_1
// variant put_q8_0   TYPE=q8_0
// variant put_iq4_nl TYPE=iq4_nl
#version 460
#extension GL_GOOGLE_include_directive : require
#include "memory.glsl"
#include "tensor.glsl"
#include "plain.glsl"
#include "types.glsl"
#include "functions.glsl"
#include "divide.glsl"
#include "quantize.glsl"

layout(local_size_x_id = 0) in;
layout(constant_id = 1) const uint SRC = PLAIN_F32;
// 0: in order; 4 or 8: by row numbers of so many bytes.
layout(constant_id = 2) const uint ID = 0;

layout(push_constant, scalar) uniform Push {
    Tensor dst;
    Tensor src;
    Tensor ids;
};

#ifdef PLAIN
#define BLOCK 1
#else
#define BLOCK 32
#endif

// Block `index` of a tensor of shape `ne`.
uvec4 block(uint index, uint ne[4]) {
    ne[0] /= BLOCK;
    return unravel(index, ne);
}

void main() {
    const uint index = invocation();
    if (index >= elements(src) / BLOCK) {
        return;
    }
    uvec4 from = block(index, src.ne);
    uvec4 to   = from;
    if (ID != 0) {
        const uint64_t id = element(ids, uvec4(from.y, from.z % ids.ne[1], from.w % ids.ne[2], 0));
        to.y              = load_u32(id);
        // A negative or huge row has ones in one of its words.
        if (to.y >= dst.ne[1] || (ID == 8 && load_u32(id + 4) != 0)) {
            return;
        }
    } else {
        to = block(index, dst.ne);
    }
    from.x *= BLOCK;
    const uint64_t in_  = element(src, from);
    const uint64_t out_ = element(dst, to);
#ifdef PLAIN
    store_plain(PLAIN, out_, load_plain(SRC, in_));
#else
    float x[32];
    for (uint n = 0; n < 32; n++) {
        x[n] = load_plain(SRC, in_ + n * src.nb[0]);
    }
    OF(quantize, TYPE)(out_, x);
#endif
}
