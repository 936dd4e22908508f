/* Operands in memory. Elements are little-endian; they need no alignment. */
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

static inline int32_t npuc_is_empty(const npuc_tensor *tensor)
{
    return tensor->size[0] < 1 || tensor->size[1] < 1 || tensor->size[2] < 1 || tensor->size[3] < 1;
}

/* Whether one tensor can be read and the other, which has elements, written. */
static inline int32_t npuc_is_pair(const npuc_tensor *x, const npuc_tensor *y)
{
    return npuc_is_source(x->at) && npuc_is_destination(y->at) && !npuc_is_empty(y);
}

/* A row of a tensor: all elements along the last axis. */
typedef struct {
    int32_t n;
    int32_t c;
    int32_t h;
} npuc_row;

/* Bytes from element (0, 0, 0, 0) to the first one of the row. */
static inline int32_t npuc_row_place(const npuc_tensor *tensor, npuc_row row)
{
    return npuc_place(tensor, row.n, row.c, row.h, 0);
}

/* Steps to the next row; 0 behind the last one. */
static inline int32_t npuc_next_row(npuc_row *row, const int32_t *size)
{
    if (++row->h < size[2]) {
        return 1;
    }
    row->h = 0;
    if (++row->c < size[1]) {
        return 1;
    }
    row->c = 0;
    return ++row->n < size[0];
}

/* Bytes of memory as the integers that they store. */
static inline int8_t npuc_int8(uint8_t byte)
{
    return (int8_t)((int32_t)(byte ^ 0x80u) - 128);
}

static inline int16_t npuc_int16(const uint8_t *at)
{
    const uint32_t bits = at[0] | (uint32_t)at[1] << 8;
    return (int16_t)((int32_t)(bits ^ 0x8000u) - 0x8000);
}

static inline uint32_t npuc_word(const uint8_t *at)
{
    return at[0] | (uint32_t)at[1] << 8 | (uint32_t)at[2] << 16 | (uint32_t)at[3] << 24;
}

static inline int32_t npuc_signed(uint32_t bits)
{
    return bits <= 0x7fffffffu ? (int32_t)bits : -(int32_t)~bits - 1;
}

/* An int8, where `n_bytes` is 1, or an int16. */
static inline int32_t npuc_small(const uint8_t *at, int32_t n_bytes)
{
    return n_bytes == 1 ? npuc_int8(*at) : npuc_int16(at);
}

static inline void npuc_write_small(uint8_t *at, int32_t n_bytes, int32_t value)
{
    at[0] = (uint8_t)value;
    if (n_bytes == 2) {
        at[1] = (uint8_t)((uint32_t)value >> 8);
    }
}

static inline void npuc_write_word(uint8_t *at, uint32_t bits)
{
    at[0] = (uint8_t)bits;
    at[1] = (uint8_t)(bits >> 8);
    at[2] = (uint8_t)(bits >> 16);
    at[3] = (uint8_t)(bits >> 24);
}

/* An integer of NPUC_KIND_...: sign extended to 64 bits. */
static inline int64_t npuc_integer(const uint8_t *at, int32_t kind)
{
    switch (kind) {
    case NPUC_KIND_INT8:
        return npuc_int8(*at);
    case NPUC_KIND_INT16:
        return npuc_int16(at);
    case NPUC_KIND_INT32:
        return npuc_signed(npuc_word(at));
    case NPUC_KIND_INT64:
        return npuc_signed(npuc_word(at + 4)) * ((int64_t)1 << 32) + npuc_word(at);
    default: /* uint8, bool */
        return *at;
    }
}

#endif
