/* Scaling and rounding that the kernels share. Strictly conforming C99: no right shift of a negative number. */
#ifndef NPUC_ARITHMETIC_H
#define NPUC_ARITHMETIC_H

#include "npuc_kernels.h"

/* value / 2^n, rounded towards minus infinity; 0 <= n <= 63. */
static inline int64_t npuc_shift_right(int64_t value, int32_t n)
{
    return value >= 0 ? value >> n : ~(~value >> n);
}

static inline int64_t npuc_clamp(int64_t value, int32_t low, int32_t high)
{
    return value < low ? low : value > high ? high : value;
}

static inline int32_t npuc_is_factor(npuc_rescale factor)
{
    return factor.multiplier >= 0 && factor.shift >= 2 && factor.shift <= 62;
}

/* value * multiplier / 2^shift, a half rounded towards plus infinity. Double rounding first rounds at bit 31 and then at
 * the last bit, there with halves away from zero: for shifts beyond 31 that is 2^30 more or less before the shift. */
static inline int64_t npuc_apply_scale(int32_t value, npuc_rescale factor, int32_t double_round)
{
    int64_t sum = (int64_t)value * factor.multiplier + ((int64_t)1 << (factor.shift - 1));
    if (double_round && factor.shift > 31) {
        sum += value >= 0 ? (int64_t)1 << 30 : -((int64_t)1 << 30);
    }
    return npuc_shift_right(sum, factor.shift);
}

static inline int32_t npuc_is_addition(const npuc_addition *constants)
{
    return constants->left_shift >= 0 && constants->left_shift <= NPUC_MAX_LEFT_SHIFT &&
           npuc_is_factor(constants->first) && npuc_is_factor(constants->second) && npuc_is_factor(constants->result);
}

/* Rescaled sum of two values, sign = 1, or their difference, sign = -1. */
static inline int32_t npuc_add_rescaled(int32_t first, int32_t second, int32_t sign, const npuc_addition *constants)
{
    const int64_t raise = (int64_t)1 << constants->left_shift;
    const int64_t a = (first - (int64_t)constants->first_zero_point) * raise;
    const int64_t b = (second - (int64_t)constants->second_zero_point) * raise;
    const int64_t total = npuc_apply_scale((int32_t)a, constants->first, 1) +
                          sign * npuc_apply_scale((int32_t)b, constants->second, 1);
    const int64_t result = npuc_apply_scale((int32_t)total, constants->result, 1);
    return (int32_t)npuc_clamp(result + constants->output_zero_point, constants->low, constants->high);
}

#endif
