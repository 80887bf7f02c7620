/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Repeats a test that depends on real time: for example, all ranks except the
 * late one must arrive before a timeout, or a server must answer before a
 * deadline. On a busy machine any of them may be delayed, which is no fault of
 * the library, so a test that fails is repeated with a longer time.
 */
#ifndef T_ATTEMPTS_H
#define T_ATTEMPTS_H

#include "tap.h"

#include <stdbool.h>

#define ATTEMPTS 3
#define ATTEMPTS_FACTOR 6 /* by which the next time is longer */

/* A test that passes if all ranks arrive within the given seconds. */
typedef bool (*attempt_fn)(double seconds, void *arg);

/* Returns whether the attempt succeeds with this time, or with a longer one. */
static inline bool attempts_hold(attempt_fn attempt, double seconds, void *arg)
{
    for (int i = 0; i < ATTEMPTS; i++, seconds *= ATTEMPTS_FACTOR) {
        if (attempt(seconds, arg))
            return true;
        diag("with %g s it does not hold", seconds);
    }
    return false;
}

#endif
