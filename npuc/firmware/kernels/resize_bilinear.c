/* Bilinear interpolation: positions and weights have 10 fractional bits. */
#include "npuc_arithmetic.h"
#include "npuc_tensor.h"

#define ONE 1024

/* Where an output row or column lies between two input ones. */
typedef struct {
    int32_t lower;
    int32_t upper;
    int32_t distance; /* from the lower one, times ONE */
} position_t;

/* Position of pixel `index` of `n_output` on an axis of `n_input` pixels. Divisions truncate, so positions just below
 * zero have neighbor 0 on both sides. */
static position_t position_at(const npuc_resize_bilinear_parameters *p, int32_t index, int32_t n_input, int32_t n_output)
{
    position_t result;
    const int32_t shared = p->align_corners && n_output > 1 ? 1 : 0;
    const int32_t steps = n_output - shared;
    const int32_t scale = ((n_input - shared) * ONE + steps / 2) / steps;
    int32_t position = index * scale;
    if (p->half_pixel_centers) {
        position += scale / 2 - ONE / 2;
    }
    result.lower = position / ONE > 0 ? position / ONE : 0;
    result.upper = (position + ONE - 1) / ONE < n_input - 1 ? (position + ONE - 1) / ONE : n_input - 1;
    result.distance = position - result.lower * ONE;
    return result;
}

/* The four neighbors weighted; the sum of weights is 2^20, halves round away from zero. */
static int8_t interpolate(const npuc_tensor *tensor, const uint8_t *pixels, position_t row, position_t column)
{
    const int64_t top_left = npuc_int8(pixels[npuc_place(tensor, 0, 0, row.lower, column.lower)]);
    const int64_t top_right = npuc_int8(pixels[npuc_place(tensor, 0, 0, row.lower, column.upper)]);
    const int64_t bottom_left = npuc_int8(pixels[npuc_place(tensor, 0, 0, row.upper, column.lower)]);
    const int64_t bottom_right = npuc_int8(pixels[npuc_place(tensor, 0, 0, row.upper, column.upper)]);
    const int64_t left = top_left * (ONE - row.distance) + bottom_left * row.distance;
    const int64_t right = top_right * (ONE - row.distance) + bottom_right * row.distance;
    const int64_t total = left * (ONE - column.distance) + right * column.distance;
    const int64_t half = (int64_t)1 << 19;
    return (int8_t)((total > 0 ? total + half : total - half) / ((int64_t)1 << 20));
}

int32_t npuc_resize_bilinear(const void *parameters, uint8_t *sram, const uint8_t *flash)
{
    const npuc_resize_bilinear_parameters *p = parameters;
    const uint8_t *x = npuc_source(p->x.at, sram, flash);
    if (!npuc_is_source(p->x.at) || !npuc_is_destination(p->y.at)) {
        return NPUC_KERNEL_BAD_PARAMETERS;
    }
    uint8_t *y = sram + p->y.at.offset;
    for (int32_t h = 0; h < p->y.size[2]; h++) {
        const position_t row = position_at(p, h, p->x.size[2], p->y.size[2]);
        for (int32_t w = 0; w < p->y.size[3]; w++) {
            const position_t column = position_at(p, w, p->x.size[3], p->y.size[3]);
            for (int32_t n = 0; n < p->y.size[0]; n++) {
                for (int32_t c = 0; c < p->y.size[1]; c++) {
                    const uint8_t *pixels = x + npuc_place(&p->x, n, c, 0, 0);
                    y[npuc_place(&p->y, n, c, h, w)] = (uint8_t)interpolate(&p->x, pixels, row, column);
                }
            }
        }
    }
    return NPUC_KERNEL_OK;
}
