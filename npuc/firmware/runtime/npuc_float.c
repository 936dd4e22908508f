#include "npuc_float.h"

/* Beyond this every stored type is saturated, and below it an int32 holds every value. */
#define LIMIT 262144.0f

static int32_t round_to_integer(float value, int32_t half_even)
{
    if (value >= LIMIT) {
        return (int32_t)LIMIT;
    }
    if (value <= -LIMIT) {
        return -(int32_t)LIMIT;
    }
    if (!(value > -LIMIT)) {
        return 0; /* NaN */
    }
    const int32_t whole = (int32_t)value;
    const float rest = value - (float)whole; /* exact */
    const float size = rest < 0.0f ? -rest : rest;
    const int32_t away = rest < 0.0f ? -1 : 1;
    const int32_t is_up = size > 0.5f || (size == 0.5f && (!half_even || whole % 2 != 0));
    return is_up ? whole + away : whole;
}

static int32_t clamp(int32_t value, int32_t low, int32_t high)
{
    return value < low ? low : value > high ? high : value;
}

void npuc_quantize(const float *real, void *stored, uint32_t n, const npuc_quantization *quantization)
{
    for (uint32_t i = 0; i < n; i++) {
        const int32_t rounded = round_to_integer(real[i] / quantization->scale, quantization->half_even);
        const int32_t value = rounded + quantization->zero_point;
        if (quantization->dtype == NPUC_INT16) {
            ((int16_t *)stored)[i] = (int16_t)clamp(value, -32768, 32767);
        } else if (quantization->dtype == NPUC_UINT8) {
            ((uint8_t *)stored)[i] = (uint8_t)clamp(value, 0, 255);
        } else {
            ((int8_t *)stored)[i] = (int8_t)clamp(value, -128, 127);
        }
    }
}

void npuc_dequantize(const void *stored, float *real, uint32_t n, const npuc_quantization *quantization)
{
    for (uint32_t i = 0; i < n; i++) {
        const int32_t value = quantization->dtype == NPUC_INT16   ? ((const int16_t *)stored)[i]
                              : quantization->dtype == NPUC_UINT8 ? ((const uint8_t *)stored)[i]
                                                                  : ((const int8_t *)stored)[i];
        real[i] = quantization->scale * (float)(value - quantization->zero_point);
    }
}
