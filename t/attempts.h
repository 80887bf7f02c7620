/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Tests of what is there after a short time, on a machine that does other work
 * too: all ranks but the late one have to come before a timeout, a server before
 * a deadline.  Where this machine held up one of them for longer, that says
 * nothing of the library, so the test is made again with a longer time.
 */
#ifndef T_ATTEMPTS_H
#define T_ATTEMPTS_H

#include "tap.h"

#include <stdbool.h>

#define ATTEMPTS 3
#define ATTEMPTS_FACTOR 6 /* by which the time of the next one is longer */

/* What holds where all come within so many seconds. */
typedef bool (*attempt_fn)(double seconds, void *arg);

/* Whether it holds with this time, or a longer one. */
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
