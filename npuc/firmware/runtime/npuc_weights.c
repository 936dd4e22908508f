#include "npuc_weights.h"

#include <stddef.h>

#define CODEC 1u
#define CODEC_BITS 4u
#define FIRST_BITS 8u
#define WIDTH_BITS 3u
#define MAX_PREFIX 7u
#define STATE_BITS 9u
#define SPREAD 323u
#define MACHINES 8u
#define UNIT_BYTES 16u
#define MAX_UNITS 7u
#define WORD_BYTES 8u

/* So that positions in bits, and one number behind them, are 32-bit numbers. */
#define MAX_STREAM_BYTES 0x0fffffffu

/* Numbers out of bytes, the least significant bit first. */
typedef struct bit_reader {
    const uint8_t *bytes;
    uint32_t n_bits;
    uint32_t position;
    int is_short; /* more was asked for than there is */
} bit_reader;

/* A number of at most 16 bits; 0 behind the end. */
static uint32_t take(bit_reader *reader, uint32_t width)
{
    if (width > reader->n_bits - reader->position) {
        reader->is_short = 1;
        return 0u;
    }
    const uint8_t *bytes = reader->bytes + reader->position / 8u;
    const uint32_t shift = reader->position % 8u;
    uint32_t window = 0u;
    for (uint32_t i = 0; 8u * i < shift + width; i++) {
        window |= (uint32_t)bytes[i] << 8u * i;
    }
    reader->position += width;
    return window >> shift & ((1u << width) - 1u);
}

/* Nothing but zeros is left. */
static int rest_is_zero(bit_reader *reader)
{
    uint32_t rest = 0u;
    while (reader->position < reader->n_bits) {
        const uint32_t left = 8u - reader->position % 8u;
        rest |= take(reader, left);
    }
    return rest == 0u;
}

/* p ones, a zero and p + 2 bits b say 4 (2^p - 1) + b; more than the sum of all frequencies when p is above its limit. */
static uint32_t take_frequency(bit_reader *reader)
{
    uint32_t prefix = 0u;
    while (take(reader, 1u) != 0u) {
        prefix++;
        if (prefix > MAX_PREFIX) {
            return NPUC_WEIGHT_STATES + 1u;
        }
    }
    return 4u * ((1u << prefix) - 1u) + take(reader, prefix + 2u);
}

/* 9 - floor(log2 number), of 1 to 1023. */
static uint8_t bits_to_next_state(uint32_t number)
{
    uint8_t n_bits = STATE_BITS;
    while (number > 1u) {
        number >>= 1;
        n_bits--;
    }
    return n_bits;
}

/* The states of a token, which takes the slots [slot, slot + frequency), in ascending order. */
static void fill_states(npuc_code_table *table, int32_t first, uint32_t extra_bits, uint32_t slot, uint32_t frequency)
{
    uint32_t number = frequency;
    for (uint32_t state = 0; state < NPUC_WEIGHT_STATES; state++) {
        const uint32_t place = SPREAD * state % NPUC_WEIGHT_STATES;
        if (place >= slot && place - slot < frequency) {
            npuc_weight_state *entry = &table->states[state];
            entry->first = (int8_t)first;
            entry->extra_bits = (uint8_t)extra_bits;
            entry->state_bits = bits_to_next_state(number);
            entry->following = (uint16_t)((number << entry->state_bits) - NPUC_WEIGHT_STATES);
            number++;
        }
    }
}

npuc_status npuc_read_code_table(npuc_code_table *table, const uint8_t *stored, uint32_t n_bytes)
{
    if (table == NULL || stored == NULL) {
        return NPUC_ERROR_NULL_POINTER;
    }
    if (n_bytes % UNIT_BYTES != 0u || n_bytes == 0u || n_bytes > MAX_UNITS * UNIT_BYTES) {
        return NPUC_ERROR_BAD_WEIGHTS;
    }
    bit_reader reader = {stored, 8u * n_bytes, 0u, 0};
    if (take(&reader, CODEC_BITS) != CODEC) {
        return NPUC_ERROR_BAD_WEIGHTS;
    }
    int32_t first = (int32_t)take(&reader, FIRST_BITS) - 128;
    for (uint32_t sum = 0; sum < NPUC_WEIGHT_STATES;) {
        const uint32_t extra_bits = take(&reader, WIDTH_BITS);
        const uint32_t frequency = take_frequency(&reader);
        const int32_t behind = first + (1 << extra_bits);
        if (reader.is_short || frequency > NPUC_WEIGHT_STATES - sum || behind > 128) {
            return NPUC_ERROR_BAD_WEIGHTS;
        }
        fill_states(table, first, extra_bits, sum, frequency);
        sum += frequency;
        first = behind;
    }
    return rest_is_zero(&reader) ? NPUC_OK : NPUC_ERROR_BAD_WEIGHTS;
}

npuc_status npuc_decode_weights(const npuc_code_table *table, const uint8_t *stream, uint32_t stream_bytes,
                                int8_t *weights, uint32_t n_weights)
{
    if (table == NULL || stream == NULL || weights == NULL) {
        return NPUC_ERROR_NULL_POINTER;
    }
    if (n_weights == 0u || stream_bytes > MAX_STREAM_BYTES) {
        return NPUC_ERROR_BAD_WEIGHTS;
    }
    bit_reader reader = {stream, 8u * stream_bytes, 0u, 0};
    uint32_t states[MACHINES];
    for (uint32_t machine = 0; machine < MACHINES; machine++) {
        states[machine] = machine < n_weights ? take(&reader, STATE_BITS) : 0u;
    }
    for (uint32_t i = 0; i < n_weights && !reader.is_short; i++) {
        const npuc_weight_state *entry = &table->states[states[i % MACHINES]];
        weights[i] = (int8_t)(entry->first + (int32_t)take(&reader, entry->extra_bits));
        if (n_weights - i > MACHINES) {
            states[i % MACHINES] = entry->following + take(&reader, entry->state_bits);
        }
    }
    if (reader.is_short || reader.n_bits - reader.position >= 8u * WORD_BYTES || stream_bytes % WORD_BYTES != 0u) {
        return NPUC_ERROR_BAD_WEIGHTS;
    }
    return rest_is_zero(&reader) ? NPUC_OK : NPUC_ERROR_BAD_WEIGHTS;
}
