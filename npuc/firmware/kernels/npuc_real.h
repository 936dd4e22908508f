/* float32 values and functions of them. Only + - * / and comparisons, in the order that is written: every build gives the
 * same bits. Compile with -ffp-contract=off. */
#ifndef NPUC_REAL_H
#define NPUC_REAL_H

#include "npuc_tensor.h"

#if defined(__FAST_MATH__)
#error "the kernels need the arithmetic of IEEE 754: compile without -ffast-math"
#endif
#if defined(__clang__)
#pragma STDC FP_CONTRACT OFF
#endif

#define NPUC_NAN_BITS 0x7fc00000u
#define NPUC_INFINITY_BITS 0x7f800000u

typedef union {
    float value;
    uint32_t bits;
} npuc_float_word;

static inline float npuc_float_of(uint32_t bits)
{
    npuc_float_word word;
    word.bits = bits;
    return word.value;
}

static inline uint32_t npuc_bits_of(float value)
{
    npuc_float_word word;
    word.value = value;
    return word.bits;
}

static inline float npuc_float(const uint8_t *at)
{
    return npuc_float_of(npuc_word(at));
}

/* What is not a number has one representation, because processors differ in it. */
static inline void npuc_write_float(uint8_t *at, float value)
{
    npuc_write_word(at, value == value ? npuc_bits_of(value) : NPUC_NAN_BITS);
}

/* A parameter of a record. */
static inline float npuc_parameter(int32_t word)
{
    return npuc_float_of((uint32_t)word);
}

static inline float npuc_magnitude(float x)
{
    return npuc_float_of(npuc_bits_of(x) & 0x7fffffffu);
}

/* The larger of two, or the one that is not a number. */
static inline float npuc_larger(float a, float b)
{
    return a > b || a != a ? a : b;
}

static inline float npuc_smaller(float a, float b)
{
    return a < b || a != a ? a : b;
}

/* Within a few units of the last place, also where results are denormal or infinite. */
float npuc_exp(float x);
float npuc_expm1(float x);
float npuc_log(float x);
float npuc_log1p(float x); /* x >= 0 */
float npuc_tanh(float x);
float npuc_sigmoid(float x);
float npuc_erf(float x);
float npuc_gelu(float x);
float npuc_gelu_tanh(float x);
float npuc_sin(float x);
float npuc_cos(float x);
float npuc_pow(float x, float exponent);
float npuc_line(float factor, float x, float offset); /* factor * x + offset, also where the two nearly cancel */

/* Rounded to nearest, as IEEE 754 wants it. */
float npuc_sqrt(float x);
float npuc_float_of_integer(int64_t value);

/* Whole numbers below, above and nearest (halves to even). */
float npuc_floor(float x);
float npuc_ceil(float x);
float npuc_round(float x);

/* Sum of n products; steps are bytes. */
float npuc_dot(const uint8_t *first, int32_t first_step, const uint8_t *second, int32_t second_step, int32_t n);

#endif
