// ADD_ID: each row of `a` plus the row of `b` that `ids` names; f32.
// variant add_id
#version 460
#extension GL_GOOGLE_include_directive : require
#include "memory.glsl"
#include "tensor.glsl"

layout(local_size_x_id = 0) in;

layout(buffer_reference, scalar) readonly buffer Params {
    Tensor dst;
    Tensor a;
    Tensor b;
    Tensor ids;
};
layout(push_constant) uniform Push { Params p; };

void main() {
    const uint index = invocation();
    if (index >= p.dst.ne[0] * p.dst.ne[1] * p.dst.ne[2] * p.dst.ne[3]) {
        return;
    }
    const uvec4 i   = unravel(index, p.dst.ne);
    const uint  row = load_u32(element(p.ids, uvec4(i.yz, 0, 0)));
    const float x   = load_f32(element(p.a, i));
    // A row that is not there adds nothing that could be read; ggml-cpu stops the process.
    const float y = row < p.b.ne[1] ? load_f32(element(p.b, uvec4(i.x, row, 0, 0))) : 0.0;
    store_f32(element(p.dst, i), x + y);
}
