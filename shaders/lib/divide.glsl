// a / b rounded to nearest even, where Vulkan allows 2.5 units in the last place. Numbers near the ends of the
// exponents are left to the device.
float divide(float a, float b) {
    const uint ua = floatBitsToUint(a);
    const uint ub = floatBitsToUint(b);
    const int  ea = int((ua >> 23) & 255);
    const int  eb = int((ub >> 23) & 255);
    int        e  = ea - eb + 127;
    if (ea == 0 || ea == 255 || eb == 0 || eb == 255 || e < 2 || e > 253) {
        return a / b;
    }
    // 26 bits of quotient, or 25; the rest only says on which side of a half it lies.
    const uint64_t n = uint64_t((ua & 0x7fffff) | 0x800000) << 25;
    const uint64_t d = uint64_t((ub & 0x7fffff) | 0x800000);
    const uint64_t w = n / d;
    uint           q = uint(w);
    const uint     s = w * d == n ? 0u : 1u;
    if (q < (1u << 25)) {
        q <<= 1;
        e--;
    }
    // Now 1.25 with two bits below the last place.
    const uint low  = (q & 3) | s;
    uint       bits = (uint(e) << 23) + ((q >> 2) & 0x7fffff);
    if ((q & 2) != 0 && ((low & 1) != 0 || (bits & 1) != 0)) {
        bits++;
    }
    return uintBitsToFloat(bits | ((ua ^ ub) & 0x80000000));
}
