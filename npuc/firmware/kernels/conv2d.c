/* Convolution: grouped, depthwise or dense, with the output stage. */
#include "npuc_arithmetic.h"
#include "npuc_window.h"

/* Output channels whose accumulators are held at once. */
#define BLOCK_CHANNELS 32

typedef struct {
    const npuc_conv2d_parameters *p;
    const uint8_t *x;
    const uint8_t *weights;
    const uint8_t *table;
    const uint8_t *other;
    const int32_t *bias;
    const npuc_rescale *scales;
    uint8_t *y;
    int32_t depth;          /* input channels of a group */
    int32_t group_channels; /* output channels of a group */
    int32_t is_depthwise;   /* one input and one output channel a group */
    int32_t is_packed;      /* channels are neighbors in x and in the weights */
    int32_t is_row_packed;  /* so are the taps of a kernel row */
    uint8_t flip;           /* (stored byte ^ flip) - offset is the input minus its zero point */
    int16_t offset;
    int16_t weight_zero_point;
} site_t;

/* Output channels first to first + count - 1 of one window, and the taps of it that lie inside the input. */
typedef struct {
    int32_t n;
    int32_t first;
    int32_t count;
    npuc_position at;
} window_t;

static inline uint32_t product(const site_t *s, uint8_t x, uint8_t weight)
{
    const int16_t value = (int16_t)((x ^ s->flip) - s->offset);
    const int16_t factor = (int16_t)(npuc_int8(weight) - s->weight_zero_point);
    return (uint32_t)((int32_t)value * factor);
}

/* Sums are taken modulo 2^32. */
static uint32_t dot(const site_t *s, const uint8_t *x, const uint8_t *weights, int32_t n)
{
    uint32_t sum = 0;
    for (int32_t i = 0; i < n; i++) {
        sum += product(s, x[i], weights[i]);
    }
    return sum;
}

static uint32_t dot_strided(const site_t *s, const uint8_t *x, const uint8_t *weights)
{
    uint32_t sum = 0;
    for (int32_t i = 0; i < s->depth; i++) {
        sum += product(s, *x, *weights);
        x += s->p->x.stride[1];
        weights += s->p->weights.stride[1];
    }
    return sum;
}

static void add_channels(const site_t *s, const uint8_t *x, const uint8_t *weights, int32_t count, uint32_t *acc)
{
    if (s->p->x.stride[1] == 1 && s->p->weights.stride[0] == 1) {
        for (int32_t k = 0; k < count; k++) {
            acc[k] += product(s, x[k], weights[k]);
        }
        return;
    }
    for (int32_t k = 0; k < count; k++) {
        acc[k] += product(s, *x, *weights);
        x += s->p->x.stride[1];
        weights += s->p->weights.stride[0];
    }
}

/* Adds the products of one tap, or of all taps of a row, to the accumulators. */
static void add_taps(const site_t *s, const window_t *v, int32_t i, int32_t j, int32_t n_taps, uint32_t *acc)
{
    const npuc_conv2d_parameters *p = s->p;
    const int32_t channel = s->is_depthwise ? v->first : v->first / s->group_channels * s->depth;
    const uint8_t *x = s->x + npuc_tap_place(&v->at, &p->window, &p->x, v->n, channel, i, j);
    const uint8_t *weights = s->weights + npuc_place(&p->weights, v->first, 0, i, j);
    if (s->is_depthwise) {
        add_channels(s, x, weights, v->count, acc);
        return;
    }
    for (int32_t k = 0; k < v->count; k++) {
        acc[k] += s->is_packed ? dot(s, x, weights, n_taps * s->depth) : dot_strided(s, x, weights);
        weights += p->weights.stride[0];
    }
}

static void accumulate(const site_t *s, const window_t *v, uint32_t *acc)
{
    for (int32_t k = 0; k < v->count; k++) {
        acc[k] = (uint32_t)s->bias[v->first + k];
    }
    const npuc_taps columns = v->at.columns;
    for (int32_t i = v->at.rows.first; i < v->at.rows.end; i++) {
        if (s->is_row_packed) {
            add_taps(s, v, i, columns.first, columns.end - columns.first, acc);
            continue;
        }
        for (int32_t j = columns.first; j < columns.end; j++) {
            add_taps(s, v, i, j, 1, acc);
        }
    }
}

/* Requantization, clamp, table, residual. */
static int32_t output_stage(const site_t *s, int32_t acc, int32_t channel, const uint8_t *other)
{
    const npuc_conv2d_parameters *p = s->p;
    const int64_t scaled = npuc_apply_scale(acc, s->scales[channel], p->double_round) + p->output_zero_point;
    int32_t y = (int32_t)npuc_clamp(scaled, p->low, p->high);
    if (s->table) {
        y = npuc_int8(s->table[(uint8_t)(y + 128)]);
    }
    return s->other ? npuc_add_rescaled(y, npuc_int8(*other), 1, &p->residual) : y;
}

static void write_pixel(const site_t *s, int32_t n, int32_t h, int32_t w, window_t *v)
{
    uint32_t acc[BLOCK_CHANNELS];
    const npuc_conv2d_parameters *p = s->p;
    v->n = n;
    v->at = npuc_position_at(&p->window, &p->x, h, w);
    accumulate(s, v, acc);
    for (int32_t k = 0; k < v->count; k++) {
        const int32_t channel = v->first + k;
        const uint8_t *other = s->other ? s->other + npuc_place(&p->other, n, channel, h, w) : 0;
        const int32_t y = output_stage(s, npuc_signed(acc[k]), channel, other);
        npuc_write_small(s->y + npuc_place(&p->y, n, channel, h, w), p->y_bytes, y);
    }
}

/* Output channels from `first` on whose accumulators are computed together: all of one group, unless depthwise. */
static int32_t block_channels(const site_t *s, int32_t first)
{
    const int32_t left = s->is_depthwise ? s->p->y.size[1] - first : s->group_channels - first % s->group_channels;
    return left < BLOCK_CHANNELS ? left : BLOCK_CHANNELS;
}

static int32_t is_valid(const npuc_conv2d_parameters *p, const npuc_rescale *scales)
{
    const int32_t has_other = p->other.at.memory != NPUC_ABSENT;
    const int32_t is_plain = !has_other && p->table.memory == NPUC_ABSENT;
    if (!npuc_is_source(p->x.at) || !npuc_is_source(p->weights.at) || !npuc_is_source(p->bias) ||
        !npuc_is_source(p->scales) || !npuc_is_destination(p->y.at) || p->groups < 1 || p->y.size[1] < p->groups ||
        (p->y_bytes != 1 && !(p->y_bytes == 2 && is_plain)) || (has_other && !npuc_is_addition(&p->residual))) {
        return 0;
    }
    for (int32_t channel = 0; channel < p->y.size[1]; channel++) {
        if (!npuc_is_factor(scales[channel])) {
            return 0;
        }
    }
    return 1;
}

static site_t resolve(const npuc_conv2d_parameters *p, uint8_t *sram, const uint8_t *flash)
{
    site_t s;
    s.p = p;
    s.x = npuc_source(p->x.at, sram, flash);
    s.weights = npuc_source(p->weights.at, sram, flash);
    s.table = p->table.memory == NPUC_ABSENT ? 0 : npuc_source(p->table, sram, flash);
    s.other = p->other.at.memory == NPUC_ABSENT ? 0 : npuc_source(p->other.at, sram, flash);
    s.bias = (const int32_t *)(const void *)npuc_source(p->bias, sram, flash);
    s.scales = (const npuc_rescale *)(const void *)npuc_source(p->scales, sram, flash);
    s.y = sram + p->y.at.offset;
    s.depth = p->weights.size[1];
    s.group_channels = p->y.size[1] / p->groups;
    s.is_depthwise = s.depth == 1 && s.group_channels == 1;
    s.is_packed = s.depth == 1 || (p->x.stride[1] == 1 && p->weights.stride[1] == 1);
    s.is_row_packed = s.is_packed && !s.is_depthwise && p->x.stride[3] * p->window.dilation[1] == s.depth &&
                      p->weights.stride[3] == s.depth;
    s.flip = p->is_unsigned ? 0u : 0x80u;
    s.offset = (int16_t)(p->is_unsigned ? p->input_zero_point : p->input_zero_point + 128);
    s.weight_zero_point = (int16_t)p->weight_zero_point;
    return s;
}

int32_t npuc_conv2d(const void *parameters, uint8_t *sram, const uint8_t *flash)
{
    const npuc_conv2d_parameters *p = parameters;
    window_t v;
    if (!is_valid(p, (const npuc_rescale *)(const void *)npuc_source(p->scales, sram, flash))) {
        return NPUC_KERNEL_BAD_PARAMETERS;
    }
    const site_t s = resolve(p, sram, flash);
    for (v.first = 0; v.first < p->y.size[1]; v.first += v.count) {
        v.count = block_channels(&s, v.first);
        for (int32_t n = 0; n < p->y.size[0]; n++) {
            for (int32_t h = 0; h < p->y.size[2]; h++) {
                for (int32_t w = 0; w < p->y.size[3]; w++) {
                    write_pixel(&s, n, h, w, &v);
                }
            }
        }
    }
    return NPUC_KERNEL_OK;
}
