/* Two models on one NPU, in the three ways to wait for it: asking, sleeping, and being called back. */
#include "board.h"
#include "digits.h"
#include "ink.h"

enum mode { POLL, SLEEP, CALLBACK, MODES };

npuc_device npu;
static npuc_context digits, ink;
static uint8_t digits_arena[DIGITS_ARENA_BYTES] __attribute__((aligned(DIGITS_ARENA_ALIGNMENT)));
static uint8_t ink_arena[INK_ARENA_BYTES] __attribute__((aligned(INK_ARENA_ALIGNMENT)));
static volatile int is_done;

static void on_done(npuc_context *context, npuc_status status, void *user)
{
    (void)context, (void)status, (void)user;
    is_done = 1;
}

static void infer(npuc_context *model, enum mode mode)
{
    if (mode != CALLBACK) {
        require(npuc_run(model));
        return;
    }
    is_done = 0;
    require(npuc_run_async(model, on_done, 0));
    while (!is_done) {
        /* The core is free for other work. */
    }
    require(npuc_wait(model, 0));
}

int main(void)
{
    for (enum mode mode = POLL; mode < MODES; mode++) {
        uint32_t random = 1;
        require(npuc_device_init(&npu, NPU_BASE, mode == POLL ? NPUC_POLL : NPUC_INTERRUPT));
        require(digits_init(&digits, &npu, digits_arena, sizeof digits_arena));
        require(ink_init(&ink, &npu, ink_arena, sizeof ink_arena));
        for (int sample = 0; sample < 20; sample++) {
            for (uint32_t i = 0; i < DIGITS_INPUT_IMAGE_BYTES; i++) {
                random = random * 1664525u + 1013904223u;
                digits_input_image(digits_arena)[i] = (int8_t)(random >> 24);
                ink_input_image(ink_arena)[i] = (int8_t)(random >> 28);
            }
            infer(&ink, mode);
            infer(&digits, mode);
            print_hex("ink", ink_output_strokes(ink_arena), INK_OUTPUT_STROKES_BYTES);
            print_hex("digits", digits_output_probabilities(digits_arena), DIGITS_OUTPUT_PROBABILITIES_BYTES);
        }
    }
    return 0;
}
