// Functions of one number. Vulkan promises little about the accuracy of tanh, sin and cos, has no erf, and cancels where
// exp(x) - 1 is small; these are good to a few units in the last place on every device. Where a product meets a sum, fma()
// is written out: left to compilers, the same numbers could give other bits in another variant.

float accurate_expm1(float x) {
    // The series to x^7 misses 2e-8 of the result at the border.
    if (abs(x) < 0.35) {
        float s = fma(x, 1.0 / 5040.0, 1.0 / 720.0);
        s = fma(x, s, 1.0 / 120.0);
        s = fma(x, s, 1.0 / 24.0);
        s = fma(x, s, 1.0 / 6.0);
        s = fma(x, s, 0.5);
        return fma(x * x, s, x);
    }
    return exp(x) - 1.0;
}

// Through the negative half only: nothing overflows.
float accurate_tanh(float x) {
    const float m = accurate_expm1(-2.0 * abs(x));
    const float y = -m / (2.0 + m);
    return x < 0.0 ? -y : y;
}

// 1 - erf(x) to 1.2e-7 of itself: Chebyshev fit of W. H. Press et al., Numerical Recipes, section 6.2.
float erfc(float x) {
    const float z = abs(x);
    const float t = 1.0 / fma(0.5, z, 1.0);
    float s = fma(t, 0.17087277, -0.82215223);
    s = fma(t, s, 1.48851587);
    s = fma(t, s, -1.13520398);
    s = fma(t, s, 0.27886807);
    s = fma(t, s, -0.18628806);
    s = fma(t, s, 0.09678418);
    s = fma(t, s, 0.37409196);
    s = fma(t, s, 1.00002368);
    s = fma(t, s, -1.26551223);
    const float e = exp(fma(-z, z, s));
    return x < 0.0 ? fma(-t, e, 2.0) : t * e;
}

// sin(x + quarter * pi / 2). The angle is reduced to -pi/4 .. pi/4 with a pi/2 of three parts, so that |x| up to 1e5 keeps
// its accuracy; then Taylor series whose next term is below 1e-8.
float sine(float x, uint quarter) {
    const float turns = round(x * 0.63661977);
    float       r     = fma(-turns, 1.5703125, x);
    r                 = fma(-turns, 4.837512970e-4, r);
    r                 = fma(-turns, 7.549789949e-8, r);
    const uint  q     = (uint(int(turns)) + quarter) & 3;
    const float r2    = r * r;
    float       y;
    if ((q & 1) == 0) {
        float s = fma(r2, 1.0 / 362880.0, -1.0 / 5040.0);
        s       = fma(r2, s, 1.0 / 120.0);
        s       = fma(r2, s, -1.0 / 6.0);
        y       = fma(r * r2, s, r);
    } else {
        float s = fma(r2, 1.0 / 40320.0, -1.0 / 720.0);
        s       = fma(r2, s, 1.0 / 24.0);
        s       = fma(r2, s, -0.5);
        y       = fma(r2, s, 1.0);
    }
    return q >= 2 ? -y : y;
}

// Halves go away from zero, which GLSL's round() leaves open. The comparison is exact where adding 0.5 would not be.
float round_away(float x) {
    const float t = trunc(x);
    return abs(x - t) >= 0.5 ? t + sign(x) : t;
}

float sigmoid(float x) { return 1.0 / (1.0 + exp(-x)); }
float silu(float x) { return x / (1.0 + exp(-x)); }
float hardsigmoid(float x) { return min(1.0, max(0.0, (x + 3.0) / 6.0)); }
float gelu(float x) { return 0.5 * x * (1.0 + accurate_tanh(0.79788456 * x * fma(0.044715 * x, x, 1.0))); }
float gelu_quick(float x) { return x * (1.0 / (1.0 + exp(-1.702 * x))); }
// 1 + erf(y) is erfc(-y), which does not cancel for negative y.
float gelu_erf(float x) { return 0.5 * x * erfc(-0.70710678 * x); }
