/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Names of the collectives, and of one operation in a sentence.
 */
#include "base/op.h"

#include <stdio.h>

const char *symc_kind_name(enum symc_kind kind)
{
    switch (kind) {
    case SYMC_BARRIER:
        return "barrier";
    case SYMC_ALL_REDUCE:
        return "all_reduce";
    case SYMC_REDUCE:
        return "reduce";
    case SYMC_REDUCE_SCATTER:
        return "reduce_scatter";
    case SYMC_ALL_GATHER:
        return "all_gather";
    case SYMC_GATHER:
        return "gather";
    case SYMC_BROADCAST:
        return "broadcast";
    case SYMC_KIND_COUNT:
        break;
    }
    return "unknown";
}

const char *symc_op_format(enum symc_kind kind, uint64_t seq, const char *label,
    char *buffer, size_t nbytes)
{
    char number[32] = "", quoted[SYMC_LABEL_MAX + 8] = "";

    if (seq != 0)
        snprintf(number, sizeof(number), " seq %llu", (unsigned long long)seq);
    if (label[0] != '\0')
        snprintf(quoted, sizeof(quoted), " '%.*s'", SYMC_LABEL_MAX, label);
    snprintf(buffer, nbytes, "%s%s%s", symc_kind_name(kind), number, quoted);
    return buffer;
}

size_t symc_op_in_nbytes(const struct symc_op *op, int size)
{
    size_t nbytes = op->count * op->elem;

    return op->kind == SYMC_REDUCE_SCATTER ? nbytes * (size_t)size : nbytes;
}

size_t symc_op_out_nbytes(const struct symc_op *op, int size)
{
    size_t nbytes = op->count * op->elem;

    return op->kind == SYMC_ALL_GATHER || op->kind == SYMC_GATHER
               ? nbytes * (size_t)size
               : nbytes;
}
