// Functions of one number, element by element. The order of the functions is that of `FUNCTIONS` in `ops/elementwise.rs`.
// variant unary
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
layout(constant_id = 4) const uint SRC = PLAIN_F32;

layout(push_constant, scalar) uniform Push {
    Tensor dst;
    Tensor a;
    float  p[4];
};

float xielu(float x) {
    return x > 0.0 ? fma(p[1] * x, x, p[2] * x) : fma(accurate_expm1(min(x, p[3])) - x, p[0], p[2] * x);
}

float apply(float x) {
    switch (FUNCTION) {
        case 0: return abs(x);
        case 1: return x > 0.0 ? 1.0 : (x < 0.0 ? -1.0 : 0.0);
        case 2: return -x;
        case 3: return x > 0.0 ? 1.0 : 0.0;
        case 4: return accurate_tanh(x);
        case 5: return x > 0.0 ? x : accurate_expm1(x);
        case 6: return x > 0.0 ? x : 0.0;
        case 7: return sigmoid(x);
        case 8: return gelu(x);
        case 9: return gelu_quick(x);
        case 10: return silu(x);
        case 11: return x * hardsigmoid(x);
        case 12: return hardsigmoid(x);
        case 13: return exp(x);
        case 14: return accurate_expm1(x);
        case 15: return x > 20.0 ? x : log(1.0 + exp(x));
        case 16: return gelu_erf(x);
        case 17: return xielu(x);
        case 18: return floor(x);
        case 19: return ceil(x);
        case 20: return round_away(x);
        case 21: return trunc(x);
        case 22: return x * x;
        case 23: return sqrt(x);
        case 24: return sine(x, 0);
        case 25: return sine(x, 1);
        case 26: return log(x);
        case 27: return fma(x, p[0], p[1]);
        case 28: return max(min(x, p[1]), p[0]);
        default: return x < 0.0 ? x * p[0] : x;
    }
}

void main() {
    const uint index = invocation();
    if (index < elements(dst)) {
        const uvec4 i = unravel_in(DIMS, index, dst.ne);
        store_plain(DST, element(dst, i), apply(load_plain(SRC, element(a, i))));
    }
}
