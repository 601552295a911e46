// Activations for matmul.comp: f32 to f16, each column padded with zeros to a multiple of 64, and zero columns up to the
// tile's width. In each four the middle two are exchanged; matmul_pieces.glsl says why.
//
// Numbers are divided by 32, which matmul.comp takes back: some models' activations exceed the range of f16, and what
// becomes too small for it, below 2e-6, is nothing beside them. Beyond 2 million a number becomes the largest one, not
// infinity, which would spread; infinities and NaNs stay what they are.
// variant matmul_pack
#version 460
#extension GL_GOOGLE_include_directive : require
#include "memory.glsl"
#include "tensor.glsl"

layout(local_size_x_id = 0) in;
layout(push_constant, scalar) uniform Push {
    uint64_t to;
    uint     columns;  // of a batch, zero ones too
    uint     eights;   // 16-byte pieces of a column
    uint     aligned;  // whether four numbers can be loaded at once
    uint     pieces;   // of all
    Tensor   from;
};

vec4 saturate(vec4 x) {
    const vec4 most = clamp(x, -65504.0, 65504.0);
    return mix(most, x, bvec4(uvec4(isinf(x)) | uvec4(isnan(x))));
}

void main() {
    const uint index = invocation();
    if (index >= pieces) {
        return;
    }
    const uint k      = index % eights * 8;
    const uint column = index / eights % columns;
    const uint batch  = index / eights / columns;
    vec4       x = vec4(0), y = vec4(0);
    if (column < from.ne[1] && k < from.ne[0]) {
        const uint64_t a = element(from, uvec4(k, column, batch % from.ne[2], batch / from.ne[2]));
        if (aligned != 0) {
            x = load_f32x4(a);
            y = load_f32x4(a + 16);
        } else {
            for (uint i = 0; i < 8 && k + i < from.ne[0]; i++) {
                const float v = load_f32(a + i * from.nb[0]);
                if (i < 4) {
                    x[i] = v;
                } else {
                    y[i - 4] = v;
                }
            }
        }
    }
    x = saturate(x / 32.0);
    y = saturate(y / 32.0);
    store_u32x4(to + uint64_t(index) * 16,
                uvec4(packHalf2x16(x.xz), packHalf2x16(x.yw), packHalf2x16(y.xz), packHalf2x16(y.yw)));
}
