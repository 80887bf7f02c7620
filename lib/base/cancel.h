/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Thread cancellation of the deferred type takes effect before a call of the
 * library or after it, never inside, where locks are held and peers wait.  Code
 * that contains a cancellation point (a blocking system call of the C library,
 * a condition, a join, a function of the program) goes between these two, which
 * nest.  Polling, sched_yield() and system calls by syscall() are none, so a
 * collective whose peers are on time pays nothing.
 */
#ifndef SYMC_BASE_CANCEL_H
#define SYMC_BASE_CANCEL_H

#include <pthread.h>

/* Disable cancellation; returns the state for symc_cancel_restore(). */
static inline int symc_cancel_disable(void)
{
    int state;

    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &state);
    return state;
}

/* Restore it; a pending request takes effect at the program's next cancellation
 * point. */
static inline void symc_cancel_restore(int state)
{
    pthread_setcancelstate(state, NULL);
}

#endif
