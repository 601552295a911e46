// 32 numbers as a block of a quantised type, with the bits that ggml's reference quantisers give: each operation is rounded
// alone and in their order (`precise` forbids contraction), and a division is exact (`divide.glsl`).

float inverse(float d) { return d != 0.0 ? divide(1.0, d) : 0.0; }

// The number of the largest magnitude; the first of several.
float extreme(float x[32]) {
    float best = 0.0;
    for (uint n = 0; n < 32; n++) {
        best = abs(x[n]) > abs(best) ? x[n] : best;
    }
    return best;
}

vec2 range(float x[32]) {
    vec2 r = vec2(x[0]);
    for (uint n = 1; n < 32; n++) {
        // Not min() and max(), which may choose either zero.
        r = vec2(x[n] < r.x ? x[n] : r.x, x[n] > r.y ? x[n] : r.y);
    }
    return r;
}

// (x - minimum) * scale + shift without its fraction, at most `top`.
uint level(float x, float minimum, float scale, float shift, uint top) {
    precise float y = x - minimum;
    precise float z = y * scale;
    precise float w = z + shift;
    return min(uint(int(w)), top);
}

// Two nibbles of each of 16 bytes: numbers n and n + 16.
void store_nibbles(uint64_t a, uint q[32]) {
    for (uint n = 0; n < 16; n += 2) {
        const uint low  = (q[n] & 15) | ((q[n + 16] & 15) << 4);
        const uint high = (q[n + 1] & 15) | ((q[n + 17] & 15) << 4);
        store_u16(a + n, low | (high << 8));
    }
}

// The fifth bits, in one word.
void store_fifths(uint64_t a, uint q[32]) {
    uint bits = 0;
    for (uint n = 0; n < 32; n++) {
        bits |= (q[n] >> 4) << n;
    }
    store_u16(a, bits);
    store_u16(a + 2, bits >> 16);
}

void quantize_q4_0(uint64_t a, float x[32]) {
    const float d  = extreme(x) * -0.125;
    const float id = inverse(d);
    uint        q[32];
    for (uint n = 0; n < 32; n++) {
        q[n] = level(x[n], 0.0, id, 8.5, 15);
    }
    store_f16(a, d);
    store_nibbles(a + 2, q);
}

void quantize_q4_1(uint64_t a, float x[32]) {
    const vec2  r  = range(x);
    const float d  = divide(r.y - r.x, 15.0);
    const float id = inverse(d);
    uint        q[32];
    for (uint n = 0; n < 32; n++) {
        q[n] = level(x[n], r.x, id, 0.5, 15);
    }
    store_f16(a, d);
    store_f16(a + 2, r.x);
    store_nibbles(a + 4, q);
}

void quantize_q5_0(uint64_t a, float x[32]) {
    const float d  = extreme(x) * -0.0625;
    const float id = inverse(d);
    uint        q[32];
    for (uint n = 0; n < 32; n++) {
        q[n] = level(x[n], 0.0, id, 16.5, 31);
    }
    store_f16(a, d);
    store_fifths(a + 2, q);
    store_nibbles(a + 6, q);
}

void quantize_q5_1(uint64_t a, float x[32]) {
    const vec2  r  = range(x);
    const float d  = divide(r.y - r.x, 31.0);
    const float id = inverse(d);
    uint        q[32];
    for (uint n = 0; n < 32; n++) {
        q[n] = level(x[n], r.x, id, 0.5, 31);
    }
    store_f16(a, d);
    store_f16(a + 2, r.x);
    store_fifths(a + 4, q);
    store_nibbles(a + 8, q);
}

void quantize_q8_0(uint64_t a, float x[32]) {
    const float d  = divide(abs(extreme(x)), 127.0);
    const float id = inverse(d);
    store_f16(a, d);
    for (uint n = 0; n < 32; n += 2) {
        precise float low  = x[n] * id;
        precise float high = x[n + 1] * id;
        store_u16(a + 2 + n, (uint(int(round_away(low))) & 255) | ((uint(int(round_away(high))) & 255) << 8));
    }
}

const float IQ4_VALUES[16] = float[](-127.0, -104.0, -83.0, -65.0, -49.0, -35.0, -22.0, -10.0, 1.0, 13.0, 25.0, 38.0, 53.0,
                                     69.0, 89.0, 113.0);

// The place of the nearest of the 16 values; half way between two, the higher one.
uint nearest_iq4(float x) {
    uint best = 0;
    for (uint n = 1; n < 16; n++) {
        const float below = x - IQ4_VALUES[n - 1];
        best              = x >= IQ4_VALUES[n - 1] && below >= IQ4_VALUES[n] - x ? n : best;
    }
    return best;
}

// The scale is the one of least squares, each weighted with the square of its number.
void quantize_iq4_nl(uint64_t a, float x[32]) {
    const float most = extreme(x);
    uint        q[32];
    precise float sum_x = 0.0;
    precise float sum_q = 0.0;
    if (abs(most) >= 1e-15) {
        const float id = divide(1.0, divide(most, IQ4_VALUES[0]));
        for (uint n = 0; n < 32; n++) {
            precise float y   = x[n] * id;
            q[n]              = nearest_iq4(y);
            precise float w   = x[n] * x[n];
            precise float wq  = w * IQ4_VALUES[q[n]];
            precise float wqx = wq * x[n];
            precise float wqq = wq * IQ4_VALUES[q[n]];
            sum_x             = sum_x + wqx;
            sum_q             = sum_q + wqq;
        }
    } else {
        for (uint n = 0; n < 32; n++) {
            q[n] = 0;
        }
    }
    store_f16(a, sum_q > 0.0 ? divide(sum_x, sum_q) : 0.0);
    store_nibbles(a + 2, q);
}
