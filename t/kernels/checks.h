/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Checks of kernels on the host against their references. Each draws and runs
 * the given number of cases, and returns whether all results were right; it
 * logs a line for each that was not.
 */
#ifndef T_KERNELS_CHECKS_H
#define T_KERNELS_CHECKS_H

#include <stdbool.h>

struct check {
    const char *file; /* of the kernels */
    const char *says; /* what holds, as a test point has it */
    bool (*run)(int rounds);
    int rounds; /* to be sure; all types and operations in turn */
};

/* Each ends with a file that is NULL. */
extern const struct check checks_of_reductions[];
extern const struct check checks_of_rows[];
extern const struct check checks_of_moves[];
extern const struct check checks_of_exchanges[];
extern const struct check checks_of_plans[];
extern const struct check checks_of_pushes[];
extern const struct check checks_of_own_memory[];
extern const struct check checks_of_signals[];
extern const struct check checks_of_waits[];

/* All of them; ends with NULL. */
extern const struct check *const checks_of_all[];

/* The main() of a program with a test point for each check of some arrays, which
 * end with NULL. */
int checks_run(const struct check *const *arrays);

#endif
