/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Agreeing on a rendezvous through a store.  Private to this module.
 */
#ifndef SYMC_RENDEZVOUS_AGREEMENT_H
#define SYMC_RENDEZVOUS_AGREEMENT_H

#include "rendezvous/rendezvous.h"

/*
 * Claim the rank and find the rendezvous of a world, in the store of `out`;
 * rank 0 makes it, with the server that is entered there.
 *
 * Errors: INVALID (the rank is taken), MISMATCH (world_size), UNSUPPORTED
 * (another node), TIMEOUT, those of the store.
 */
symmcoll_status_t symc_rendezvous_agree(struct symc_rendezvous *out,
    const char *world, const struct symc_config *config, int64_t deadline_ns);

/* Release the claim: another process may be this rank from now on. */
void symc_rendezvous_release(const struct symc_rendezvous *rendezvous);

#endif
