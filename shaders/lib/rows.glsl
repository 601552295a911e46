// One workgroup per row: its number, its elements by fours, and reductions over the workgroup.
//
// The order of every reduction is fixed by the workgroup's size alone, and the elements of an invocation by the row's
// length alone: neither how many rows there are nor how they lie in memory changes a bit of a row.

shared float row_shared[128];  // one for each subgroup: at most 1024 invocations in subgroups of at least 8

// The number of this workgroup in a dispatch that `Dispatch::groups_of` shaped.
uint group_number() { return gl_WorkGroupID.y * gl_NumWorkGroups.x + gl_WorkGroupID.x; }

// All invocations get the same sum: the butterfly adds the same two numbers on both of its sides.
precise float subgroup_sum(float x) {
    precise float sum = x;
    for (uint d = gl_SubgroupSize / 2; d > 0; d /= 2) {
        sum += subgroupShuffleXor(sum, d);
    }
    return sum;
}

float group_sum(float x) {
    precise float sum = subgroup_sum(x);
    if (gl_NumSubgroups == 1) {
        return sum;
    }
    barrier();  // an earlier reduction has read its numbers
    if (gl_SubgroupInvocationID == 0) {
        row_shared[gl_SubgroupID] = sum;
    }
    barrier();
    sum = 0.0;
    for (uint i = gl_SubgroupInvocationID; i < gl_NumSubgroups; i += gl_SubgroupSize) {
        sum += row_shared[i];
    }
    return subgroup_sum(sum);
}

float subgroup_max(float x) {
    for (uint d = gl_SubgroupSize / 2; d > 0; d /= 2) {
        x = max(x, subgroupShuffleXor(x, d));
    }
    return x;
}

float group_max(float x) {
    x = subgroup_max(x);
    if (gl_NumSubgroups == 1) {
        return x;
    }
    barrier();
    if (gl_SubgroupInvocationID == 0) {
        row_shared[gl_SubgroupID] = x;
    }
    barrier();
    for (uint i = gl_SubgroupInvocationID; i < gl_NumSubgroups; i += gl_SubgroupSize) {
        x = max(x, row_shared[i]);
    }
    return subgroup_max(x);
}

// A number whose integer order is the order of floats; both zeros have the same.
uint order_of(float x) {
    const uint bits = floatBitsToUint(x);
    if (bits == 0x80000000u) {
        return bits;
    }
    return (bits & 0x80000000u) != 0 ? ~bits : bits | 0x80000000u;
}

// A row's element 4 * i and the three after it; 0 for those at or past `n`. `wide`: they are 16 aligned bytes.
vec4 load_four(uint64_t row, uint i, uint n, uint stride, bool wide) {
    const uint e = 4 * i;
    if (wide) {
        return load_f32x4(row + e * 4);
    }
    vec4 x = vec4(0.0);
    for (uint k = 0; k < 4 && e + k < n; k++) {
        x[k] = load_f32(row + (e + k) * stride);
    }
    return x;
}

void store_four(uint64_t row, uint i, uint n, bool wide, vec4 x) {
    const uint e = 4 * i;
    if (wide) {
        store_f32x4(row + e * 4, x);
        return;
    }
    for (uint k = 0; k < 4 && e + k < n; k++) {
        store_f32(row + (e + k) * 4, x[k]);
    }
}
