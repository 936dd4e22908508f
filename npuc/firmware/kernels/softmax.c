/* Softmax in fixed point: an int32 v with b integer bits stands for v / 2^(31 - b). */
#include "npuc_arithmetic.h"
#include "npuc_tensor.h"

#define ONE ((int64_t)1 << 31)
#define SUM_BITS 12   /* integer bits of the sum of exponentials */
#define LONGEST 4095  /* elements of a row whose sum fits */
#define TOO_SMALL (-1) /* exponential of an element that takes no part */

static int64_t saturate(int64_t value)
{
    return value > ONE - 1 ? ONE - 1 : value < -ONE ? -ONE : value;
}

/* Product of two fractions, rounded to the nearest, halves towards plus infinity; -1 * -1 saturates. */
static int64_t multiply(int64_t first, int64_t second)
{
    return saturate(npuc_shift_right(first * second + ((int64_t)1 << 30), 31));
}

/* value / 2^exponent, halves away from zero. */
static int64_t divide_by_power(int64_t value, int32_t exponent)
{
    const int64_t half = ((int64_t)1 << exponent) >> 1;
    return value >= 0 ? (value + half) >> exponent : -((half - value) >> exponent);
}

/* exp of the fraction value in [-1/4, 0): Taylor polynomial of degree 4 around -1/8. */
static int64_t exp_small(int64_t value)
{
    const int64_t center = 1895147668; /* exp(-1/8) */
    const int64_t third = 715827883;
    const int64_t x = value + ((int64_t)1 << 28);
    const int64_t x2 = multiply(x, x);
    const int64_t x3 = multiply(x2, x);
    const int64_t x4 = multiply(x2, x2);
    const int64_t cubic = multiply(divide_by_power(x4, 2) + x3, third); /* (x^4 / 4 + x^3) / 3 */
    return center + multiply(x + divide_by_power(cubic + x2, 1), center);
}

/* exp(value / 2^26) as a fraction, value in -2^31..0: the part above the last quarter by the polynomial, each bit of the
 * number of quarters below it by one factor exp(-2^(bit - 2)). */
static int64_t exp_negative(int64_t value)
{
    static const int32_t factors[7] = {1672461947, 1302514674, 790015084, 290630308, 39332535, 720401, 242};
    const int64_t quarter = (int64_t)1 << 24;
    if (value == 0) {
        return ONE - 1;
    }
    const int64_t remainder = (int64_t)((uint64_t)value & (uint64_t)(quarter - 1)) - quarter;
    const uint64_t quarters = (uint64_t)((remainder - value) / quarter);
    int64_t result = exp_small(remainder * 32);
    for (int32_t bit = 0; bit < 7; bit++) {
        if ((quarters >> bit) & 1u) {
            result = multiply(result, factors[bit]);
        }
    }
    return result;
}

/* 1 / (1 + value) of a fraction value >= 0: Newton's method on d = (1 + value) / 2, x with two integer bits. */
static int64_t reciprocal(int64_t value)
{
    const int64_t d = (value + ONE) >> 1;
    int64_t x = 1515870810 + multiply(d, -1010580540); /* 48/17 - 32/17 d */
    for (int32_t step = 0; step < 3; step++) {
        const int64_t error = ((int64_t)1 << 29) - multiply(d, x);
        x += saturate(multiply(x, error) * 4);
    }
    return saturate(x * 2);
}

/* exp of a difference of two inputs, or TOO_SMALL. */
static int64_t exp_difference(const npuc_softmax_parameters *p, int32_t difference)
{
    if (difference < -(int32_t)(((int64_t)31 << 26) >> p->left_shift)) {
        return TOO_SMALL;
    }
    return exp_negative(multiply(difference * ((int64_t)1 << p->left_shift), p->multiplier));
}

static int32_t leading_zeros(uint32_t value)
{
    int32_t zeros = 0;
    while (zeros < 32 && !(value >> (31 - zeros))) {
        zeros++;
    }
    return zeros;
}

static void softmax_row(const npuc_softmax_parameters *p, const uint8_t *x, uint8_t *y)
{
    const int32_t n = p->x.size[p->axis];
    const int32_t step = p->x.stride[p->axis];
    int32_t largest = -128;
    int64_t sum = 0;
    for (int32_t i = 0; i < n; i++) {
        const int32_t value = npuc_int8(x[i * step]);
        largest = value > largest ? value : largest;
    }
    for (int32_t i = 0; i < n; i++) {
        const int64_t e = exp_difference(p, npuc_int8(x[i * step]) - largest);
        sum += e == TOO_SMALL ? 0 : divide_by_power(e, SUM_BITS);
    }
    const int32_t zeros = leading_zeros((uint32_t)sum);
    const int64_t inverse = reciprocal(sum * ((int64_t)1 << zeros) - ONE);
    for (int32_t i = 0; i < n; i++) {
        const int64_t e = exp_difference(p, npuc_int8(x[i * step]) - largest);
        const int64_t share = divide_by_power(multiply(inverse, e), SUM_BITS - zeros + 31 - 8) - 128;
        y[i * p->y.stride[p->axis]] = (uint8_t)(e == TOO_SMALL ? -128 : npuc_clamp(share, -128, 127));
    }
}

int32_t npuc_softmax(const void *parameters, uint8_t *sram, const uint8_t *flash)
{
    const npuc_softmax_parameters *p = parameters;
    int32_t rows[4];
    if (!npuc_is_source(p->x.at) || !npuc_is_destination(p->y.at) || p->axis < 0 || p->axis > 3 ||
        p->left_shift < 0 || p->left_shift > 31 || p->multiplier < 0) {
        return NPUC_KERNEL_BAD_PARAMETERS;
    }
    for (int32_t axis = 0; axis < 4; axis++) {
        rows[axis] = axis == p->axis ? 1 : p->x.size[axis];
    }
    if (p->x.size[p->axis] < 1 || p->x.size[p->axis] > LONGEST) {
        return NPUC_KERNEL_BAD_PARAMETERS;
    }
    for (int32_t n = 0; n < rows[0]; n++) {
        for (int32_t c = 0; c < rows[1]; c++) {
            for (int32_t h = 0; h < rows[2]; h++) {
                for (int32_t w = 0; w < rows[3]; w++) {
                    softmax_row(p, npuc_source(p->x.at, sram, flash) + npuc_place(&p->x, n, c, h, w),
                                sram + p->y.at.offset + npuc_place(&p->y, n, c, h, w));
                }
            }
        }
    }
    return NPUC_KERNEL_OK;
}
