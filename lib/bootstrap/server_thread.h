/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The bootstrap server of rank 0, where there is no launcher.  Private to this
 * module.
 */
#ifndef SYMC_BOOTSTRAP_SERVER_THREAD_H
#define SYMC_BOOTSTRAP_SERVER_THREAD_H

#include "base/base.h"

struct symc_bootstrap_thread;

/*
 * Serve under a name, on a thread of its own.  *fd (out) is the caller's
 * connection; it remains the server's.
 *
 * Errors: INVALID (the name is in use: by whom), NO_MEMORY, SYSTEM.
 */
symmcoll_status_t symc_bootstrap_thread_start(const char *name,
    int64_t deadline_ns, struct symc_bootstrap_thread **server, int *fd);

/* The caller is through: go on until all others have been told, at most until a
 * time (0: not at all), then release everything.  NULL is valid. */
void symc_bootstrap_thread_stop(
    struct symc_bootstrap_thread *server, int64_t until_ns);

#endif
