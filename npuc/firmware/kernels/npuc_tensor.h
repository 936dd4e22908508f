/* Operands in memory. */
#ifndef NPUC_TENSOR_H
#define NPUC_TENSOR_H

#include "npuc_kernels.h"

/* The bytes of an operand to read. */
static inline const uint8_t *npuc_source(npuc_block block, const uint8_t *sram, const uint8_t *flash)
{
    return (block.memory == NPUC_FLASH ? flash : sram) + block.offset;
}

static inline int32_t npuc_is_source(npuc_block block)
{
    return block.memory == NPUC_SRAM || block.memory == NPUC_FLASH;
}

static inline int32_t npuc_is_destination(npuc_block block)
{
    return block.memory == NPUC_SRAM;
}

/* Bytes from element (0, 0, 0, 0) to element (n, c, h, w). */
static inline int32_t npuc_place(const npuc_tensor *tensor, int32_t n, int32_t c, int32_t h, int32_t w)
{
    return n * tensor->stride[0] + c * tensor->stride[1] + h * tensor->stride[2] + w * tensor->stride[3];
}

/* A byte of memory as the int8 it stores. */
static inline int8_t npuc_int8(uint8_t byte)
{
    return (int8_t)((int32_t)(byte ^ 0x80u) - 128);
}

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

#endif
