/* Softmax of float32 and its logarithm. */
#include "npuc_real.h"

static float largest(const uint8_t *x, int32_t count, int32_t step)
{
    float best = npuc_float(x);
    for (int32_t i = 1; i < count; i++) {
        best = npuc_larger(npuc_float(x + i * step), best);
    }
    return best;
}

/* Exponentials of the differences from the largest value are summed from the first element on. */
static void softmax_row(const npuc_float_softmax_parameters *p, const uint8_t *x, uint8_t *y)
{
    const float top = largest(x, p->count, p->x_step);
    float sum = 0.0f;
    for (int32_t i = 0; i < p->count; i++) {
        sum += npuc_exp(npuc_float(x + i * p->x_step) - top);
    }
    const float logarithm = p->is_log ? npuc_log(sum) : 0.0f;
    for (int32_t i = 0; i < p->count; i++) {
        const float difference = npuc_float(x + i * p->x_step) - top;
        npuc_write_float(y + i * p->y_step, p->is_log ? difference - logarithm : npuc_exp(difference) / sum);
    }
}

int32_t npuc_float_softmax(const void *parameters, uint8_t *sram, const uint8_t *flash)
{
    const npuc_float_softmax_parameters *p = parameters;
    npuc_row row = {0, 0, 0};
    if (!npuc_is_pair(&p->x, &p->y) || p->count < 1) {
        return NPUC_KERNEL_BAD_PARAMETERS;
    }
    do {
        const uint8_t *x = npuc_source(p->x.at, sram, flash) + npuc_row_place(&p->x, row);
        uint8_t *y = sram + p->y.at.offset + npuc_row_place(&p->y, row);
        for (int32_t w = 0; w < p->y.size[3]; w++) {
            softmax_row(p, x + w * p->x.stride[3], y + w * p->y.stride[3]);
        }
    } while (npuc_next_row(&row, p->y.size));
    return NPUC_KERNEL_OK;
}
