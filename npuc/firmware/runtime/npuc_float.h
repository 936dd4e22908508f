/* Optional: float tensors at the boundary of a program. The only file of the runtime that uses floating point. */
#ifndef NPUC_FLOAT_H
#define NPUC_FLOAT_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef enum npuc_dtype { NPUC_INT8, NPUC_UINT8, NPUC_INT16 } npuc_dtype;

/* How a tensor is stored; generated headers define one for each quantized input and output. */
typedef struct npuc_quantization {
    npuc_dtype dtype;
    float scale;
    int32_t zero_point;
    int32_t half_even; /* ties to even (ONNX), else away from zero (TFLite) */
} npuc_quantization;

/* stored[i] = clamp(round(real[i] / scale) + zero_point), a NaN stored as the zero point; real[i] = scale x (stored[i] -
 * zero_point). All in float32, the bits of the host tools. */
void npuc_quantize(const float *real, void *stored, uint32_t n, const npuc_quantization *quantization);
void npuc_dequantize(const void *stored, float *real, uint32_t n, const npuc_quantization *quantization);

#ifdef __cplusplus
}
#endif

#endif
