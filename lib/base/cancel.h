/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Deferred thread cancellation takes effect before a call of the library or
 * after it, never inside, where locks are held and peers wait.  Code with a
 * cancellation point (a blocking system call of the C library, a condition
 * variable, a join, a function of the program) is enclosed by these two
 * functions, which nest.  Polling, sched_yield() and syscall() are no
 * cancellation points, so a collective whose peers are on time pays nothing.
 */
#ifndef SYMC_BASE_CANCEL_H
#define SYMC_BASE_CANCEL_H

#include <pthread.h>

/* Disables cancellation.  Returns the state for symc_cancel_restore(). */
static inline int symc_cancel_disable(void)
{
    int state;

    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &state);
    return state;
}

/* Restores the state.  A pending request takes effect at the program's next
 * cancellation point. */
static inline void symc_cancel_restore(int state)
{
    pthread_setcancelstate(state, NULL);
}

#endif
