/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Operations in which each pair of ranks has its own count.  Beside its line a rank puts
 * the counts of elements that it passes for each rank, then those that it expects of
 * each, and then its data, if the area has room for all of it.  Every rank reads all
 * counts, so all reach the same verdict on them, and all know whether the data of all
 * ranks is there: then they take their parts, else all use the algorithm for large
 * messages.
 *
 * Bytes: each rank writes 16 for each rank and the data, and reads 16 W of each of W
 * ranks.  One crossing of the header line and the lines beside it.
 */
#include "host/host.h"

#include <string.h>

/* Returns whether a rank passes the same elements to all. */
static bool is_shared(const struct symc_op *op)
{
    return symc_kinds[op->kind].in_parts != SYMC_ALL_PARTS;
}

/* Returns a rank's counts: those that it passes to each rank, then, from [size] on, those
 * that it expects of each. */
static uint64_t *counts_of(
    const struct symc_host *host, int rank, const struct symc_op *op)
{
    return symc_host_beside(host, rank, op);
}

static char *data_of(
    const struct symc_host *host, int rank, const struct symc_op *op)
{
    return (char *)(counts_of(host, rank, op) + 2 * (size_t)host->size);
}

/* Returns the elements in a rank's area before its part for `to`; its part for itself is
 * not there.  to = size: all elements. */
static uint64_t elements_before(
    const struct symc_host *host, int rank, const struct symc_op *op, int to)
{
    const uint64_t *counts = counts_of(host, rank, op);
    uint64_t sum = 0;

    if (is_shared(op))
        return to == host->size ? counts[0] : 0;
    for (int r = 0; r < to; r++)
        sum += r == rank ? 0 : counts[r];
    return sum;
}

/* Returns whether a rank's data is beside its line. */
static bool fits(
    const struct symc_host *host, int rank, const struct symc_op *op)
{
    return elements_before(host, rank, op, host->size) <=
           symc_host_room_beside(host) / op->elem;
}

symmcoll_status_t symc_host_put_counts(
    struct symc_host *host, const struct symc_op *op)
{
    symmcoll_status_t status = symc_host_await_room(host, op, SYMC_AREAS);
    uint64_t *counts = counts_of(host, host->rank, op);
    char *data = data_of(host, host->rank, op);

    if (status != SYMMCOLL_OK)
        return status;
    for (int r = 0; r < host->size; r++) {
        counts[r] = host->parts[r].in_count;
        counts[host->size + r] = host->parts[r].out_count;
    }
    if (op->memory != SYMC_MEMORY_HOST || !fits(host, host->rank, op))
        return SYMMCOLL_OK;
    for (int r = 0; r < host->size; r++) {
        size_t nbytes = host->parts[r].in_count * op->elem;

        if (r == host->rank && !is_shared(op))
            continue;
        if (nbytes > 0)
            memcpy(data, host->parts[r].in, nbytes);
        if (is_shared(op))
            break;
        data += nbytes;
    }
    return SYMMCOLL_OK;
}

symmcoll_status_t symc_host_compare_counts(
    struct symc_host *host, const struct symc_op *op)
{
    for (int from = 0; from < host->size; from++) {
        const uint64_t *passed = counts_of(host, from, op);

        for (int to = 0; to < host->size; to++) {
            uint64_t expected = counts_of(host, to, op)[host->size + from];

            if (passed[to] != expected)
                return symc_host_fail_counts(
                    host, op, from, to, passed[to], expected);
        }
    }
    return SYMMCOLL_OK;
}

size_t symc_host_count(const struct symc_host *host, const struct symc_op *op,
    int rank, int other, bool is_out)
{
    if (!symc_kind_has(op->kind, SYMC_UNEVEN))
        return op->count;
    return counts_of(host, rank, op)[(is_out ? host->size : 0) + other];
}

size_t symc_host_most(struct symc_host *host, const struct symc_op *op)
{
    uint64_t most = 0;

    if (!symc_kind_has(op->kind, SYMC_UNEVEN))
        return op->count;
    for (int from = 0; from < host->size; from++) {
        const uint64_t *counts = counts_of(host, from, op);

        for (int to = 0; to < host->size; to++)
            most = counts[to] > most ? counts[to] : most;
    }
    return most;
}

bool symc_host_all_beside(struct symc_host *host, const struct symc_op *op)
{
    for (int r = 0; r < host->size; r++) {
        if (!fits(host, r, op))
            return false;
    }
    return true;
}

void symc_host_take_beside(struct symc_host *host, const struct symc_op *op)
{
    struct symc_reduction reduction;

    for (int r = 0; r < host->size; r++) {
        const struct symc_host_part *part = &host->parts[r];
        const char *in =
            r == host->rank
                ? part->in
                : data_of(host, r, op) +
                      elements_before(host, r, op, host->rank) * op->elem;

        if (symc_kind_has(op->kind, SYMC_REDUCES))
            host->sources[r] = in;
        else if (part->out != in && part->out_count > 0)
            memcpy(part->out, in, part->out_count * op->elem);
    }
    if (!symc_kind_has(op->kind, SYMC_REDUCES))
        return;
    reduction = symc_host_reduction(host, op);
    symc_reduce(&reduction, op->out, NULL, host->sources, host->size,
        host->parts[host->rank].out_count, false);
}
