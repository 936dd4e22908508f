/* Position of the largest element. */
#include "npuc_real.h"
#include "npuc_tensor.h"

/* Whether `value` belongs before `best`: it is larger, or the first that is not a number. */
static int32_t is_larger_float(float value, float best)
{
    return value > best || (value != value && best == best);
}

static int32_t largest_float(const uint8_t *row, int32_t count, int32_t step)
{
    int32_t position = 0;
    float best = npuc_float(row);
    for (int32_t i = 1; i < count; i++) {
        const float value = npuc_float(row + i * step);
        if (is_larger_float(value, best)) {
            best = value;
            position = i;
        }
    }
    return position;
}

static int32_t largest_integer(const uint8_t *row, int32_t count, int32_t step, int32_t kind)
{
    int32_t position = 0;
    int64_t best = npuc_integer(row, kind);
    for (int32_t i = 1; i < count; i++) {
        const int64_t value = npuc_integer(row + i * step, kind);
        if (value > best) {
            best = value;
            position = i;
        }
    }
    return position;
}

static int32_t largest_int8(const uint8_t *row, int32_t count, int32_t step)
{
    int32_t position = 0;
    int32_t best = npuc_int8(*row);
    int32_t place = step;
    for (int32_t i = 1; i < count; i++, place += step) {
        const int32_t value = npuc_int8(row[place]);
        if (value > best) {
            best = value;
            position = i;
        }
    }
    return position;
}

static int32_t largest(const uint8_t *row, const npuc_arg_max_parameters *p)
{
    switch (p->x_kind) {
    case NPUC_KIND_FLOAT32:
        return largest_float(row, p->count, p->step);
    case NPUC_KIND_INT8:
        return largest_int8(row, p->count, p->step);
    default:
        return largest_integer(row, p->count, p->step, p->x_kind);
    }
}

int32_t npuc_arg_max(const void *parameters, uint8_t *sram, const uint8_t *flash)
{
    const npuc_arg_max_parameters *p = parameters;
    const int32_t kind = p->x_kind;
    npuc_row row = {0, 0, 0};
    if (!npuc_is_pair(&p->x, &p->y) || p->count < 1 || kind < NPUC_KIND_INT8 || kind > NPUC_KIND_BOOL ||
        (p->y_kind != NPUC_KIND_INT32 && p->y_kind != NPUC_KIND_INT64)) {
        return NPUC_KERNEL_BAD_PARAMETERS;
    }
    do {
        const uint8_t *x = npuc_source(p->x.at, sram, flash) + npuc_row_place(&p->x, row);
        uint8_t *y = sram + p->y.at.offset + npuc_row_place(&p->y, row);
        for (int32_t w = 0; w < p->y.size[3]; w++) {
            const int32_t position = largest(x + w * p->x.stride[3], p);
            npuc_write_word(y + w * p->y.stride[3], (uint32_t)position);
            if (p->y_kind == NPUC_KIND_INT64) {
                npuc_write_word(y + w * p->y.stride[3] + 4, 0);
            }
        }
    } while (npuc_next_row(&row, p->y.size));
    return NPUC_KERNEL_OK;
}
