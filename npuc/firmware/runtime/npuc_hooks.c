/* The hooks of the driver where the application has none of its own. */
#include "npuc_driver.h"

#ifndef NPUC_WEAK
#define NPUC_WEAK __attribute__((weak))
#endif

NPUC_WEAK void npuc_hook_mismatch(const char *what, uint64_t device, uint64_t program)
{
    (void)what;
    (void)device;
    (void)program;
}

NPUC_WEAK void npuc_hook_cache_clean(const void *address, uint32_t n_bytes)
{
    (void)address;
    (void)n_bytes;
}

NPUC_WEAK void npuc_hook_cache_invalidate(void *address, uint32_t n_bytes)
{
    (void)address;
    (void)n_bytes;
}

NPUC_WEAK void npuc_hook_lock(npuc_device *device)
{
    (void)device;
}

NPUC_WEAK void npuc_hook_unlock(npuc_device *device)
{
    (void)device;
}

NPUC_WEAK void npuc_hook_wait(npuc_device *device)
{
    (void)device;
}

NPUC_WEAK void npuc_hook_signal(npuc_device *device)
{
    (void)device;
}

NPUC_WEAK uint32_t npuc_hook_remap(const void *address)
{
    return (uint32_t)(uintptr_t)address;
}
