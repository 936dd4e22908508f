/* Windows that slide over rows and columns of an image. */
#ifndef NPUC_WINDOW_H
#define NPUC_WINDOW_H

#include "npuc_tensor.h"

/* Taps first to end - 1 of a window of `kernel` taps that read pixels inside 0..size - 1, `start` being the first tap's
 * pixel. */
typedef struct {
    int32_t first;
    int32_t end;
} npuc_taps;

static inline npuc_taps npuc_taps_inside(int32_t start, int32_t kernel, int32_t dilation, int32_t size)
{
    npuc_taps taps = {0, kernel};
    while (taps.first < kernel && start + taps.first * dilation < 0) {
        taps.first++;
    }
    while (taps.end > taps.first && start + (taps.end - 1) * dilation >= size) {
        taps.end--;
    }
    return taps;
}

/* Where a window lies on an input. */
typedef struct {
    int32_t row;    /* input pixel of the first tap */
    int32_t column;
    npuc_taps rows; /* taps inside the input */
    npuc_taps columns;
} npuc_position;

/* Of output pixel (h, w). */
static inline npuc_position npuc_position_at(const npuc_window *window, const npuc_tensor *x, int32_t h, int32_t w)
{
    npuc_position v;
    v.row = h * window->stride[0] - window->pad[0];
    v.column = w * window->stride[1] - window->pad[1];
    v.rows = npuc_taps_inside(v.row, window->kernel[0], window->dilation[0], x->size[2]);
    v.columns = npuc_taps_inside(v.column, window->kernel[1], window->dilation[1], x->size[3]);
    return v;
}

/* Bytes from element (0, 0, 0, 0) to the one that tap (i, j) reads. */
static inline int32_t npuc_tap_place(const npuc_position *v, const npuc_window *window, const npuc_tensor *x, int32_t n,
                                     int32_t c, int32_t i, int32_t j)
{
    return npuc_place(x, n, c, v->row + i * window->dilation[0], v->column + j * window->dilation[1]);
}

#endif
