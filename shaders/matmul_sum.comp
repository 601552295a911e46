// Adds the sums of workgroups that shared the tiles of a product, in order.
// variant matmul_sum
#version 460
#extension GL_GOOGLE_include_directive : require
#include "memory.glsl"
#include "tensor.glsl"

layout(local_size_x_id = 0) in;
layout(push_constant, scalar) uniform Push {
    uint64_t from;    // [share][batch][column][row]
    uint     shares;
    uint     share;   // bytes from one to the next
    Tensor   dst;
};

void main() {
    const uint index = invocation();
    if (index >= dst.ne[0] * dst.ne[1] * dst.ne[2] * dst.ne[3]) {
        return;
    }
    const uint64_t a   = from + uint64_t(index) * 4;
    float          sum = load_f32(a);
    for (uint i = 1; i < shares; i++) {
        sum += load_f32(a + uint64_t(i) * share);
    }
    store_f32(element(dst, unravel(index, dst.ne)), sum);
}
