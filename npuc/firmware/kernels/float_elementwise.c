/* float32 element by element: between integers and float32, functions of one and of two operands. */
#include "npuc_real.h"

#define LIMIT 262144.0f /* beyond, every stored type is saturated; below, an int32 holds every value */

/* The nearest integer; halves to the even one or away from zero. */
static int32_t nearest(float x, int32_t half_even)
{
    const float bounded = x > LIMIT ? LIMIT : x < -LIMIT ? -LIMIT : x == x ? x : 0.0f;
    const int32_t whole = (int32_t)bounded;
    const float rest = npuc_magnitude(bounded - (float)whole); /* exact */
    const int32_t is_beyond = rest > 0.5f || (rest == 0.5f && (!half_even || (whole & 1)));
    return is_beyond ? whole + (bounded < 0.0f ? -1 : 1) : whole;
}

static int32_t is_stored(int32_t kind)
{
    return kind == NPUC_KIND_INT8 || kind == NPUC_KIND_UINT8 || kind == NPUC_KIND_INT16;
}

int32_t npuc_float_quantize(const void *parameters, uint8_t *sram, const uint8_t *flash)
{
    const npuc_float_quantize_parameters *p = parameters;
    const float scale = npuc_parameter(p->scale);
    const int32_t n_bytes = p->y_kind == NPUC_KIND_INT16 ? 2 : 1;
    const int32_t low = p->y_kind == NPUC_KIND_INT16 ? -32768 : p->y_kind == NPUC_KIND_INT8 ? -128 : 0;
    const int32_t high = p->y_kind == NPUC_KIND_INT16 ? 32767 : low + 255;
    npuc_row row = {0, 0, 0};
    if (!npuc_is_pair(&p->x, &p->y) || !is_stored(p->y_kind)) {
        return NPUC_KERNEL_BAD_PARAMETERS;
    }
    do {
        const uint8_t *x = npuc_source(p->x.at, sram, flash) + npuc_row_place(&p->x, row);
        uint8_t *y = sram + p->y.at.offset + npuc_row_place(&p->y, row);
        for (int32_t w = 0; w < p->y.size[3]; w++) {
            const int64_t value = nearest(npuc_float(x + w * p->x.stride[3]) / scale, p->half_even);
            const int64_t stored = value + p->zero_point;
            npuc_write_small(y + w * p->y.stride[3], n_bytes,
                             (int32_t)(stored < low ? low : stored > high ? high : stored));
        }
    } while (npuc_next_row(&row, p->y.size));
    return NPUC_KERNEL_OK;
}

int32_t npuc_float_dequantize(const void *parameters, uint8_t *sram, const uint8_t *flash)
{
    const npuc_float_dequantize_parameters *p = parameters;
    const float scale = npuc_parameter(p->scale);
    npuc_row row = {0, 0, 0};
    if (!npuc_is_pair(&p->x, &p->y) || !is_stored(p->x_kind)) {
        return NPUC_KERNEL_BAD_PARAMETERS;
    }
    do {
        const uint8_t *x = npuc_source(p->x.at, sram, flash) + npuc_row_place(&p->x, row);
        uint8_t *y = sram + p->y.at.offset + npuc_row_place(&p->y, row);
        for (int32_t w = 0; w < p->y.size[3]; w++) {
            const int64_t value = npuc_integer(x + w * p->x.stride[3], p->x_kind) - p->zero_point;
            npuc_write_float(y + w * p->y.stride[3], scale * (float)(int32_t)value);
        }
    } while (npuc_next_row(&row, p->y.size));
    return NPUC_KERNEL_OK;
}

int32_t npuc_to_float(const void *parameters, uint8_t *sram, const uint8_t *flash)
{
    const npuc_to_float_parameters *p = parameters;
    npuc_row row = {0, 0, 0};
    if (!npuc_is_pair(&p->x, &p->y) || p->x_kind < NPUC_KIND_INT8 || p->x_kind > NPUC_KIND_BOOL ||
        p->x_kind == NPUC_KIND_FLOAT32) {
        return NPUC_KERNEL_BAD_PARAMETERS;
    }
    do {
        const uint8_t *x = npuc_source(p->x.at, sram, flash) + npuc_row_place(&p->x, row);
        uint8_t *y = sram + p->y.at.offset + npuc_row_place(&p->y, row);
        for (int32_t w = 0; w < p->y.size[3]; w++) {
            const int64_t value = npuc_integer(x + w * p->x.stride[3], p->x_kind);
            const float real = p->x_kind == NPUC_KIND_INT64 ? npuc_float_of_integer(value) : (float)(int32_t)value;
            npuc_write_float(y + w * p->y.stride[3], real);
        }
    } while (npuc_next_row(&row, p->y.size));
    return NPUC_KERNEL_OK;
}

static float clip(float x, float low, float high)
{
    return npuc_smaller(npuc_larger(x, low), high);
}

static float softplus(float x)
{
    return npuc_larger(x, 0.0f) + npuc_log1p(npuc_exp(-npuc_magnitude(x)));
}

/* x * tanh(softplus(x)); tanh of a logarithm is a quotient. */
static float mish(float x)
{
    if (x > 20.0f) {
        return x;
    }
    const float e = npuc_exp(x);
    const float n = e * (e + 2.0f);
    return x * (n / (n + 2.0f));
}

static float sign(float x)
{
    return x > 0.0f ? 1.0f : x < 0.0f ? -1.0f : x;
}

static float unary(int32_t function, float x, float first, float second)
{
    switch (function) {
    case NPUC_UNARY_SQRT:
        return npuc_sqrt(x);
    case NPUC_UNARY_EXP:
        return npuc_exp(x);
    case NPUC_UNARY_LOG:
        return npuc_log(x);
    case NPUC_UNARY_SIGMOID:
        return npuc_sigmoid(x);
    case NPUC_UNARY_TANH:
        return npuc_tanh(x);
    case NPUC_UNARY_RECIPROCAL:
        return 1.0f / x;
    case NPUC_UNARY_NEG:
        return -x;
    case NPUC_UNARY_ABS:
        return npuc_magnitude(x);
    case NPUC_UNARY_ERF:
        return npuc_erf(x);
    case NPUC_UNARY_SIN:
        return npuc_sin(x);
    case NPUC_UNARY_COS:
        return npuc_cos(x);
    case NPUC_UNARY_FLOOR:
        return npuc_floor(x);
    case NPUC_UNARY_CEIL:
        return npuc_ceil(x);
    case NPUC_UNARY_ROUND:
        return npuc_round(x);
    case NPUC_UNARY_SIGN:
        return sign(x);
    case NPUC_UNARY_SOFTPLUS:
        return softplus(x);
    case NPUC_UNARY_SOFTSIGN:
        return x / (1.0f + npuc_magnitude(x));
    case NPUC_UNARY_MISH:
        return mish(x);
    case NPUC_UNARY_HARD_SWISH:
        return x * (clip(x + 3.0f, 0.0f, 6.0f) * 0.166666667f);
    case NPUC_UNARY_HARD_SIGMOID:
        return clip(npuc_line(first, x, second), 0.0f, 1.0f);
    case NPUC_UNARY_LEAKY_RELU:
        return x < 0.0f ? first * x : x;
    case NPUC_UNARY_ELU:
        return x < 0.0f ? first * npuc_expm1(x) : x;
    case NPUC_UNARY_GELU:
        return npuc_gelu(x);
    case NPUC_UNARY_GELU_TANH:
        return npuc_gelu_tanh(x);
    case NPUC_UNARY_POW:
        return npuc_pow(x, first);
    default:
        return clip(x, first, second);
    }
}

int32_t npuc_float_unary(const void *parameters, uint8_t *sram, const uint8_t *flash)
{
    const npuc_float_unary_parameters *p = parameters;
    const float first = npuc_parameter(p->parameter[0]);
    const float second = npuc_parameter(p->parameter[1]);
    npuc_row row = {0, 0, 0};
    if (!npuc_is_pair(&p->x, &p->y) || p->function < NPUC_UNARY_SQRT || p->function > NPUC_UNARY_CLIP) {
        return NPUC_KERNEL_BAD_PARAMETERS;
    }
    do {
        const uint8_t *x = npuc_source(p->x.at, sram, flash) + npuc_row_place(&p->x, row);
        uint8_t *y = sram + p->y.at.offset + npuc_row_place(&p->y, row);
        for (int32_t w = 0; w < p->y.size[3]; w++) {
            const float value = unary(p->function, npuc_float(x + w * p->x.stride[3]), first, second);
            npuc_write_float(y + w * p->y.stride[3], value);
        }
    } while (npuc_next_row(&row, p->y.size));
    return NPUC_KERNEL_OK;
}

static float binary(int32_t function, float first, float second)
{
    switch (function) {
    case NPUC_BINARY_ADD:
        return first + second;
    case NPUC_BINARY_SUB:
        return first - second;
    case NPUC_BINARY_MUL:
        return first * second;
    default:
        return first / second;
    }
}

int32_t npuc_float_binary(const void *parameters, uint8_t *sram, const uint8_t *flash)
{
    const npuc_float_binary_parameters *p = parameters;
    npuc_row row = {0, 0, 0};
    if (!npuc_is_pair(&p->first, &p->y) || !npuc_is_source(p->second.at) || p->function < NPUC_BINARY_ADD ||
        p->function > NPUC_BINARY_DIV) {
        return NPUC_KERNEL_BAD_PARAMETERS;
    }
    do {
        const uint8_t *first = npuc_source(p->first.at, sram, flash) + npuc_row_place(&p->first, row);
        const uint8_t *second = npuc_source(p->second.at, sram, flash) + npuc_row_place(&p->second, row);
        uint8_t *y = sram + p->y.at.offset + npuc_row_place(&p->y, row);
        for (int32_t w = 0; w < p->y.size[3]; w++) {
            const float a = npuc_float(first + w * p->first.stride[3]);
            const float b = npuc_float(second + w * p->second.stride[3]);
            npuc_write_float(y + w * p->y.stride[3], binary(p->function, a, b));
        }
    } while (npuc_next_row(&row, p->y.size));
    return NPUC_KERNEL_OK;
}
