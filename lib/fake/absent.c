/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Operations with simulated ranks: they end at once, and a virtual clock shows
 * how long they would have taken.
 */
#include "fake/fake.h"

#include <string.h>

/* Returns the time of consecutive messages of nbytes each. */
static double send(const struct symc_fake *fake, int messages, double nbytes)
{
    return messages * (fake->latency + nbytes * fake->byte_time);
}

static int log_of(int size)
{
    int steps = 0;

    while (steps < 31 && 1 << steps < size)
        steps++;
    return steps;
}

/* Returns the elements of the larger list, for counts that differ between
 * ranks. */
static double count_listed(const struct symc_op *op)
{
    const struct symc_lists *lists = op->lists;

    return (double)(lists->in_total > lists->out_total ? lists->in_total
                                                       : lists->out_total);
}

/*
 * Returns the seconds that an operation takes on the busiest link of this rank,
 * in a group of size ranks: consecutive messages, each with its latency and
 * bytes.
 *
 *   all_reduce                     ring: 2 (n - 1) messages of a part
 *   reduce_scatter, all_gather     ring: n - 1 messages of a part
 *   all_to_all                     n - 1 messages, of a part each
 *   broadcast, reduce, barriers    tree: log2 n messages of all elements
 *   gather, scatter                n - 1 messages of a part at the root, else 1
 *   send, recv                     1 message
 */
static double cost_of(
    const struct symc_fake *fake, const struct symc_op *op, int rank, int size)
{
    const struct symc_kind_info *info = &symc_kinds[op->kind];
    double part = (double)op->count * op->elem;
    bool parts =
        info->in_parts == SYMC_ALL_PARTS || info->out_parts == SYMC_ALL_PARTS;

    if (info->counter == SYMC_COUNT_NONE)
        return 0; /* internal */
    if ((info->traits & SYMC_PAIR) != 0)
        return send(fake, 1, part);
    if (op->listed && (info->traits & SYMC_COALESCED) == 0 && size > 0)
        part = count_listed(op) * op->elem / size;
    if (op->kind == SYMC_ALL_REDUCE || op->kind == SYMC_ALL_REDUCE_COALESCED)
        return send(fake, 2 * (size - 1), part / size);
    if (!parts)
        return send(fake, log_of(size), part);
    if ((info->traits & SYMC_ROOTED) != 0 && rank != op->root)
        return send(fake, 1, part);
    return send(fake, size - 1, part);
}

/* Gathers this rank's elements in place of every rank's. */
static void gather_own(const struct symc_op *op, int size)
{
    size_t nbytes = op->count * op->elem;

    for (int r = 0; r < size; r++) {
        char *to = (char *)op->out + (size_t)r * nbytes;

        if (nbytes > 0 && to != op->in)
            memmove(to, op->in, nbytes);
    }
}

static void gather_own_each(const struct symc_op *op, int size)
{
    for (int i = 0; i < op->buffers; i++) {
        struct symc_op one = symc_op_of(op, i);

        gather_own(&one, size);
    }
}

/* As gather_own(), for parts with separate counts. */
static void gather_own_listed(const struct symc_op *op, int size)
{
    const struct symc_lists *lists = op->lists;
    char *next = op->out;

    for (int r = 0; r < size; r++) {
        size_t count =
            lists->out_counts != NULL ? lists->out_counts[r] : lists->out_count;
        char *to = lists->outs != NULL ? lists->outs[r] : next;
        size_t given = count < lists->in_count ? count : lists->in_count;

        if (given > 0 && to != op->in)
            memmove(to, op->in, given * op->elem);
        if (lists->outs == NULL)
            next += count * op->elem;
    }
}

/* Returns whether every rank receives each rank's elements. */
static bool is_all_gather(const struct symc_kind_info *info)
{
    return info->in_parts == SYMC_ONE_PART &&
           info->out_parts == SYMC_ALL_PARTS &&
           (info->traits & SYMC_ROOTED) == 0;
}

void symc_fake_add_time(struct symc_fake *fake, double seconds)
{
    double before = atomic_load(&fake->clock);

    while (
        !atomic_compare_exchange_weak(&fake->clock, &before, before + seconds))
        ;
}

symmcoll_status_t symc_fake_start_absent(struct symc_fake *fake,
    const struct symc_core *core, const struct symc_op *op, int rank, int size)
{
    const struct symc_kind_info *info = &symc_kinds[op->kind];
    symmcoll_status_t error = atomic_load(&fake->error);

    core->record(core->group, op);
    if (error != SYMMCOLL_OK && info->counter != SYMC_COUNT_NONE)
        return core->fail(
            error, "%s: the fake world is set to fail", info->name);
    if ((info->traits & SYMC_MOVES) != 0)
        return core->fail(SYMMCOLL_ERR_UNSUPPORTED,
            "%s: the other ranks of a fake world have no memory", info->name);
    symc_fake_add_time(fake, cost_of(fake, op, rank, size));
    if (!is_all_gather(info) || op->memory != SYMC_MEMORY_HOST)
        return SYMMCOLL_OK;
    if (op->listed)
        gather_own_listed(op, size);
    else if ((info->traits & SYMC_COALESCED) != 0)
        gather_own_each(op, size);
    else
        gather_own(op, size);
    return SYMMCOLL_OK;
}
