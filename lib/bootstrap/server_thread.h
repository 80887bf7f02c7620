/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The bootstrap server of rank 0, for a job without a launcher. Private to this
 * module.
 */
#ifndef SYMC_BOOTSTRAP_SERVER_THREAD_H
#define SYMC_BOOTSTRAP_SERVER_THREAD_H

#include "base/base.h"

struct symc_bootstrap_thread;

/*
 * Starts a server under a name, on a thread of its own. *fd (out) is the
 * caller's connection; the server owns it.
 *
 * Errors: INVALID (the name is in use; names the owner), NO_MEMORY, SYSTEM.
 */
symmcoll_status_t symc_bootstrap_thread_start(const char *name,
    int64_t deadline_ns, struct symc_bootstrap_thread **server, int *fd);

/* Ends the server after the caller has its answer: serves the others until all
 * have been informed, at most until a time (0: not at all), and then frees
 * everything. NULL is valid. */
void symc_bootstrap_thread_stop(
    struct symc_bootstrap_thread *server, int64_t until_ns);

#endif
