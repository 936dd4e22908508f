/* Exponential, logarithm, and what follows from them. Polynomials are minimax fits of the function named beside them. */
#include "npuc_real.h"

#define LOG2_E 1.44269504f
#define LN_2_HIGH 0.693145752f     /* 15 bits: products with exponents are exact */
#define LN_2_LOW 1.42860682e-6f    /* ln 2 less that */
#define TWICE_ROOT_2_OVER_PI 1.59576917f /* less 4.53406803e-8 */
#define CUBE_FACTOR 0.044715f             /* and 1.54614448e-9 */
#define SQRT_HALF 0.707106781f

/* An unevaluated sum, the second part being small. */
typedef struct {
    float high;
    float low;
} pair_t;

static float power_of_two(int32_t exponent)
{
    return npuc_float_of((uint32_t)(exponent + 127) << 23);
}

static float infinity(void)
{
    return npuc_float_of(NPUC_INFINITY_BITS);
}

static float not_a_number(void)
{
    return npuc_float_of(NPUC_NAN_BITS);
}

/* The value with the lower half of its fraction cleared: products of two such values are exact. */
static float upper_half(float x)
{
    return npuc_float_of(npuc_bits_of(x) & 0xfffff000u);
}

static pair_t exact_sum(float a, float b)
{
    pair_t result;
    result.high = a + b;
    const float other = result.high - a;
    result.low = (a - (result.high - other)) + (b - other);
    return result;
}

static pair_t exact_product(float a, float b)
{
    pair_t result;
    const float a_high = upper_half(a);
    const float b_high = upper_half(b);
    const float a_low = a - a_high;
    const float b_low = b - b_high;
    result.high = a * b;
    result.low = ((a_high * b_high - result.high) + a_high * b_low + a_low * b_high) + a_low * b_low;
    return result;
}

float npuc_line(float factor, float x, float offset)
{
    if (!(npuc_magnitude(factor * x) < 1e9f)) {
        return factor * x + offset;
    }
    const pair_t product = exact_product(factor, x);
    const pair_t sum = exact_sum(product.high, offset);
    return sum.high + (sum.low + product.low);
}

/* exp(r) - 1 for |r| <= 0.36. */
static float expm1_small(float r)
{
    const float p = 0.5f + r * (0.166666668f + r * (0.0416663508f + r * (0.00833327343f +
                    r * (0.00139413251f + r * 0.000199140002f))));
    return r + r * r * p;
}

/* exp(x + low), |low| being small. */
static float exp_pair(float x, float low)
{
    if (!(x < 89.0f)) {
        return x != x ? x : infinity();
    }
    if (x < -104.5f) {
        return 0.0f;
    }
    const int32_t n = (int32_t)(x * LOG2_E + (x < 0.0f ? -0.5f : 0.5f));
    const float r = (x - (float)n * LN_2_HIGH) - ((float)n * LN_2_LOW - low);
    const float value = 1.0f + expm1_small(r);
    return value * power_of_two(n / 2) * power_of_two(n - n / 2);
}

float npuc_exp(float x)
{
    return exp_pair(x, 0.0f);
}

float npuc_expm1(float x)
{
    return npuc_magnitude(x) < 0.35f ? expm1_small(x) : npuc_exp(x) - 1.0f;
}

/* x = 2^exponent * mantissa, mantissa in [sqrt(1/2), sqrt(2)); x is positive and finite. */
static float split(float x, int32_t *exponent)
{
    const int32_t is_denormal = npuc_bits_of(x) < 0x800000u;
    const uint32_t bits = npuc_bits_of(is_denormal ? x * 8388608.0f : x);
    const int32_t is_large = (bits & 0x7fffffu) >= 0x3504f3u;
    *exponent = (int32_t)(bits >> 23) - 127 + is_large - (is_denormal ? 23 : 0);
    return npuc_float_of((bits & 0x7fffffu) | (is_large ? 0x3f000000u : 0x3f800000u));
}

/* 2 artanh(s) - 2 s over s, for z = s^2 <= 0.0295. */
static float artanh_tail(float z)
{
    return z * (0.666666656f + z * (0.400003456f + z * (0.285366028f + z * 0.235963342f)));
}

/* The logarithm of 1 + f is 2 artanh(f / (2 + f)). */
float npuc_log(float x)
{
    int32_t exponent;
    if (!(x > 0.0f) || x == infinity()) {
        return x == 0.0f ? -infinity() : x > 0.0f || x != x ? x : not_a_number();
    }
    const float f = split(x, &exponent) - 1.0f;
    const float s = f / (2.0f + f);
    const float k = (float)exponent;
    return k * LN_2_HIGH + (f - (s * (f - artanh_tail(s * s)) - k * LN_2_LOW));
}

/* What 1 + x loses in rounding is a factor of the logarithm. */
float npuc_log1p(float x)
{
    const float sum = 1.0f + x;
    if (sum == 1.0f || sum == infinity()) {
        return x;
    }
    return npuc_log(sum) * (x / (sum - 1.0f));
}

/* Below, tanh(x) - x over x^3. */
float npuc_tanh(float x)
{
    const float size = npuc_magnitude(x);
    if (size < 0.625f) {
        const float z = x * x;
        const float p = -0.333333309f + z * (0.133332098f + z * (-0.0539472043f + z * (0.0217029671f +
                        z * (-0.00818267386f + z * 0.00214753687f))));
        return x + x * z * p;
    }
    const float result = 1.0f - 2.0f / (npuc_exp(2.0f * size) + 1.0f);
    return x < 0.0f ? -result : x != x ? x : result;
}

float npuc_sigmoid(float x)
{
    const float small = npuc_exp(-npuc_magnitude(x));
    return (x >= 0.0f ? 1.0f : small) / (1.0f + small);
}

/* exp(-factor * x^2), factor being 1 or 1/2; the square of the upper half of x is exact. */
static float gauss(float x, float factor)
{
    const float high = upper_half(x);
    return exp_pair(-(high * high * factor), 0.0f) * exp_pair(-((x - high) * (x + high) * factor), 0.0f);
}

/* (1 - erf(x)) * exp(x^2) for x >= 0.45: with 1 + 2 x a polynomial of (x - 2) / (x + 2). */
static float erfc_scaled(float x)
{
    const float u = (x - 2.0f) / (x + 2.0f);
    const float p = 1.27697838f + u * (-0.0927634663f + u * (-0.166030619f + u * (0.164039666f + u * (-0.0542146484f +
                    u * (-0.00793136058f + u * (0.00867510666f + u * (0.000921886756f - u * 0.00128735034f)))))));
    return p / (1.0f + 2.0f * x);
}

/* erf(x) for |x| <= 1. */
static float erf_small(float x)
{
    const float z = x * x;
    return x * (1.12837917f + z * (-0.376126384f + z * (0.11283782f + z * (-0.0268654f + z * (0.00522094543f +
           z * (-0.000848282886f + z * (0.00011256948f - z * 9.64151643e-6f)))))));
}

float npuc_erf(float x)
{
    const float size = npuc_magnitude(x);
    if (!(size > 1.0f)) {
        return x != x ? x : erf_small(x);
    }
    const float result = size > 4.0f ? 1.0f : 1.0f - gauss(size, 1.0f) * erfc_scaled(size);
    return x < 0.0f ? -result : result;
}

/* x / 2 * (1 + erf(x / sqrt(2))). */
float npuc_gelu(float x)
{
    const float z = npuc_magnitude(x) * SQRT_HALF;
    if (x != x || z < 0.5f) {
        return 0.5f * x * (1.0f + erf_small(x * SQRT_HALF));
    }
    if (z > 11.0f) {
        return x < 0.0f ? x * 0.0f : x; /* -infinity gives no number */
    }
    const float beyond = gauss(x, 0.5f) * erfc_scaled(z);
    return 0.5f * x * (x < 0.0f ? beyond : 2.0f - beyond);
}

/* x / 2 * (1 + tanh(v / 2)) = x / (1 + exp(-v)), v = 2 sqrt(2 / pi) (x + 0.044715 x^3). */
float npuc_gelu_tanh(float x)
{
    if (!(npuc_magnitude(x) < 16.0f)) {
        return x < 0.0f ? x * 0.0f : x; /* -infinity gives no number */
    }
    const pair_t square = exact_product(x, x);
    const pair_t factor = exact_product(square.high, CUBE_FACTOR);
    const pair_t sum = exact_sum(1.0f, factor.high);
    const float rest = sum.low + factor.low + square.low * CUBE_FACTOR + square.high * 1.54614448e-9f;
    const pair_t slope = exact_product(TWICE_ROOT_2_OVER_PI, sum.high);
    const float slope_rest = slope.low + TWICE_ROOT_2_OVER_PI * rest - sum.high * 4.53406803e-8f;
    const pair_t v = exact_product(x, slope.high);
    const float rest_of_v = v.low + x * slope_rest;
    const float small = x < 0.0f ? exp_pair(v.high, rest_of_v) : exp_pair(-v.high, -rest_of_v);
    return (x < 0.0f ? x * small : x) / (1.0f + small);
}

/* The logarithm of a positive finite x to twice the digits. */
static pair_t log_pair(float x)
{
    int32_t exponent;
    const float f = split(x, &exponent) - 1.0f;
    const float k = (float)exponent;
    const pair_t divisor = exact_sum(2.0f, f);
    const float s = f / divisor.high;
    const pair_t back = exact_product(s, divisor.high);
    const float s_low = (((f - back.high) - back.low) - s * divisor.low) / divisor.high;
    pair_t result = exact_sum(k * LN_2_HIGH, 2.0f * s);
    result.low += k * LN_2_LOW + (2.0f * s_low + s * artanh_tail(s * s));
    return exact_sum(result.high, result.low);
}

/* x^exponent for positive finite x; exponents beyond a limit decide between zero, one and infinity as it does. */
static float pow_positive(float x, float exponent)
{
    const float limit = 1e10f;
    const float y = npuc_larger(-limit, npuc_smaller(exponent, limit));
    const pair_t logarithm = log_pair(x);
    const pair_t product = exact_product(logarithm.high, y);
    const float low = product.low + logarithm.low * y;
    if (npuc_magnitude(product.high) > 120.0f) {
        return product.high > 0.0f ? infinity() : 0.0f;
    }
    return exp_pair(product.high, low);
}

static int32_t is_odd(float x)
{
    const float size = npuc_magnitude(x);
    return size < 16777216.0f && npuc_floor(size) == size && ((int32_t)size & 1);
}

float npuc_pow(float x, float exponent)
{
    const float size = npuc_magnitude(x);
    if (exponent == 0.0f || x == 1.0f) {
        return 1.0f;
    }
    if (x != x || exponent != exponent) {
        return not_a_number();
    }
    if (x < 0.0f && size < infinity() && npuc_floor(exponent) != exponent) {
        return not_a_number();
    }
    float result;
    if (size == 0.0f || size == infinity()) {
        result = (size == 0.0f) == (exponent > 0.0f) ? 0.0f : infinity();
    } else if (size == 1.0f) {
        result = 1.0f;
    } else {
        result = pow_positive(size, exponent);
    }
    return npuc_bits_of(x) >> 31 && is_odd(exponent) ? -result : result;
}
