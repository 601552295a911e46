// Functions of two numbers, element by element; the second source may repeat. The order of the functions is that of `PAIRS`
// in `ops/elementwise.rs`.
// variant binary
#version 460
#extension GL_GOOGLE_include_directive : require
#include "memory.glsl"
#include "tensor.glsl"
#include "plain.glsl"
#include "functions.glsl"

layout(local_size_x_id = 0) in;
layout(constant_id = 1) const uint FUNCTION = 0;
layout(constant_id = 2) const uint DIMS = 4;
layout(constant_id = 3) const uint DST = PLAIN_F32;
layout(constant_id = 4) const uint A = PLAIN_F32;
layout(constant_id = 5) const uint B = PLAIN_F32;
// Whether b has dimensions of more than one element, yet fewer than the result.
layout(constant_id = 6) const uint REPEATS = 0;

layout(push_constant, scalar) uniform Push {
    Tensor dst;
    Tensor a;
    Tensor b;
    float  alpha;
    float  limit;
};

float apply(float x, float y) {
    switch (FUNCTION) {
        case 0: return x + y;
        case 1: return x - y;
        case 2: return x * y;
        case 3: return x / y;
        case 4: return x > 0.0 ? x * y : 0.0;
        case 5: return gelu(x) * y;
        case 6: return silu(x) * y;
        case 7:
            x = min(x, limit);
            return x / (1.0 + exp(-alpha * x)) * (clamp(y, -limit, limit) + 1.0);
        case 8: return gelu_erf(x) * y;
        case 9: return gelu_quick(x) * y;
        default: return silu(min(x, limit)) * clamp(y, -limit, limit);
    }
}

void main() {
    const uint index = invocation();
    if (index < elements(dst)) {
        const uvec4 i = unravel_in(DIMS, index, dst.ne);
        uvec4       j = i;
        if (REPEATS != 0) {
            j = uvec4(i.x % b.ne[0], i.y % b.ne[1], i.z % b.ne[2], i.w % b.ne[3]);
        }
        const float x = load_plain(A, element(a, i));
        const float y = load_plain(B, element(b, j));
        store_plain(DST, element(dst, i), apply(x, y));
    }
}
