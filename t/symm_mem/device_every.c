/* SPDX-License-Identifier: BSD-3-Clause */
#include "t/symm_mem/device_every.h"

/* ---- reductions ---- */

static symmcoll_status_t one_shot(struct test *it, struct side *side)
{
    return symmcoll_symm_one_shot_all_reduce(side->handle, 64, side->out,
        it->count, it->dtype, SYMMCOLL_SUM, &side->call);
}

static symmcoll_status_t one_shot_copy(struct test *it, struct side *side)
{
    return symmcoll_symm_one_shot_all_reduce_copy(side->handle, 8, side->out,
        side->in, it->count, it->dtype, SYMMCOLL_MAX, &side->call);
}

static symmcoll_status_t one_shot_in_place(struct test *it, struct side *side)
{
    return symmcoll_symm_one_shot_all_reduce_copy(side->handle, 0, side->out,
        side->out, it->count, it->dtype, SYMMCOLL_SUM, &side->call);
}

static symmcoll_status_t reduce(struct test *it, struct side *side)
{
    int root = it->size - 1;

    return symmcoll_symm_one_shot_reduce(side->handle, 16,
        it->rank == root ? side->out : NULL, it->count, it->dtype, SYMMCOLL_SUM,
        root, &side->call);
}

static symmcoll_status_t two_shot(struct test *it, struct side *side)
{
    return symmcoll_symm_two_shot_all_reduce(side->handle, 24, NULL, it->count,
        it->dtype, SYMMCOLL_SUM, &side->call);
}

static symmcoll_status_t two_shot_out(struct test *it, struct side *side)
{
    return symmcoll_symm_two_shot_all_reduce(side->handle, 0, side->out,
        it->count, it->dtype, SYMMCOLL_AVG, &side->call);
}

static symmcoll_status_t scatter_rows(struct test *it, struct side *side)
{
    return symmcoll_symm_reduce_scatter(side->handle, 8, side->out,
        it->count * (size_t)it->size, 1, 0, it->dtype, SYMMCOLL_SUM,
        &side->call);
}

static symmcoll_status_t scatter_columns(struct test *it, struct side *side)
{
    return symmcoll_symm_reduce_scatter(side->handle, 8, side->out,
        it->count / 3, 3 * (size_t)it->size, 1, it->dtype, SYMMCOLL_SUM,
        &side->call);
}

static symmcoll_status_t scatter_in_turn(struct test *it, struct side *side)
{
    return symmcoll_symm_low_contention_reduce_scatter(side->handle, 0,
        side->out, it->count, it->dtype, SYMMCOLL_SUM, &side->call);
}

static symmcoll_status_t tile(struct test *it, struct side *side)
{
    return symmcoll_symm_tile_reduce(side->handle, 8, side->out, 7,
        it->count / 11, 5, 11, it->dtype, SYMMCOLL_SUM, it->size / 2,
        &side->call);
}

static symmcoll_status_t tiles(struct test *it, struct side *side)
{
    size_t offsets[SIDES_RANKS];
    int roots[SIDES_RANKS];

    for (int r = 0; r < it->size; r++) {
        offsets[r] = (size_t)r * 3 * it->elem;
        roots[r] = it->size - 1 - r;
    }
    return symmcoll_symm_multi_root_tile_reduce(side->handle, offsets, roots,
        (size_t)it->size, side->out, 3, it->count / 16, 3, 16, it->dtype,
        SYMMCOLL_SUM, &side->call);
}

static symmcoll_status_t scatter_blocks(struct test *it, struct side *side)
{
    const size_t rows = it->count / 16, ends[] = {rows / 3, rows / 2, rows};
    void *outs[3];

    for (size_t i = 0; i < 3; i++)
        outs[i] = side->out + i * sides_region / 4;
    return symmcoll_symm_reduce_scatter_offset(side->handle, 16, outs, rows, 13,
        15, 0, ends, NULL, 3, it->dtype, SYMMCOLL_SUM, &side->call);
}

static symmcoll_status_t scatter_column_blocks(
    struct test *it, struct side *side)
{
    static const size_t ends[] = {1, 6, 6, 13};
    const int ranks[] = {0, it->size - 1, 0, it->size / 2};
    void *outs[4];

    for (size_t i = 0; i < 4; i++)
        outs[i] = side->out + i * sides_region / 4;
    return symmcoll_symm_reduce_scatter_offset(side->handle, 16, outs,
        it->count / 16, 13, 15, 1, ends, ranks, 4, it->dtype, SYMMCOLL_SUM,
        &side->call);
}

/* ---- moves ---- */

static symmcoll_status_t gather(struct test *it, struct side *side)
{
    return symmcoll_symm_all_gather(
        side->handle, 24, side->in, it->count, it->dtype, &side->call);
}

static symmcoll_status_t gather_in_place(struct test *it, struct side *side)
{
    return symmcoll_symm_all_gather(side->handle, 24,
        side->data + 24 + (size_t)it->rank * it->count * it->elem, it->count,
        it->dtype, &side->call);
}

static symmcoll_status_t gather_in_turn(struct test *it, struct side *side)
{
    return symmcoll_symm_low_contention_all_gather(
        side->handle, 3, side->out, it->count, it->dtype, &side->call);
}

static symmcoll_status_t gather_unequal(struct test *it, struct side *side)
{
    size_t ends[SIDES_RANKS];

    for (int r = 0; r < it->size; r++)
        ends[r] = (it->count + 3) * (size_t)r;
    ends[it->size - 1] += it->count / 2;
    return symmcoll_symm_all_gather_offset(
        side->handle, 5, side->in, ends, it->dtype, &side->call);
}

static symmcoll_status_t broadcast(struct test *it, struct side *side)
{
    return symmcoll_symm_broadcast(
        side->handle, 9, it->count, it->dtype, it->size / 2, &side->call);
}

static symmcoll_status_t all_to_all(struct test *it, struct side *side)
{
    return symmcoll_symm_all_to_all(
        side->handle, 8, OUT_AT, it->count, it->dtype, &side->call);
}

static symmcoll_status_t permute(struct test *it, struct side *side)
{
    int to[SIDES_RANKS];

    for (int r = 0; r < it->size; r++)
        to[r] = (r + 1) % it->size;
    return symmcoll_symm_permute(
        side->handle, 8, OUT_AT, it->count, it->dtype, to, &side->call);
}

static symmcoll_status_t reshard_columns(struct test *it, struct side *side)
{
    return symmcoll_symm_reshard(side->handle, 8, side->out, it->count / 11,
        3 * (size_t)it->size, 0, 1, it->dtype, &side->call);
}

static symmcoll_status_t reshard_rows(struct test *it, struct side *side)
{
    return symmcoll_symm_reshard(side->handle, 8, side->out,
        3 * (size_t)it->size, it->count / 11, 1, 0, it->dtype, &side->call);
}

static symmcoll_status_t push_rows(struct test *it, struct side *side)
{
    int ranks[SIDES_RANKS];
    size_t rows[SIDES_RANKS];

    for (int r = 0; r < it->size; r++) {
        ranks[r] = r;
        rows[r] = (size_t)(it->size - 1 - it->rank);
    }
    return symmcoll_symm_push_rows(side->handle, OUT_AT, (size_t)it->size,
        side->in, (size_t)it->size, it->count, it->dtype, ranks, rows,
        &side->call);
}

/* ---- exchanges ---- */

static struct symmcoll_symm_exchange exchange_of(const struct test *it)
{
    struct symmcoll_symm_exchange exchange = SYMMCOLL_SYMM_EXCHANGE_INIT;

    exchange.dtype = it->dtype;
    exchange.row = 1 + it->count % 16;
    exchange.in_offset = 16;
    exchange.in_rows = ROWS;
    exchange.out_offset = OUT_AT;
    exchange.out_rows = ROWS;
    exchange.in_splits_offset = SPLITS_AT;
    exchange.out_splits_offset = OUT_SPLITS_AT;
    exchange.experts = EXPERTS;
    exchange.major_align = it->count % 2 == 0 ? 4 : 0;
    return exchange;
}

static symmcoll_status_t exchange(struct test *it, struct side *side)
{
    struct symmcoll_symm_exchange args = exchange_of(it);

    return symmcoll_symm_all_to_all_v(side->handle, &args, &side->call);
}

static symmcoll_status_t exchange_back(struct test *it, struct side *side)
{
    struct symmcoll_symm_exchange args = exchange_of(it);

    return symmcoll_symm_all_to_all_v_back(side->handle, &args, &side->call);
}

/* Creates a plan once, and runs it with different rows. */
static symmcoll_status_t run_plan(struct test *it, struct side *side)
{
    struct symmcoll_symm_exchange args = exchange_of(it);
    symmcoll_status_t status;

    status = symmcoll_symm_plan_create(
        side->handle, &args, &side->call, &side->plan);
    if (status == SYMMCOLL_OK)
        status = symmcoll_symm_plan_run(side->plan, &side->call);
    return status == SYMMCOLL_OK
               ? symmcoll_symm_plan_run(side->plan, &side->call)
               : status;
}

/* ---- all of them ---- */

const struct operation every[] = {{"one_shot_all_reduce", one_shot},
    {"one_shot_all_reduce_copy", one_shot_copy},
    {"one_shot_all_reduce_copy in place", one_shot_in_place},
    {"one_shot_reduce", reduce}, {"two_shot_all_reduce", two_shot},
    {"two_shot_all_reduce to out", two_shot_out},
    {"reduce_scatter of rows", scatter_rows},
    {"reduce_scatter of columns", scatter_columns},
    {"low_contention_reduce_scatter", scatter_in_turn}, {"tile_reduce", tile},
    {"multi_root_tile_reduce", tiles},
    {"reduce_scatter_offset of rows", scatter_blocks},
    {"reduce_scatter_offset of columns", scatter_column_blocks},
    {"all_gather", gather}, {"all_gather in place", gather_in_place},
    {"low_contention_all_gather", gather_in_turn},
    {"all_gather_offset", gather_unequal}, {"broadcast", broadcast},
    {"all_to_all", all_to_all}, {"permute", permute},
    {"reshard of columns", reshard_columns}, {"reshard of rows", reshard_rows},
    {"push_rows", push_rows}, {"all_to_all_v", exchange},
    {"all_to_all_v_back", exchange_back}, {"plan", run_plan}, {NULL, NULL}};
