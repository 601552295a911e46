// Cosine and sine of any angle to about 1e-7. Vulkan promises 5e-4 of its own, and nothing for large angles.

// The bits of 2 / pi after the point: the first 64 and the next 32.
const uint64_t TWO_OVER_PI = 0xa2f9836e4e441529ul;
const uint64_t TWO_OVER_PI_NEXT = 0xfc2757d1ul;

vec2 cos_sin(float angle) {
    uint  quarter = 0;
    float r = abs(angle);
    if (r > 0.78539816) {
        // angle = m * 2^e with an integer m of 24 bits. Quarter turns times 2^62, modulo 4 turns, are m * (2^(62 + e) *
        // 2 / pi) modulo 2^64: exact to 2^-38 of a quarter turn, since the bits that the window lacks stay below that.
        const uint     bits = floatBitsToUint(r);
        const uint64_t m = uint64_t((bits & 0x7fffffu) | 0x800000u);
        const int      e = int(bits >> 23) - 150;
        const int      shift = e - 2;
        const uint64_t window = shift >= 0
            ? (TWO_OVER_PI << shift) | (TWO_OVER_PI_NEXT >> (32 - shift))
            : TWO_OVER_PI >> -shift;
        // Half a quarter is added, so that the rest lies around 0.
        const uint64_t turns = m * window + (1ul << 61);
        quarter = uint(turns >> 62);
        const int rest = int(uint((turns >> 30) & 0xfffffffful) ^ 0x80000000u);
        r = float(rest) * (1.57079633 / 4294967296.0);
    }
    // Polynomials for -pi/4 .. pi/4, nearest in the largest error.
    const float s = r * r;
    float sine = r + r * s * (-1.6666654611e-1 + s * (8.3321608736e-3 + s * -1.9515295891e-4));
    float cosine = 1.0 - 0.5 * s + s * s * (4.166664568298827e-2 + s * (-1.388731625493765e-3 + s * 2.443315711809948e-5));
    if ((quarter & 1u) != 0) {
        const float t = sine;
        sine = cosine;
        cosine = -t;
    }
    if ((quarter & 2u) != 0) {
        sine = -sine;
        cosine = -cosine;
    }
    return vec2(cosine, angle < 0.0 ? -sine : sine);
}
