/* Sigmoid and tanh of int16 values by interpolation. tanh(x) = 2 sigmoid(2x) - 1 and both are symmetric, so a table of the
 * sigmoid of non-negative arguments serves both. */
#include "npuc_squash.h"
#include "npuc_arithmetic.h"
#include "npuc_tensor.h"

#define LAST 255 /* entries; from the last one on, functions have their largest value */

/* 65536 / (1 + exp(-i / 24)), as TensorFlow Lite rounds it. */
static const uint16_t table[LAST + 1] = {
    32768, 33451, 34133, 34813, 35493, 36169, 36843, 37513, 38180, 38841, 39498, 40149, 40794, 41432, 42064, 42688,
    43304, 43912, 44511, 45102, 45683, 46255, 46817, 47369, 47911, 48443, 48964, 49475, 49975, 50464, 50942, 51409,
    51865, 52311, 52745, 53169, 53581, 53983, 54374, 54755, 55125, 55485, 55834, 56174, 56503, 56823, 57133, 57433,
    57724, 58007, 58280, 58544, 58800, 59048, 59288, 59519, 59743, 59959, 60168, 60370, 60565, 60753, 60935, 61110,
    61279, 61441, 61599, 61750, 61896, 62036, 62172, 62302, 62428, 62549, 62666, 62778, 62886, 62990, 63090, 63186,
    63279, 63368, 63454, 63536, 63615, 63691, 63765, 63835, 63903, 63968, 64030, 64090, 64148, 64204, 64257, 64308,
    64357, 64405, 64450, 64494, 64536, 64576, 64614, 64652, 64687, 64721, 64754, 64786, 64816, 64845, 64873, 64900,
    64926, 64950, 64974, 64997, 65019, 65039, 65060, 65079, 65097, 65115, 65132, 65149, 65164, 65179, 65194, 65208,
    65221, 65234, 65246, 65258, 65269, 65280, 65291, 65301, 65310, 65319, 65328, 65337, 65345, 65352, 65360, 65367,
    65374, 65381, 65387, 65393, 65399, 65404, 65410, 65415, 65420, 65425, 65429, 65433, 65438, 65442, 65445, 65449,
    65453, 65456, 65459, 65462, 65465, 65468, 65471, 65474, 65476, 65479, 65481, 65483, 65485, 65488, 65489, 65491,
    65493, 65495, 65497, 65498, 65500, 65501, 65503, 65504, 65505, 65507, 65508, 65509, 65510, 65511, 65512, 65513,
    65514, 65515, 65516, 65517, 65517, 65518, 65519, 65520, 65520, 65521, 65522, 65522, 65523, 65523, 65524, 65524,
    65525, 65525, 65526, 65526, 65526, 65527, 65527, 65528, 65528, 65528, 65529, 65529, 65529, 65529, 65530, 65530,
    65530, 65530, 65531, 65531, 65531, 65531, 65531, 65532, 65532, 65532, 65532, 65532, 65532, 65533, 65533, 65533,
    65533, 65533, 65533, 65533, 65533, 65534, 65534, 65534, 65534, 65534, 65534, 65534, 65534, 65534, 65534, 65535,
};

/* The table at argument / 2^bits, times 2^bits: at most 65535 * 2^9 + 511 * 65535. */
static int32_t interpolate(uint32_t argument, int32_t bits, int32_t largest)
{
    const uint32_t index = argument >> bits;
    if (index >= LAST) {
        return largest;
    }
    const int32_t lower = table[index];
    const int32_t fraction = (int32_t)(argument & ((1u << bits) - 1u));
    return lower * (1 << bits) + fraction * (table[index + 1] - lower);
}

static uint32_t magnitude(int64_t value)
{
    return (uint32_t)(value < 0 ? -value : value);
}

int32_t npuc_sigmoid16(int32_t x)
{
    const int32_t argument = x * 3;
    const int32_t value = interpolate(magnitude(argument), 9, 0x7fff * 1024);
    /* The halved table: 10 fractional bits; the sigmoid of -x is 1 less that of x. */
    return (argument >= 0 ? value + 512 : (1 << 25) - value + 511) / 1024;
}

int32_t npuc_tanh16(int32_t x, int32_t integer_bits)
{
    const int32_t shift = integer_bits - NPUC_SIGMOID_BITS;
    const int64_t raised = x * (int64_t)3;
    const int64_t argument = shift >= 0 ? raised * ((int64_t)1 << shift)
                                        : npuc_shift_right(raised + ((int64_t)1 << (-shift - 1)), -shift);
    const int32_t value = interpolate(magnitude(argument), 8, 0xffff * 256);
    const int32_t one = 1 << 23;
    return (int32_t)npuc_shift_right(argument >= 0 ? value - one + 128 : one - value + 127, 8);
}

int32_t npuc_squash(const void *parameters, uint8_t *sram, const uint8_t *flash)
{
    const npuc_squash_parameters *p = parameters;
    npuc_row row = {0, 0, 0};
    if (!npuc_is_pair(&p->x, &p->y) || p->function < NPUC_SQUASH_SIGMOID || p->function > NPUC_SQUASH_TANH ||
        p->integer_bits < 0 || p->integer_bits > 15) {
        return NPUC_KERNEL_BAD_PARAMETERS;
    }
    do {
        const uint8_t *x = npuc_source(p->x.at, sram, flash) + npuc_row_place(&p->x, row);
        uint8_t *y = sram + p->y.at.offset + npuc_row_place(&p->y, row);
        for (int32_t w = 0; w < p->y.size[3]; w++) {
            const int32_t value = npuc_int16(x + w * p->x.stride[3]);
            const int32_t result = p->function == NPUC_SQUASH_TANH ? npuc_tanh16(value, p->integer_bits)
                                                                   : npuc_sigmoid16(value);
            npuc_write_small(y + w * p->y.stride[3], 2, result);
        }
    } while (npuc_next_row(&row, p->y.size));
    return NPUC_KERNEL_OK;
}
