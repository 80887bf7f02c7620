/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Ways of the program's own by which ranks find each other, as schemes of
 * init_method.  Manual: symmcoll_rendezvous_register(3).
 */
#ifndef SYMMCOLL_RENDEZVOUS_H
#define SYMMCOLL_RENDEZVOUS_H

#include <symmcoll/types.h>

SYMMCOLL_BEGIN_DECLS

struct symmcoll_store;

/* What symmcoll_init() calls for an init_method "SCHEME://...", in any thread,
 * several at the same time. */
struct symmcoll_rendezvous_functions {
    size_t size; /* sizeof(struct symmcoll_rendezvous_functions) */
    void *user;  /* borrowed until the process ends */

    /*
     * Make a store that all ranks of the job share.  Required.
     *
     * url         the whole init_method
     * timeout     seconds that are left; INFINITY: for ever
     * rank        in: by the arguments of symmcoll_init(), else by the
     * world_size  environment, -1 where neither has it.  out: this rank's,
     *             where the arguments have none
     * store       out: taken, and closed by symmcoll_finalize()
     *
     * Returns OK or an error of enum symmcoll_status; outputs count only then.
     */
    symmcoll_status_t (*open)(void *user, const char *url, double timeout,
        int *rank, int *world_size, struct symmcoll_store **store);
};
#define SYMMCOLL_RENDEZVOUS_FUNCTIONS_INIT                        \
    {                                                             \
        sizeof(struct symmcoll_rendezvous_functions), NULL, NULL, \
    }

/*
 * Register a handler for a scheme in this process, once and until it ends.
 *
 * scheme     a letter, then letters, digits, '+', '-' or '.', at most 31 in
 *            all, in lower case; "env", "file" and "tcp" are the library's
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
