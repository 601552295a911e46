// Copies of bits, in units of 1, 2, 4 or 16 bytes: element n of one tensor becomes element n of another, or (REPEAT) one
// tensor fills another again and again in each dimension.
// variant copy
#version 460
#extension GL_GOOGLE_include_directive : require
#include "memory.glsl"
#include "tensor.glsl"
#include "plain.glsl"

layout(local_size_x_id = 0) in;
layout(constant_id = 1) const uint UNIT = 4;
layout(constant_id = 2) const uint DIMS = 4;
// 0: the shapes differ, 1: they are the same, 2: the source is repeated.
layout(constant_id = 3) const uint SHAPES = 1;

layout(push_constant, scalar) uniform Push {
    Tensor dst;
    Tensor src;
};

void main() {
    const uint index = invocation();
    if (index >= elements(dst)) {
        return;
    }
    const uvec4    i  = unravel_in(DIMS, index, dst.ne);
    const uint64_t to = element(dst, i);
    uint64_t       from;
    if (SHAPES == 0) {
        from = element(src, unravel(index, src.ne));
    } else if (SHAPES == 1) {
        from = element(src, i);
    } else {
        from = element(src, i % uvec4(src.ne[0], src.ne[1], src.ne[2], src.ne[3]));
    }
    switch (UNIT) {
        case 1: store_u8(to, load_u8(from)); break;
        case 2: store_u16(to, load_u16(from)); break;
        case 4: store_u32(to, load_u32(from)); break;
        default: store_u32x4(to, load_u32x4(from));
    }
}
