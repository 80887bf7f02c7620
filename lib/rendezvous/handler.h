/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Handlers that the program has registered.  Private to this module.
 */
#ifndef SYMC_RENDEZVOUS_HANDLER_H
#define SYMC_RENDEZVOUS_HANDLER_H

#include "base/base.h"

#include <symmcoll/rendezvous.h>

#include <stdbool.h>

#define SYMC_RENDEZVOUS_SCHEME 32 /* bytes of a scheme, zero included */

/* The handler of a scheme of length bytes; false where there is none. */
bool symc_rendezvous_handler_find(const char *scheme, size_t length,
    struct symmcoll_rendezvous_functions *functions);

/* Call it.  rank and size: in, what is known, out, what it says, -1 where
 * nothing.  store (out) is the caller's.  Errors: the handler's, INVALID (what
 * it returned cannot be). */
symmcoll_status_t symc_rendezvous_handler_open(
    const struct symmcoll_rendezvous_functions *functions, const char *url,
    int64_t deadline_ns, int *rank, int *size, struct symmcoll_store **store);

#endif
