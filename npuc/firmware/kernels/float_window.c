/* Convolution, largest value and mean of windows of float32. */
#include "npuc_real.h"
#include "npuc_window.h"

static float convolve(const npuc_float_conv2d_parameters *p, const npuc_position *v, const uint8_t *x,
                      const uint8_t *weights)
{
    float total = 0.0f;
    for (int32_t i = v->rows.first; i < v->rows.end; i++) {
        float sum = 0.0f;
        for (int32_t j = v->columns.first; j < v->columns.end; j++) {
            const uint8_t *pixel = x + npuc_tap_place(v, &p->window, &p->x, 0, 0, i, j);
            const uint8_t *tap = weights + npuc_place(&p->weights, 0, 0, i, j);
            sum += npuc_dot(pixel, p->x.stride[1], tap, p->weights.stride[1], p->weights.size[1]);
        }
        total += sum;
    }
    return total;
}

int32_t npuc_float_conv2d(const void *parameters, uint8_t *sram, const uint8_t *flash)
{
    const npuc_float_conv2d_parameters *p = parameters;
    if (!npuc_is_pair(&p->x, &p->y) || !npuc_is_source(p->weights.at) || !npuc_is_source(p->bias) || p->groups < 1 ||
        p->y.size[1] < p->groups) {
        return NPUC_KERNEL_BAD_PARAMETERS;
    }
    const uint8_t *bias = npuc_source(p->bias, sram, flash);
    const uint8_t *weights = npuc_source(p->weights.at, sram, flash);
    const int32_t group_channels = p->y.size[1] / p->groups;
    for (int32_t n = 0; n < p->y.size[0]; n++) {
        for (int32_t h = 0; h < p->y.size[2]; h++) {
            for (int32_t w = 0; w < p->y.size[3]; w++) {
                const npuc_position v = npuc_position_at(&p->window, &p->x, h, w);
                for (int32_t c = 0; c < p->y.size[1]; c++) {
                    const int32_t first = c / group_channels * p->weights.size[1];
                    const uint8_t *x = npuc_source(p->x.at, sram, flash) + npuc_place(&p->x, n, first, 0, 0);
                    const float sum = convolve(p, &v, x, weights + c * p->weights.stride[0]);
                    npuc_write_float(sram + p->y.at.offset + npuc_place(&p->y, n, c, h, w),
                                     sum + npuc_float(bias + 4 * c));
                }
            }
        }
    }
    return NPUC_KERNEL_OK;
}

static float largest(const npuc_float_pool_parameters *p, const npuc_position *v, const uint8_t *x)
{
    float best = -npuc_float_of(NPUC_INFINITY_BITS);
    for (int32_t i = v->rows.first; i < v->rows.end; i++) {
        for (int32_t j = v->columns.first; j < v->columns.end; j++) {
            best = npuc_larger(npuc_float(x + npuc_tap_place(v, &p->window, &p->x, 0, 0, i, j)), best);
        }
    }
    return best;
}

static float average(const npuc_float_pool_parameters *p, const npuc_position *v, const uint8_t *x)
{
    const int32_t inside = (v->rows.end - v->rows.first) * (v->columns.end - v->columns.first);
    const int32_t count = p->include_pad ? p->window.kernel[0] * p->window.kernel[1] : inside;
    float total = 0.0f;
    for (int32_t i = v->rows.first; i < v->rows.end; i++) {
        float sum = 0.0f;
        for (int32_t j = v->columns.first; j < v->columns.end; j++) {
            sum += npuc_float(x + npuc_tap_place(v, &p->window, &p->x, 0, 0, i, j));
        }
        total += sum;
    }
    return total / (float)count;
}

int32_t npuc_float_pool(const void *parameters, uint8_t *sram, const uint8_t *flash)
{
    const npuc_float_pool_parameters *p = parameters;
    if (!npuc_is_pair(&p->x, &p->y) || (p->function != NPUC_POOL_MAX && p->function != NPUC_POOL_AVERAGE)) {
        return NPUC_KERNEL_BAD_PARAMETERS;
    }
    for (int32_t n = 0; n < p->y.size[0]; n++) {
        for (int32_t h = 0; h < p->y.size[2]; h++) {
            for (int32_t w = 0; w < p->y.size[3]; w++) {
                const npuc_position v = npuc_position_at(&p->window, &p->x, h, w);
                for (int32_t c = 0; c < p->y.size[1]; c++) {
                    const uint8_t *x = npuc_source(p->x.at, sram, flash) + npuc_place(&p->x, n, c, 0, 0);
                    const float value = p->function == NPUC_POOL_MAX ? largest(p, &v, x) : average(p, &v, x);
                    npuc_write_float(sram + p->y.at.offset + npuc_place(&p->y, n, c, h, w), value);
                }
            }
        }
    }
    return NPUC_KERNEL_OK;
}
