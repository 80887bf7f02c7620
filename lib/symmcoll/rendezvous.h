/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Rendezvous handlers of the program: each opens the stores for the
 * init_methods of one URL scheme.  Manual: symmcoll_rendezvous_register(3).
 */
#ifndef SYMMCOLL_RENDEZVOUS_H
#define SYMMCOLL_RENDEZVOUS_H

#include <symmcoll/types.h>

SYMMCOLL_BEGIN_DECLS

struct symmcoll_store;

/* The handler that symmcoll_init() calls for an init_method "SCHEME://...".
 * Any thread may call it, several at the same time. */
struct symmcoll_rendezvous_functions {
    size_t size; /* sizeof(struct symmcoll_rendezvous_functions) */
    void *user;  /* borrowed until the process ends */

    /*
     * Opens a store that all ranks of the job share.  Required.
     *
     * url         the whole init_method
     * timeout     seconds that remain; INFINITY: no limit
     * rank        in: from the arguments of symmcoll_init(), else from the
     * world_size  environment, -1 if neither sets it.  out: this rank's number
     *             and the number of ranks, used if the arguments have none
     * store       out: taken, and closed by symmcoll_finalize()
     *
     * Returns OK or an error of enum symmcoll_status; outputs are read only
     * after OK.
     */
    symmcoll_status_t (*open)(void *user, const char *url, double timeout,
        int *rank, int *world_size, struct symmcoll_store **store);
};
#define SYMMCOLL_RENDEZVOUS_FUNCTIONS_INIT                        \
    {                                                             \
        sizeof(struct symmcoll_rendezvous_functions), NULL, NULL, \
    }

/*
 * Registers a handler for a scheme in this process.  A scheme is registered
 * once and remains so until the process ends.
 *
 * scheme     a letter, then letters, digits, '+', '-' or '.', at most 31 in
 *            all, in lower case; "env", "file" and "tcp" are reserved
 * functions  copied
 *
 * Errors: INVALID (also a scheme that has a handler), NO_MEMORY (more than 32
 * handlers).
 * Source: torch.distributed.register_rendezvous_handler.
 */
SYMMCOLL_CHECKED
symmcoll_status_t symmcoll_rendezvous_register(
    const char *scheme, const struct symmcoll_rendezvous_functions *functions);

SYMMCOLL_END_DECLS

#endif
