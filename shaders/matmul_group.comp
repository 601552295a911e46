// Sorts the pairs of a MUL_MAT_ID by expert, in the order of their numbers within one, and cuts them into tiles
// (lib/matmul_experts.glsl). Each workgroup counts all pairs, so that it knows where its own expert's begin without waiting
// for another, then lists those. The last workgroup takes the pairs of experts that do not exist, and ends the tiles.
// variant matmul_group
#version 460
#extension GL_GOOGLE_include_directive : require
#include "memory.glsl"

layout(local_size_x_id = 0) in;
layout(constant_id = 1) const uint EXPERTS = 1;

layout(push_constant, scalar) uniform Push {
    uint64_t ids;
    uint64_t groups;
    uint64_t pairs;
    uint     used;       // pairs of a token
    uint     count;      // pairs
    uint     id0, id1;   // bytes from one id to the next, and between tokens
    uint     width;      // pairs of a tile
    uint     tiles;      // for which there is room
};

shared uint uses[EXPERTS + 1];
shared uint before_pairs;
shared uint before_tiles;
shared uint ends[gl_WorkGroupSize.x];

uint expert_of(uint pair) { return min(load_u32(ids + (pair % used * id0 + pair / used * id1)), EXPERTS); }

void main() {
    const uint t      = gl_LocalInvocationID.x;
    const uint size   = gl_WorkGroupSize.x;
    const uint expert = gl_WorkGroupID.x;
    for (uint i = t; i <= EXPERTS; i += size) {
        uses[i] = 0;
    }
    if (t == 0) {
        before_pairs = 0;
        before_tiles = 0;
    }
    barrier();
    // Each invocation takes a run of neighbours, so that the order of invocations is that of pairs.
    const uint run   = (count + size - 1) / size;
    const uint first = min(t * run, count);
    const uint last  = min(first + run, count);
    uint       own   = 0;
    for (uint pair = first; pair < last; pair++) {
        const uint e = expert_of(pair);
        atomicAdd(uses[e], 1);
        own += uint(e == expert);
    }
    barrier();
    uint pairs_here = 0;
    uint tiles_here = 0;
    for (uint e = t; e < expert; e += size) {
        pairs_here += uses[e];
        tiles_here += (uses[e] + width - 1) / width;
    }
    atomicAdd(before_pairs, pairs_here);
    atomicAdd(before_tiles, tiles_here);
    uint end = own;
    ends[t]  = end;
    for (uint distance = 1; distance < size; distance *= 2) {
        barrier();
        const uint left = t >= distance ? ends[t - distance] : 0;
        barrier();
        end += left;
        ends[t] = end;
    }
    barrier();
    const uint at_pair = before_pairs;
    const uint at_tile = before_tiles;
    uint64_t   to      = pairs + (at_pair + end - own) * 4;
    for (uint pair = first; pair < last; pair++) {
        if (expert_of(pair) == expert) {
            store_u32(to, pair);
            to += 4;
        }
    }
    const uint mine  = uses[expert];
    const uint known = uint(expert < EXPERTS);
    const uint tail  = expert == EXPERTS ? tiles : at_tile + (mine + width - 1) / width;
    for (uint i = at_tile + t; i < tail; i += size) {
        const uint done = (i - at_tile) * width;
        const uint left = done < mine ? min(mine - done, width) : 0;
        store_u32x4(groups + uint64_t(i) * 16, uvec4(min(expert, EXPERTS - 1), at_pair + done, left, known));
    }
}
