/* Sum, difference, product and table; operands with stride 0 broadcast. */
#include "npuc_arithmetic.h"
#include "npuc_tensor.h"

#define MAX_WIDE_LEFT_SHIFT 15 /* of an int16 less its zero point: 65535 * 2^15 < 2^31 */

static int32_t is_width(int32_t n_bytes)
{
    return n_bytes == 1 || n_bytes == 2;
}

static int32_t is_add(const npuc_add_parameters *p)
{
    const int32_t is_narrow = p->first_bytes == 1 && p->second_bytes == 1;
    return npuc_is_pair(&p->first, &p->y) && npuc_is_source(p->second.at) && npuc_is_addition(&p->constants) &&
           is_width(p->first_bytes) && is_width(p->second_bytes) && is_width(p->y_bytes) &&
           (is_narrow || p->constants.left_shift <= MAX_WIDE_LEFT_SHIFT);
}

int32_t npuc_add(const void *parameters, uint8_t *sram, const uint8_t *flash)
{
    const npuc_add_parameters *p = parameters;
    const int32_t sign = p->subtract ? -1 : 1;
    npuc_row row = {0, 0, 0};
    if (!is_add(p)) {
        return NPUC_KERNEL_BAD_PARAMETERS;
    }
    do {
        const uint8_t *first = npuc_source(p->first.at, sram, flash) + npuc_row_place(&p->first, row);
        const uint8_t *second = npuc_source(p->second.at, sram, flash) + npuc_row_place(&p->second, row);
        uint8_t *y = sram + p->y.at.offset + npuc_row_place(&p->y, row);
        for (int32_t w = 0; w < p->y.size[3]; w++) {
            const int32_t a = npuc_small(first + w * p->first.stride[3], p->first_bytes);
            const int32_t b = npuc_small(second + w * p->second.stride[3], p->second_bytes);
            const int32_t value = npuc_add_rescaled(a, b, sign, &p->constants);
            npuc_write_small(y + w * p->y.stride[3], p->y_bytes, value);
        }
    } while (npuc_next_row(&row, p->y.size));
    return NPUC_KERNEL_OK;
}

static int32_t is_mul(const npuc_mul_parameters *p)
{
    return npuc_is_pair(&p->first, &p->y) && npuc_is_source(p->second.at) && npuc_is_factor(p->factor) &&
           is_width(p->first_bytes) && is_width(p->second_bytes) && is_width(p->y_bytes);
}

int32_t npuc_mul(const void *parameters, uint8_t *sram, const uint8_t *flash)
{
    const npuc_mul_parameters *p = parameters;
    npuc_row row = {0, 0, 0};
    if (!is_mul(p)) {
        return NPUC_KERNEL_BAD_PARAMETERS;
    }
    do {
        const uint8_t *first = npuc_source(p->first.at, sram, flash) + npuc_row_place(&p->first, row);
        const uint8_t *second = npuc_source(p->second.at, sram, flash) + npuc_row_place(&p->second, row);
        uint8_t *y = sram + p->y.at.offset + npuc_row_place(&p->y, row);
        for (int32_t w = 0; w < p->y.size[3]; w++) {
            const int32_t a = npuc_small(first + w * p->first.stride[3], p->first_bytes);
            const int32_t b = npuc_small(second + w * p->second.stride[3], p->second_bytes);
            const int64_t product = (a - (int64_t)p->first_zero_point) * (b - (int64_t)p->second_zero_point);
            const int64_t scaled = npuc_apply_scale((int32_t)product, p->factor, 1) + p->output_zero_point;
            npuc_write_small(y + w * p->y.stride[3], p->y_bytes, (int32_t)npuc_clamp(scaled, p->low, p->high));
        }
    } while (npuc_next_row(&row, p->y.size));
    return NPUC_KERNEL_OK;
}

int32_t npuc_table(const void *parameters, uint8_t *sram, const uint8_t *flash)
{
    const npuc_table_parameters *p = parameters;
    const uint8_t *table = npuc_source(p->table, sram, flash);
    const uint8_t flip = p->is_unsigned ? 0u : 0x80u;
    npuc_row row = {0, 0, 0};
    if (!npuc_is_pair(&p->x, &p->y) || !npuc_is_source(p->table)) {
        return NPUC_KERNEL_BAD_PARAMETERS;
    }
    do {
        const uint8_t *x = npuc_source(p->x.at, sram, flash) + npuc_row_place(&p->x, row);
        uint8_t *y = sram + p->y.at.offset + npuc_row_place(&p->y, row);
        for (int32_t w = 0; w < p->y.size[3]; w++) {
            y[w * p->y.stride[3]] = table[x[w * p->x.stride[3]] ^ flip];
        }
    } while (npuc_next_row(&row, p->y.size));
    return NPUC_KERNEL_OK;
}
