/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The backend for one rank, where every collective is a copy or a reduction of
 * one source, and for a rank with simulated peers (absent.c).
 */
#include "fake/fake.h"
#include "backend/backend.h"
#include "base/moving.h"

#include <stdlib.h>
#include <string.h>

struct fake {
    const struct symc_core *core;
    struct symc_fake *absent; /* NULL: there is only one rank */
    int rank, size;
    double factor; /* of the last operation on other memory */
};

static symmcoll_status_t probe_alone(const struct symc_peers *peers)
{
    if (peers->size != 1 && peers->absent == NULL)
        return symc_fail(SYMMCOLL_ERR_UNSUPPORTED,
            "fake: expected one rank, found %d", peers->size);
    return SYMMCOLL_OK;
}

static symmcoll_status_t open_alone(
    const struct symc_core *core, const struct symc_peers *peers, void **state)
{
    struct fake *fake = symc_alloc(1, sizeof(*fake));

    if (fake == NULL)
        return SYMMCOLL_ERR_NO_MEMORY;
    fake->core = core;
    fake->absent = peers->size > 1 ? peers->absent : NULL;
    fake->rank = peers->rank;
    fake->size = peers->size;
    *state = fake;
    return SYMMCOLL_OK;
}

static void reduce_alone(const struct symc_op *op)
{
    struct symc_reduction reduction = {.dtype = op->dtype,
        .op = op->op,
        .block = 1,
        .factors = symc_op_factor(op)};
    const void *source = symc_op_in_at(op, 0);

    symc_reduce(&reduction, op->out, NULL, &source, 1, op->count, false);
}

static void copy_alone(const struct symc_op *op)
{
    const char *in = symc_op_in_at(op, 0);
    char *out = symc_op_out_at(op, 0);

    if (out != in && op->count > 0)
        memcpy(out, in, op->count * op->elem);
}

static void run_alone(const struct symc_op *op)
{
    if (symc_kind_has(op->kind, SYMC_REDUCES))
        reduce_alone(op);
    else
        copy_alone(op);
}

/* Runs an operation of a kind with SYMC_MOVES. */
static symmcoll_status_t move_alone(
    const struct fake *fake, const struct symc_op *op)
{
    struct symc_mover *mover = op->out;
    const void *payload = mover->payload, *source;
    struct symc_reduction reduction = {.dtype = op->dtype,
        .op = op->op,
        .block = 1,
        .factors = symc_op_factor(op)};
    struct symc_exposed exposed;
    bool streamed = false;
    struct symc_moving moving = {.op = op,
        .size = 1,
        .group = fake->core->name,
        .ranks = fake->core->ranks,
        .reduction = &reduction,
        .exposed = &exposed,
        .sources = &source,
        .stream_pushed = SIZE_MAX,
        .stream_pulled = SIZE_MAX,
        .streamed = &streamed};
    symmcoll_status_t status = mover->check(mover, &moving, &payload);

    if (status == SYMMCOLL_OK)
        mover->move(mover, &moving);
    return status;
}

static symmcoll_status_t start_alone(void *state, const struct symc_op *op)
{
    struct fake *fake = state;
    const struct symc_core *core = fake->core;

    if (core->failed(core->group, -1))
        return core->failure(core->group, op, -1);
    if (fake->absent != NULL)
        return symc_fake_start_absent(
            fake->absent, core, op, fake->rank, fake->size);
    core->record(core->group, op);
    if (op->memory != SYMC_MEMORY_HOST) {
        fake->factor = *symc_op_factor(op);
        *core->agreed = (struct symc_agreed){.factors = &fake->factor,
            .largest = symc_op_in_count(op, 0),
            .captured = op->captured};
        return SYMMCOLL_OK; /* one rank agrees with itself */
    }
    if (symc_kind_has(op->kind, SYMC_MOVES))
        return move_alone(fake, op);
    if (!symc_kind_has(op->kind, SYMC_COALESCED)) {
        run_alone(op);
        return SYMMCOLL_OK;
    }
    for (int i = 0; i < op->buffers; i++) {
        struct symc_op one = symc_op_of(op, i);

        run_alone(&one);
    }
    return SYMMCOLL_OK;
}

/* Operations end in start(). */
static bool is_settled(void *state, uint64_t *until)
{
    (void)state;
    (void)until;
    return true;
}

static const struct symc_host_ops operations = {
    .start = start_alone, .settled = is_settled};

extern const struct symc_backend symc_fake_backend;
const struct symc_backend symc_fake_backend = {
    .name = "fake",
    .priority = 1,
    .probe = probe_alone,
    .open = open_alone,
    .close = free,
    .host = &operations,
};
