/* Sum, difference, product and table; operands with stride 0 broadcast. */
#include "npuc_arithmetic.h"
#include "npuc_tensor.h"

/* Visits the elements of a tensor in the order n, c, h, w. */
typedef struct {
    int32_t n;
    int32_t c;
    int32_t h;
    int32_t w;
} place_t;

static int32_t advance(place_t *at, const int32_t *size)
{
    if (++at->w < size[3]) {
        return 1;
    }
    at->w = 0;
    if (++at->h < size[2]) {
        return 1;
    }
    at->h = 0;
    if (++at->c < size[1]) {
        return 1;
    }
    at->c = 0;
    return ++at->n < size[0];
}

static int32_t is_empty(const npuc_tensor *tensor)
{
    return tensor->size[0] < 1 || tensor->size[1] < 1 || tensor->size[2] < 1 || tensor->size[3] < 1;
}

static int8_t read(const uint8_t *base, const npuc_tensor *tensor, place_t at)
{
    return npuc_int8(base[npuc_place(tensor, at.n, at.c, at.h, at.w)]);
}

static void write(uint8_t *base, const npuc_tensor *tensor, place_t at, int8_t value)
{
    base[npuc_place(tensor, at.n, at.c, at.h, at.w)] = (uint8_t)value;
}

int32_t npuc_add(const void *parameters, uint8_t *sram, const uint8_t *flash)
{
    const npuc_add_parameters *p = parameters;
    const uint8_t *first = npuc_source(p->first.at, sram, flash);
    const uint8_t *second = npuc_source(p->second.at, sram, flash);
    const int32_t sign = p->subtract ? -1 : 1;
    place_t at = {0, 0, 0, 0};
    if (!npuc_is_source(p->first.at) || !npuc_is_source(p->second.at) || !npuc_is_destination(p->y.at) ||
        is_empty(&p->y) || !npuc_is_addition(&p->constants)) {
        return NPUC_KERNEL_BAD_PARAMETERS;
    }
    do {
        const int8_t a = read(first, &p->first, at);
        const int8_t b = read(second, &p->second, at);
        write(sram + p->y.at.offset, &p->y, at, npuc_add_rescaled(a, b, sign, &p->constants));
    } while (advance(&at, p->y.size));
    return NPUC_KERNEL_OK;
}

int32_t npuc_mul(const void *parameters, uint8_t *sram, const uint8_t *flash)
{
    const npuc_mul_parameters *p = parameters;
    const uint8_t *first = npuc_source(p->first.at, sram, flash);
    const uint8_t *second = npuc_source(p->second.at, sram, flash);
    place_t at = {0, 0, 0, 0};
    if (!npuc_is_source(p->first.at) || !npuc_is_source(p->second.at) || !npuc_is_destination(p->y.at) ||
        is_empty(&p->y) || !npuc_is_factor(p->factor)) {
        return NPUC_KERNEL_BAD_PARAMETERS;
    }
    do {
        const int64_t a = read(first, &p->first, at) - (int64_t)p->first_zero_point;
        const int64_t b = read(second, &p->second, at) - (int64_t)p->second_zero_point;
        const int64_t scaled = npuc_apply_scale((int32_t)(a * b), p->factor, 1) + p->output_zero_point;
        write(sram + p->y.at.offset, &p->y, at, (int8_t)npuc_clamp(scaled, p->low, p->high));
    } while (advance(&at, p->y.size));
    return NPUC_KERNEL_OK;
}

int32_t npuc_table(const void *parameters, uint8_t *sram, const uint8_t *flash)
{
    const npuc_table_parameters *p = parameters;
    const uint8_t *x = npuc_source(p->x.at, sram, flash);
    const uint8_t *table = npuc_source(p->table, sram, flash);
    const uint8_t flip = p->is_unsigned ? 0u : 0x80u;
    place_t at = {0, 0, 0, 0};
    if (!npuc_is_source(p->x.at) || !npuc_is_source(p->table) || !npuc_is_destination(p->y.at) || is_empty(&p->y)) {
        return NPUC_KERNEL_BAD_PARAMETERS;
    }
    do {
        const uint8_t byte = x[npuc_place(&p->x, at.n, at.c, at.h, at.w)];
        sram[p->y.at.offset + npuc_place(&p->y, at.n, at.c, at.h, at.w)] = table[byte ^ flip];
    } while (advance(&at, p->y.size));
    return NPUC_KERNEL_OK;
}
