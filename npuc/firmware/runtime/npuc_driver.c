#include "npuc_driver.h"

#include <stddef.h>

#include "npuc_program.h"
#include "npuc_registers.h"

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

npuc_status npuc_device_init(npuc_device *device, uintptr_t base, npuc_completion completion)
{
    if (device == NULL || base == 0u) {
        return NPUC_ERROR_NULL_POINTER;
    }
    device->registers = (volatile uint32_t *)base;
    device->running = NULL;
    device->completion = completion;
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

npuc_status npuc_model_init(npuc_context *context, npuc_device *device, const npuc_program *program, void *arena,
                            uint32_t arena_bytes)
{
    static const npuc_context empty;
    if (context == NULL || device == NULL || program == NULL || program->words == NULL || arena == NULL) {
        return NPUC_ERROR_NULL_POINTER;
    }
    *context = empty;
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

/* Makes the NPU report the end of the next layer. */
static void watch_layer(const npuc_context *context)
{
    uint32_t condition = NPUC_NO_WAIT;
    if (context->layer_hook != NULL && context->next_layer < context->n_layers) {
        const npuc_layer *layer = &context->layers[context->next_layer];
        condition = (uint32_t)layer->queue << 16 | layer->count;
    }
    write_register(context->device, NPUC_REG_WAIT_0, condition);
}

static void report_layer(npuc_context *context)
{
    if (context->layer_hook != NULL && context->next_layer < context->n_layers) {
        const npuc_layer *layer = &context->layers[context->next_layer++];
        context->layer_hook(layer, read_register(context->device, NPUC_REG_CYCLES), context->layer_user);
    }
    watch_layer(context);
}

static void finish(npuc_context *context)
{
    npuc_device *device = context->device;
    const npuc_program *program = context->program;
    barrier();
    npuc_hook_cache_invalidate(context->arena, program->arena_bytes);
    context->cycles = read_register(device, NPUC_REG_CYCLES);
    context->fault = read_register(device, NPUC_REG_FAULT);
    const uint32_t has_fault = read_register(device, NPUC_REG_STATUS) & NPUC_STATUS_FAULT;
    const npuc_status status = has_fault != 0u ? NPUC_ERROR_DEVICE_FAULT : NPUC_OK;
    device->running = NULL;
    context->status = status;
    if (context->callback != NULL) {
        context->callback(context, status, context->user);
    }
    npuc_hook_signal(device);
}

/* Handles all that is pending; a condition that holds already when it is armed is pending at once. */
static void service(npuc_device *device)
{
    npuc_context *context = device->running;
    uint32_t seen = 0;
    for (uint32_t pending; (pending = read_register(device, NPUC_REG_IRQ_PENDING)) != 0u; seen |= pending) {
        write_register(device, NPUC_REG_IRQ_PENDING, pending);
        if (context != NULL && (pending & NPUC_IRQ_PROGRESS) != 0u) {
            report_layer(context);
        }
    }
    if (context != NULL && (seen & NPUC_IRQ_DONE) != 0u) {
        finish(context);
    }
}

void npuc_irq_handler(npuc_device *device)
{
    if (device != NULL && device->registers != NULL) {
        service(device);
    }
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
    context->next_layer = 0;
    context->status = NPUC_ERROR_BUSY;
    device->running = context;
    npuc_hook_cache_clean(context->arena, program->arena_bytes);
    write_register(device, NPUC_REG_PROGRAM, npuc_hook_remap(program->words));
    write_register(device, NPUC_REG_SRAM_BASE, npuc_hook_remap(context->arena));
    write_register(device, NPUC_REG_SRAM_BYTES, program->arena_bytes);
    barrier();
    write_register(device, NPUC_REG_CONTROL, NPUC_CONTROL_START);
    watch_layer(context);
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
        if (context->status != NPUC_ERROR_BUSY) {
            break;
        }
        if (timeout != NPUC_FOREVER && cycles >= timeout) {
            return NPUC_ERROR_TIMEOUT;
        }
        npuc_hook_wait(device);
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

const char *npuc_strerror(npuc_status status)
{
#define NPUC_STATUS_TEXT(name, text) text,
    static const char *const texts[NPUC_STATUS_COUNT] = {"done", NPUC_STATUSES(NPUC_STATUS_TEXT)};
#undef NPUC_STATUS_TEXT
    return (uint32_t)status < NPUC_STATUS_COUNT ? texts[status] : "unknown status";
}
