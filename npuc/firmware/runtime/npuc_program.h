/* What the driver reads of a program; not for applications. */
#ifndef NPUC_PROGRAM_H
#define NPUC_PROGRAM_H

#include "npuc_driver.h"

/* Everything that can be known before the program runs: versions, fingerprint, length and every checksum. `version` and
 * `fingerprint` are those of the device. */
npuc_status npuc_check_program(const npuc_program *program, uint32_t version, uint64_t fingerprint);

/* A section of a program that was checked; null when it has none. */
const uint8_t *npuc_find_section(const npuc_program *program, uint32_t kind, uint32_t *n_bytes);

/* Initial contents of the states of a program that was checked. */
npuc_status npuc_write_states(const npuc_program *program, uint8_t *arena);

#endif
