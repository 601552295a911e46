// A tensor as a shader sees it, and the loop over the elements of the result. Mirrors `ops::TensorParams`.
struct Tensor {
    uint64_t address;
    uint     ne[4];  // elements
    uint     nb[4];  // bytes from one to the next; a tensor spans less than 4 GiB
};

// The address of an element of a tensor of plain numbers.
uint64_t element(Tensor t, uvec4 i) {
    return t.address + (i.x * t.nb[0] + i.y * t.nb[1] + i.z * t.nb[2] + i.w * t.nb[3]);
}

// The element of a tensor of shape `ne` with this index in the order of its dimensions.
uvec4 unravel(uint index, uint ne[4]) {
    uvec4 i;
    i.x = index % ne[0];
    index /= ne[0];
    i.y = index % ne[1];
    index /= ne[1];
    i.z = index % ne[2];
    i.w = index / ne[2];
    return i;
}

// The number of this invocation in a dispatch that `Dispatch::over` shaped. A macro, since the workgroup's size is declared
// after the includes.
#define invocation() \
    ((gl_WorkGroupID.y * gl_NumWorkGroups.x + gl_WorkGroupID.x) * gl_WorkGroupSize.x + gl_LocalInvocationID.x)
