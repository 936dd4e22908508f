/* Driver of the NPU, C99. The caller owns all memory; nothing here allocates, recurses or uses floating point.
 *
 *     static npuc_device device;                        one for each NPU
 *     static npuc_context context;                      one for each model
 *     static uint8_t arena[...] of the model's alignment and bytes
 *
 *     npuc_device_init(&device, base, NPUC_POLL);
 *     npuc_model_init(&context, &device, &digits_program, arena, sizeof arena);
 *     npuc_run(&context);
 */
#ifndef NPUC_DRIVER_H
#define NPUC_DRIVER_H

#include <stdint.h>

#include "npuc_kernels.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Layout of the structures that generated files fill in: a model and a driver of different releases do not mix. */
#define NPUC_ABI 0x4e500002u
#define NPUC_ARENA_ALIGNMENT 64u
#define NPUC_FOREVER 0xffffffffu

#define NPUC_STATUSES(X) \
    X(BUSY, "the NPU is running a program") \
    X(IDLE, "nothing was started") \
    X(NULL_POINTER, "a pointer is null") \
    X(NOT_INITIALIZED, "the device or the model is not initialized") \
    X(NO_DEVICE, "there is no NPU at this address") \
    X(ABI, "the model was generated for another release of the driver") \
    X(MISALIGNED, "program or arena is not at a multiple of 64") \
    X(BAD_PROGRAM, "this is no program") \
    X(CONTAINER_VERSION, "the program has another container version") \
    X(ISA_VERSION, "the program needs another instruction set version") \
    X(FINGERPRINT, "the program was compiled for another NPU") \
    X(TRUNCATED, "the program is not complete") \
    X(CHECKSUM, "the program is damaged") \
    X(UNSUPPORTED, "the program needs dram") \
    X(KERNEL_MISSING, "the firmware lacks a kernel that the program calls") \
    X(KERNEL_VERSION, "the firmware has another version of a kernel that the program calls") \
    X(ARENA_TOO_SMALL, "the arena is too small") \
    X(TIMEOUT, "the program has not ended in time") \
    X(DEVICE_FAULT, "the NPU stopped with a fault") \
    X(KERNEL_FAILED, "a kernel refused its parameters") \
    X(BAD_WEIGHTS, "coded weights are malformed")

#define NPUC_STATUS_NAME(name, text) NPUC_ERROR_##name,
typedef enum npuc_status { NPUC_OK, NPUC_STATUSES(NPUC_STATUS_NAME) NPUC_STATUS_COUNT } npuc_status;
#undef NPUC_STATUS_NAME

typedef enum npuc_completion { NPUC_POLL, NPUC_INTERRUPT } npuc_completion;

/* A generated model: what npuc firmware writes as <m>_program; `kernels` are those that it calls on the Arm core. */
typedef struct npuc_program {
    uint32_t abi;
    uint32_t n_bytes;
    uint32_t arena_bytes;
    const uint32_t *words;
    const npuc_kernel_entry *kernels;
    uint32_t n_kernels;
} npuc_program;

/* A layer has ended when `count` instructions of `queue` have retired, which `n_calls` Arm calls come before; a
 * generated model lists them as <m>_layers. */
typedef struct npuc_layer {
    const char *name;
    uint16_t queue;
    uint16_t count;
    uint32_t n_calls;
} npuc_layer;

struct npuc_context;
typedef void (*npuc_callback)(struct npuc_context *context, npuc_status status, void *user);
typedef void (*npuc_layer_hook)(const npuc_layer *layer, uint32_t cycles, void *user);

/* All members are the driver's own. */
typedef struct npuc_device {
    volatile uint32_t *registers;
    struct npuc_context *volatile running;
    npuc_completion completion;
    volatile uint32_t is_held;
} npuc_device;

/* The Arm calls that are left of a run: its next one, the first of its ranges, the parameter records of all. */
typedef struct npuc_calls {
    const uint8_t *record;
    const uint8_t *range;
    const uint8_t *parameters;
    uint32_t n_left;
} npuc_calls;

typedef struct npuc_context {
    npuc_device *device;
    const npuc_program *program;
    uint8_t *arena;
    npuc_callback callback;
    void *user;
    npuc_layer_hook layer_hook;
    void *layer_user;
    const npuc_layer *layers;
    uint32_t n_layers;
    uint32_t next_layer;
    npuc_calls calls;
    uint32_t n_calls_ended;
    uint32_t cycles;
    uint32_t fault;
    volatile uint8_t awaited;   /* what the WAIT registers wait for */
    volatile uint8_t can_call;  /* the next call may run, or runs */
    volatile uint8_t has_ended; /* the NPU has, calls may be left */
    uint8_t has_calls;
    volatile npuc_status status;
} npuc_context;

/* Finds the NPU at `base` and resets it. With NPUC_INTERRUPT, the user's interrupt vector calls npuc_irq_handler. */
npuc_status npuc_device_init(npuc_device *device, uintptr_t base, npuc_completion completion);

/* Checks the program against the NPU and its checksums, and gives states their initial contents. */
npuc_status npuc_model_init(npuc_context *context, npuc_device *device, const npuc_program *program, void *arena,
                            uint32_t arena_bytes);

/* Gives states their initial contents; stops the model first if it is running. */
npuc_status npuc_reset(npuc_context *context);

/* One inference, from start to end: inputs and outputs are in the arena, at the offsets of the generated header. */
npuc_status npuc_run(npuc_context *context);

/* Starts an inference; `callback` (or null) is called at its end, from the interrupt or from npuc_wait. Every start is
 * followed by an npuc_wait or npuc_reset of the same thread, which gives the NPU back. A program with Arm calls goes on
 * only while a thread is in npuc_wait, which runs them and calls the callback. */
npuc_status npuc_run_async(npuc_context *context, npuc_callback callback, void *user);

/* Waits for the end of the inference, and runs its Arm calls; NPUC_ERROR_TIMEOUT, and the inference goes on, when it has
 * taken `timeout` cycles of the NPU before; that is looked at whenever npuc_hook_wait returns and after each call. */
npuc_status npuc_wait(npuc_context *context, uint32_t timeout);

/* To be called from the NPU's interrupt vector. */
void npuc_irq_handler(npuc_device *device);

/* Calls `hook` at the end of every layer of `layers`; null: no more. */
npuc_status npuc_set_layer_hook(npuc_context *context, const npuc_layer *layers, uint32_t n_layers,
                                npuc_layer_hook hook, void *user);

/* Cycles of the NPU that the last inference took, and the fault it stopped with (NPUC_FAULT_* in npuc_registers.h). */
uint32_t npuc_cycles(const npuc_context *context);
uint32_t npuc_fault(const npuc_context *context);

/* True while a program runs. */
int npuc_is_busy(const npuc_device *device);

/* True while a program runs and npuc_wait has nothing to do for it: what npuc_hook_wait asks before it sleeps. */
int npuc_is_waiting(const npuc_device *device);

const char *npuc_strerror(npuc_status status);

/* Hooks: weak functions that do nothing, to be replaced as needed. */

/* A check failed: what the device, driver or caller has, and what the program has. */
void npuc_hook_mismatch(const char *what, uint64_t device, uint64_t program);

/* The NPU reads and writes memory behind the data cache: the arena at start and end of a run, and what an Arm call reads
 * (invalidate, before it) and writes (clean, after it). */
void npuc_hook_cache_clean(const void *address, uint32_t n_bytes);
void npuc_hook_cache_invalidate(void *address, uint32_t n_bytes);

/* A mutex of the device, held from start to npuc_wait. */
void npuc_hook_lock(npuc_device *device);
void npuc_hook_unlock(npuc_device *device);

/* npuc_wait calls the first again and again while there is nothing to do: sleep, or take a semaphore; it may return
 * early. The second is called, from the interrupt, when an Arm call can run and at the end: give the semaphore. */
void npuc_hook_wait(npuc_device *device);
void npuc_hook_signal(npuc_device *device);

/* Address at which the NPU sees a byte of the Arm core's memory. */
uint32_t npuc_hook_remap(const void *address);

#ifdef __cplusplus
}
#endif

#endif
