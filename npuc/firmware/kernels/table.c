/* All kernels, for images that can run any record. Firmware of one model lists only the kernels that it calls. */
#include "npuc_kernels.h"

#define ENTRY(name, id, version) {id, version, (uint32_t)sizeof(npuc_##name##_parameters), npuc_##name},

const npuc_kernel_entry npuc_kernel_table[NPUC_KERNEL_COUNT] = {NPUC_KERNELS(ENTRY)};
