/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The library's own threads: named, and deaf to signals, which are the
 * program's.
 */
#ifndef SYMC_WORK_THREAD_H
#define SYMC_WORK_THREAD_H

#include "base/base.h"

#include <pthread.h>

/* Start one.  name has at most 15 characters.  Errors: SYSTEM (and what limits
 * there are). */
symmcoll_status_t symc_thread_start(
    pthread_t *thread, const char *name, void *(*run)(void *), void *arg);

#endif
