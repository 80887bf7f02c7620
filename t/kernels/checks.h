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
    const char *says; /* the sentence of the test point */
    bool (*run)(int rounds);
    int rounds; /* rounds needed for certainty; all types and operations in
                 * turn */
};

/* Arrays of checks; each ends with a NULL file. */
extern const struct check checks_of_reductions[];
extern const struct check checks_of_rows[];
extern const struct check checks_of_moves[];
extern const struct check checks_of_exchanges[];
extern const struct check checks_of_plans[];
extern const struct check checks_of_pushes[];
extern const struct check checks_of_own_memory[];
extern const struct check checks_of_signals[];
extern const struct check checks_of_waits[];

/* All arrays; ends with NULL. */
extern const struct check *const checks_of_all[];

/* Runs the main() of a program with a test point for each check of these
 * arrays, which end with NULL. */
int checks_run(const struct check *const *arrays);

#endif
