// Results whose elements are zero, a number, or an element of the source at another place.
// variant place
#version 460
#extension GL_GOOGLE_include_directive : require
#include "memory.glsl"
#include "tensor.glsl"
#include "plain.glsl"

layout(local_size_x_id = 0) in;
// FILL, ARANGE, TRI, DIAG, PAD, and PAD around a torus, which is ROLL as well.
layout(constant_id = 1) const uint FUNCTION = 0;
layout(constant_id = 2) const uint TYPE = PLAIN_F32;

layout(push_constant, scalar) uniform Push {
    Tensor dst;
    Tensor a;
    // TRI: the kind; PAD: where the source begins.
    int   p[4];
    float start;
    float step_;
};

// Where the source's element for place `to` of the result is; false where there is none.
bool place(uvec4 to, out uvec4 from) {
    from = to;
    switch (FUNCTION) {
        // Upper with the diagonal, upper, lower with it, lower.
        case 2: return p[0] < 2 ? to.x >= to.y + uint(p[0]) : to.x + uint(p[0] - 2) <= to.y;
        case 3: from.y = 0; return to.x == to.y;
    }
    const ivec4 ne = ivec4(a.ne[0], a.ne[1], a.ne[2], a.ne[3]);
    ivec4       i  = ivec4(to) - ivec4(p[0], p[1], p[2], p[3]);
    if (FUNCTION == 5) {
        // The sign of % of a negative number is left open by GLSL, so the two signs go separate ways.
        for (uint d = 0; d < 4; d++) {
            i[d] = i[d] < 0 ? ne[d] - 1 - (-1 - i[d]) % ne[d] : i[d] % ne[d];
        }
    }
    from = uvec4(i);
    return all(greaterThanEqual(i, ivec4(0))) && all(lessThan(i, ne));
}

void main() {
    const uint index = invocation();
    if (index >= elements(dst)) {
        return;
    }
    const uvec4 to = unravel(index, dst.ne);
    float       x  = 0.0;
    if (FUNCTION < 2) {
        x = fma(float(index), step_, start);
    } else {
        uvec4 from;
        if (place(to, from)) {
            x = load_plain(TYPE, element(a, from));
        }
    }
    store_plain(TYPE, element(dst, to), x);
}
