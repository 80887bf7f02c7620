/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The library's own threads: named, with all signals blocked, since signals
 * belong to the program, and with the default mode of floating-point arithmetic.
 */
#ifndef SYMC_BASE_THREAD_H
#define SYMC_BASE_THREAD_H

#include "base/base.h"

#include <pthread.h>

/* The stack of threads that run the library's code only.  0, the system's size,
 * is for threads that call functions of the program, or backends: nobody says how deep
 * a driver's calls are, and a frame of one may pass over the page that guards a stack. */
#define SYMC_STACK_SMALL ((size_t)512 * 1024)

/* Start one.  name has at most 15 characters.  stack_nbytes is what its calls need:
 * thread-local data is added to it.  *thread is set when run is called,
 * and not touched from then on: run may free it.  Errors: SYSTEM (with the
 * limits on threads). */
symmcoll_status_t symc_thread_start(pthread_t *thread, const char *name,
    size_t stack_nbytes, void *(*run)(void *), void *arg);

/* Requests a short time slice for the calling thread, and a nice value of -10
 * where the process may have that, so that it runs soon after it is woken although
 * other threads compute.  Best effort; the slice has an effect from Linux 6.12
 * on. */
void symc_thread_be_prompt(void);

#endif
