/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Buffers that other ranks access in place: which of an operation's buffers each rank
 * has exposed, and to which ranks.  Private to this directory.
 *
 * A rank names its buffers in its header line: a thread by their addresses, if
 * host.direct is on, and every rank by the number of the symmetric buffer that contains
 * them and their offsets in it.  Buffers of a list are named in the area beside the
 * line, by a word each.  All ranks read all names, so all get the same result.
 * INVARIANT: a symmetric buffer counts only if every rank that has elements at all has
 * named it, as its input's or its result's.  Every rank that reads or writes therefore
 * still holds it, and this operation's buffers keep it until the operation ends.
 */
#ifndef SYMC_HOST_EXPOSED_H
#define SYMC_HOST_EXPOSED_H

#include "host/host.h"
#include "segment/shared.h"

#define SYMC_NAMED_MAX 16 /* symmetric buffers that a rank can name at a time */

/* Instead of a number: see the words beside the line; there are no bytes. */
#define SYMC_NAMED_LIST UINT32_MAX
#define SYMC_NAMED_NOTHING (UINT32_MAX - 1)

/* The payload of a rank's header line. */
struct symc_named {
    uint32_t in_number; /* of the input's symmetric buffer; 0: none */
    uint32_t out_number;
    uint64_t in; /* a thread's address; else the offset in that buffer */
    uint64_t out;
    uint64_t parts; /* a thread's table of struct symc_host_part */
};

/* The names that this rank publishes. */
struct symc_names {
    struct symc_named line;
    size_t nbytes; /* of `line`, to publish */
    size_t count;
    const struct symc_shared *list[SYMC_NAMED_MAX]; /* the buffers named */
};

/* The access that ranks have to each other's buffers.  The addresses are in
 * host->exposed. */
struct symc_exposure {
    bool ins;      /* all ranks read every input */
    bool outs;     /* all ranks write every result */
    bool root_in;  /* all ranks read the root's input */
    bool root_out; /* all ranks write the root's result */
};

/* Returns whether names also go into the area beside the line, which needs room then. */
static inline bool symc_host_names_beside(
    const struct symc_host *host, const struct symc_op *op)
{
    const struct symc_lists *lists = op->listed ? op->lists : NULL;

    return lists != NULL && (lists->ins != NULL || lists->outs != NULL) &&
           host->core->shared->count > 0;
}

/* Names this rank's buffers; call symc_host_find_parts() first. */
struct symc_names symc_host_name(
    const struct symc_host *host, const struct symc_op *op);

/* Finds the buffers that all ranks have exposed, alike on all ranks, and fills
 * host->exposed.  The ranks must be synchronised, and counts compared.  Errors: those of
 * the group, if a rank whose table of parts is read has left the operation. */
symmcoll_status_t symc_host_find_exposed(struct symc_host *host,
    const struct symc_op *op, const struct symc_names *names,
    struct symc_exposure *exposure);

#endif
