/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Handlers registered by the program. Private to this module.
 */
#ifndef SYMC_RENDEZVOUS_HANDLER_H
#define SYMC_RENDEZVOUS_HANDLER_H

#include "base/base.h"

#include <symmcoll/rendezvous.h>

#include <stdbool.h>

#define SYMC_RENDEZVOUS_SCHEME 32 /* bytes of a scheme, zero included */

/* Finds the handler of a scheme of length bytes; false: none. */
bool symc_rendezvous_handler_find(const char *scheme, size_t length,
    struct symmcoll_rendezvous_functions *functions);

/* Calls a handler. rank and size: what is known, and on return what the handler
 * has set; -1: unknown. store (out) is the caller's. Errors: the handler's,
 * INVALID (an invalid result of the handler). */
symmcoll_status_t symc_rendezvous_handler_open(
    const struct symmcoll_rendezvous_functions *functions, const char *url,
    int64_t deadline_ns, int *rank, int *size, struct symmcoll_store **store);

#endif
