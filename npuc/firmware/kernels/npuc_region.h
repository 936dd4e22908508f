/* Copies between strided regions of NPUC_COPY_AXES axes, the last of which are bytes. */
#ifndef NPUC_REGION_H
#define NPUC_REGION_H

#include "npuc_tensor.h"

/* Bytes of one line onto another, at distances of a step; both lines dense: words. */
static inline void npuc_copy_run(int32_t n, const uint8_t *source, int32_t source_step, uint8_t *destination,
                                 int32_t step)
{
    int32_t i = 0;
    if (source_step == 1 && step == 1) {
        for (; i + 4 <= n; i += 4) {
            npuc_write_word(destination + i, npuc_word(source + i));
        }
    }
    for (; i < n; i++) {
        destination[i * step] = source[i * source_step];
    }
}

/* Whether a region of this size has elements. */
int32_t npuc_is_region(const int32_t *size);

/* One region onto another; strides are bytes, one for each axis. */
void npuc_copy_region(const int32_t *size, const uint8_t *source, const int32_t *source_stride, uint8_t *destination,
                      const int32_t *destination_stride);

#endif
