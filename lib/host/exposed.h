/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Buffers that other ranks use where they lie: which of an operation's buffers
 * each rank has exposed, and to whom.  Private to this directory.
 *
 * A rank names its buffers in its header line: a thread by their addresses, if
 * host.direct is on, and every rank by the number of the symmetric buffer in
 * which they lie, and by their offsets in it.  All ranks read all lines, so all
 * come to the same result.  INVARIANT: a symmetric buffer counts only where
 * every rank has named it, as that of its input or of its result; so every rank
 * still has it, and this operation's buffers keep it until the operation ends.
 */
#ifndef SYMC_HOST_EXPOSED_H
#define SYMC_HOST_EXPOSED_H

#include "host/host.h"
#include "segment/shared.h"

/* What a rank puts into its header line. */
struct symc_named {
    uint32_t in_number; /* of the symmetric buffer it is in; 0: in none */
    uint32_t out_number;
    uint64_t in; /* a thread's address; else the offset in that buffer */
    uint64_t out;
    uint64_t parts; /* a thread's table of struct symc_host_part */
};

/* The same, on the rank that puts it there. */
struct symc_names {
    struct symc_named line;
    size_t nbytes;                /* of that, what the line needs */
    const struct symc_shared *in; /* NULL: in none */
    const struct symc_shared *out;
};

/* What ranks may do with each other's buffers; where those are is in
 * host->exposed. */
struct symc_exposure {
    bool ins;      /* read every input */
    bool outs;     /* write every result */
    bool root_in;  /* read the root's input */
    bool root_out; /* write the root's result */
};

/* Name this rank's buffers; after symc_host_find_parts(). */
struct symc_names symc_host_name(
    const struct symc_host *host, const struct symc_op *op);

/* Once the ranks are synchronised, and counts compared: what all have exposed,
 * the same on all ranks.  Fills host->exposed. */
struct symc_exposure symc_host_find_exposed(struct symc_host *host,
    const struct symc_op *op, const struct symc_names *names);

#endif
