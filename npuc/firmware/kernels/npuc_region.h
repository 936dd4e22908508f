/* Copies between strided regions of NPUC_COPY_AXES axes, the last of which are bytes. */
#ifndef NPUC_REGION_H
#define NPUC_REGION_H

#include "npuc_kernels.h"

/* Whether a region of this size has elements. */
int32_t npuc_is_region(const int32_t *size);

/* One region onto another; strides are bytes, one for each axis. */
void npuc_copy_region(const int32_t *size, const uint8_t *source, const int32_t *source_stride, uint8_t *destination,
                      const int32_t *destination_stride);

#endif
