// Plain numbers of a type known when the pipeline is made, and loops over fewer dimensions. Mirrors `ops/loops.rs`.
#define PLAIN_F32 0
#define PLAIN_F16 1
#define PLAIN_BF16 2
#define PLAIN_I32 3

float load_plain(uint type, uint64_t a) {
    if (type == PLAIN_F32) {
        return load_f32(a);
    }
    if (type == PLAIN_F16) {
        return load_f16(a);
    }
    return type == PLAIN_BF16 ? load_bf16(a) : float(load_i32(a));
}

void store_plain(uint type, uint64_t a, float x) {
    if (type == PLAIN_F32) {
        store_f32(a, x);
    } else if (type == PLAIN_F16) {
        store_f16(a, x);
    } else if (type == PLAIN_BF16) {
        store_bf16(a, x);
    } else {
        store_u32(a, uint(int(x)));
    }
}

// `unravel` for a shape whose dimensions from `dims` on have one element. Each division that is not done is time saved.
uvec4 unravel_in(uint dims, uint index, uint ne[4]) {
    uvec4 i = uvec4(index, 0, 0, 0);
    if (dims > 1) {
        i.x = index % ne[0];
        i.y = index / ne[0];
    }
    if (dims > 2) {
        i.z = i.y / ne[1];
        i.y %= ne[1];
    }
    if (dims > 3) {
        i.w = i.z / ne[2];
        i.z %= ne[2];
    }
    return i;
}

uint elements(Tensor t) { return t.ne[0] * t.ne[1] * t.ne[2] * t.ne[3]; }
