/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The addresses and counts of an operation's parts in one table for all forms: one buffer
 * with parts of equal or different sizes, or a list of buffers.
 */
#include "host/host.h"

void symc_host_find_parts(struct symc_host *host, const struct symc_op *op)
{
    const struct symc_kind_info *info = &symc_kinds[op->kind];
    const struct symc_lists *lists = op->listed ? op->lists : NULL;
    const char *in = op->in;
    char *out = op->out;

    for (int r = 0; r < host->size; r++) {
        struct symc_host_part *part = &host->parts[r];

        part->in_count = symc_op_in_count(op, r);
        part->out_count = symc_op_out_count(op, r);
        part->in = lists != NULL && lists->ins != NULL ? lists->ins[r] : in;
        part->out = lists != NULL && lists->outs != NULL ? lists->outs[r] : out;
        /* A rank that is not the root may have no buffer. */
        if (info->in_parts == SYMC_ALL_PARTS && in != NULL)
            in += part->in_count * op->elem;
        if (info->out_parts == SYMC_ALL_PARTS && out != NULL)
            out += part->out_count * op->elem;
    }
}

size_t symc_host_footprint(
    const struct symc_host *host, const struct symc_op *op, bool in_place)
{
    size_t in = in_place ? 0 : symc_op_in_nbytes(op, host->size);
    size_t out = symc_op_out_nbytes(op, host->size);
    size_t nbytes = 0;

    /* The op->count of an uneven operation is not that of a part. */
    if (symc_kind_has(op->kind, SYMC_UNEVEN) && op->lists != NULL) {
        in = in_place ? 0 : op->lists->in_total * op->elem;
        out = op->lists->out_total * op->elem;
    }
    for (int r = 0; r < host->size; r++) {
        if (symc_kind_sends(op->kind, r == op->root))
            nbytes += in;
        if (symc_kind_receives(op->kind, r == op->root))
            nbytes += out;
    }
    return nbytes;
}
