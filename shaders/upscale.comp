// UPSCALE: the first two dimensions interpolated, the others taken from the nearest below; f32.
// variant upscale
#version 460
#extension GL_GOOGLE_include_directive : require
#include "memory.glsl"
#include "tensor.glsl"
#include "plain.glsl"
#include "divide.glsl"

layout(local_size_x_id = 0) in;
// Nearest, bilinear, bicubic, bilinear with antialiasing.
layout(constant_id = 1) const uint MODE = 0;

layout(push_constant, scalar) uniform Push {
    Tensor dst;
    Tensor a;
    // Places of the result for one of the source.
    float scale[4];
    // Where in a place its value sits: in the middle (0.5), or, with aligned corners, at its beginning (0).
    float offset;
};

float at(ivec2 i, uvec2 outer) {
    const ivec2 last = ivec2(a.ne[0], a.ne[1]) - 1;
    return load_f32(element(a, uvec4(clamp(i, ivec2(0), last), outer)));
}

vec4 cubic(float x) {
    const float a = -0.75;
    const vec2  n = vec2(x, 1.0 - x);
    const vec2  f = n + 1.0;
    const vec2  w = ((a + 2.0) * n - (a + 3.0)) * n * n + 1.0;
    const vec2  v = ((a * f - 5.0 * a) * f + 8.0 * a) * f - 4.0 * a;
    return vec4(v.x, w.x, w.y, v.y);
}

// The mean of the places below a triangle whose half width is one place of the larger grid.
float antialiased(vec2 s, uvec2 outer) {
    const vec2  support = max(vec2(1.0), 1.0 / vec2(scale[0], scale[1]));
    const ivec2 first   = max(ivec2(s - support + offset), ivec2(0));
    const ivec2 end     = min(ivec2(s + support + offset), ivec2(a.ne[0], a.ne[1]));
    float       sum     = 0.0;
    float       weights = 0.0;
    for (int y = first.y; y < end.y; y++) {
        for (int x = first.x; x < end.x; x++) {
            const vec2  t = max(1.0 - abs((vec2(x, y) - s + offset) / support), 0.0);
            const float w = t.x * t.y;
            sum += w > 0.0 ? w * at(ivec2(x, y), outer) : 0.0;
            weights += w;
        }
    }
    return weights > 0.0 ? sum / weights : sum;
}

void main() {
    const uint index = invocation();
    if (index >= elements(dst)) {
        return;
    }
    const uvec4 to    = unravel(index, dst.ne);
    const uvec2 outer = uvec2(divide(float(to.z), scale[2]), divide(float(to.w), scale[3]));
    float       v;
    if (MODE == 0) {
        v = at(ivec2(divide(float(to.x), scale[0]), divide(float(to.y), scale[1])), outer);
    } else {
        const vec2  middle = vec2(divide(float(to.x) + offset, scale[0]), divide(float(to.y) + offset, scale[1]));
        const vec2  s      = middle - offset;
        const ivec2 i      = ivec2(floor(s));
        const vec2  f      = s - vec2(i);
        if (MODE == 1) {
            const vec2 low  = vec2(at(i, outer), at(i + ivec2(1, 0), outer));
            const vec2 high = vec2(at(i + ivec2(0, 1), outer), at(i + ivec2(1, 1), outer));
            const vec2 x    = vec2(1.0 - f.x, f.x);
            v = dot(low, x) * (1.0 - f.y) + dot(high, x) * f.y;
        } else if (MODE == 2) {
            const vec4 x = cubic(f.x);
            const vec4 y = cubic(f.y);
            v = 0.0;
            for (int n = 0; n < 4; n++) {
                const ivec2 r = i + ivec2(0, n - 1);
                v += y[n] * dot(x, vec4(at(r - ivec2(1, 0), outer), at(r, outer), at(r + ivec2(1, 0), outer),
                                        at(r + ivec2(2, 0), outer)));
            }
        } else {
            v = antialiased(middle, outer);
        }
    }
    store_f32(element(dst, to), v);
}
