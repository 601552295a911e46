// The columns of a MUL_MAT_ID in tiles, each of one expert: what matmul_group.comp writes and the products read. A pair is
// one use of an expert by a token; its number is token * used + use.
struct Group {
    uint expert;
    uint first;  // place of its first pair in the list
    uint count;  // of its pairs; none: there is no such tile
    bool known;  // whether there is such an expert; where not, the results are no numbers
};

Group group_load(uint64_t groups, uint index) {
    const uvec4 g = load_u32x4(groups + uint64_t(index) * 16);
    return Group(g.x, g.y, g.z, g.w != 0);
}

// The pair of column c of a tile; columns after the last repeat it.
uint group_pair(uint64_t pairs, Group g, uint c) { return load_u32(pairs + (g.first + min(c, g.count - 1)) * 4); }
