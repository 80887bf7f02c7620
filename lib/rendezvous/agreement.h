/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Agreement on a rendezvous through a store. Private to this module.
 */
#ifndef SYMC_RENDEZVOUS_AGREEMENT_H
#define SYMC_RENDEZVOUS_AGREEMENT_H

#include "rendezvous/rendezvous.h"

/*
 * Claims the rank and finds the rendezvous of a world, in the store of `out`.
 * Rank 0 makes the rendezvous, with the server that is set in `out`.
 *
 * Errors: INVALID (the rank is taken), MISMATCH (world_size), UNSUPPORTED
 * (another node), TIMEOUT, those of the store.
 */
symmcoll_status_t symc_rendezvous_agree(struct symc_rendezvous *out,
    const char *world, const struct symc_config *config, int64_t deadline_ns);

/* Releases the claim, so that another process can be this rank. */
void symc_rendezvous_release(const struct symc_rendezvous *rendezvous);

#endif
