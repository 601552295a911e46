// SCALE: dst = a * scale + bias, element by element; f32.
// variant scale
#version 460
#extension GL_GOOGLE_include_directive : require
#include "memory.glsl"
#include "tensor.glsl"

layout(local_size_x_id = 0) in;

layout(buffer_reference, scalar) readonly buffer Params {
    Tensor dst;
    Tensor a;
    float  scale;
    float  bias;
};
layout(push_constant) uniform Push { Params p; };

void main() {
    const uint index = invocation();
    if (index >= p.dst.ne[0] * p.dst.ne[1] * p.dst.ne[2] * p.dst.ne[3]) {
        return;
    }
    const uvec4 i = unravel(index, p.dst.ne);
    store_f32(element(p.dst, i), load_f32(element(p.a, i)) * p.scale + p.bias);
}
