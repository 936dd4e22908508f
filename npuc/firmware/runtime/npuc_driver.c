#include "npuc_driver.h"

#include <stddef.h>

#include "npuc_calls.h"
#include "npuc_isa.h"
#include "npuc_program.h"
#include "npuc_registers.h"

/* What a context awaits by the WAIT registers. */
enum { NOTHING, END_OF_LAYER, START_OF_CALL };

static uint32_t read_register(const npuc_device *device, uint32_t offset)
{
    return device->registers[offset / 4u];
}

static void write_register(const npuc_device *device, uint32_t offset, uint32_t value)
{
    device->registers[offset / 4u] = value;
}

/* What the core wrote before is in memory before what follows. */
static void barrier(void)
{
    __sync_synchronize();
}

/* The interrupt stays away until release: its handler and the thread of npuc_wait write the same registers. One that is
 * on its way when the NPU is told finds the mark, and comes again after it. */
static void hold(npuc_device *device)
{
    device->is_held = 1;
    barrier();
    if (device->completion == NPUC_INTERRUPT) {
        write_register(device, NPUC_REG_IRQ_ENABLE, 0u);
    }
    barrier();
}

static void release(npuc_device *device)
{
    barrier();
    device->is_held = 0;
    barrier();
    if (device->completion == NPUC_INTERRUPT) {
        write_register(device, NPUC_REG_IRQ_ENABLE, NPUC_IRQ_DONE | NPUC_IRQ_PROGRESS);
    }
}

npuc_status npuc_device_init(npuc_device *device, uintptr_t base, npuc_completion completion)
{
    if (device == NULL || base == 0u) {
        return NPUC_ERROR_NULL_POINTER;
    }
    device->registers = (volatile uint32_t *)base;
    device->running = NULL;
    device->completion = completion;
    device->is_held = 0;
    const uint32_t id = read_register(device, NPUC_REG_ID);
    if (id != NPUC_DEVICE_ID) {
        npuc_hook_mismatch("device id", id, NPUC_DEVICE_ID);
        device->registers = NULL;
        return NPUC_ERROR_NO_DEVICE;
    }
    write_register(device, NPUC_REG_CONTROL, NPUC_CONTROL_RESET);
    if (completion == NPUC_INTERRUPT) {
        write_register(device, NPUC_REG_IRQ_ENABLE, NPUC_IRQ_DONE | NPUC_IRQ_PROGRESS);
    }
    return NPUC_OK;
}

/* A plain assignment becomes a call of the compiler's own, which a freestanding link may lack. */
static void clear(npuc_context *context)
{
    volatile uint8_t *bytes = (volatile uint8_t *)context;
    for (uint32_t i = 0; i < sizeof *context; i++) {
        bytes[i] = 0;
    }
}

npuc_status npuc_model_init(npuc_context *context, npuc_device *device, const npuc_program *program, void *arena,
                            uint32_t arena_bytes)
{
    if (context == NULL || device == NULL || program == NULL || program->words == NULL || arena == NULL) {
        return NPUC_ERROR_NULL_POINTER;
    }
    clear(context);
    if (device->registers == NULL) {
        return NPUC_ERROR_NOT_INITIALIZED;
    }
    const uint64_t fingerprint = (uint64_t)read_register(device, NPUC_REG_FINGERPRINT_HI) << 32 |
                                 read_register(device, NPUC_REG_FINGERPRINT_LO);
    const npuc_status status = npuc_check_program(program, read_register(device, NPUC_REG_VERSION), fingerprint);
    if (status != NPUC_OK) {
        return status;
    }
    if ((uintptr_t)arena % NPUC_ARENA_ALIGNMENT != 0u) {
        return NPUC_ERROR_MISALIGNED;
    }
    if (arena_bytes < program->arena_bytes) {
        npuc_hook_mismatch("arena bytes", arena_bytes, program->arena_bytes);
        return NPUC_ERROR_ARENA_TOO_SMALL;
    }
    context->device = device;
    context->program = program;
    context->arena = arena;
    context->status = NPUC_ERROR_IDLE;
    return npuc_reset(context);
}

static int is_ready(const npuc_context *context)
{
    return context->program != NULL && context->device->registers != NULL;
}

/* Whether the end of a layer is what comes next: a call that is behind it in the program starts after it. */
static int layer_is_next(const npuc_context *context)
{
    return context->layer_hook != NULL && context->next_layer < context->n_layers &&
           context->layers[context->next_layer].n_calls <= context->n_calls_ended + context->can_call;
}

/* Makes the NPU say when the next layer has ended, or the next call may start. */
static void await_next(npuc_context *context)
{
    uint32_t conditions[NPUC_CONDITIONS] = {NPUC_NO_WAIT, NPUC_NO_WAIT, NPUC_NO_WAIT};
    if (context->awaited != NOTHING) {
        return;
    }
    if (context->can_call == 0u && !layer_is_next(context) && context->calls.n_left != 0u) {
        if (npuc_call_conditions(&context->calls, conditions)) {
            context->awaited = START_OF_CALL;
        } else {
            context->can_call = 1;
        }
    }
    if (context->awaited == NOTHING && layer_is_next(context)) {
        const npuc_layer *layer = &context->layers[context->next_layer];
        conditions[0] = (uint32_t)layer->queue << 16 | layer->count;
        context->awaited = END_OF_LAYER;
    }
    write_register(context->device, NPUC_REG_WAIT_1, conditions[1]);
    write_register(context->device, NPUC_REG_WAIT_2, conditions[2]);
    write_register(context->device, NPUC_REG_WAIT_0, conditions[0]);
}

/* What was awaited has come. */
static void progress(npuc_context *context)
{
    const uint8_t awaited = context->awaited;
    context->awaited = NOTHING;
    if (awaited == START_OF_CALL) {
        context->can_call = 1;
        npuc_hook_signal(context->device);
    } else if (awaited == END_OF_LAYER) {
        const npuc_layer *layer = &context->layers[context->next_layer++];
        context->layer_hook(layer, read_register(context->device, NPUC_REG_CYCLES), context->layer_user);
    }
    await_next(context);
}

static int has_fault(const npuc_context *context)
{
    return (read_register(context->device, NPUC_REG_STATUS) & NPUC_STATUS_FAULT) != 0u;
}

static void finish(npuc_context *context, npuc_status status)
{
    npuc_device *device = context->device;
    barrier();
    npuc_hook_cache_invalidate(context->arena, context->program->arena_bytes);
    context->cycles = read_register(device, NPUC_REG_CYCLES);
    context->fault = read_register(device, NPUC_REG_FAULT);
    device->running = NULL;
    context->status = status;
    if (context->callback != NULL) {
        context->callback(context, status, context->user);
    }
    npuc_hook_signal(device);
}

/* The NPU has ended: so has a program without calls, and with them npuc_wait does the rest. */
static void device_has_ended(npuc_context *context)
{
    if (context->has_calls == 0u) {
        finish(context, has_fault(context) ? NPUC_ERROR_DEVICE_FAULT : NPUC_OK);
        return;
    }
    context->has_ended = 1;
    npuc_hook_signal(context->device);
}

/* Handles all that is pending; a condition that holds already when it is armed is pending at once. */
static void service(npuc_device *device)
{
    npuc_context *context = device->running;
    uint32_t seen = 0;
    for (uint32_t pending; (pending = read_register(device, NPUC_REG_IRQ_PENDING)) != 0u; seen |= pending) {
        write_register(device, NPUC_REG_IRQ_PENDING, pending);
        if (context != NULL && (pending & NPUC_IRQ_PROGRESS) != 0u) {
            progress(context);
        }
    }
    if (context != NULL && (seen & NPUC_IRQ_DONE) != 0u) {
        device_has_ended(context);
    }
}

/* Runs the next call; the NPU stops when that fails. */
static void make_call(npuc_context *context)
{
    npuc_device *device = context->device;
    barrier();
    const npuc_status status = npuc_make_call(&context->calls, context->program, context->arena);
    barrier();
    if (status != NPUC_OK) {
        (void)npuc_device_init(device, (uintptr_t)device->registers, device->completion);
        finish(context, status);
        return;
    }
    hold(device);
    npuc_next_call(&context->calls);
    context->n_calls_ended++;
    context->can_call = 0;
    write_register(device, NPUC_REG_ARM_COUNT, context->n_calls_ended & 0xffffu);
    await_next(context);
    release(device);
}

/* What the thread of npuc_wait does for a program with calls; zero when there is nothing to do. */
static int serve_calls(npuc_context *context)
{
    if (context->has_ended != 0u && has_fault(context)) {
        finish(context, NPUC_ERROR_DEVICE_FAULT);
    } else if (context->can_call != 0u) {
        make_call(context);
    } else if (context->has_ended != 0u && context->calls.n_left == 0u) {
        hold(context->device);
        service(context->device); /* the last layers, before the interrupt comes to it */
        release(context->device);
        finish(context, NPUC_OK);
    } else {
        return 0;
    }
    return 1;
}

void npuc_irq_handler(npuc_device *device)
{
    if (device != NULL && device->registers != NULL && device->is_held == 0u) {
        service(device);
    }
}

/* What a run begins with. */
static void begin(npuc_context *context)
{
    uint32_t n_bytes = 0;
    context->calls = npuc_first_call(npuc_find_section(context->program, NPUC_SECTION_ARM_CALLS, &n_bytes));
    context->has_calls = context->calls.n_left != 0u;
    context->n_calls_ended = 0;
    context->next_layer = 0;
    context->awaited = NOTHING;
    context->can_call = 0;
    context->has_ended = 0;
    context->status = NPUC_ERROR_BUSY;
}

npuc_status npuc_run_async(npuc_context *context, npuc_callback callback, void *user)
{
    if (context == NULL) {
        return NPUC_ERROR_NULL_POINTER;
    }
    if (!is_ready(context)) {
        return NPUC_ERROR_NOT_INITIALIZED;
    }
    npuc_device *device = context->device;
    const npuc_program *program = context->program;
    npuc_hook_lock(device);
    if (device->running != NULL || context->status == NPUC_ERROR_BUSY) {
        npuc_hook_unlock(device);
        return NPUC_ERROR_BUSY;
    }
    context->callback = callback;
    context->user = user;
    begin(context);
    device->running = context;
    npuc_hook_cache_clean(context->arena, program->arena_bytes);
    write_register(device, NPUC_REG_PROGRAM, npuc_hook_remap(program->words));
    write_register(device, NPUC_REG_SRAM_BASE, npuc_hook_remap(context->arena));
    write_register(device, NPUC_REG_SRAM_BYTES, program->arena_bytes);
    write_register(device, NPUC_REG_ARM_COUNT, 0u);
    hold(device);
    write_register(device, NPUC_REG_CONTROL, NPUC_CONTROL_START);
    await_next(context);
    release(device);
    return NPUC_OK;
}

npuc_status npuc_wait(npuc_context *context, uint32_t timeout)
{
    if (context == NULL) {
        return NPUC_ERROR_NULL_POINTER;
    }
    if (!is_ready(context)) {
        return NPUC_ERROR_NOT_INITIALIZED;
    }
    npuc_device *device = context->device;
    while (context->status == NPUC_ERROR_BUSY) {
        const uint32_t cycles = read_register(device, NPUC_REG_CYCLES);
        if (device->completion == NPUC_POLL) {
            service(device);
        }
        const int was_busy = context->status == NPUC_ERROR_BUSY && serve_calls(context);
        if (context->status != NPUC_ERROR_BUSY) {
            break;
        }
        if (timeout != NPUC_FOREVER && cycles >= timeout) {
            return NPUC_ERROR_TIMEOUT;
        }
        if (!was_busy) {
            npuc_hook_wait(device);
        }
    }
    const npuc_status status = context->status;
    if (status != NPUC_ERROR_IDLE) {
        context->status = NPUC_ERROR_IDLE;
        npuc_hook_unlock(device);
    }
    return status;
}

npuc_status npuc_run(npuc_context *context)
{
    const npuc_status status = npuc_run_async(context, NULL, NULL);
    return status == NPUC_OK ? npuc_wait(context, NPUC_FOREVER) : status;
}

npuc_status npuc_reset(npuc_context *context)
{
    if (context == NULL) {
        return NPUC_ERROR_NULL_POINTER;
    }
    if (!is_ready(context)) {
        return NPUC_ERROR_NOT_INITIALIZED;
    }
    npuc_device *device = context->device;
    if (device->running == context) {
        /* The completion interrupt finds no model from here on. */
        device->running = NULL;
        (void)npuc_device_init(device, (uintptr_t)device->registers, device->completion);
    }
    if (context->status != NPUC_ERROR_IDLE) {
        context->status = NPUC_ERROR_IDLE;
        npuc_hook_unlock(device);
    }
    return npuc_write_states(context->program, context->arena);
}

npuc_status npuc_set_layer_hook(npuc_context *context, const npuc_layer *layers, uint32_t n_layers,
                                npuc_layer_hook hook, void *user)
{
    if (context == NULL || (hook != NULL && layers == NULL)) {
        return NPUC_ERROR_NULL_POINTER;
    }
    if (context->status == NPUC_ERROR_BUSY) {
        return NPUC_ERROR_BUSY;
    }
    context->layers = layers;
    context->n_layers = n_layers;
    context->layer_user = user;
    context->layer_hook = hook;
    return NPUC_OK;
}

uint32_t npuc_cycles(const npuc_context *context)
{
    return context == NULL ? 0u : context->cycles;
}

uint32_t npuc_fault(const npuc_context *context)
{
    return context == NULL ? 0u : context->fault;
}

int npuc_is_busy(const npuc_device *device)
{
    return device != NULL && device->running != NULL;
}

int npuc_is_waiting(const npuc_device *device)
{
    const npuc_context *context = device == NULL ? NULL : device->running;
    return context != NULL && context->can_call == 0u && context->has_ended == 0u;
}

const char *npuc_strerror(npuc_status status)
{
#define NPUC_STATUS_TEXT(name, text) text,
    static const char *const texts[NPUC_STATUS_COUNT] = {"done", NPUC_STATUSES(NPUC_STATUS_TEXT)};
#undef NPUC_STATUS_TEXT
    return (uint32_t)status < NPUC_STATUS_COUNT ? texts[status] : "unknown status";
}
