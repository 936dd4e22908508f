/* Kernels of npuc for the Arm core; isa/arithmetic.py says what those of integers compute. Generated from
 * npuc/arm/kernel_spec.py.
 *
 * A kernel reads a parameter record (32-bit words, little-endian, 4-byte aligned), computes one operator, and writes
 * its output to SRAM. It keeps no state, so calls may be nested and interrupted. An output must not overlap inputs, but
 * add, mul, table, squash, float_unary and float_binary may write over an operand that has the output's strides and
 * element size. Offsets and strides are trusted.
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
#define NPUC_GATHER_AXES 8 /* axes that an index selects from */
#define NPUC_MAX_LEFT_SHIFT 23 /* left shift of an addition */
#define NPUC_KERNEL_OK 0 /* the output is written */
#define NPUC_KERNEL_BAD_PARAMETERS 1 /* a parameter has no meaning; nothing is written */

#define NPUC_KIND_INT8 1
#define NPUC_KIND_UINT8 2
#define NPUC_KIND_INT16 3
#define NPUC_KIND_INT32 4
#define NPUC_KIND_INT64 5
#define NPUC_KIND_FLOAT32 6
#define NPUC_KIND_BOOL 7

#define NPUC_INDEX_ADD 0
#define NPUC_INDEX_SUB 1
#define NPUC_INDEX_MUL 2
#define NPUC_INDEX_FLOOR_DIV 3

#define NPUC_SQUASH_SIGMOID 0
#define NPUC_SQUASH_TANH 1

#define NPUC_UNARY_SQRT 0
#define NPUC_UNARY_EXP 1
#define NPUC_UNARY_LOG 2
#define NPUC_UNARY_SIGMOID 3
#define NPUC_UNARY_TANH 4
#define NPUC_UNARY_RECIPROCAL 5
#define NPUC_UNARY_NEG 6
#define NPUC_UNARY_ABS 7
#define NPUC_UNARY_ERF 8
#define NPUC_UNARY_SIN 9
#define NPUC_UNARY_COS 10
#define NPUC_UNARY_FLOOR 11
#define NPUC_UNARY_CEIL 12
#define NPUC_UNARY_ROUND 13
#define NPUC_UNARY_SIGN 14
#define NPUC_UNARY_SOFTPLUS 15
#define NPUC_UNARY_SOFTSIGN 16
#define NPUC_UNARY_MISH 17
#define NPUC_UNARY_HARD_SWISH 18
#define NPUC_UNARY_HARD_SIGMOID 19
#define NPUC_UNARY_LEAKY_RELU 20
#define NPUC_UNARY_ELU 21
#define NPUC_UNARY_GELU 22
#define NPUC_UNARY_GELU_TANH 23
#define NPUC_UNARY_POW 24
#define NPUC_UNARY_CLIP 25

#define NPUC_BINARY_ADD 0
#define NPUC_BINARY_SUB 1
#define NPUC_BINARY_MUL 2
#define NPUC_BINARY_DIV 3

#define NPUC_POOL_MAX 0
#define NPUC_POOL_AVERAGE 1

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
    int32_t y_bytes; /* 1: y holds int8; 2: int16, with neither table nor residual */
} npuc_conv2d_parameters;

/* Rescaled sum or difference of two tensors. */
typedef struct {
    npuc_tensor first; /* operand */
    npuc_tensor second; /* operand */
    npuc_tensor y; /* output */
    int32_t first_bytes; /* 1: int8, 2: int16; shifted left by at most 15 if 2 */
    int32_t second_bytes; /* 1: int8, 2: int16; shifted left by at most 15 if 2 */
    int32_t y_bytes; /* 1 or 2 */
    int32_t subtract; /* 1: first - second */
    npuc_addition constants;
} npuc_add_parameters;

/* Rescaled product of two tensors. */
typedef struct {
    npuc_tensor first; /* operand */
    npuc_tensor second; /* operand */
    npuc_tensor y; /* output */
    int32_t first_bytes; /* 1: int8, 2: int16; shifted left by at most 15 if 2 */
    int32_t second_bytes; /* 1: int8, 2: int16; shifted left by at most 15 if 2 */
    int32_t y_bytes; /* 1 or 2 */
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

/* Sigmoid or tanh of int16 values by interpolation in a table. */
typedef struct {
    npuc_tensor x; /* input */
    npuc_tensor y; /* output */
    int32_t function; /* NPUC_SQUASH_... */
    int32_t integer_bits; /* of x, 0 to 15; 3 for a sigmoid */
} npuc_squash_parameters;

/* int8 LSTM over all steps; four gates: input, forget, candidate, output. */
typedef struct {
    npuc_tensor x; /* int8 [1, batch, step, input] */
    npuc_tensor weights; /* int8 [1, 1, 4 * units, input] */
    npuc_tensor recurrent; /* int8 [1, 1, 4 * units, units] */
    npuc_block bias; /* int32[4 * units] */
    npuc_block cell; /* int16[units], scratch */
    npuc_tensor y; /* int8 [1, batch, step, units] */
    int32_t input_zero_point;
    int32_t hidden_zero_point;
    npuc_rescale input_factor[4]; /* of each gate */
    npuc_rescale recurrent_factor[4]; /* of each gate */
    npuc_rescale forget; /* of forget gate times cell */
    npuc_rescale update; /* of input gate times candidate */
    npuc_rescale output; /* of output gate times tanh of the cell */
    int32_t cell_integer_bits; /* 0 to 15 */
    int32_t cell_clip; /* largest magnitude of a cell, 0: no limit */
} npuc_lstm_parameters;

/* Position of the first largest element along an axis that is not one of x's. */
typedef struct {
    npuc_tensor x; /* element 0 of each row */
    npuc_tensor y; /* int32 or int64 */
    int32_t count; /* elements of a row */
    int32_t step; /* bytes from one element of a row to the next */
    int32_t x_kind; /* NPUC_KIND_... */
    int32_t y_kind; /* NPUC_KIND_INT32 or NPUC_KIND_INT64 */
} npuc_arg_max_parameters;

/* int32 arithmetic modulo 2^32; a quotient by 0 is 0. */
typedef struct {
    npuc_tensor first; /* operand */
    npuc_tensor second; /* operand */
    npuc_tensor y; /* output */
    int32_t function; /* NPUC_INDEX_... */
} npuc_index_arithmetic_parameters;

/* data[i0, i1, ...] for rows of int32 indices, clamped to the data. */
typedef struct {
    npuc_block data; /* element (0, 0, ...) */
    npuc_tensor indices; /* the first index of each row */
    npuc_tensor y; /* the first byte of what each row selects */
    int32_t depth; /* indices of a row, 1 to NPUC_GATHER_AXES */
    int32_t index_step; /* bytes from one index of a row to the next */
    int32_t limit[8]; /* elements of each indexed axis */
    int32_t stride[8]; /* bytes from one to the next in data */
    int32_t size[8]; /* of what a row selects, down to bytes */
    int32_t source_stride[8];
    int32_t destination_stride[8];
} npuc_gather_nd_parameters;

/* float32 to integers: clamp(round(x / scale) + zero point); NaN as 0. */
typedef struct {
    npuc_tensor x; /* input */
    npuc_tensor y; /* output */
    int32_t scale; /* bits of a float32 */
    int32_t zero_point;
    int32_t y_kind; /* NPUC_KIND_INT8, _UINT8 or _INT16 */
    int32_t half_even; /* 1: halves to the even integer, 0: away from zero */
} npuc_float_quantize_parameters;

/* Integers to float32: scale * (x - zero point). */
typedef struct {
    npuc_tensor x; /* input */
    npuc_tensor y; /* output */
    int32_t scale; /* bits of a float32 */
    int32_t zero_point;
    int32_t x_kind; /* NPUC_KIND_INT8, _UINT8 or _INT16 */
} npuc_float_dequantize_parameters;

/* Integers as float32, rounded to nearest. */
typedef struct {
    npuc_tensor x; /* input */
    npuc_tensor y; /* output */
    int32_t x_kind; /* NPUC_KIND_..., not _FLOAT32 */
} npuc_to_float_parameters;

/* A function of each float32. */
typedef struct {
    npuc_tensor x; /* input */
    npuc_tensor y; /* output */
    int32_t function; /* NPUC_UNARY_... */
    int32_t parameter[2]; /* bits of a float32: attributes in their order; bounds of a clip */
} npuc_float_unary_parameters;

/* Arithmetic on two float32 tensors. */
typedef struct {
    npuc_tensor first; /* operand */
    npuc_tensor second; /* operand */
    npuc_tensor y; /* output */
    int32_t function; /* NPUC_BINARY_... */
} npuc_float_binary_parameters;

/* Softmax, or its logarithm, along an axis that is not one of the tensors'. */
typedef struct {
    npuc_tensor x; /* element 0 of each row */
    npuc_tensor y; /* element 0 of each row */
    int32_t count; /* elements of a row */
    int32_t x_step; /* bytes from one element of a row to the next */
    int32_t y_step;
    int32_t is_log; /* 1: logarithm of the softmax */
} npuc_float_softmax_parameters;

/* float32 convolution; padding counts as zero. */
typedef struct {
    npuc_tensor x; /* input */
    npuc_tensor weights;
    npuc_block bias; /* float32[oc] */
    npuc_tensor y; /* output */
    npuc_window window;
    int32_t groups;
} npuc_float_conv2d_parameters;

/* Largest float32 of each window, or the mean of it. */
typedef struct {
    npuc_tensor x; /* input */
    npuc_tensor y; /* output */
    npuc_window window;
    int32_t function; /* NPUC_POOL_... */
    int32_t include_pad; /* 1: padding counts as zeros in a mean */
} npuc_float_pool_parameters;

/* Products of float32 matrices, axes [batch, batch, row, column]. */
typedef struct {
    npuc_tensor first; /* operand */
    npuc_tensor second; /* operand */
    npuc_tensor y; /* output */
} npuc_float_matmul_parameters;

/* X(name, id, version) for every kernel. */
#define NPUC_KERNELS(X) \
    X(conv2d, 1, 2) \
    X(add, 2, 2) \
    X(mul, 3, 2) \
    X(table, 4, 1) \
    X(max_pool, 5, 1) \
    X(average_pool, 6, 1) \
    X(mean, 7, 1) \
    X(softmax, 8, 1) \
    X(resize, 9, 1) \
    X(resize_bilinear, 11, 1) \
    X(copy, 10, 1) \
    X(squash, 12, 1) \
    X(lstm, 13, 1) \
    X(arg_max, 14, 1) \
    X(index_arithmetic, 15, 1) \
    X(gather_nd, 16, 1) \
    X(float_quantize, 17, 1) \
    X(float_dequantize, 18, 1) \
    X(to_float, 19, 1) \
    X(float_unary, 20, 1) \
    X(float_binary, 21, 1) \
    X(float_softmax, 22, 1) \
    X(float_conv2d, 23, 1) \
    X(float_pool, 24, 1) \
    X(float_matmul, 25, 1)
#define NPUC_KERNEL_COUNT 25

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
int32_t npuc_squash(const void *parameters, uint8_t *sram, const uint8_t *flash);
int32_t npuc_lstm(const void *parameters, uint8_t *sram, const uint8_t *flash);
int32_t npuc_arg_max(const void *parameters, uint8_t *sram, const uint8_t *flash);
int32_t npuc_index_arithmetic(const void *parameters, uint8_t *sram, const uint8_t *flash);
int32_t npuc_gather_nd(const void *parameters, uint8_t *sram, const uint8_t *flash);
int32_t npuc_float_quantize(const void *parameters, uint8_t *sram, const uint8_t *flash);
int32_t npuc_float_dequantize(const void *parameters, uint8_t *sram, const uint8_t *flash);
int32_t npuc_to_float(const void *parameters, uint8_t *sram, const uint8_t *flash);
int32_t npuc_float_unary(const void *parameters, uint8_t *sram, const uint8_t *flash);
int32_t npuc_float_binary(const void *parameters, uint8_t *sram, const uint8_t *flash);
int32_t npuc_float_softmax(const void *parameters, uint8_t *sram, const uint8_t *flash);
int32_t npuc_float_conv2d(const void *parameters, uint8_t *sram, const uint8_t *flash);
int32_t npuc_float_pool(const void *parameters, uint8_t *sram, const uint8_t *flash);
int32_t npuc_float_matmul(const void *parameters, uint8_t *sram, const uint8_t *flash);

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
