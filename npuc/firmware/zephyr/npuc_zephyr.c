/* The driver's hooks by the kernel of Zephyr. One mutex and one semaphore serve all NPUs: a thread that is woken for
 * another one looks again, at the latest after a millisecond, which is also how late a timeout can be. */
#include <zephyr/cache.h>
#include <zephyr/kernel.h>

#include "npuc_driver.h"

K_MUTEX_DEFINE(npuc_mutex);
K_SEM_DEFINE(npuc_wake, 0, 1);

void npuc_hook_lock(npuc_device *device)
{
    ARG_UNUSED(device);
    (void)k_mutex_lock(&npuc_mutex, K_FOREVER);
}

void npuc_hook_unlock(npuc_device *device)
{
    ARG_UNUSED(device);
    (void)k_mutex_unlock(&npuc_mutex);
}

void npuc_hook_wait(npuc_device *device)
{
    if (device->completion == NPUC_INTERRUPT) {
        (void)k_sem_take(&npuc_wake, K_MSEC(1));
    } else {
        k_yield();
    }
}

void npuc_hook_signal(npuc_device *device)
{
    ARG_UNUSED(device);
    k_sem_give(&npuc_wake);
}

void npuc_hook_cache_clean(const void *address, uint32_t n_bytes)
{
    (void)sys_cache_data_flush_range((void *)(uintptr_t)address, n_bytes);
}

void npuc_hook_cache_invalidate(void *address, uint32_t n_bytes)
{
    (void)sys_cache_data_invd_range(address, n_bytes);
}
