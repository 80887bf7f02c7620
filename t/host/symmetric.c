/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Tests collectives on symmetric buffers: the same bits as with private ones,
 * for every operation, type and reduction, wherever in symmetric memory the
 * buffers are. No staging is used if the buffers of all ranks are symmetric;
 * otherwise it is.
 */
#include "symmetric.h"
#include "../coll/data.h"
#include "../tap.h"

#include "base/dtype.h"
#include "group/group.h"

#include <stdlib.h>
#include <string.h>

#define SEED 11
#define COUNT ((size_t)9001)   /* beyond small messages of every type */
#define LARGE ((size_t)140001) /* several chunks of a sum of two ranks */

static const enum symmcoll_dtype types[] = {SYMMCOLL_FLOAT32, SYMMCOLL_BFLOAT16,
    SYMMCOLL_FLOAT16, SYMMCOLL_FLOAT64, SYMMCOLL_INT8, SYMMCOLL_UINT8,
    SYMMCOLL_INT16, SYMMCOLL_UINT16, SYMMCOLL_INT32, SYMMCOLL_UINT32,
    SYMMCOLL_INT64, SYMMCOLL_UINT64, SYMMCOLL_BOOL, SYMMCOLL_COMPLEX64,
    SYMMCOLL_COMPLEX128};

/* The placement of a rank's buffers. */
enum where {
    BOTH,    /* in and out in symmetric memory, each in its own allocation */
    ONE,     /* both in one allocation */
    SHIFTED, /* both, at other offsets on each rank */
    SWAPPED, /* the allocations of in and out are swapped on rank 1 */
    IN_ALONE,
    OUT_ALONE,
    PRIVATE_RANK, /* all but those of rank 1 */
    OTHERS        /* rank 1's in an allocation that is no other's */
};

/* The buffers of one rank. */
struct hands {
    struct symmcoll_group *group;
    int rank;
    int size;
    size_t count; /* of a part */
    size_t elem;
    enum symmcoll_dtype dtype;
    struct symmetric memory[3];
    unsigned char *private[2];
    unsigned char *in; /* room for a part of each rank, as out */
    unsigned char *out;
    unsigned char *expected;
};

static size_t whole(const struct hands *hands)
{
    return hands->count * hands->elem * (size_t)hands->size;
}

static void place(struct hands *hands, enum where where)
{
    bool first = hands->rank == 1;
    size_t apart = (whole(hands) + 127) / 64 * 64;
    size_t shift = where == SHIFTED ? (size_t)hands->rank * 48 : 0;
    int in = 0, out = 1;

    if (where == SWAPPED && first) {
        in = 1;
        out = 0;
    } else if (where == OTHERS && first) {
        in = 2;
    }
    hands->in = hands->memory[in].at + shift;
    hands->out =
        where == ONE ? hands->in + apart : hands->memory[out].at + 3 * shift;
    if (where == OUT_ALONE || (where == PRIVATE_RANK && first))
        hands->in = hands->private[0];
    if (where == IN_ALONE || (where == PRIVATE_RANK && first))
        hands->out = hands->private[1];
}

static void open_hands(struct hands *hands, struct symmcoll_group *group,
    int rank, enum symmcoll_dtype dtype, size_t count)
{
    size_t nbytes;

    *hands = (struct hands){.group = group,
        .rank = rank,
        .size = symmcoll_group_size(group),
        .count = count,
        .elem = symmcoll_dtype_size(dtype),
        .dtype = dtype};
    nbytes = whole(hands);
    for (int i = 0; i < 3; i++)
        hands->memory[i] = symmetric_open(group, 2 * nbytes + 8192);
    hands->private[0] = malloc(nbytes);
    hands->private[1] = malloc(nbytes);
    hands->expected = malloc(nbytes);
    if (!hands->private[0] || !hands->private[1] || !hands->expected)
        abort();
}

static void close_hands(struct hands *hands)
{
    for (int i = 0; i < 3; i++)
        symmetric_close(&hands->memory[i]);
    free(hands->private[0]);
    free(hands->private[1]);
    free(hands->expected);
}

static void fill(const struct hands *hands, void *to, size_t parts)
{
    data_fill(to, hands->dtype, 0, hands->count * parts, hands->rank, SEED);
}

static bool holds(
    const struct hands *hands, const char *what, const void *at, size_t parts)
{
    return data_is_same(
        what, at, hands->expected, hands->count * hands->elem * parts);
}

static bool is_ok(symmcoll_status_t status, const char *what)
{
    if (status != SYMMCOLL_OK)
        diag("%s: %s", what, symmcoll_last_error());
    return status == SYMMCOLL_OK;
}

/* ---- sums ---- */

static void expect_sum(
    const struct hands *hands, symmcoll_op_t op, size_t first)
{
    data_reduce(hands->expected, hands->dtype, op, first, hands->count,
        hands->size, 16, SEED);
}

static bool all_reduce_is_right(
    struct hands *hands, symmcoll_op_t op, symmcoll_op_t passed)
{
    bool right;

    fill(hands, hands->in, 1);
    expect_sum(hands, op, 0);
    right = is_ok(symmcoll_all_reduce(hands->group, hands->out, hands->in,
                      hands->count, hands->dtype, passed, NULL, NULL),
                "all_reduce") &&
            holds(hands, "all_reduce", hands->out, 1) &&
            is_ok(symmcoll_all_reduce(hands->group, hands->in, hands->in,
                      hands->count, hands->dtype, passed, NULL, NULL),
                "all_reduce in place");
    return right && holds(hands, "all_reduce in place", hands->in, 1);
}

static bool reduce_is_right(
    struct hands *hands, symmcoll_op_t op, symmcoll_op_t passed)
{
    int root = hands->size - 1;
    bool right;

    fill(hands, hands->in, 1);
    memset(hands->out, 0x77, hands->count * hands->elem);
    expect_sum(hands, op, 0);
    if (hands->rank != root)
        memset(hands->expected, 0x77, hands->count * hands->elem);
    right = is_ok(symmcoll_reduce(hands->group, hands->out, hands->in,
                      hands->count, hands->dtype, passed, root, NULL, NULL),
                "reduce") &&
            holds(hands, "reduce", hands->out, 1) &&
            is_ok(symmcoll_reduce(hands->group,
                      hands->rank == root ? hands->in : NULL, hands->in,
                      hands->count, hands->dtype, passed, root, NULL, NULL),
                "reduce in place");
    if (hands->rank != root)
        fill(hands, hands->expected, 1);
    return right && holds(hands, "reduce in place", hands->in, 1);
}

static bool reduce_scatter_is_right(
    struct hands *hands, symmcoll_op_t op, symmcoll_op_t passed)
{
    unsigned char *own =
        hands->in + (size_t)hands->rank * hands->count * hands->elem;
    bool right;

    fill(hands, hands->in, (size_t)hands->size);
    expect_sum(hands, op, (size_t)hands->rank * hands->count);
    right = is_ok(symmcoll_reduce_scatter(hands->group, hands->out, hands->in,
                      hands->count, hands->dtype, passed, NULL, NULL),
                "reduce_scatter") &&
            holds(hands, "reduce_scatter", hands->out, 1) &&
            is_ok(symmcoll_reduce_scatter(hands->group, own, hands->in,
                      hands->count, hands->dtype, passed, NULL, NULL),
                "reduce_scatter in place");
    return right && holds(hands, "reduce_scatter in place", own, 1);
}

static bool sum_is_right(struct hands *hands, symmcoll_op_t op)
{
    symmcoll_op_t passed = data_op(hands->group, op, hands->rank);

    return all_reduce_is_right(hands, op, passed) &&
           reduce_is_right(hands, op, passed) &&
           reduce_scatter_is_right(hands, op, passed);
}

/* ---- moves ---- */

/* Expects the part that each rank has for rank `to`, one after another; to -1:
 * the first part of every rank. */
static void expect_parts(const struct hands *hands, int to)
{
    size_t part = hands->count * hands->elem;

    for (int r = 0; r < hands->size; r++)
        data_fill(hands->expected + (size_t)r * part, hands->dtype,
            to < 0 ? 0 : (size_t)to * hands->count, hands->count, r, SEED);
}

static bool gathers_are_right(struct hands *hands)
{
    size_t size = (size_t)hands->size;
    size_t part = hands->count * hands->elem;
    int root = hands->size - 1;
    bool right;

    fill(hands, hands->in, 1);
    expect_parts(hands, -1);
    right = is_ok(symmcoll_all_gather(hands->group, hands->out, hands->in,
                      hands->count, hands->dtype, NULL, NULL),
                "all_gather") &&
            holds(hands, "all_gather", hands->out, size);
    memset(hands->out, 0x77, part * size);
    memcpy(hands->out + (size_t)hands->rank * part, hands->in, part);
    right = right &&
            is_ok(symmcoll_all_gather(hands->group, hands->out,
                      hands->out + (size_t)hands->rank * part, hands->count,
                      hands->dtype, NULL, NULL),
                "all_gather in place") &&
            holds(hands, "all_gather in place", hands->out, size);
    memset(hands->out, 0x77, part * size);
    right = right && is_ok(symmcoll_gather(hands->group, hands->out, hands->in,
                               hands->count, hands->dtype, root, NULL, NULL),
                         "gather");
    if (hands->rank != root)
        memset(hands->expected, 0x77, part * size);
    return right && holds(hands, "gather", hands->out, size);
}

static bool spreads_are_right(struct hands *hands)
{
    int root = hands->size - 1;
    bool right;

    fill(hands, hands->in, (size_t)hands->size);
    data_fill(hands->expected, hands->dtype, (size_t)hands->rank * hands->count,
        hands->count, root, SEED);
    right = is_ok(symmcoll_scatter(hands->group, hands->out,
                      hands->rank == root ? hands->in : NULL, hands->count,
                      hands->dtype, root, NULL, NULL),
                "scatter") &&
            holds(hands, "scatter", hands->out, 1);
    expect_parts(hands, hands->rank);
    right = right &&
            is_ok(symmcoll_all_to_all(hands->group, hands->out, hands->in,
                      hands->count, hands->dtype, NULL, NULL),
                "all_to_all") &&
            holds(hands, "all_to_all", hands->out, (size_t)hands->size);
    data_fill(hands->expected, hands->dtype, 0, hands->count, root, SEED);
    return right &&
           is_ok(symmcoll_broadcast(hands->group, hands->in, hands->count,
                     hands->dtype, root, NULL, NULL),
               "broadcast") &&
           holds(hands, "broadcast", hands->in, 1);
}

static bool all_is_right(struct hands *hands)
{
    for (symmcoll_op_t op = SYMMCOLL_SUM; op <= SYMMCOLL_PREMUL_SUM; op++) {
        if (symc_dtype_reduces(symc_dtype_find(hands->dtype), op) &&
            !sum_is_right(hands, op)) {
            diag("%s of %s", symmcoll_op_name(op),
                symmcoll_dtype_name(hands->dtype));
            return false;
        }
    }
    return gathers_are_right(hands) && spreads_are_right(hands);
}

/* ---- bodies ---- */

static int every_type_is_right(struct symmcoll_group *group, int rank)
{
    bool right = true;

    for (size_t i = 0; right && i < LENGTH(types); i++) {
        struct hands hands;

        if (data_leaves_out(types[i]))
            continue;
        open_hands(&hands, group, rank, types[i], COUNT);
        place(&hands, BOTH);
        right = all_is_right(&hands);
        close_hands(&hands);
    }
    return right && !group->runner.reserved;
}

/* Checks buffers in each of these placements; with `still`, no staging may be
 * used. */
static bool are_right_where(struct symmcoll_group *group, int rank,
    const enum where *wheres, size_t nwheres, size_t count, bool still)
{
    bool right = true;
    struct hands hands;

    open_hands(&hands, group, rank, SYMMCOLL_FLOAT32, count);
    for (size_t i = 0; right && i < nwheres; i++) {
        place(&hands, wheres[i]);
        right = sum_is_right(&hands, SYMMCOLL_SUM) &&
                sum_is_right(&hands, SYMMCOLL_PREMUL_SUM) &&
                gathers_are_right(&hands) && spreads_are_right(&hands);
        if (!right)
            diag("buffers in place %d", (int)wheres[i]);
    }
    close_hands(&hands);
    if (still && group->runner.reserved)
        diag("rank %d: expected no staging, found it", rank);
    return right && !(still && group->runner.reserved);
}

static int any_place_is_right(struct symmcoll_group *group, int rank)
{
    static const enum where wheres[] = {BOTH, ONE, SHIFTED};

    return are_right_where(group, rank, wheres, LENGTH(wheres), LARGE, true);
}

/* All ranks use both allocations, for in or for out. */
static int swapped_is_right(struct symmcoll_group *group, int rank)
{
    struct hands hands;
    bool right;

    open_hands(&hands, group, rank, SYMMCOLL_FLOAT32, COUNT);
    place(&hands, SWAPPED);
    fill(&hands, hands.in, 1);
    expect_sum(&hands, SYMMCOLL_SUM, 0);
    right = is_ok(symmcoll_all_reduce(group, hands.out, hands.in, COUNT,
                      SYMMCOLL_FLOAT32, SYMMCOLL_SUM, NULL, NULL),
                "all_reduce") &&
            holds(&hands, "all_reduce", hands.out, 1);
    close_hands(&hands);
    return right && !group->runner.reserved;
}

static int mixtures_are_right(struct symmcoll_group *group, int rank)
{
    static const enum where wheres[] = {
        IN_ALONE, OUT_ALONE, PRIVATE_RANK, OTHERS, SWAPPED, BOTH, IN_ALONE};

    return are_right_where(group, rank, wheres, LENGTH(wheres), COUNT, false);
}

static int off_is_right(struct symmcoll_group *group, int rank)
{
    static const enum where wheres[] = {BOTH};
    bool right =
        are_right_where(group, rank, wheres, LENGTH(wheres), COUNT, false);

    return right && group->runner.reserved;
}

int main(void)
{
    static const int sizes[] = {2, 3, 8};
    static const int few[] = {2, 3, 5}, streamed[] = {2, 8};

    plan(22);
    both_run(3, every_type_is_right,
        "every operation on symmetric buffers of every type is right, and "
        "stages nothing");
    for (size_t i = 0; i < LENGTH(sizes); i++)
        both_run(sizes[i], any_place_is_right,
            "so it is in two allocations or in one, at offsets that differ");
    both_run(3, swapped_is_right,
        "so it is where a rank's input is where the others' results are");
    for (size_t i = 0; i < LENGTH(few); i++)
        both_run(few[i], mixtures_are_right,
            "in alone, out alone, a private rank and another allocation on a "
            "rank are right");
    setenv("SYMMCOLL_HOST_STREAM_MIN", "0", 1);
    for (size_t i = 0; i < LENGTH(streamed); i++)
        both_run(streamed[i], any_place_is_right,
            "so it is where all results pass by the caches");
    unsetenv("SYMMCOLL_HOST_STREAM_MIN");
    setenv("SYMMCOLL_HOST_SYMMETRIC", "off", 1);
    setenv("SYMMCOLL_HOST_DIRECT", "off", 1);
    both_run(
        2, off_is_right, "host.symmetric: off, the same operations are staged");
    return done_testing();
}
