/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Tests the collectives of one buffer for each rank, in and out of place: all_gather,
 * all_to_all, broadcast, gather, reduce, reduce_scatter and scatter.  Every receiver has
 * the expected bytes, for every element type, operation and root, and at the sizes at
 * which algorithms change; on other ranks the output is not touched and may be NULL, and
 * the input of a rank that sends nothing is not read.  t/coll/all_reduce.c has the rest.
 */
#include "../tap.h"
#include "data.h"

#include "base/dtype.h"

#include <stdio.h>

enum kind {
    ALL_GATHER,
    ALL_TO_ALL,
    BROADCAST,
    GATHER,
    REDUCE,
    REDUCE_SCATTER,
    SCATTER,
    KINDS
};

/* Which buffer contains the other one in a call that is in place. */
enum place {
    NEVER,  /* there is no such call */
    IN_OUT, /* the input is this rank's part of the output */
    OUT_IN, /* the output is this rank's part of the input */
    IS_OUT, /* they are the same */
    IS_ONE  /* a call has one buffer */
};

#define SIZES 8
#define CASES 4

/* A case at a limit: unit * mul / div + add elements of a type. */
struct limit {
    enum symmcoll_dtype dtype;
    symmcoll_op_t op;
    size_t unit;  /* 0: none */
    bool divided; /* the unit, among the ranks */
    size_t mul, div;
    int add;
};

#define WHOLE(dtype, unit, mul, div, add)               \
    {                                                   \
        dtype, SYMMCOLL_SUM, unit, false, mul, div, add \
    }
#define PIECE(dtype, op, mul, div, add)       \
    {                                         \
        dtype, op, CHUNK, true, mul, div, add \
    }

struct collective {
    const char *name;
    bool many_in,
        many_out; /* a part for each rank: of the input, of the output */
    bool rooted, reduces, every; /* every: see struct data_case */
    enum place place;
    size_t shifts[2];  /* of the input and the output, see guarded_open() */
    int sizes[SIZES];  /* numbers of ranks for the types */
    const char *types; /* sentences of points */
    int limit_sizes[SIZES];
    const char *limits;
    struct limit cases[CASES + 1];
    int large_sizes[SIZES];
    const char *large;
    struct limit large_case;
};

static const struct collective collectives[KINDS] = {
    [ALL_GATHER] = {"all_gather", .many_out = true, .place = IN_OUT,
        .shifts = {1, 5}, .sizes = {1, 2, 3, 4, 5, 16, 17},
        .types = "every type is gathered in the order of ranks (T4, T7)",
        .limit_sizes = {2, 3, 4, 5},
        .limits = "sizes around a staging chunk are gathered",
        .cases = {WHOLE(SYMMCOLL_INT64, CHUNK, 1, 8, 0),
            WHOLE(SYMMCOLL_FLOAT8_E5M2, CHUNK, 1, 1, 1),
            WHOLE(SYMMCOLL_FLOAT32, CHUNK, 6, 4, 3)},
        .large_sizes = {2, 3}, .large = "several megabytes are gathered",
        .large_case = WHOLE(SYMMCOLL_COMPLEX128, STREAM_MIN, 1, 16, 1)},
    [ALL_TO_ALL] = {"all_to_all", .many_in = true, .many_out = true,
        .shifts = {1, 7}, .sizes = {1, 2, 3, 5, 17},
        .types = "parts of every type are exchanged",
        .limit_sizes = {2, 3, 4, 5},
        .limits = "parts of several chunks are exchanged",
        .cases = {PIECE(SYMMCOLL_INT64, SYMMCOLL_SUM, 1, 8, 0),
            PIECE(SYMMCOLL_INT32, SYMMCOLL_SUM, 1, 4, -1),
            PIECE(SYMMCOLL_COMPLEX128, SYMMCOLL_SUM, 1, 16, 1),
            PIECE(SYMMCOLL_FLOAT8_E5M2, SYMMCOLL_SUM, 9, 1, 1)},
        .large_sizes = {3}, .large = "several megabytes are exchanged",
        .large_case = WHOLE(SYMMCOLL_FLOAT32, STREAM_MIN, 1, 4, 1)},
    [BROADCAST] = {"broadcast", .rooted = true, .every = true, .place = IS_ONE,
        .shifts = {3, 3}, .sizes = {1, 2, 3, 5, 17},
        .types = "every type reaches every rank", .limit_sizes = {2, 4},
        .limits = "any rank can be the root",
        .cases = {WHOLE(SYMMCOLL_INT64, CHUNK, 1, 8, 0),
            WHOLE(SYMMCOLL_BOOL, CHUNK, 1, 1, 1),
            WHOLE(SYMMCOLL_INT32, 2, 1, 1, 0),
            WHOLE(SYMMCOLL_FLOAT32, STREAM_MIN, 1, 4, 9)}},
    [GATHER] = {"gather", .many_out = true, .rooted = true, .place = IN_OUT,
        .shifts = {1, 7}, .sizes = {1, 2, 3, 5, 17},
        .types = "every type is gathered in the order of ranks",
        .limit_sizes = {2, 4}, .limits = "any rank can be the root",
        .cases = {WHOLE(SYMMCOLL_INT16, 3, 1, 1, 0),
            WHOLE(SYMMCOLL_INT64, CHUNK, 1, 8, 0),
            WHOLE(SYMMCOLL_FLOAT8_E4M3FN, CHUNK, 5, 1, 1)},
        .large_sizes = {3}, .large = "several megabytes are gathered",
        .large_case = WHOLE(SYMMCOLL_FLOAT64, STREAM_MIN, 1, 8, 1)},
    [REDUCE] = {"reduce", .rooted = true, .reduces = true, .place = IS_OUT,
        .shifts = {0, 1}, .sizes = {1, 2, 3, 5, 17},
        .types = "every type and operation reaches the root",
        .limit_sizes = {2, 4}, .limits = "any rank can be the root",
        .cases = {WHOLE(SYMMCOLL_INT32, 5, 1, 1, 0),
            WHOLE(SYMMCOLL_FLOAT32, CHUNK, 1, 4, 1),
            {SYMMCOLL_FLOAT16, SYMMCOLL_AVG, CHUNK, false, 5, 2, 3}},
        .large_sizes = {3}, .large = "several megabytes reach the root",
        .large_case = {SYMMCOLL_FLOAT64, SYMMCOLL_PREMUL_SUM, STREAM_MIN, false,
            1, 8, 3}},
    [REDUCE_SCATTER] = {"reduce_scatter", .many_in = true, .reduces = true,
        .place = OUT_IN, .shifts = {0, 3}, .sizes = {1, 2, 3, 4, 5, 17},
        .types = "every type and operation leaves each rank its part",
        .limit_sizes = {2, 3, 4, 5},
        .limits = "sizes around a staging chunk leave each rank its part",
        .cases = {PIECE(SYMMCOLL_FLOAT32, SYMMCOLL_SUM, 1, 4, 0),
            PIECE(SYMMCOLL_BFLOAT16, SYMMCOLL_SUM, 1, 2, 1),
            PIECE(SYMMCOLL_FLOAT64, SYMMCOLL_AVG, 6, 8, 3),
            {SYMMCOLL_UINT8, SYMMCOLL_MAX, 100003, false, 1, 1, 0}},
        .large_sizes = {2},
        .large = "several megabytes leave each rank its part",
        .large_case = WHOLE(SYMMCOLL_FLOAT32, STREAM_MIN, 1, 4, 5)},
    [SCATTER] = {"scatter", .many_in = true, .rooted = true, .place = OUT_IN,
        .shifts = {1, 7}, .sizes = {1, 2, 3, 5, 17},
        .types = "each rank receives its part of every type",
        .limit_sizes = {2, 4}, .limits = "any rank can be the root",
        .cases = {WHOLE(SYMMCOLL_INT16, 3, 1, 1, 0),
            PIECE(SYMMCOLL_INT64, SYMMCOLL_SUM, 1, 8, 0),
            PIECE(SYMMCOLL_INT32, SYMMCOLL_SUM, 1, 4, -1),
            PIECE(SYMMCOLL_FLOAT8_E4M3FN, SYMMCOLL_SUM, 5, 1, 1)},
        .large_sizes = {3}, .large = "several megabytes are scattered",
        .large_case = WHOLE(SYMMCOLL_FLOAT64, STREAM_MIN, 1, 8, 1)}};

/* The collective of the point that runs, set before its ranks start. */
static enum kind kind;

/* ---- one call ---- */

struct one {
    struct symmcoll_group *group;
    int rank, size, root;
    enum symmcoll_dtype dtype;
    symmcoll_op_t op, created; /* created: see data_op() */
    size_t count, nbytes;      /* of a part */
};

static symmcoll_status_t start(const struct one *it, void *out, const void *in,
    struct symmcoll_work **work)
{
    switch (kind) {
    case ALL_GATHER:
        return symmcoll_all_gather(
            it->group, out, in, it->count, it->dtype, NULL, work);
    case ALL_TO_ALL:
        return symmcoll_all_to_all(
            it->group, out, in, it->count, it->dtype, NULL, work);
    case BROADCAST:
        return symmcoll_broadcast(
            it->group, out, it->count, it->dtype, it->root, NULL, work);
    case GATHER:
        return symmcoll_gather(
            it->group, out, in, it->count, it->dtype, it->root, NULL, work);
    case REDUCE:
        return symmcoll_reduce(it->group, out, in, it->count, it->dtype,
            it->created, it->root, NULL, work);
    case REDUCE_SCATTER:
        return symmcoll_reduce_scatter(
            it->group, out, in, it->count, it->dtype, it->created, NULL, work);
    case SCATTER:
        return symmcoll_scatter(
            it->group, out, in, it->count, it->dtype, it->root, NULL, work);
    default:
        return SYMMCOLL_ERR_INVALID;
    }
}

static bool call(const struct one *it, void *out, const void *in)
{
    return start(it, out, in, NULL) == SYMMCOLL_OK;
}

static unsigned seed_of(const struct one *it)
{
    return (unsigned)(it->count * 16 + (size_t)it->root * 64 + (size_t)it->op);
}

/* Fills in the bytes of a rank's input. */
static void fill(const struct one *it, unsigned char *to)
{
    size_t parts = collectives[kind].many_in ? (size_t)it->size : 1;

    data_fill(to, it->dtype, 0, it->count * parts, it->rank, seed_of(it));
}

/* Fills in the bytes that a receiver expects. */
static void expect(const struct one *it, unsigned char *to)
{
    const struct collective *collective = &collectives[kind];
    size_t first = collective->many_in ? it->count * (size_t)it->rank : 0;

    if (collective->reduces) {
        data_reduce(
            to, it->dtype, it->op, first, it->count, it->size, 16, seed_of(it));
    } else if (!collective->many_out) {
        data_fill(to, it->dtype, first, it->count, it->root, seed_of(it));
    } else {
        for (int r = 0; r < it->size; r++)
            data_fill(to + it->nbytes * (size_t)r, it->dtype, first, it->count,
                r, seed_of(it));
    }
}

/* The buffers of a rank. */
struct buffers {
    struct guarded in, out, again, expected; /* again: as the input is */
    size_t in_nbytes, out_nbytes, mine; /* mine: offset of this rank's part */
    bool sends, receives;
};

static void open_buffers(const struct one *it, struct buffers *all)
{
    const struct collective *collective = &collectives[kind];
    bool is_root = !collective->rooted || it->rank == it->root;
    size_t whole = it->nbytes * (size_t)it->size;

    all->in_nbytes = collective->many_in ? whole : it->nbytes;
    all->out_nbytes = collective->many_out ? whole : it->nbytes;
    all->mine = it->nbytes * (size_t)it->rank;
    all->sends = kind != SCATTER || is_root;
    all->receives = kind == SCATTER || kind == BROADCAST || is_root;
    all->in = guarded_open(all->in_nbytes, collective->shifts[0]);
    all->out = guarded_open(all->out_nbytes, collective->shifts[1]);
    all->again = guarded_open(all->in_nbytes, 0);
    all->expected = guarded_open(all->out_nbytes, 0);
    fill(it, all->in.at);
    fill(it, all->again.at);
    if (all->receives)
        expect(it, all->expected.at);
}

static bool close_buffers(struct buffers *all)
{
    bool right = guarded_is_intact(&all->in) && guarded_is_intact(&all->out);

    guarded_close(&all->in);
    guarded_close(&all->out);
    guarded_close(&all->again);
    guarded_close(&all->expected);
    return right;
}

static bool is_received(
    const struct buffers *all, const char *what, const void *found)
{
    return data_is_same(what, found, all->expected.at, all->out_nbytes);
}

/* Checks a call with two buffers, of which a rank that does not send has no input. */
static bool is_right_apart(const struct one *it, struct buffers *all)
{
    return call(it, all->out.at, all->sends ? all->in.at : NULL) &&
           (all->receives ? is_received(all, "out", all->out.at)
                          : guarded_is_clear(&all->out)) &&
           data_is_same("in", all->in.at, all->again.at, all->in_nbytes);
}

/* Checks that the bytes of the input beside this rank's part are as before. */
static bool is_same_beside(const struct one *it, const struct buffers *all)
{
    size_t end = all->mine + it->nbytes;

    return data_is_same("before it", all->in.at, all->again.at, all->mine) &&
           data_is_same("after it", all->in.at + end, all->again.at + end,
               all->in_nbytes - end);
}

/* Checks a call whose output is this rank's part of the input: of all ranks, or of
 * the root, which need not copy its own. */
static bool is_right_inside(const struct one *it, struct buffers *all)
{
    bool in_place = kind == REDUCE_SCATTER || it->rank == it->root;

    guarded_clear(&all->out);
    if (!call(it, in_place ? all->in.at + all->mine : all->out.at, all->in.at))
        return false;
    if (!in_place)
        return is_received(all, "in place", all->out.at);
    return guarded_is_clear(&all->out) && is_same_beside(it, all) &&
           is_received(all, "in place", all->in.at + all->mine);
}

/* Checks a call in place, without an output on ranks that do not receive. */
static bool is_right_in_place(const struct one *it, struct buffers *all)
{
    switch (collectives[kind].place) {
    case IN_OUT:
        guarded_clear(&all->out);
        fill(it, all->out.at + all->mine);
        return call(it, all->receives ? all->out.at : NULL,
                   all->out.at + all->mine) &&
               (!all->receives || is_received(all, "in place", all->out.at));
    case OUT_IN:
        return is_right_inside(it, all);
    case IS_OUT:
        return call(it, all->receives ? all->in.at : NULL, all->in.at) &&
               data_is_same("in place", all->in.at,
                   all->receives ? all->expected.at : all->again.at,
                   all->in_nbytes);
    default:
        return true;
    }
}

static bool is_right(struct symmcoll_group *group, int rank, int root,
    enum symmcoll_dtype dtype, symmcoll_op_t op, size_t count)
{
    struct one it = {group, rank, symmcoll_group_size(group), root, dtype, op,
        .count = count, .nbytes = count * symmcoll_dtype_size(dtype)};
    struct buffers all;
    bool right;

    if (collectives[kind].reduces)
        it.created = data_op(group, op, rank);
    open_buffers(&it, &all);
    if (collectives[kind].place == IS_ONE)
        right =
            call(&it, all.in.at, NULL) && is_received(&all, "buf", all.in.at);
    else
        right = is_right_apart(&it, &all) && is_right_in_place(&it, &all);
    right = close_buffers(&all) && right;
    if (!right)
        diag("rank %d: %s of %zu %s (%s), root %d: %s", rank,
            collectives[kind].name, count, symmcoll_dtype_name(dtype),
            symmcoll_op_name(op), root, symmcoll_last_error());
    return right;
}

/* ---- the cases ---- */

/* Returns the first of the counts of an operation and the distance of the next: a
 * reduction has some of them with each type and operation. */
static int find_step(int dtype, symmcoll_op_t op, int *first)
{
    *first = kind == REDUCE ? dtype % 2 : (dtype + (int)op) % 3;
    return kind == REDUCE ? 2 : 3;
}

static bool every_count_is_right(
    struct symmcoll_group *group, int rank, int dtype, symmcoll_op_t op)
{
    const struct symc_dtype *type = symc_dtype_find((enum symmcoll_dtype)dtype);
    size_t counts[DATA_COUNTS];
    int size = symmcoll_group_size(group);
    size_t parts = kind == REDUCE ? 1 : (size_t)size;
    int first, step = find_step(dtype, op, &first);
    bool right = true;

    data_counts(type->size, counts);
    /* The limits apply to all parts together. */
    for (int i = first;
         right && i < DATA_COUNTS && symc_dtype_reduces(type, op); i += step)
        right = is_right(group, rank, kind == REDUCE ? (dtype + i) % size : 0,
            (enum symmcoll_dtype)dtype, op, (counts[i] + parts - 1) / parts);
    return right;
}

static int every_type_is_right(struct symmcoll_group *group, int rank)
{
    struct data_case at = {.every = collectives[kind].every};
    bool right = true;

    if (!collectives[kind].reduces) {
        while (right && data_next_case(&at, symmcoll_group_size(group)))
            right = is_right(
                group, rank, at.root, at.dtype, SYMMCOLL_SUM, at.count);
        return right;
    }
    for (int d = 0; d < SYMMCOLL_DTYPE_COUNT; d++) {
        if (data_leaves_out((enum symmcoll_dtype)d))
            continue;
        for (symmcoll_op_t op = 0; right && op < SYMMCOLL_OP_COUNT; op++)
            right = every_count_is_right(group, rank, d, op);
    }
    return right;
}

static bool limit_is_right(
    struct symmcoll_group *group, int rank, int root, const struct limit *limit)
{
    size_t ranks = limit->divided ? (size_t)symmcoll_group_size(group) : 1;

    return is_right(group, rank, root, limit->dtype, limit->op,
        limit->unit / ranks * limit->mul / limit->div + (size_t)limit->add);
}

static int limits_are_right(struct symmcoll_group *group, int rank)
{
    const struct collective *collective = &collectives[kind];
    int roots = collective->rooted ? symmcoll_group_size(group) : 1;
    bool right = true;

    for (int root = 0; right && root < roots; root++) {
        for (const struct limit *at = collective->cases; right && at->unit != 0;
             at++)
            right = limit_is_right(group, rank, root, at);
    }
    return right;
}

static int megabytes_are_right(struct symmcoll_group *group, int rank)
{
    const struct collective *collective = &collectives[kind];

    return limit_is_right(
        group, rank, collective->rooted ? 1 : 0, &collective->large_case);
}

/* ---- as PyTorch's tests ---- */

/* Scatters the numbers of the PyTorch test: four ranks, nine elements, the
 * receiver's number. */
static int ones_are_scattered(struct symmcoll_group *group, int rank)
{
    int size = symmcoll_group_size(group);
    float in[4 * 9], out[9];
    bool right;

    for (int i = 0; i < size * 9; i++)
        in[i] = (float)(i / 9);
    right = symmcoll_scatter(group, out, rank == 0 ? in : NULL, 9,
                SYMMCOLL_FLOAT32, 0, NULL, NULL) == SYMMCOLL_OK;
    for (int i = 0; i < 9; i++)
        right = right && out[i] == (float)rank;
    return right;
}

/* Scatters the input of the PyTorch test: two dimensions, one of them the
 * ranks. */
static int rows_are_scattered(struct symmcoll_group *group, int rank)
{
    int64_t in[3][2] = {{0, 1}, {2, 3}, {4, 5}}, out[2] = {-1, -1};

    return symmcoll_reduce_scatter(group, out, in, 2, SYMMCOLL_INT64,
               SYMMCOLL_SUM, NULL, NULL) == SYMMCOLL_OK &&
           out[0] == 3 * in[rank][0] && out[1] == 3 * in[rank][1];
}

/* Exchanges rows as the PyTorch test does: row r is for rank r, and all
 * elements are the rank. */
static int rows_are_exchanged(struct symmcoll_group *group, int rank)
{
    int64_t send[4][2], out[4][2] = {{0}};
    bool right;

    for (int i = 0; i < 4; i++)
        send[i][0] = send[i][1] = rank;
    right = symmcoll_all_to_all(
                group, out, send, 2, SYMMCOLL_INT64, NULL, NULL) == SYMMCOLL_OK;
    for (int i = 0; i < 4; i++)
        right = right && out[i][0] == i && out[i][1] == i;
    return right;
}

/* ---- works ---- */

/* Starts works without waiting in between; small ones are issued at once. */
static int works_end_in_order(struct symmcoll_group *group, int rank)
{
    enum {
        WORKS = 12
    };
    static const size_t counts[] = {1, 300, 40000};
    struct symmcoll_work *works[WORKS] = {NULL};
    struct buffers all[WORKS];
    int size = symmcoll_group_size(group), started = 0;
    bool right = true;

    for (int i = 0; i < WORKS && right; i++, started++) {
        struct one it = {group, rank, size, i % size, SYMMCOLL_INT32,
            .op = SYMMCOLL_SUM, .count = counts[i % 3],
            .nbytes = counts[i % 3] * 4};

        open_buffers(&it, &all[i]);
        right =
            start(&it, all[i].out.at, all[i].in.at, &works[i]) == SYMMCOLL_OK;
    }
    for (int i = 0; i < started; i++) {
        right = symmcoll_work_wait(works[i], 60) == SYMMCOLL_OK &&
                is_received(&all[i], "work", all[i].out.at) && right;
        symmcoll_work_free(works[i]);
        right = close_buffers(&all[i]) && right;
    }
    return right;
}

/* ---- points ---- */

static void run_point(int n, rank_fn body, const char *sentence)
{
    char text[128];

    (void)snprintf(
        text, sizeof(text), "%s: %s", collectives[kind].name, sentence);
    both_run(n, body, text);
}

static void run_points(const int *sizes, rank_fn body, const char *sentence)
{
    for (int i = 0; i < SIZES && sizes[i] != 0; i++)
        run_point(sizes[i], body, sentence);
}

int main(void)
{
    for (kind = 0; kind < KINDS; kind++) {
        const struct collective *collective = &collectives[kind];

        run_points(collective->sizes, every_type_is_right, collective->types);
        run_points(
            collective->limit_sizes, limits_are_right, collective->limits);
        run_points(
            collective->large_sizes, megabytes_are_right, collective->large);
        if (kind == SCATTER)
            run_point(
                4, ones_are_scattered, "each rank receives its own number");
        if (kind == REDUCE_SCATTER)
            run_point(3, rows_are_scattered,
                "of an input with a row for each rank each has its row (C30)");
        if (kind == ALL_TO_ALL)
            run_point(4, rows_are_exchanged, "equal rows are exchanged");
        if (kind == ALL_TO_ALL || kind == SCATTER)
            run_point(3, works_end_in_order, "works of all sizes end");
    }
    return done_testing();
}
