/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Buffers that other ranks use where they lie: which of an operation's buffers
 * each rank has exposed, and to whom.  Private to this directory.
 *
 * A rank names its buffers in its header line: a thread by their addresses, if
 * host.direct is on, and every rank by the number of the symmetric buffer in
 * which they lie, and by their offsets in it; those of a list beside the line,
 * each by a word.  All ranks read all of that, so all come to the same result.
 * INVARIANT: a symmetric buffer counts only where every rank that has elements
 * at all has named it, as that of its input or of its result; so every rank that
 * reads or writes still has it, and this operation's buffers keep it until the
 * operation ends.
 */
#ifndef SYMC_HOST_EXPOSED_H
#define SYMC_HOST_EXPOSED_H

#include "host/host.h"
#include "segment/shared.h"

#define SYMC_NAMED_MAX 16 /* symmetric buffers that a rank can name at a time */

/* In place of a number: see the words beside the line; nothing is there. */
#define SYMC_NAMED_LIST UINT32_MAX
#define SYMC_NAMED_NOTHING (UINT32_MAX - 1)

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
    size_t nbytes; /* of that, what the line needs */
    size_t count;
    const struct symc_shared *list[SYMC_NAMED_MAX]; /* all that it has named */
};

/* What ranks may do with each other's buffers; where those are is in
 * host->exposed. */
struct symc_exposure {
    bool ins;      /* read every input */
    bool outs;     /* write every result */
    bool root_in;  /* read the root's input */
    bool root_out; /* write the root's result */
};

/* Whether names are put beside the line, too: then there must be room. */
static inline bool symc_host_names_beside(
    const struct symc_host *host, const struct symc_op *op)
{
    const struct symc_lists *lists = op->listed ? op->lists : NULL;

    return lists != NULL && (lists->ins != NULL || lists->outs != NULL) &&
           host->core->shared->count > 0;
}

/* Name this rank's buffers; after symc_host_find_parts(). */
struct symc_names symc_host_name(
    const struct symc_host *host, const struct symc_op *op);

/* Once the ranks are synchronised, and counts compared: what all have exposed,
 * the same on all ranks.  Fills host->exposed.  Errors: those of the group, where a
 * rank has left the operation whose table of parts is read. */
symmcoll_status_t symc_host_find_exposed(struct symc_host *host,
    const struct symc_op *op, const struct symc_names *names,
    struct symc_exposure *exposure);

#endif
