/* Products of float32 matrices. */
#include "npuc_real.h"

static float product(const uint8_t *first, const uint8_t *second)
{
    return npuc_float(first) * npuc_float(second);
}

/* Every fourth product goes to one of four sums: shorter sums lose less, and can be computed side by side. */
float npuc_dot(const uint8_t *first, int32_t first_step, const uint8_t *second, int32_t second_step, int32_t n)
{
    float sum0 = 0.0f;
    float sum1 = 0.0f;
    float sum2 = 0.0f;
    float sum3 = 0.0f;
    for (; n >= 4; n -= 4) {
        sum0 += product(first, second);
        sum1 += product(first + first_step, second + second_step);
        sum2 += product(first + 2 * first_step, second + 2 * second_step);
        sum3 += product(first + 3 * first_step, second + 3 * second_step);
        first += 4 * first_step;
        second += 4 * second_step;
    }
    for (; n > 0; n--) {
        sum0 += product(first, second);
        first += first_step;
        second += second_step;
    }
    return (sum0 + sum1) + (sum2 + sum3);
}

int32_t npuc_float_matmul(const void *parameters, uint8_t *sram, const uint8_t *flash)
{
    const npuc_float_matmul_parameters *p = parameters;
    npuc_row row = {0, 0, 0};
    if (!npuc_is_pair(&p->first, &p->y) || !npuc_is_source(p->second.at)) {
        return NPUC_KERNEL_BAD_PARAMETERS;
    }
    do {
        const uint8_t *first = npuc_source(p->first.at, sram, flash) + npuc_row_place(&p->first, row);
        const uint8_t *second = npuc_source(p->second.at, sram, flash) + npuc_place(&p->second, row.n, row.c, 0, 0);
        uint8_t *y = sram + p->y.at.offset + npuc_row_place(&p->y, row);
        for (int32_t w = 0; w < p->y.size[3]; w++) {
            const float sum = npuc_dot(first, p->first.stride[3], second + w * p->second.stride[3],
                                       p->second.stride[2], p->first.size[3]);
            npuc_write_float(y + w * p->y.stride[3], sum);
        }
    } while (npuc_next_row(&row, p->y.size));
    return NPUC_KERNEL_OK;
}
