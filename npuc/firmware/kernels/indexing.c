/* Arithmetic on int32 indices, and what lies at an index. */
#include "npuc_region.h"
#include "npuc_tensor.h"

/* first / second, rounded towards minus infinity. */
static uint32_t floor_divide(int32_t first, int32_t second)
{
    if (second == 0) {
        return 0;
    }
    if (second == -1) {
        return 0u - (uint32_t)first; /* modulo 2^32: -2^31 / -1 is -2^31 */
    }
    const int32_t quotient = first / second;
    const int32_t is_above = first % second != 0 && (first < 0) != (second < 0);
    return (uint32_t)(quotient - is_above);
}

static uint32_t compute(int32_t function, uint32_t first, uint32_t second)
{
    switch (function) {
    case NPUC_INDEX_ADD:
        return first + second;
    case NPUC_INDEX_SUB:
        return first - second;
    case NPUC_INDEX_MUL:
        return first * second;
    default:
        return floor_divide(npuc_signed(first), npuc_signed(second));
    }
}

int32_t npuc_index_arithmetic(const void *parameters, uint8_t *sram, const uint8_t *flash)
{
    const npuc_index_arithmetic_parameters *p = parameters;
    npuc_row row = {0, 0, 0};
    if (!npuc_is_pair(&p->first, &p->y) || !npuc_is_source(p->second.at) || p->function < NPUC_INDEX_ADD ||
        p->function > NPUC_INDEX_FLOOR_DIV) {
        return NPUC_KERNEL_BAD_PARAMETERS;
    }
    do {
        const uint8_t *first = npuc_source(p->first.at, sram, flash) + npuc_row_place(&p->first, row);
        const uint8_t *second = npuc_source(p->second.at, sram, flash) + npuc_row_place(&p->second, row);
        uint8_t *y = sram + p->y.at.offset + npuc_row_place(&p->y, row);
        for (int32_t w = 0; w < p->y.size[3]; w++) {
            const uint32_t a = npuc_word(first + w * p->first.stride[3]);
            const uint32_t b = npuc_word(second + w * p->second.stride[3]);
            npuc_write_word(y + w * p->y.stride[3], compute(p->function, a, b));
        }
    } while (npuc_next_row(&row, p->y.size));
    return NPUC_KERNEL_OK;
}

/* Bytes from element (0, 0, ...) of the data to what a row of indices selects. */
static int32_t selected(const npuc_gather_nd_parameters *p, const uint8_t *indices)
{
    int32_t place = 0;
    for (int32_t axis = 0; axis < p->depth; axis++) {
        const int32_t last = p->limit[axis] - 1;
        int32_t index = npuc_signed(npuc_word(indices + axis * p->index_step));
        index = index > last ? last : index;
        place += (index > 0 ? index : 0) * p->stride[axis];
    }
    return place;
}

static int32_t is_gather(const npuc_gather_nd_parameters *p)
{
    int32_t axis;
    if (!npuc_is_source(p->data) || !npuc_is_pair(&p->indices, &p->y) || p->depth < 1 || p->depth > NPUC_GATHER_AXES) {
        return 0;
    }
    for (axis = 0; axis < p->depth && p->limit[axis] > 0; axis++) {
    }
    return axis == p->depth && npuc_is_region(p->size);
}

/* Whether a row selects one line of bytes. */
static int32_t is_line(const int32_t *size)
{
    int32_t axis;
    for (axis = 0; axis < NPUC_COPY_AXES - 1 && size[axis] == 1; axis++) {
    }
    return axis == NPUC_COPY_AXES - 1;
}

int32_t npuc_gather_nd(const void *parameters, uint8_t *sram, const uint8_t *flash)
{
    const npuc_gather_nd_parameters *p = parameters;
    npuc_row row = {0, 0, 0};
    if (!is_gather(p)) {
        return NPUC_KERNEL_BAD_PARAMETERS;
    }
    const int32_t last = NPUC_COPY_AXES - 1;
    const int32_t has_lines = is_line(p->size);
    do {
        const uint8_t *indices = npuc_source(p->indices.at, sram, flash) + npuc_row_place(&p->indices, row);
        uint8_t *y = sram + p->y.at.offset + npuc_row_place(&p->y, row);
        for (int32_t w = 0; w < p->y.size[3]; w++) {
            const uint8_t *data = npuc_source(p->data, sram, flash) + selected(p, indices + w * p->indices.stride[3]);
            uint8_t *to = y + w * p->y.stride[3];
            if (has_lines) {
                npuc_copy_run(p->size[last], data, p->source_stride[last], to, p->destination_stride[last]);
            } else {
                npuc_copy_region(p->size, data, p->source_stride, to, p->destination_stride);
            }
        }
    } while (npuc_next_row(&row, p->y.size));
    return NPUC_KERNEL_OK;
}
