/* Kernels that move elements without computing. */
#include "npuc_region.h"
#include "npuc_tensor.h"

int32_t npuc_resize(const void *parameters, uint8_t *sram, const uint8_t *flash)
{
    const npuc_resize_parameters *p = parameters;
    const uint8_t *x = npuc_source(p->x.at, sram, flash);
    if (!npuc_is_source(p->x.at) || !npuc_is_destination(p->y.at) || p->factor[0] < 1 || p->factor[1] < 1) {
        return NPUC_KERNEL_BAD_PARAMETERS;
    }
    uint8_t *y = sram + p->y.at.offset;
    for (int32_t n = 0; n < p->y.size[0]; n++) {
        for (int32_t c = 0; c < p->y.size[1]; c++) {
            for (int32_t h = 0; h < p->y.size[2]; h++) {
                for (int32_t w = 0; w < p->y.size[3]; w++) {
                    const uint8_t *from = x + npuc_place(&p->x, n, c, h / p->factor[0], w / p->factor[1]);
                    uint8_t *to = y + npuc_place(&p->y, n, c, h, w);
                    for (int32_t i = 0; i < p->item_bytes; i++) {
                        to[i] = from[i];
                    }
                }
            }
        }
    }
    return NPUC_KERNEL_OK;
}

int32_t npuc_is_region(const int32_t *size)
{
    int32_t axis;
    for (axis = 0; axis < NPUC_COPY_AXES && size[axis] > 0; axis++) {
    }
    return axis == NPUC_COPY_AXES;
}

void npuc_copy_region(const int32_t *size, const uint8_t *source, const int32_t *source_stride, uint8_t *destination,
                      const int32_t *destination_stride)
{
    const int32_t last = NPUC_COPY_AXES - 1;
    int32_t index[NPUC_COPY_AXES];
    int32_t from = 0;
    int32_t to = 0;
    int32_t axis;
    for (axis = 0; axis < last; axis++) {
        index[axis] = 0;
    }
    do { /* the last axis is a run; steps to the next one, from the inner axes outwards */
        npuc_copy_run(size[last], source + from, source_stride[last], destination + to, destination_stride[last]);
        for (axis = last - 1; axis >= 0; axis--) {
            if (size[axis] == 1) {
                continue;
            }
            if (++index[axis] < size[axis]) {
                from += source_stride[axis];
                to += destination_stride[axis];
                break;
            }
            index[axis] = 0;
            from -= (size[axis] - 1) * source_stride[axis];
            to -= (size[axis] - 1) * destination_stride[axis];
        }
    } while (axis >= 0);
}

int32_t npuc_copy(const void *parameters, uint8_t *sram, const uint8_t *flash)
{
    const npuc_copy_parameters *p = parameters;
    if (!npuc_is_source(p->source) || !npuc_is_destination(p->destination) || !npuc_is_region(p->size)) {
        return NPUC_KERNEL_BAD_PARAMETERS;
    }
    npuc_copy_region(p->size, npuc_source(p->source, sram, flash), p->source_stride, sram + p->destination.offset,
                     p->destination_stride);
    return NPUC_KERNEL_OK;
}
