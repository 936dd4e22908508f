/* Largest value and mean of windows, and the mean of whole planes. */
#include "npuc_arithmetic.h"
#include "npuc_window.h"

/* Largest value of the window, -128 for padding. */
static int8_t largest(const npuc_position *v, const npuc_window *window, const npuc_tensor *tensor, const uint8_t *x)
{
    int8_t best = -128;
    for (int32_t i = v->rows.first; i < v->rows.end; i++) {
        for (int32_t j = v->columns.first; j < v->columns.end; j++) {
            const int8_t value = npuc_int8(x[npuc_tap_place(v, window, tensor, 0, 0, i, j)]);
            best = value > best ? value : best;
        }
    }
    return best;
}

int32_t npuc_max_pool(const void *parameters, uint8_t *sram, const uint8_t *flash)
{
    const npuc_max_pool_parameters *p = parameters;
    const uint8_t *x = npuc_source(p->x.at, sram, flash);
    if (!npuc_is_source(p->x.at) || !npuc_is_destination(p->y.at)) {
        return NPUC_KERNEL_BAD_PARAMETERS;
    }
    uint8_t *y = sram + p->y.at.offset;
    for (int32_t n = 0; n < p->y.size[0]; n++) {
        for (int32_t h = 0; h < p->y.size[2]; h++) {
            for (int32_t w = 0; w < p->y.size[3]; w++) {
                const npuc_position v = npuc_position_at(&p->window, &p->x, h, w);
                for (int32_t c = 0; c < p->y.size[1]; c++) {
                    const uint8_t *channel = x + npuc_place(&p->x, n, c, 0, 0);
                    const int64_t value = npuc_clamp(largest(&v, &p->window, &p->x, channel), p->low, p->high);
                    y[npuc_place(&p->y, n, c, h, w)] = (uint8_t)value;
                }
            }
        }
    }
    return NPUC_KERNEL_OK;
}

static int32_t sum(const npuc_position *v, const npuc_window *window, const npuc_tensor *tensor, const uint8_t *x)
{
    int32_t total = 0;
    for (int32_t i = v->rows.first; i < v->rows.end; i++) {
        for (int32_t j = v->columns.first; j < v->columns.end; j++) {
            total += npuc_int8(x[npuc_tap_place(v, window, tensor, 0, 0, i, j)]);
        }
    }
    return total;
}

/* total / count, a half rounded towards plus infinity or away from zero; a window of nothing has mean 0. */
static int32_t divide_rounded(int32_t total, int32_t count, int32_t halves_up)
{
    if (count <= 0) {
        return 0;
    }
    if (halves_up) {
        const int32_t raised = total + count / 2;
        return raised >= 0 ? raised / count : -((count - 1 - raised) / count);
    }
    return total > 0 ? (total + count / 2) / count : (total - count / 2) / count;
}

static int32_t average(const npuc_average_pool_parameters *p, const npuc_position *v, const uint8_t *x)
{
    const int32_t all = p->window.kernel[0] * p->window.kernel[1];
    const int32_t inside = (v->rows.end - v->rows.first) * (v->columns.end - v->columns.first);
    const int32_t total = sum(v, &p->window, &p->x, x);
    if (p->include_pad) {
        return divide_rounded(total + (all - inside) * p->input_zero_point, all, p->halves_up);
    }
    return divide_rounded(total, inside, p->halves_up);
}

int32_t npuc_average_pool(const void *parameters, uint8_t *sram, const uint8_t *flash)
{
    const npuc_average_pool_parameters *p = parameters;
    const uint8_t *x = npuc_source(p->x.at, sram, flash);
    if (!npuc_is_source(p->x.at) || !npuc_is_destination(p->y.at)) {
        return NPUC_KERNEL_BAD_PARAMETERS;
    }
    uint8_t *y = sram + p->y.at.offset;
    for (int32_t n = 0; n < p->y.size[0]; n++) {
        for (int32_t h = 0; h < p->y.size[2]; h++) {
            for (int32_t w = 0; w < p->y.size[3]; w++) {
                const npuc_position v = npuc_position_at(&p->window, &p->x, h, w);
                for (int32_t c = 0; c < p->y.size[1]; c++) {
                    const uint8_t *channel = x + npuc_place(&p->x, n, c, 0, 0);
                    const int64_t value = npuc_clamp(average(p, &v, channel), p->low, p->high);
                    y[npuc_place(&p->y, n, c, h, w)] = (uint8_t)value;
                }
            }
        }
    }
    return NPUC_KERNEL_OK;
}

/* numerator / denominator rounded down, both positive: long division, so that no compiler runtime is needed. */
static int64_t divide(uint64_t numerator, uint32_t denominator)
{
    uint64_t quotient = 0;
    uint64_t rest = 0;
    for (int32_t bit = 63; bit >= 0; bit--) {
        rest = (rest << 1) | ((numerator >> bit) & 1u);
        quotient <<= 1;
        if (rest >= denominator) {
            rest -= denominator;
            quotient |= 1u;
        }
    }
    return (int64_t)quotient;
}

/* The factor of a sum of `count` values: `factor` / count with as many significant bits as fit. */
static npuc_rescale divide_factor(npuc_rescale factor, int32_t count)
{
    npuc_rescale result;
    int32_t k = 0;
    while (k < 30 && (count >> (k + 1)) > 0) {
        k++;
    }
    k = k < 62 - factor.shift ? k : 62 - factor.shift;
    result.multiplier = (int32_t)divide((uint64_t)factor.multiplier << k, (uint32_t)count);
    result.shift = factor.shift + k;
    return result;
}

int32_t npuc_mean(const void *parameters, uint8_t *sram, const uint8_t *flash)
{
    const npuc_mean_parameters *p = parameters;
    const uint8_t *x = npuc_source(p->x.at, sram, flash);
    const int32_t count = p->x.size[2] * p->x.size[3];
    if (!npuc_is_source(p->x.at) || !npuc_is_destination(p->y.at) || !npuc_is_factor(p->factor) || count < 1) {
        return NPUC_KERNEL_BAD_PARAMETERS;
    }
    const npuc_rescale factor = divide_factor(p->factor, count);
    for (int32_t n = 0; n < p->y.size[0]; n++) {
        for (int32_t c = 0; c < p->y.size[1]; c++) {
            int64_t total = 0;
            for (int32_t h = 0; h < p->x.size[2]; h++) {
                for (int32_t w = 0; w < p->x.size[3]; w++) {
                    total += npuc_int8(x[npuc_place(&p->x, n, c, h, w)]) - (int64_t)p->input_zero_point;
                }
            }
            const int64_t scaled = npuc_apply_scale((int32_t)total, factor, 1) + p->output_zero_point;
            sram[p->y.at.offset + npuc_place(&p->y, n, c, 0, 0)] = (uint8_t)npuc_clamp(scaled, p->low, p->high);
        }
    }
    return NPUC_KERNEL_OK;
}
