/* Optional: coded weights on the Arm core (docs/weight-codec.md). The NPU decodes them by itself; this is for firmware
 * that checks or rewrites weights in flash. */
#ifndef NPUC_WEIGHTS_H
#define NPUC_WEIGHTS_H

#include <stdint.h>

#include "npuc_driver.h"

#ifdef __cplusplus
extern "C" {
#endif

#define NPUC_WEIGHT_STATES 512u

/* A weight is `first` plus the number in the next `extra_bits` bits of the stream; the state after it is `following`
 * plus the number in the `state_bits` bits behind those. */
typedef struct npuc_weight_state {
    int8_t first;
    uint8_t extra_bits;
    uint8_t state_bits;
    uint16_t following;
} npuc_weight_state;

/* What a layer's code table means, 3 KiB; the caller's, like all memory. */
typedef struct npuc_code_table {
    npuc_weight_state states[NPUC_WEIGHT_STATES];
} npuc_code_table;

/* Reads the code table of a layer; NPUC_ERROR_BAD_WEIGHTS when its bits are malformed. `n_bytes`: 16 to 112. */
npuc_status npuc_read_code_table(npuc_code_table *table, const uint8_t *stored, uint32_t n_bytes);

/* Decodes the `n_weights` weights of one piece; NPUC_ERROR_BAD_WEIGHTS when the stream is not exactly theirs, and then
 * `weights` holds nothing of use. */
npuc_status npuc_decode_weights(const npuc_code_table *table, const uint8_t *stream, uint32_t stream_bytes,
                                int8_t *weights, uint32_t n_weights);

#ifdef __cplusplus
}
#endif

#endif
