/* Sine and cosine of any float32: quarter turns are taken off with as many digits of 2 / pi as the argument needs. */
#include "npuc_real.h"

#define HALF_PI 1.57079633f
#define SMALL 0.000244140625f /* 2^-12: below, x^3 / 6 is too small to see */

/* Bits of 2 / pi, the first of them worth 1/2. */
static const uint32_t two_over_pi[7] = {0xa2f9836eu, 0x4e441529u, 0xfc2757d1u, 0xf534ddc0u,
                                        0xdb629599u, 0x3c439041u, 0xfe5163abu};

/* 32 of these bits, from position `first` on; before the first one there are zeros. */
static uint32_t window(int32_t first)
{
    uint64_t bits = 0;
    const int32_t index = first < 0 ? -((31 - first) / 32) : first / 32;
    for (int32_t i = index; i <= index + 1; i++) {
        bits = bits << 32 | (i < 0 || i > 6 ? 0u : two_over_pi[i]);
    }
    return (uint32_t)(bits >> (32 - (first - 32 * index)));
}

/* x in quarter turns: the nearest whole number modulo 4, and the rest as an angle. |x| is at least SMALL. */
static int32_t quarter_turns(float x, float *rest)
{
    const uint32_t bits = npuc_bits_of(x);
    const uint32_t mantissa = (bits & 0x7fffffu) | 0x800000u;
    const int32_t exponent = (int32_t)(bits >> 23 & 0xffu) - 150;
    /* |x| = mantissa * 2^exponent. Bits of 2 / pi that contribute whole turns are left out; 94 behind the point stay. */
    const int32_t first = exponent - 2;
    const uint64_t low = (uint64_t)mantissa * window(first + 64);
    const uint64_t middle = (uint64_t)mantissa * window(first + 32) + (low >> 32);
    const uint32_t high = mantissa * window(first) + (uint32_t)(middle >> 32);
    const uint64_t turns = (uint64_t)high << 32 | (uint32_t)middle; /* the point lies behind two bits */
    const uint64_t nearest = (turns + ((uint64_t)1 << 61)) >> 62;
    const uint64_t difference = turns - (nearest << 62);
    const int32_t is_below = difference >> 63 != 0;
    const float size = npuc_float_of_integer((int64_t)(is_below ? 0u - difference : difference));
    const float angle = size * 2.16840434e-19f * HALF_PI; /* 2^-62 */
    const int32_t is_negative = x < 0.0f;
    *rest = is_below != is_negative ? -angle : angle;
    return (int32_t)((is_negative ? 0u - nearest : nearest) & 3u);
}

/* |x| <= pi / 4. */
static float sine(float x)
{
    const float z = x * x;
    return x + x * z * (-0.166666546f + z * (0.00833215504f - z * 0.000195140838f));
}

static float cosine(float x)
{
    const float z = x * x;
    return 1.0f - z * (0.5f - z * (0.0416666463f + z * (-0.00138873371f + z * 2.44348442e-5f)));
}

static float turned(float x, int32_t turns)
{
    float rest;
    if (!(npuc_magnitude(x) < npuc_float_of(NPUC_INFINITY_BITS))) {
        return npuc_float_of(NPUC_NAN_BITS);
    }
    if (npuc_magnitude(x) < SMALL) {
        return turns ? 1.0f : x;
    }
    turns += quarter_turns(x, &rest);
    const float result = turns & 1 ? cosine(rest) : sine(rest);
    return turns & 2 ? -result : result;
}

float npuc_sin(float x)
{
    return turned(x, 0);
}

float npuc_cos(float x)
{
    return turned(x, 1);
}
