/* Sigmoid and tanh of int16 values by interpolation in one table. */
#ifndef NPUC_SQUASH_H
#define NPUC_SQUASH_H

#include <stdint.h>

#define NPUC_SIGMOID_BITS 3 /* integer bits of the argument of a sigmoid */

/* sigmoid(x / 2^12) * 2^15. */
int32_t npuc_sigmoid16(int32_t x);

/* tanh(x / 2^(15 - integer_bits)) * 2^15; integer_bits is 0 to 15. */
int32_t npuc_tanh16(int32_t x, int32_t integer_bits);

#endif
