#include "board.h"

#include <stddef.h>

extern uint32_t stack_top[], data_start[], data_end[], bss_start[], bss_end[];
extern const uint32_t data_load[];

int main(void);
void reset_handler(void);
void *memcpy(void *restrict to, const void *restrict from, size_t n);
void *memset(void *to, int value, size_t n);

static uint32_t semihost(uint32_t call, const void *argument)
{
    register uint32_t r0 __asm__("r0") = call;
    register const void *r1 __asm__("r1") = argument;
    __asm__ volatile("bkpt 0xab" : "+r"(r0) : "r"(r1) : "memory");
    return r0;
}

static void leave(uint32_t status)
{
    const uint32_t block[2] = {0x20026u, status};
    for (;;) {
        (void)semihost(0x20u, block);
    }
}

void reset_handler(void)
{
    for (uint32_t *word = bss_start; word < bss_end; word++) {
        *word = 0;
    }
    for (uint32_t i = 0; data_start + i < data_end; i++) {
        data_start[i] = data_load[i];
    }
#if defined(__ARM_FP)
    *(volatile uint32_t *)0xe000ed88u |= 0xfu << 20; /* kernels of float32 use the FPU */
#endif
    *(volatile uint32_t *)0xe000e100u = 1u; /* enable interrupt 0 */
    leave((uint32_t)main());
}

static void fault_handler(void)
{
    print("fault\n");
    leave(70);
}

static void npu_handler(void)
{
    npuc_irq_handler(&npu);
}

typedef void (*handler)(void);

__attribute__((section(".vectors"), used)) static const struct {
    uint32_t *stack;
    handler handlers[16];
} vectors = {
    stack_top,
    {reset_handler, fault_handler, fault_handler, fault_handler, fault_handler, fault_handler, NULL, NULL, NULL, NULL,
     fault_handler, fault_handler, NULL, fault_handler, fault_handler, npu_handler},
};

/* Sleeps until the interrupt; masked, so that it cannot come between the question and the sleep. */
void npuc_hook_wait(npuc_device *device)
{
    if (device->completion == NPUC_INTERRUPT) {
        __asm__ volatile("cpsid i" ::: "memory");
        if (npuc_is_waiting(device)) {
            __asm__ volatile("wfi" ::: "memory");
        }
        __asm__ volatile("cpsie i" ::: "memory");
    }
}

void npuc_hook_mismatch(const char *what, uint64_t device, uint64_t program)
{
    print(what);
    print_hex(": npu", (const int8_t *)&device, 8);
    print_hex("  program", (const int8_t *)&program, 8);
}

void print(const char *text)
{
    (void)semihost(0x04u, text);
}

void print_hex(const char *label, const int8_t *values, uint32_t n)
{
    static const char digits[] = "0123456789abcdef";
    print(label);
    for (uint32_t i = 0; i < n; i++) {
        const uint8_t value = (uint8_t)values[i];
        const char text[4] = {' ', digits[value >> 4], digits[value & 15u], '\0'};
        print(text);
    }
    print("\n");
}

void require(npuc_status status)
{
    if (status != NPUC_OK) {
        print(npuc_strerror(status));
        print("\n");
        leave((uint32_t)status);
    }
}

/* What a compiler may call in freestanding code. */
void *memcpy(void *restrict to, const void *restrict from, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        ((volatile uint8_t *)to)[i] = ((const uint8_t *)from)[i];
    }
    return to;
}

void *memset(void *to, int value, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        ((volatile uint8_t *)to)[i] = (uint8_t)value;
    }
    return to;
}
