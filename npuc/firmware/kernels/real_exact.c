/* Functions of float32 whose results are the nearest float32, or exact. */
#include "npuc_real.h"

#define WHOLE 8388608.0f /* 2^23: from here on every float32 is a whole number */

static int32_t leading_zeros(uint64_t value)
{
    int32_t zeros = 0;
    for (int32_t n = 32; n > 0; n /= 2) {
        if (!(value >> (64 - n))) {
            zeros += n;
            value <<= n;
        }
    }
    return zeros;
}

/* The top 32 bits of the value, the last of them set when any bit behind them is, so that rounding sees it. */
float npuc_float_of_integer(int64_t value)
{
    const uint64_t magnitude = value < 0 ? 0u - (uint64_t)value : (uint64_t)value;
    if (magnitude == 0) {
        return 0.0f;
    }
    const int32_t zeros = leading_zeros(magnitude);
    const uint64_t shifted = magnitude << zeros;
    const uint32_t top = (uint32_t)(shifted >> 32) | ((uint32_t)shifted != 0);
    const float scale = npuc_float_of((uint32_t)(127 + 32 - zeros) << 23);
    const float result = (float)top * scale;
    return value < 0 ? -result : result;
}

/* Square root of m in [2^46, 2^48), rounded to nearest: 24 bits, one by one. A root is never halfway between two. */
static uint32_t root(uint64_t m)
{
    uint32_t r = 0;
    for (uint32_t bit = 1u << 23; bit; bit >>= 1) {
        const uint32_t trial = r | bit;
        if ((uint64_t)trial * trial <= m) {
            r = trial;
        }
    }
    return m - (uint64_t)r * r > r ? r + 1 : r;
}

float npuc_sqrt(float x)
{
    if (!(x > 0.0f) || x == npuc_float_of(NPUC_INFINITY_BITS)) {
        return x < 0.0f ? npuc_float_of(NPUC_NAN_BITS) : x; /* +-0, infinity, not a number */
    }
    const uint32_t bits = npuc_bits_of(x);
    int32_t exponent = (int32_t)(bits >> 23) - 127;
    uint64_t m = (bits & 0x7fffffu) | 0x800000u;
    if (exponent == -127) { /* denormal */
        m = bits;
        exponent = -126;
        while (m < 0x800000u) {
            m <<= 1;
            exponent--;
        }
    }
    const int32_t is_odd = exponent & 1;
    const int32_t half = (exponent - is_odd) / 2;
    const uint32_t r = root(m << (is_odd ? 24 : 23)); /* 2^23 to 2^24, which carries into the exponent */
    return npuc_float_of(((uint32_t)(half + 126) << 23) + r);
}

static float truncate(float x)
{
    const float whole = (float)(int32_t)x;
    return npuc_float_of(npuc_bits_of(whole) | (npuc_bits_of(x) & 0x80000000u)); /* -0.5 becomes -0 */
}

static int32_t is_whole(float x)
{
    return !(npuc_magnitude(x) < WHOLE);
}

float npuc_floor(float x)
{
    if (is_whole(x)) {
        return x;
    }
    const float whole = truncate(x);
    return whole > x ? whole - 1.0f : whole;
}

float npuc_ceil(float x)
{
    return -npuc_floor(-x);
}

/* Beyond 2^23 there are no fractions, so that a sum is rounded to a whole number. */
float npuc_round(float x)
{
    if (is_whole(x)) {
        return x;
    }
    const float magnitude = npuc_magnitude(x) + WHOLE - WHOLE;
    return npuc_float_of(npuc_bits_of(magnitude) | (npuc_bits_of(x) & 0x80000000u));
}
