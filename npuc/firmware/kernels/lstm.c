/* LSTM with int8 inputs and hidden state, int16 gates and cell. Gates: 0 input, 1 forget, 2 candidate, 3 output. */
#include "npuc_arithmetic.h"
#include "npuc_squash.h"
#include "npuc_tensor.h"

#define GATES 4
#define GATE_BITS 3 /* integer bits of a gate before its function */

static int32_t saturate16(int64_t value)
{
    return (int32_t)npuc_clamp(value, -32768, 32767);
}

/* One row of weights, sizes and strides of axis 3, with n values less their zero point. */
static int32_t dot(const uint8_t *x, int32_t x_step, int32_t zero_point, const uint8_t *weights, int32_t step, int32_t n)
{
    uint32_t sum = 0;
    for (int32_t i = 0; i < n; i++) {
        sum += (uint32_t)((npuc_int8(x[i * x_step]) - zero_point) * npuc_int8(weights[i * step]));
    }
    return npuc_signed(sum);
}

typedef struct {
    const npuc_lstm_parameters *p;
    const uint8_t *weights;
    const uint8_t *recurrent;
    const uint8_t *bias;
    const uint8_t *x;      /* of this step */
    const uint8_t *hidden; /* of the step before, 0 at the first one */
    int32_t units;
} step_t;

/* A gate of a unit before its function: the saturated sum of both dense layers, each rescaled and saturated. */
static int32_t gate(const step_t *s, int32_t index, int32_t unit)
{
    const npuc_lstm_parameters *p = s->p;
    const int32_t row = index * s->units + unit;
    const uint8_t *weights = s->weights + row * p->weights.stride[2];
    const uint8_t *recurrent = s->recurrent + row * p->recurrent.stride[2];
    const int32_t own = dot(s->x, p->x.stride[3], p->input_zero_point, weights, p->weights.stride[3], p->x.size[3]);
    const uint32_t sum = (uint32_t)own + npuc_word(s->bias + 4 * row);
    const int32_t first = saturate16(npuc_apply_scale(npuc_signed(sum), p->input_factor[index], 1));
    int32_t back = 0;
    if (s->hidden) {
        back = dot(s->hidden, p->y.stride[3], p->hidden_zero_point, recurrent, p->recurrent.stride[3], s->units);
    }
    return saturate16(first + saturate16(npuc_apply_scale(back, p->recurrent_factor[index], 1)));
}

/* New cell and hidden value of a unit. */
static int32_t update(const step_t *s, int32_t unit, uint8_t *cell)
{
    const npuc_lstm_parameters *p = s->p;
    const int32_t enter = npuc_sigmoid16(gate(s, 0, unit));
    const int32_t forget = npuc_sigmoid16(gate(s, 1, unit));
    const int32_t candidate = npuc_tanh16(gate(s, 2, unit), GATE_BITS);
    const int32_t leave = npuc_sigmoid16(gate(s, 3, unit));
    const int32_t kept = saturate16(npuc_apply_scale(forget * npuc_int16(cell), p->forget, 1));
    int32_t state = saturate16(kept + saturate16(npuc_apply_scale(enter * candidate, p->update, 1)));
    if (p->cell_clip) {
        state = (int32_t)npuc_clamp(state, -p->cell_clip, p->cell_clip);
    }
    npuc_write_small(cell, 2, state);
    const int64_t scaled = npuc_apply_scale(leave * npuc_tanh16(state, p->cell_integer_bits), p->output, 1);
    return (int32_t)npuc_clamp(scaled + p->hidden_zero_point, -128, 127);
}

static int32_t is_lstm(const npuc_lstm_parameters *p)
{
    for (int32_t i = 0; i < GATES; i++) {
        if (!npuc_is_factor(p->input_factor[i]) || !npuc_is_factor(p->recurrent_factor[i])) {
            return 0;
        }
    }
    return npuc_is_pair(&p->x, &p->y) && npuc_is_source(p->weights.at) && npuc_is_source(p->recurrent.at) &&
           npuc_is_source(p->bias) && npuc_is_destination(p->cell) && npuc_is_factor(p->forget) &&
           npuc_is_factor(p->update) && npuc_is_factor(p->output) && p->cell_integer_bits >= 0 &&
           p->cell_integer_bits <= 15 && p->cell_clip >= 0;
}

int32_t npuc_lstm(const void *parameters, uint8_t *sram, const uint8_t *flash)
{
    const npuc_lstm_parameters *p = parameters;
    step_t s;
    if (!is_lstm(p)) {
        return NPUC_KERNEL_BAD_PARAMETERS;
    }
    uint8_t *cell = sram + p->cell.offset;
    s.p = p;
    s.weights = npuc_source(p->weights.at, sram, flash);
    s.recurrent = npuc_source(p->recurrent.at, sram, flash);
    s.bias = npuc_source(p->bias, sram, flash);
    s.units = p->y.size[3];
    for (int32_t batch = 0; batch < p->y.size[1]; batch++) {
        s.hidden = 0;
        for (int32_t unit = 0; unit < s.units; unit++) {
            npuc_write_small(cell + 2 * unit, 2, 0);
        }
        for (int32_t step = 0; step < p->y.size[2]; step++) {
            uint8_t *y = sram + p->y.at.offset + npuc_place(&p->y, 0, batch, step, 0);
            s.x = npuc_source(p->x.at, sram, flash) + npuc_place(&p->x, 0, batch, step, 0);
            for (int32_t unit = 0; unit < s.units; unit++) {
                y[unit * p->y.stride[3]] = (uint8_t)update(&s, unit, cell + 2 * unit);
            }
            s.hidden = y;
        }
    }
    return NPUC_KERNEL_OK;
}
