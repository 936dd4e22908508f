/* Reads the Arm call section (docs/container.md) and runs its kernels. What the kernels do with their parameters is
 * theirs: a program is trusted once its checksums are right. */
#include "npuc_calls.h"

#include <stddef.h>

#include "npuc_isa.h"
#include "npuc_registers.h"

#define ADDRESS_OFFSET_BITS 30u
#define PARAMETERS_ALIGNMENT 8u
#define CONDITION_BITS (NPUC_ARM_CALL_WAIT1_QUEUE_BIT - NPUC_ARM_CALL_WAIT0_QUEUE_BIT)

/* An unsigned field of a record. */
#define FIELD(record, name) npuc_bits((record), NPUC_##name##_BIT, NPUC_##name##_BITS)

static npuc_status mismatch(npuc_status failure, const char *what, uint64_t device, uint64_t program)
{
    npuc_hook_mismatch(what, device, program);
    return failure;
}

static const npuc_kernel_entry *find_kernel(const npuc_program *program, uint32_t id)
{
    for (uint32_t i = 0; i < program->n_kernels; i++) {
        if (program->kernels[i].id == id) {
            return &program->kernels[i];
        }
    }
    return NULL;
}

static uint32_t condition_queue(const uint8_t *call, uint32_t i)
{
    return npuc_bits(call, NPUC_ARM_CALL_WAIT0_QUEUE_BIT + i * CONDITION_BITS, NPUC_ARM_CALL_WAIT0_QUEUE_BITS);
}

static npuc_status check_kernel(const npuc_program *program, const uint8_t *call)
{
    const uint32_t id = FIELD(call, ARM_CALL_KERNEL), version = FIELD(call, ARM_CALL_VERSION);
    const uint32_t n_bytes = FIELD(call, ARM_CALL_PARAMETERS_BYTES);
    if (id == 0u) {
        return NPUC_OK;
    }
    const npuc_kernel_entry *kernel = find_kernel(program, id);
    if (kernel == NULL) {
        return mismatch(NPUC_ERROR_KERNEL_MISSING, "kernel", 0u, id);
    }
    if (kernel->version != version) {
        return mismatch(NPUC_ERROR_KERNEL_VERSION, "kernel << 16 | version", id << 16 | kernel->version, id << 16 | version);
    }
    if (kernel->parameter_bytes != n_bytes) {
        return mismatch(NPUC_ERROR_KERNEL_VERSION, "bytes of kernel parameters", kernel->parameter_bytes, n_bytes);
    }
    return NPUC_OK;
}

static npuc_status check_call(const npuc_program *program, const uint8_t *call, uint32_t parameters_bytes)
{
    const uint32_t first = FIELD(call, ARM_CALL_PARAMETERS), n_bytes = FIELD(call, ARM_CALL_PARAMETERS_BYTES);
    if (first % PARAMETERS_ALIGNMENT != 0u || first > parameters_bytes || n_bytes > parameters_bytes - first) {
        return NPUC_ERROR_BAD_PROGRAM;
    }
    for (uint32_t i = 0; i < NPUC_CONDITIONS; i++) {
        const uint32_t queue = condition_queue(call, i);
        if (queue >= NPUC_QUEUE_ARM && queue != NPUC_QUEUE_NONE) {
            return NPUC_ERROR_BAD_PROGRAM;
        }
    }
    return check_kernel(program, call);
}

/* Whether the section holds as many records as its header says. */
static int is_complete(const uint8_t *section, uint32_t n_bytes)
{
    if (n_bytes < NPUC_ARM_HEADER_BYTES) {
        return 0;
    }
    const uint32_t n_calls = FIELD(section, ARM_HEADER_CALL_COUNT), n_ranges = FIELD(section, ARM_HEADER_RANGE_COUNT);
    uint32_t left = n_bytes - NPUC_ARM_HEADER_BYTES;
    if (n_calls > left / NPUC_ARM_CALL_BYTES) {
        return 0;
    }
    left -= n_calls * NPUC_ARM_CALL_BYTES;
    return n_ranges <= left / NPUC_ARM_RANGE_BYTES &&
           FIELD(section, ARM_HEADER_PARAMETERS_BYTES) == left - n_ranges * NPUC_ARM_RANGE_BYTES;
}

/* Whether every range of all calls lies in the arena. */
static int are_inside(const npuc_program *program, const uint8_t *range, uint32_t n_ranges)
{
    for (const uint8_t *end = range + n_ranges * NPUC_ARM_RANGE_BYTES; range != end; range += NPUC_ARM_RANGE_BYTES) {
        const uint32_t address = FIELD(range, ARM_RANGE_ADDRESS), n_bytes = FIELD(range, ARM_RANGE_N_BYTES);
        const uint32_t offset = address & ((1u << ADDRESS_OFFSET_BITS) - 1u);
        if (address >> ADDRESS_OFFSET_BITS != NPUC_MEMORY_SRAM || offset > program->arena_bytes ||
            n_bytes > program->arena_bytes - offset) {
            return 0;
        }
    }
    return 1;
}

npuc_status npuc_check_calls(const npuc_program *program, const uint8_t *section, uint32_t n_bytes)
{
    if (!is_complete(section, n_bytes)) {
        return NPUC_ERROR_BAD_PROGRAM;
    }
    const uint32_t parameters_bytes = FIELD(section, ARM_HEADER_PARAMETERS_BYTES);
    const uint32_t n_ranges = FIELD(section, ARM_HEADER_RANGE_COUNT);
    npuc_calls calls = npuc_first_call(section);
    if (!are_inside(program, calls.range, n_ranges)) {
        return NPUC_ERROR_BAD_PROGRAM;
    }
    uint32_t n_used = 0;
    for (; calls.n_left != 0u; npuc_next_call(&calls)) {
        const npuc_status status = check_call(program, calls.record, parameters_bytes);
        n_used += FIELD(calls.record, ARM_CALL_RANGE_COUNT);
        if (status != NPUC_OK || n_used > n_ranges) {
            return status != NPUC_OK ? status : NPUC_ERROR_BAD_PROGRAM;
        }
    }
    return NPUC_OK;
}

npuc_calls npuc_first_call(const uint8_t *section)
{
    npuc_calls calls = {NULL, NULL, NULL, 0u};
    if (section != NULL) {
        calls.n_left = FIELD(section, ARM_HEADER_CALL_COUNT);
        calls.record = section + NPUC_ARM_HEADER_BYTES;
        calls.range = calls.record + calls.n_left * NPUC_ARM_CALL_BYTES;
        calls.parameters = calls.range + FIELD(section, ARM_HEADER_RANGE_COUNT) * NPUC_ARM_RANGE_BYTES;
    }
    return calls;
}

void npuc_next_call(npuc_calls *calls)
{
    calls->range += FIELD(calls->record, ARM_CALL_RANGE_COUNT) * NPUC_ARM_RANGE_BYTES;
    calls->record += NPUC_ARM_CALL_BYTES;
    calls->n_left--;
}

int npuc_call_conditions(const npuc_calls *calls, uint32_t conditions[NPUC_CONDITIONS])
{
    int waits = 0;
    for (uint32_t i = 0; i < NPUC_CONDITIONS; i++) {
        const uint32_t queue = condition_queue(calls->record, i);
        const uint32_t count = npuc_bits(calls->record, NPUC_ARM_CALL_WAIT0_COUNT_BIT + i * CONDITION_BITS,
                                         NPUC_ARM_CALL_WAIT0_COUNT_BITS);
        conditions[i] = queue == NPUC_QUEUE_NONE ? NPUC_NO_WAIT : queue << 16 | count;
        waits |= queue != NPUC_QUEUE_NONE;
    }
    return waits;
}

/* The bytes that the call reads, or writes, and the data cache. */
static void maintain_cache(const npuc_calls *calls, uint8_t *arena, uint32_t is_written)
{
    const uint32_t n = FIELD(calls->record, ARM_CALL_RANGE_COUNT);
    for (uint32_t i = 0; i < n; i++) {
        const uint8_t *range = calls->range + i * NPUC_ARM_RANGE_BYTES;
        uint8_t *first = arena + (FIELD(range, ARM_RANGE_ADDRESS) & ((1u << ADDRESS_OFFSET_BITS) - 1u));
        const uint32_t n_bytes = FIELD(range, ARM_RANGE_N_BYTES);
        if (FIELD(range, ARM_RANGE_IS_WRITTEN) != is_written) {
            continue;
        }
        if (is_written != 0u) {
            npuc_hook_cache_clean(first, n_bytes);
        } else {
            npuc_hook_cache_invalidate(first, n_bytes);
        }
    }
}

npuc_status npuc_make_call(const npuc_calls *calls, const npuc_program *program, uint8_t *arena)
{
    const npuc_kernel_entry *kernel = find_kernel(program, FIELD(calls->record, ARM_CALL_KERNEL));
    if (kernel == NULL) {
        return NPUC_OK; /* a call without a kernel only waits: npuc_check_calls has found all others */
    }
    maintain_cache(calls, arena, 0u);
    const int32_t failure = kernel->run(calls->parameters + FIELD(calls->record, ARM_CALL_PARAMETERS), arena,
                                        (const uint8_t *)program->words);
    maintain_cache(calls, arena, 1u);
    return failure == NPUC_KERNEL_OK ? NPUC_OK : NPUC_ERROR_KERNEL_FAILED;
}
