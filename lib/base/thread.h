/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The library's own threads: named, with all signals blocked, since signals
 * belong to the program.
 */
#ifndef SYMC_BASE_THREAD_H
#define SYMC_BASE_THREAD_H

#include "base/base.h"

#include <pthread.h>

/* Enough for the library's own code; 0 is the system's size, for the program's.
 */
#define SYMC_STACK_SMALL ((size_t)512 * 1024)

/* Start one.  name has at most 15 characters.  Errors: SYSTEM (and what limits
 * there are). */
symmcoll_status_t symc_thread_start(pthread_t *thread, const char *name,
    size_t stack_nbytes, void *(*run)(void *), void *arg);

/* Have the calling thread, which sleeps most of the time, run soon after it is
 * woken, beside threads that compute: it asks for a short time slice.  Best
 * effort; Linux 6.12 and newer can. */
void symc_thread_be_prompt(void);

#endif
