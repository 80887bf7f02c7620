/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Operations whose caller moves the data, on memory that all ranks map.  This backend
 * compares the ranks' arguments before anything is moved, and holds all ranks until all
 * have moved their data.  It does so also if the check has failed: the check may have
 * read memory of other ranks, which change it afterwards.
 *
 * For device memory the ranks only compare here, as for any operation on it.
 */
#include "host/host.h"

_Static_assert(SYMC_MOVER_PAYLOAD <= SYMC_FACTOR_AT,
    "it travels with the header line, beside a factor");

/* Compares, moves, and waits for all ranks.  checked (out): the result of the check, the
 * same on all ranks. */
static symmcoll_status_t run(struct symc_host *host, const struct symc_op *op,
    symmcoll_status_t *checked)
{
    struct symc_mover *mover = op->out;
    struct symc_chunks chunks;
    symmcoll_status_t status;

    status =
        symc_host_synchronise(host, op, mover->payload, sizeof(mover->payload));
    if (status != SYMMCOLL_OK)
        return status;
    symc_host_begin_chunks(host, op, &chunks);
    for (int r = 0; r < host->size; r++)
        host->sources[r] = symc_host_header(host, r, op)->payload;
    /* The check reads memory of all ranks. */
    if (chunks.moving.step(&chunks, host->size, 0)) {
        *checked = mover->check(mover, &chunks.moving, host->sources);
        if (*checked == SYMMCOLL_OK)
            mover->move(mover, &chunks.moving);
    }
    return symc_host_end_chunks(&chunks);
}

/* ---- on non-host memory ---- */

static uint64_t depth(const struct symc_host *host, const struct symc_op *op)
{
    (void)host;
    return op->memory != SYMC_MEMORY_HOST ? SYMC_LINES : 0;
}

static bool publish(struct symc_host *host, const struct symc_op *op)
{
    const struct symc_mover *mover = op->out;

    return symc_host_publish(host, op, mover->payload, sizeof(mover->payload));
}

/* Checks the payloads; all lines are there and agree. */
static symmcoll_status_t check(struct symc_host *host, const struct symc_op *op)
{
    struct symc_mover *mover = op->out;
    struct symc_moving moving = {.op = op,
        .rank = host->rank,
        .size = host->size,
        .group = host->core->name,
        .ranks = host->core->ranks};

    symc_host_keep_agreed(host, op);
    for (int r = 0; r < host->size; r++)
        host->sources[r] = symc_host_header(host, r, op)->payload;
    return mover->check(mover, &moving, host->sources);
}

static symmcoll_status_t end(struct symc_host *host, const struct symc_op *op)
{
    symmcoll_status_t status = symc_host_collect(host, op);

    return status == SYMMCOLL_OK ? check(host, op) : status;
}

const struct symc_resumable symc_host_mover_parts = {
    .depth = depth, .publish = publish, .end = end};

static symmcoll_status_t compare(
    struct symc_host *host, const struct symc_op *op)
{
    const struct symc_mover *mover = op->out;
    symmcoll_status_t status =
        symc_host_synchronise(host, op, mover->payload, sizeof(mover->payload));

    return status == SYMMCOLL_OK ? check(host, op) : status;
}

/* ---- on any memory ---- */

symmcoll_status_t symc_host_mover(
    struct symc_host *host, const struct symc_op *op)
{
    symmcoll_status_t checked = SYMMCOLL_OK, status;

    host->resumable = NULL; /* it does not end when all lines are there */
    if (op->memory != SYMC_MEMORY_HOST)
        return compare(host, op);
    status = run(host, op, &checked);
    /* As in symc_host_large().  If all have moved, or the check has failed, no rank
     * accesses the buffers any more. */
    if (status != SYMMCOLL_OK && status != SYMMCOLL_ERR_MISMATCH &&
        status != SYMMCOLL_ERR_CONFIG)
        symc_host_revoke(host, op);
    return status != SYMMCOLL_OK ? status : checked;
}
