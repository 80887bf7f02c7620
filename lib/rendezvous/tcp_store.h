/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The world's TCP store, at a server of the site or at rank 0. Private to this
 * module.
 */
#ifndef SYMC_RENDEZVOUS_TCP_STORE_H
#define SYMC_RENDEZVOUS_TCP_STORE_H

#include "rendezvous/rendezvous.h"

/* Returns whether the settings request a TCP store under env://. */
bool symc_rendezvous_wants_tcp(const struct symc_config *config);

/*
 * Opens the store: at store.url, else at a place "host:port" that rank 0
 * serves. place NULL: MASTER_ADDR and store.port. job separates the
 * keys from those of other jobs.
 *
 * Errors: INVALID, TIMEOUT, SYSTEM, UNSUPPORTED, NO_MEMORY.
 */
symmcoll_status_t symc_rendezvous_open_tcp(const struct symc_rendezvous *out,
    const char *place, const char *job, const struct symc_config *config,
    int64_t deadline_ns, struct symmcoll_store **store);

#endif
