/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Starts the library's threads: named, with all signals blocked, because
 * signals belong to the program, and in the default floating-point mode.
 */
#ifndef SYMC_BASE_THREAD_H
#define SYMC_BASE_THREAD_H

#include "base/base.h"

#include <pthread.h>

/* The stack size of threads that run only the library's code.  Threads that
 * call functions of the program, or backends, use 0, the system's size: the
 * stack that a driver needs is not documented, and a large frame may skip over
 * the guard page. */
#define SYMC_STACK_SMALL ((size_t)512 * 1024)

/* Starts a thread. name has at most 15 characters. stack_nbytes is what its
 * calls need: the size of thread-local data is added. *thread is set before run
 * is called and not accessed afterwards, so run may free it.  Errors: SYSTEM
 * (with the limits on threads). */
symmcoll_status_t symc_thread_start(pthread_t *thread, const char *name,
    size_t stack_nbytes, void *(*run)(void *), void *arg);

/* Initialises a condition whose timed waits are on the clock of symc_now_ns(). */
void symc_condition_init(pthread_cond_t *condition);

/* Requests a short time slice for the calling thread, and a nice value of -10
 * if permitted, so that it runs soon after a wakeup although other threads
 * compute.  Best effort; the time slice takes effect from Linux 6.12 on. */
void symc_thread_be_prompt(void);

#endif
