// Memory by address: every load and store of a shader goes through these functions, so that a checking build
// (TRI_SHADER_CHECK=1) can test each address against the ranges that the host allowed.
#extension GL_EXT_buffer_reference2 : require
#extension GL_EXT_scalar_block_layout : require
#extension GL_EXT_shader_16bit_storage : require
#extension GL_EXT_shader_8bit_storage : require
#extension GL_EXT_shader_explicit_arithmetic_types : require
#extension GL_KHR_shader_subgroup_basic : require
#extension GL_KHR_shader_subgroup_arithmetic : require
#extension GL_KHR_shader_subgroup_shuffle : require

layout(buffer_reference, scalar, buffer_reference_align = 1) buffer PtrU8 { uint8_t v; };
layout(buffer_reference, scalar, buffer_reference_align = 2) buffer PtrU16 { uint16_t v; };
layout(buffer_reference, scalar, buffer_reference_align = 4) buffer PtrU32 { uint v; };
layout(buffer_reference, scalar, buffer_reference_align = 8) buffer PtrU64 { uint64_t v; };
layout(buffer_reference, scalar, buffer_reference_align = 8) buffer PtrU32x2 { uvec2 v; };
layout(buffer_reference, scalar, buffer_reference_align = 16) buffer PtrU32x4 { uvec4 v; };
layout(buffer_reference, scalar, buffer_reference_align = 2) buffer PtrF16 { float16_t v; };
layout(buffer_reference, scalar, buffer_reference_align = 4) buffer PtrF32 { float v; };
layout(buffer_reference, scalar, buffer_reference_align = 16) buffer PtrF32x4 { vec4 v; };

// Whether the device is a CPU, as `pipelines.rs` says to all shaders. There each component of a load costs each invocation
// as much as a dozen additions, so what counts is how few there are: 64 bits at a time, and invocations that pass round
// what others need too.
layout(constant_id = 102) const bool SOFTWARE = false;

#ifdef TRI_CHECK
// The host's table: number of ranges, then (first, last + 1) of each; and one record of the first wrong address.
layout(constant_id = 100) const uint CHECK_LO = 0;
layout(constant_id = 101) const uint CHECK_HI = 0;
layout(buffer_reference, scalar, buffer_reference_align = 8) buffer CheckTable {
    uint     wrong;    // how many addresses were outside every range
    uint     ranges;
    uint64_t address;  // one of them
    uint64_t bounds[];
};
// An address outside every range is counted and replaced by the table's own scratch word.
uint64_t checked(uint64_t address, uint size) {
    CheckTable table = CheckTable(uint64_t(CHECK_LO) | (uint64_t(CHECK_HI) << 32));
    for (uint i = 0; i < table.ranges; i++) {
        if (address >= table.bounds[2 * i] && address + size <= table.bounds[2 * i + 1]) {
            return address;
        }
    }
    table.address = address;
    atomicAdd(table.wrong, 1);
    return table.bounds[0];
}
#else
#define checked(address, size) (address)
#endif

uint  load_u8(uint64_t a) { return uint(PtrU8(checked(a, 1)).v); }
uint  load_u16(uint64_t a) { return uint(PtrU16(checked(a, 2)).v); }
uint  load_u32(uint64_t a) { return PtrU32(checked(a, 4)).v; }
uvec2 load_u64(uint64_t a) { return unpackUint2x32(PtrU64(checked(a, 8)).v); }
uvec2 load_u32x2(uint64_t a) {
    if (SOFTWARE) {
        return load_u64(a);
    }
    return PtrU32x2(checked(a, 8)).v;
}
uvec4 load_u32x4(uint64_t a) {
    if (SOFTWARE) {
        return uvec4(load_u64(a), load_u64(a + 8));
    }
    return PtrU32x4(checked(a, 16)).v;
}
float load_f16(uint64_t a) { return float(PtrF16(checked(a, 2)).v); }
float load_f32(uint64_t a) { return PtrF32(checked(a, 4)).v; }
vec4  load_f32x4(uint64_t a) {
    if (SOFTWARE) {
        return uintBitsToFloat(load_u32x4(a));
    }
    return PtrF32x4(checked(a, 16)).v;
}
int   load_i32(uint64_t a) { return int(load_u32(a)); }
float load_bf16(uint64_t a) { return uintBitsToFloat(load_u16(a) << 16); }

void store_u8(uint64_t a, uint x) { PtrU8(checked(a, 1)).v = uint8_t(x); }
void store_u16(uint64_t a, uint x) { PtrU16(checked(a, 2)).v = uint16_t(x); }
void store_u32(uint64_t a, uint x) { PtrU32(checked(a, 4)).v = x; }
void store_u32x4(uint64_t a, uvec4 x) {
    if (SOFTWARE) {
        PtrU64(checked(a, 8)).v = packUint2x32(x.xy);
        PtrU64(checked(a + 8, 8)).v = packUint2x32(x.zw);
        return;
    }
    PtrU32x4(checked(a, 16)).v = x;
}
void store_f16(uint64_t a, float x) { PtrF16(checked(a, 2)).v = float16_t(x); }
void store_f32(uint64_t a, float x) { PtrF32(checked(a, 4)).v = x; }
void store_f32x4(uint64_t a, vec4 x) {
    if (SOFTWARE) {
        store_u32x4(a, floatBitsToUint(x));
        return;
    }
    PtrF32x4(checked(a, 16)).v = x;
}
// Round to nearest even; a NaN stays one.
uint bf16_bits(float x) {
    const uint u = floatBitsToUint(x);
    return isnan(x) ? (u >> 16) | 64 : (u + 0x7fff + ((u >> 16) & 1)) >> 16;
}
void store_bf16(uint64_t a, float x) { store_u16(a, bf16_bits(x)); }
