// IM2COL: the places of an image that a kernel covers, in a row for each position of the kernel; zero outside the image.
// variant im2col
#version 460
#extension GL_GOOGLE_include_directive : require
#include "memory.glsl"
#include "tensor.glsl"
#include "plain.glsl"

layout(local_size_x_id = 0) in;
layout(constant_id = 1) const uint DST = PLAIN_F32;
layout(constant_id = 2) const uint SRC = PLAIN_F32;

layout(push_constant, scalar) uniform Push {
    // Rows of kernel places (x fastest, then y, then channel), then the positions in x and y, then the images.
    Tensor dst;
    // x, y, channels, images.
    Tensor image;
    uint   kernel[2];
    int    stride[2];
    int    pad[2];
    int    dilation[2];
};

void main() {
    const uint index = invocation();
    if (index >= elements(dst)) {
        return;
    }
    const uvec4 to = unravel(index, dst.ne);
    const ivec2 k  = ivec2(to.x % kernel[0], to.x / kernel[0] % kernel[1]);
    const uint  c  = to.x / (kernel[0] * kernel[1]);
    const int   x  = int(to.y) * stride[0] + k.x * dilation[0] - pad[0];
    const int   y  = int(to.z) * stride[1] + k.y * dilation[1] - pad[1];
    float       v  = 0.0;
    if (x >= 0 && x < int(image.ne[0]) && y >= 0 && y < int(image.ne[1])) {
        v = load_plain(SRC, element(image, uvec4(x, y, c, to.w)));
    }
    store_plain(DST, element(dst, to), v);
}
