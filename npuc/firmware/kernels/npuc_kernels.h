/* Integer kernels of npuc; isa/arithmetic.py says what each computes. Generated from npuc/arm/kernel_spec.py.
 *
 * A kernel reads a parameter record (32-bit words, little-endian, 4-byte aligned), computes one operator, and writes
 * its output to SRAM. It keeps no state, so calls may be nested and interrupted. An output must not overlap inputs, but
 * add, mul and table may write over an operand that has the output's strides. Offsets and strides are trusted.
 */
#ifndef NPUC_KERNELS_H
#define NPUC_KERNELS_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define NPUC_ABSENT 0 /* memory of an operand that is not there */
#define NPUC_SRAM 1 /* memory that kernels read and write */
#define NPUC_FLASH 2 /* memory that kernels read */
#define NPUC_COPY_AXES 8 /* axes of a copy */
#define NPUC_MAX_LEFT_SHIFT 23 /* left shift of an addition */
#define NPUC_KERNEL_OK 0 /* the output is written */
#define NPUC_KERNEL_BAD_PARAMETERS 1 /* a parameter has no meaning; nothing is written */

/* Where an array begins. */
typedef struct {
    int32_t memory; /* NPUC_ABSENT, NPUC_SRAM or NPUC_FLASH */
    int32_t offset; /* bytes from the base of the memory */
} npuc_block;

/* A tensor with axes n, c, h, w, or for weights oc, ic / groups, kh, kw. */
typedef struct {
    npuc_block at; /* element (0, 0, 0, 0) */
    int32_t size[4]; /* elements */
    int32_t stride[4]; /* bytes from one element to the next; 0 repeats the element */
} npuc_tensor;

/* The factor multiplier / 2^shift. */
typedef struct {
    int32_t multiplier; /* 0 to 2^31 - 1 */
    int32_t shift; /* 2 to 62 */
} npuc_rescale;

/* A window that slides over rows (first) and columns (second). */
typedef struct {
    int32_t kernel[2]; /* taps */
    int32_t stride[2]; /* pixels from window to window */
    int32_t dilation[2]; /* pixels from tap to tap */
    int32_t pad[2]; /* pixels before the first row and column */
} npuc_window;

/* Constants of a rescaled sum. */
typedef struct {
    int32_t left_shift; /* 0 to 23 */
    npuc_rescale first; /* of the first operand */
    npuc_rescale second; /* of the second operand */
    npuc_rescale result; /* of the sum */
    int32_t first_zero_point;
    int32_t second_zero_point;
    int32_t output_zero_point;
    int32_t low; /* smallest output */
    int32_t high; /* largest output */
} npuc_addition;

/* Convolution with the whole output stage. */
typedef struct {
    npuc_tensor x; /* input */
    npuc_tensor weights; /* int8 */
    npuc_block bias; /* int32[oc] */
    npuc_block scales; /* rescale[oc] */
    npuc_block table; /* int8[256], or absent */
    npuc_tensor other; /* int8 residual operand, or absent */
    npuc_tensor y; /* output */
    npuc_window window;
    int32_t groups;
    int32_t is_unsigned; /* 1: x holds uint8 */
    int32_t double_round; /* 1: double rounding, 0: single */
    int32_t input_zero_point;
    int32_t output_zero_point;
    int32_t weight_zero_point; /* of all weights */
    int32_t low; /* smallest output */
    int32_t high; /* largest output */
    npuc_addition residual; /* its first operand is what the table gives */
} npuc_conv2d_parameters;

/* Rescaled sum or difference of two int8 tensors. */
typedef struct {
    npuc_tensor first; /* operand */
    npuc_tensor second; /* operand */
    npuc_tensor y; /* output */
    int32_t subtract; /* 1: first - second */
    npuc_addition constants;
} npuc_add_parameters;

/* Rescaled product of two int8 tensors. */
typedef struct {
    npuc_tensor first; /* operand */
    npuc_tensor second; /* operand */
    npuc_tensor y; /* output */
    int32_t first_zero_point;
    int32_t second_zero_point;
    int32_t output_zero_point;
    npuc_rescale factor;
    int32_t low; /* smallest output */
    int32_t high; /* largest output */
} npuc_mul_parameters;

/* table[x - smallest value of its type] of each byte. */
typedef struct {
    npuc_tensor x; /* input */
    npuc_block table; /* byte[256] */
    npuc_tensor y; /* output */
    int32_t is_unsigned; /* 1: x holds uint8, 0: int8 */
} npuc_table_parameters;

/* Largest int8 value in each window. */
typedef struct {
    npuc_tensor x; /* input */
    npuc_tensor y; /* output */
    npuc_window window;
    int32_t low; /* smallest output */
    int32_t high; /* largest output */
} npuc_max_pool_parameters;

/* Rounded mean of the stored int8 values in each window. */
typedef struct {
    npuc_tensor x; /* input */
    npuc_tensor y; /* output */
    npuc_window window;
    int32_t include_pad; /* 1: padding counts and holds the zero point */
    int32_t input_zero_point;
    int32_t halves_up; /* 1: halves towards plus infinity, 0: away from zero */
    int32_t low; /* smallest output */
    int32_t high; /* largest output */
} npuc_average_pool_parameters;

/* Mean of int8 values over rows and columns. */
typedef struct {
    npuc_tensor x; /* input */
    npuc_tensor y; /* output */
    npuc_rescale factor; /* from input to output scale */
    int32_t input_zero_point;
    int32_t output_zero_point;
    int32_t low; /* smallest output */
    int32_t high; /* largest output */
} npuc_mean_parameters;

/* int8 softmax along one axis; output scale 1/256, zero point -128. */
typedef struct {
    npuc_tensor x; /* input */
    npuc_tensor y; /* output */
    int32_t multiplier;
    int32_t left_shift; /* 0 to 31 */
    int32_t axis; /* 0 to 3 */
} npuc_softmax_parameters;

/* Each pixel repeated: nearest neighbor with whole factors. */
typedef struct {
    npuc_tensor x; /* input */
    npuc_tensor y; /* output */
    int32_t factor[2]; /* rows, columns */
    int32_t item_bytes; /* bytes of an element */
} npuc_resize_parameters;

/* Bilinear interpolation of int8 images, 10 fractional bits. */
typedef struct {
    npuc_tensor x; /* input */
    npuc_tensor y; /* output */
    int32_t align_corners; /* 1: corner pixels map to corner pixels */
    int32_t half_pixel_centers; /* 1: positions are those of pixel centers */
} npuc_resize_bilinear_parameters;

/* Strided copy of bytes; a source stride of 0 fills. */
typedef struct {
    npuc_block source;
    npuc_block destination;
    int32_t size[8]; /* outermost axis first */
    int32_t source_stride[8];
    int32_t destination_stride[8];
} npuc_copy_parameters;

/* X(name, id, version) for every kernel. */
#define NPUC_KERNELS(X) \
    X(conv2d, 1, 1) \
    X(add, 2, 1) \
    X(mul, 3, 1) \
    X(table, 4, 1) \
    X(max_pool, 5, 1) \
    X(average_pool, 6, 1) \
    X(mean, 7, 1) \
    X(softmax, 8, 1) \
    X(resize, 9, 1) \
    X(resize_bilinear, 11, 1) \
    X(copy, 10, 1)
#define NPUC_KERNEL_COUNT 11

int32_t npuc_conv2d(const void *parameters, uint8_t *sram, const uint8_t *flash);
int32_t npuc_add(const void *parameters, uint8_t *sram, const uint8_t *flash);
int32_t npuc_mul(const void *parameters, uint8_t *sram, const uint8_t *flash);
int32_t npuc_table(const void *parameters, uint8_t *sram, const uint8_t *flash);
int32_t npuc_max_pool(const void *parameters, uint8_t *sram, const uint8_t *flash);
int32_t npuc_average_pool(const void *parameters, uint8_t *sram, const uint8_t *flash);
int32_t npuc_mean(const void *parameters, uint8_t *sram, const uint8_t *flash);
int32_t npuc_softmax(const void *parameters, uint8_t *sram, const uint8_t *flash);
int32_t npuc_resize(const void *parameters, uint8_t *sram, const uint8_t *flash);
int32_t npuc_resize_bilinear(const void *parameters, uint8_t *sram, const uint8_t *flash);
int32_t npuc_copy(const void *parameters, uint8_t *sram, const uint8_t *flash);

/* Every kernel: `sram` and `flash` are the bases that offsets count from; returns NPUC_KERNEL_OK or a reason. */
typedef int32_t (*npuc_kernel)(const void *parameters, uint8_t *sram, const uint8_t *flash);

typedef struct {
    uint32_t id;
    uint32_t version;
    uint32_t parameter_bytes;
    npuc_kernel run;
} npuc_kernel_entry;

extern const npuc_kernel_entry npuc_kernel_table[NPUC_KERNEL_COUNT];

#ifdef __cplusplus
}
#endif

#endif
