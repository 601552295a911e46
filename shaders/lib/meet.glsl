// Workgroups that meet: each stores a part of something with `meet_store`, and the last one to arrive sees all parts with
// `meet_load` and goes on. Loads and stores are made visible to the whole queue one by one, arrivals order them, and the
// barriers extend that order to all invocations of a workgroup. The shader that includes this must say
// `#pragma use_vulkan_memory_model`.
#extension GL_KHR_memory_scope_semantics : require

layout(buffer_reference, scalar, buffer_reference_align = 4) queuefamilycoherent buffer PtrMeetU32 { uint v; };
layout(buffer_reference, scalar, buffer_reference_align = 16) queuefamilycoherent buffer PtrMeetF32x4 { vec4 v; };

vec4 meet_load(uint64_t a) { return PtrMeetF32x4(checked(a, 16)).v; }
void meet_store(uint64_t a, vec4 x) { PtrMeetF32x4(checked(a, 16)).v = x; }

shared bool meet_last;

// Whether this workgroup is the last of `n` to arrive at the counter, which is 0 before the first one and after the last
// one. Called by all invocations.
bool meet_is_last(uint64_t counter, uint n) {
    controlBarrier(gl_ScopeWorkgroup, gl_ScopeWorkgroup, gl_StorageSemanticsBuffer, gl_SemanticsAcquireRelease);
    if (gl_LocalInvocationIndex == 0) {
        PtrMeetU32 count = PtrMeetU32(checked(counter, 4));
        const uint before =
            atomicAdd(count.v, 1, gl_ScopeQueueFamily, gl_StorageSemanticsBuffer, gl_SemanticsAcquireRelease);
        meet_last = before == n - 1;
        if (meet_last) {
            count.v = 0;
        }
    }
    controlBarrier(gl_ScopeWorkgroup, gl_ScopeWorkgroup, gl_StorageSemanticsBuffer | gl_StorageSemanticsShared,
                   gl_SemanticsAcquireRelease);
    return meet_last;
}
