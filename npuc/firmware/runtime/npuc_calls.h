/* The Arm calls of a program, for the driver; not for applications. */
#ifndef NPUC_CALLS_H
#define NPUC_CALLS_H

#include "npuc_driver.h"

#define NPUC_CONDITIONS 3u

/* Everything that can be known of the section before the program runs: every record is complete, and the kernel of each
 * call is there. */
npuc_status npuc_check_calls(const npuc_program *program, const uint8_t *section, uint32_t n_bytes);

/* The first call of a section that was checked; none for a null section. */
npuc_calls npuc_first_call(const uint8_t *section);

/* The call behind it. */
void npuc_next_call(npuc_calls *calls);

/* Values for the WAIT registers; zero when the call waits for nothing. */
int npuc_call_conditions(const npuc_calls *calls, uint32_t conditions[NPUC_CONDITIONS]);

/* Runs the kernel on the arena. */
npuc_status npuc_make_call(const npuc_calls *calls, const npuc_program *program, uint8_t *arena);

#endif
