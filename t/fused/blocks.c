/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Tests the building blocks with functions of the caller, and arguments that
 * differ between ranks.
 */
#include "t/fused/made.h"

#include <string.h>
#include <time.h>

#define COUNT 1000

struct seen {
    int calls, order[8];
    int good;
    symmcoll_status_t status; /* to be returned */
};

static uint32_t number(int from, int to, int index)
{
    return (uint32_t)(from * 1000000 + to * 10000 + index);
}

/* ---- gather and consume ---- */

static symmcoll_status_t look(void *context, int rank, const void *shard)
{
    struct seen *seen = context;
    const uint32_t *numbers = shard;

    seen->order[seen->calls++] = rank;
    for (int i = 0; i < COUNT; i++)
        seen->good = seen->good && numbers[i] == number(rank, 0, i);
    return seen->status;
}

static int consumed(struct symmcoll_group *group, int rank)
{
    int size = symmcoll_group_size(group), good = 1;
    static _Thread_local uint32_t mine[COUNT], all[8 * COUNT];
    struct seen seen = {.good = 1};
    symmcoll_status_t status;

    for (int i = 0; i < COUNT; i++)
        mine[i] = number(rank, 0, i);
    good = OK(symmcoll_all_gather_and_consume(
               group, mine, sizeof(mine), look, &seen, NULL, all)) &&
           seen.calls == size && seen.good;
    for (int i = 0; i < size; i++)
        good = good && seen.order[i] == (rank + i) % size;
    for (int i = 0; i < size * COUNT; i++)
        good = good && all[i] == number(i / COUNT, 0, i % COUNT);
    seen = (struct seen){.good = 1};
    good = good &&
           OK(symmcoll_all_gather_and_consume(
               group, mine, sizeof(mine), look, &seen, NULL, NULL)) &&
           seen.calls == size && seen.good;
    seen = (struct seen){.good = 1, .status = SYMMCOLL_ERR_NO_MEMORY};
    if (rank != 0)
        seen.status = SYMMCOLL_OK;
    status = symmcoll_all_gather_and_consume(
        group, mine, sizeof(mine), look, &seen, NULL, all);
    good = (rank == 0 ? made_says(status, SYMMCOLL_ERR_NO_MEMORY,
                            "all_gather_and_consume: the function returned -")
                      : OK(status)) &&
           good;
    return good && OK(symmcoll_barrier(group, NULL, NULL));
}

/* A rank that reads the shard of rank 0 slowly; good: the shard did not change
 * during the read. */
struct slow {
    int rank, good;
};

static symmcoll_status_t look_slowly(void *context, int rank, const void *shard)
{
    struct slow *slow = context;
    const uint32_t *numbers = shard;
    uint32_t first = numbers[0];

    if (slow->rank == 0 || rank != 0)
        return SYMMCOLL_OK;
    nanosleep(&(struct timespec){.tv_nsec = 50000000}, NULL);
    for (int i = 0; i < COUNT; i++)
        slow->good = slow->good && numbers[i] == first;
    return SYMMCOLL_OK;
}

static int gather_slowly(struct symmcoll_group *group, uint32_t value,
    uint32_t flags, struct slow *slow)
{
    static _Thread_local uint32_t mine[COUNT];
    struct symmcoll_call call = SYMMCOLL_CALL_INIT;

    call.flags = flags;
    for (int i = 0; i < COUNT; i++)
        mine[i] = value;
    return symmcoll_all_gather_and_consume(
        group, mine, sizeof(mine), look_slowly, slow, &call, NULL);
}

/* Checks that a refused call has published nothing and changes nothing. */
static int not_overwritten(struct symmcoll_group *group, int rank)
{
    struct slow slow = {.rank = rank, .good = 1};
    int good = OK(gather_slowly(group, 1, 0, &slow));

    for (uint32_t round = 2; round < 6; round++) {
        good = OK(gather_slowly(group, round, 0, &slow)) && good;
        good = gather_slowly(group, 0, rank == 0, &slow) ==
                   (rank == 0 ? SYMMCOLL_ERR_INVALID : SYMMCOLL_OK) &&
               good;
        if (rank == 0)
            good = OK(gather_slowly(group, 0, 0, &slow)) && good;
    }
    return good && slow.good;
}

/* ---- produce and exchange ---- */

struct maker {
    int rank, calls, last;
    symmcoll_status_t status;
};

static symmcoll_status_t make(void *context, int rank, void *chunk)
{
    struct maker *maker = context;
    uint32_t *numbers = chunk;

    maker->calls++;
    maker->last = rank;
    for (int i = 0; i < COUNT; i++)
        numbers[i] = number(maker->rank, rank, i);
    return maker->status;
}

static int produced(struct symmcoll_group *group, int rank)
{
    int size = symmcoll_group_size(group), good = 1;
    static _Thread_local uint32_t all[8 * COUNT];
    struct maker maker = {.rank = rank};

    for (int round = 0; round < 3; round++) {
        memset(all, 0, sizeof(all));
        maker.calls = 0;
        good = good &&
               OK(symmcoll_produce_and_all_to_all(
                   group, COUNT * sizeof(*all), make, &maker, NULL, all)) &&
               maker.calls == size && maker.last == rank;
        for (int i = 0; i < size * COUNT; i++)
            good = good && all[i] == number(i / COUNT, rank, i % COUNT);
    }
    return good;
}

/* One rank cannot produce its chunks: no other rank waits for them. */
static int not_produced(struct symmcoll_group *group, int rank)
{
    static const int own[] = {SYMMCOLL_ERR_NO_MEMORY, 1, 65536, -9999};
    static const int others[] = {SYMMCOLL_ERR_NO_MEMORY, SYMMCOLL_ERR_CANCELED,
        SYMMCOLL_ERR_CANCELED, SYMMCOLL_ERR_CANCELED};
    static _Thread_local uint32_t all[8 * COUNT];
    struct maker maker = {.rank = rank};
    int good = OK(symmcoll_produce_and_all_to_all(
        group, COUNT * sizeof(*all), make, &maker, NULL, all));

    for (int i = 0; i < 4; i++) {
        if (rank == 1)
            maker.status = (symmcoll_status_t)own[i];
        good = (int)symmcoll_produce_and_all_to_all(group, COUNT * sizeof(*all),
                   make, &maker, NULL, all) == (rank == 1 ? own : others)[i] &&
               good;
    }
    maker.status = SYMMCOLL_OK;
    return good && OK(symmcoll_produce_and_all_to_all(
                       group, COUNT * sizeof(*all), make, &maker, NULL, all));
}

/* ---- options of other versions ---- */

struct newer {
    struct symmcoll_call call;
    uint64_t more[8];
};

static int sizes_are_read(struct symmcoll_group *group, int rank)
{
    struct newer newer = {.call = SYMMCOLL_CALL_INIT};
    size_t older = sizeof(older);
    uint32_t mine[4] = {(uint32_t)rank}, all[8 * 4];
    struct seen seen = {.good = 1};
    int good = 1;

    newer.call.size = sizeof(newer);
    for (int i = 0; i < 3; i++) {
        good = OK(symmcoll_all_gather_and_consume(
                   group, mine, sizeof(mine), NULL, &seen, &newer.call, all)) &&
               OK(symmcoll_all_gather_and_consume(group, mine, sizeof(mine),
                   NULL, &seen, (const void *)&older, all)) &&
               good;
    }
    newer.more[7] = 1;
    return made_says(symmcoll_all_gather_and_consume(group, mine, sizeof(mine),
                         NULL, &seen, &newer.call, all),
               SYMMCOLL_ERR_INVALID,
               "all_gather_and_consume: call: expected 0 in what this library "
               "does not know") &&
           good;
}

/* ---- in a callback ---- */

struct within {
    struct symmcoll_group *group;
    int good;
    _Atomic int count;
};

static symmcoll_status_t call_within(struct within *within, int which)
{
    static _Thread_local uint32_t in[COUNT], out[8 * COUNT];
    struct symmcoll_tensor a =
        SYMMCOLL_TENSOR_SHAPE(in, SYMMCOLL_FLOAT32, 2, 2);
    struct symmcoll_tensor result = SYMMCOLL_TENSOR_INIT;
    struct maker maker = {.rank = 0};

    if (which == 0)
        return symmcoll_all_gather_and_consume(
            within->group, in, sizeof(in), NULL, NULL, NULL, out);
    if (which == 1)
        return symmcoll_produce_and_all_to_all(
            within->group, sizeof(in), make, &maker, NULL, out);
    if (which == 2)
        return symmcoll_fused_all_gather_matmul(
            within->group, &a, &a, 1, 0, NULL, NULL, &result);
    return symmcoll_fused_matmul_reduce_scatter(
        within->group, &a, &a, SYMMCOLL_SUM, 0, NULL, &result);
}

static void call_from_callback(symmcoll_status_t status, void *arg)
{
    struct within *within = arg;

    within->good = status == SYMMCOLL_OK;
    for (int which = 0; which < 4; which++)
        within->good =
            made_says(call_within(within, which), SYMMCOLL_ERR_INVALID,
                ": expected no blocking call on the callback "
                "thread, in a callback of the same group") &&
            within->good;
    atomic_fetch_add(&within->count, 1);
}

static int refused_in_callback(struct symmcoll_group *group, int rank)
{
    struct within within = {.group = group};
    struct symmcoll_work *work;
    int sum = 0, good;

    good = OK(symmcoll_all_reduce(group, &sum, &rank, 1, SYMMCOLL_INT32,
               SYMMCOLL_SUM, NULL, &work)) &&
           OK(symmcoll_work_then(work, call_from_callback, &within)) &&
           OK(symmcoll_work_wait(work, 60));
    while (good && atomic_load(&within.count) == 0)
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    symmcoll_work_free(work);
    for (int which = 0; which < 2; which++)
        good = good && OK(call_within(&within, which));
    return good && within.good;
}

/* ---- calls in a function of such a call ---- */

static symmcoll_status_t call_from_function(
    void *context, int rank, const void *shard)
{
    struct within *within = context;

    (void)rank;
    (void)shard;
    for (int which = 0; which < 4; which++)
        within->good =
            made_says(call_within(within, which), SYMMCOLL_ERR_INVALID,
                ": expected no call in a function that a call of the same "
                "group has called") &&
            within->good;
    within->good =
        made_says(symmcoll_finalize(symmcoll_group_world(within->group)),
            SYMMCOLL_ERR_INVALID,
            "finalize: expected no function that a call of group ") &&
        within->good;
    return SYMMCOLL_OK;
}

/* A release in a function would wait for the call that runs the function. */
static symmcoll_status_t free_from_function(
    void *context, int rank, const void *shard)
{
    struct within *within = context;

    (void)rank;
    (void)shard;
    within->good =
        made_says(symmcoll_group_free(within->group), SYMMCOLL_ERR_INVALID,
            "group_free: expected no function that a call of group ") &&
        within->good;
    return SYMMCOLL_OK;
}

static int not_freed_in_function(struct symmcoll_group *all, int rank)
{
    struct symmcoll_group_args args = SYMMCOLL_GROUP_ARGS_INIT;
    struct within within = {.good = 1};
    int good = OK(symmcoll_group_create(
                   symmcoll_group_world(all), &args, &within.group)) &&
               OK(symmcoll_all_gather_and_consume(within.group, &rank,
                   sizeof(rank), free_from_function, &within, NULL, NULL));

    return good && OK(symmcoll_group_free(within.group)) && within.good;
}

static int refused_in_function(struct symmcoll_group *group, int rank)
{
    struct within within = {.group = group, .good = 1};
    int good = OK(symmcoll_all_gather_and_consume(
        group, &rank, sizeof(rank), call_from_function, &within, NULL, NULL));

    return OK(call_within(&within, 0)) && good && within.good;
}

/* ---- differences ---- */

static int differences_are_named(struct symmcoll_group *group, int rank)
{
    float data[64] = {0};
    struct symmcoll_tensor a =
        SYMMCOLL_TENSOR_SHAPE(data, SYMMCOLL_FLOAT32, 4 + 2 * rank, 4);
    struct symmcoll_tensor b =
        SYMMCOLL_TENSOR_SHAPE(data, SYMMCOLL_FLOAT32, 4, 2);
    struct symmcoll_tensor out = SYMMCOLL_TENSOR_INIT;
    int good =
        made_says(symmcoll_fused_all_gather_matmul(
                      group, &a, &b, 1, 0, NULL, NULL, &out),
            SYMMCOLL_ERR_MISMATCH,
            "fused_all_gather_matmul: arguments differ: rank 0 passed "
            "fused_all_gather_matmul of a shard [4, 4] of float32, gather_dim "
            "0, rank 1 passed fused_all_gather_matmul of a shard [6, 4]") &&
        out.data == NULL;

    good = made_says(symmcoll_all_gather_and_consume(group, data,
                         4 + (size_t)rank * 4, NULL, NULL, NULL, NULL),
               SYMMCOLL_ERR_MISMATCH,
               "all_gather_and_consume of 4 bytes, rank 1 passed "
               "all_gather_and_consume of 8 bytes") &&
           good;
    a.shape[0] = 4;
    good =
        good &&
        made_says(symmcoll_fused_matmul_reduce_scatter(group, &a, &b,
                      rank == 0 ? SYMMCOLL_SUM : SYMMCOLL_AVG, 0, NULL, &out),
            SYMMCOLL_ERR_MISMATCH, "2 columns of b, sum, scatter_dim 0") &&
        out.data == NULL;
    return good &&
           OK(symmcoll_fused_matmul_reduce_scatter(
               group, &a, &b, SYMMCOLL_SUM, 0, NULL, &out)) &&
           (symmcoll_f_free(symmcoll_group_world(group), &out), 1);
}

/* The value that differs between two ranks. */
enum difference {
    GATHER_DIM,
    TYPE,
    DIMENSIONS,
    COLUMNS,
    SCATTER_DIM,
    OPERATION,
    NAME, /* only that: the bytes of a chunk are equal */
    DIFFERENCES
};

static symmcoll_status_t make_nothing(void *context, int rank, void *chunk)
{
    (void)context;
    (void)rank;
    memset(chunk, 0, 8);
    return SYMMCOLL_OK;
}

static int one_differs(
    struct symmcoll_group *group, int rank, enum difference what)
{
    double data[64] = {0};
    enum symmcoll_dtype dtype =
        what == TYPE && rank > 0 ? SYMMCOLL_FLOAT64 : SYMMCOLL_FLOAT32;
    struct symmcoll_tensor a = SYMMCOLL_TENSOR_SHAPE(data, dtype, 4, 4);
    struct symmcoll_tensor deep = SYMMCOLL_TENSOR_SHAPE(data, dtype, 4, 1, 4);
    struct symmcoll_tensor b = SYMMCOLL_TENSOR_SHAPE(
        data, dtype, 4, what == COLUMNS && rank > 0 ? 4 : 2);
    struct symmcoll_tensor out = SYMMCOLL_TENSOR_INIT;
    bool scatters = what == OPERATION ? rank > 0 : what >= COLUMNS;
    symmcoll_status_t status;

    if (what == NAME)
        return made_says(rank == 0 ? symmcoll_all_gather_and_consume(
                                         group, data, 8, NULL, NULL, NULL, NULL)
                                   : symmcoll_produce_and_all_to_all(group, 8,
                                         make_nothing, NULL, NULL, data),
            SYMMCOLL_ERR_MISMATCH, "arguments differ: rank 0 passed ");
    if (what == GATHER_DIM || (what == DIMENSIONS && rank > 0))
        a = deep;
    status = scatters
                 ? symmcoll_fused_matmul_reduce_scatter(group, &a, &b,
                       SYMMCOLL_SUM, what == SCATTER_DIM ? rank : 0, NULL, &out)
                 : symmcoll_fused_all_gather_matmul(group, &a, &b, 1,
                       what == GATHER_DIM ? rank : 0, NULL, NULL, &out);
    return made_says(
        status, SYMMCOLL_ERR_MISMATCH, "arguments differ: rank 0 passed ");
}

static int each_value_is_compared(struct symmcoll_group *group, int rank)
{
    int good = 1;

    for (int what = GATHER_DIM; what < DIFFERENCES; what++) {
        if (!one_differs(group, rank, (enum difference)what)) {
            diag("rank %d: difference %d", rank, what);
            good = 0;
        }
    }
    return good;
}

static void run_all(int (*run)(int n, rank_fn body), const char *kind)
{
    ok(run(2, consumed) && run(5, consumed),
        "%s: shards are consumed, this rank's first (M5)", kind);
    ok(run(2, not_overwritten),
        "%s: a call that is refused leaves what a slow rank reads (M23)", kind);
    ok(run(2, produced) && run(5, produced),
        "%s: chunks are made, this rank's last, and exchanged (M22)", kind);
    ok(run(3, not_produced),
        "%s: the status of a function is returned, and the group goes on",
        kind);
    ok(run(2, each_value_is_compared),
        "%s: a dimension, type, length or operation of its own is found", kind);
    ok(run(2, sizes_are_read),
        "%s: options of newer and older programs are read", kind);
    ok(run(2, refused_in_callback),
        "%s: a callback of the group cannot call them", kind);
    ok(run(2, refused_in_function),
        "%s: nor can a function that one of them has called", kind);
    ok(run(2, not_freed_in_function),
        "%s: such a function cannot release the group", kind);
    ok(run(2, differences_are_named),
        "%s: arguments that differ are named on all ranks, and the group goes "
        "on",
        kind);
}

int main(void)
{
    plan(20);
    run_all(ranks_run, "processes");
    run_all(threads_run, "threads");
    return done_testing();
}
