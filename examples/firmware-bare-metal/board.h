/* The board of `npuc firmware run`: where the NPU is, text output, the end. */
#ifndef BOARD_H
#define BOARD_H

#include "npuc_driver.h"

#define NPU_BASE 0x40000000u

extern npuc_device npu;

void print(const char *text);
void print_hex(const char *label, const int8_t *values, uint32_t n);

/* Ends the program with a message if the status is not NPUC_OK. */
void require(npuc_status status);

#endif
