/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Tests errors of one rank only, whether it fails or is refused: all ranks get
 * an error at once, and the group remains usable.
 */
#include "t/fused/made.h"
#include "t/sanitized.h"

#include <string.h>

#define COUNT 64
#define FAILED 1 /* the rank */

/* ---- arguments of one rank ---- */

enum function {
    CONSUME,
    PRODUCE,
    GATHER,
    SCATTER,
    SCALED_GATHER,
    SCALED_SCATTER,
    FUNCTIONS
};

static symmcoll_status_t make_nothing(void *context, int rank, void *chunk)
{
    (void)context;
    (void)rank;
    memset(chunk, 0, COUNT);
    return SYMMCOLL_OK;
}

/* Multiplies a [4, 4] by b [4, 4]; if `wrong`, b has too few rows. */
static symmcoll_status_t run_products(
    struct symmcoll_group *group, enum function which, bool wrong)
{
    static _Thread_local float floats[16];
    struct symmcoll_tensor a =
        SYMMCOLL_TENSOR_SHAPE(floats, SYMMCOLL_FLOAT32, 4, 4);
    struct symmcoll_tensor b =
        SYMMCOLL_TENSOR_SHAPE(floats, SYMMCOLL_FLOAT32, wrong ? 3 : 4, 4);
    struct symmcoll_tensor one =
        SYMMCOLL_TENSOR_FLAT(floats, 1, SYMMCOLL_FLOAT32);
    struct symmcoll_tensor out = SYMMCOLL_TENSOR_INIT;
    struct symmcoll_scaled_matrix scaled = SYMMCOLL_SCALED_MATRIX_INIT;
    symmcoll_status_t status;

    scaled.b = &b;
    scaled.b_scale = &one;
    if (which >= SCALED_GATHER)
        a.dtype = b.dtype = SYMMCOLL_FLOAT8_E4M3FN;
    status = which == GATHER ? symmcoll_fused_all_gather_matmul(
                                   group, &a, &b, 1, 0, NULL, NULL, &out)
             : which == SCATTER ? symmcoll_fused_matmul_reduce_scatter(group,
                                      &a, &b, SYMMCOLL_SUM, 0, NULL, &out)
             : which == SCALED_GATHER
                 ? symmcoll_fused_all_gather_scaled_matmul(
                       group, &a, &one, &scaled, 1, 0, NULL, NULL, &out)
                 : symmcoll_fused_scaled_matmul_reduce_scatter(
                       group, &a, &one, &scaled, SYMMCOLL_SUM, 0, NULL, &out);
    if (status == SYMMCOLL_OK)
        symmcoll_f_free(symmcoll_group_world(group), &out);
    return status;
}

static symmcoll_status_t run_function(
    struct symmcoll_group *group, enum function which, bool wrong)
{
    static _Thread_local char bytes[COUNT], all[8 * COUNT];

    if (which == CONSUME)
        return symmcoll_all_gather_and_consume(
            group, wrong ? NULL : bytes, COUNT, NULL, NULL, NULL, all);
    if (which == PRODUCE)
        return symmcoll_produce_and_all_to_all(
            group, COUNT, wrong ? NULL : make_nothing, NULL, NULL, all);
    return run_products(group, which, wrong);
}

static int arguments(struct symmcoll_group *group, int rank)
{
    static const char *const own[FUNCTIONS] = {"expected a buffer and a ",
        "expected a buffer and a ", "expected 4 rows, found 3",
        "expected 4 rows, found 3", "expected 4 rows, found 3",
        "expected 4 rows, found 3"};
    int good = 1;

    for (int i = 0; i < 2 * FUNCTIONS; i++) {
        enum function which = (enum function)(i / 2);

        good = OK(symmcoll_fused_set_plain(group, i % 2)) && good;
        good = made_says(run_function(group, which, rank == FAILED),
                   SYMMCOLL_ERR_INVALID,
                   rank == FAILED ? own[which]
                                  : ": rank 1 cannot go on: INVALID (group ") &&
               good;
        good = OK(run_function(group, which, false)) && good;
    }
    return good;
}

/* ---- memory ---- */

/* Passes on one rank a matrix with more columns than memory can hold. */
static int memory(struct symmcoll_group *group, int rank)
{
    static const int64_t many = INT64_C(1) << 50;
    char none;
    struct symmcoll_tensor a =
        SYMMCOLL_TENSOR_SHAPE(&none, SYMMCOLL_FLOAT32, 2, 0);
    struct symmcoll_tensor b = SYMMCOLL_TENSOR_SHAPE(
        &none, SYMMCOLL_FLOAT32, 0, rank == FAILED ? many : 2);
    struct symmcoll_tensor out = SYMMCOLL_TENSOR_INIT;

    return made_says(symmcoll_fused_all_gather_matmul(
                         group, &a, &b, 1, 0, NULL, NULL, &out),
               SYMMCOLL_ERR_NO_MEMORY,
               rank == FAILED ? "" : ": rank 1 cannot go on: NO_MEMORY") &&
           out.data == NULL && OK(run_function(group, GATHER, false));
}

/* Passes sums of more elements than can be counted, at addresses that do not
 * exist. */
static int counted(struct symmcoll_group *group, int rank)
{
    enum {
        PLACES = 16
    };
    static const int64_t many = INT64_C(1) << 58;
    char none;
    struct symmcoll_tensor a =
        SYMMCOLL_TENSOR_SHAPE(&none, SYMMCOLL_BFLOAT16, 1, 0);
    struct symmcoll_tensor b =
        SYMMCOLL_TENSOR_SHAPE(&none, SYMMCOLL_BFLOAT16, 0, many);
    struct symmcoll_tensor place =
        SYMMCOLL_TENSOR_SHAPE(&none, SYMMCOLL_BFLOAT16, 1, many);
    struct symmcoll_tensor bs[PLACES], outs[PLACES];

    (void)rank;
    for (int i = 0; i < PLACES; i++) {
        uintptr_t address = ((uintptr_t)i << 59) + 4096;

        bs[i] = b;
        outs[i] = place;
        memcpy(&outs[i].data, &address, sizeof(address));
    }
    return made_says(symmcoll_fused_all_gather_matmul(
                         group, &a, bs, PLACES, 1, NULL, NULL, outs),
               SYMMCOLL_ERR_NO_MEMORY,
               "expected results that memory has room for, found more") &&
           OK(run_function(group, GATHER, false));
}

/* ---- chunks when one rank requests the plain sequence ---- */

struct maker {
    int rank, calls;
    int fails; /* the rank with the failing chunk; -1: none */
};

static symmcoll_status_t make(void *context, int rank, void *chunk)
{
    struct maker *maker = context;

    maker->calls++;
    memset(chunk, 16 * maker->rank + rank, COUNT);
    return rank == maker->fails ? SYMMCOLL_ERR_SYSTEM : SYMMCOLL_OK;
}

static int chunks_are_right(const char *all, int size, int rank)
{
    int good = 1;

    for (int i = 0; i < size * COUNT; i++)
        good = good && all[i] == 16 * (i / COUNT) + rank;
    return good;
}

/* Lets another rank than the failing one request the plain sequence, then all
 * ranks, then none. The function fails for the chunk of another rank, and for
 * this rank's own, which was already published as made: in the sequence where
 * all read it no rank waits for it. */
static int mixed(struct symmcoll_group *group, int rank)
{
    int size = symmcoll_group_size(group), good = 1;
    static _Thread_local char all[8 * COUNT];

    good = made_says(symmcoll_fused_set_plain(group, 2), SYMMCOLL_ERR_INVALID,
               "expected 0 or 1, found 2") &&
           good;
    /* From here on there is memory in which chunks are produced. */
    good = OK(run_function(group, PRODUCE, false)) && good;
    for (int i = 0; i < 3; i++) {
        struct maker maker = {.rank = rank, .fails = -1};
        int plain = i == 0 ? rank == 0 : i == 1;

        good = OK(symmcoll_fused_set_plain(group, plain)) && good;
        good = OK(symmcoll_produce_and_all_to_all(
                   group, COUNT, make, &maker, NULL, all)) &&
               maker.calls == size && chunks_are_right(all, size, rank) && good;
        if (rank == FAILED)
            maker.fails = 0;
        maker.calls = 0;
        good = made_says(symmcoll_produce_and_all_to_all(
                             group, COUNT, make, &maker, NULL, all),
                   SYMMCOLL_ERR_SYSTEM,
                   rank == FAILED ? "the function returned -11 for the chunk "
                                    "of rank 0"
                                  : "rank 1 cannot go on: SYSTEM") &&
               maker.calls <= size && good;
        if (rank == FAILED)
            maker.fails = FAILED;
        maker.calls = 0;
        good = symmcoll_produce_and_all_to_all(group, COUNT, make, &maker, NULL,
                   all) == (rank == FAILED || i < 2 ? SYMMCOLL_ERR_SYSTEM
                                                    : SYMMCOLL_OK) &&
               maker.calls <= size && good;
    }
    return OK(run_function(group, PRODUCE, false)) && good;
}

static void run_all(int (*run)(int n, rank_fn body), const char *kind)
{
    ok(run(2, arguments) && run(4, arguments),
        "%s: an argument that one rank is refused ends the calls of all", kind);
    /* A sanitizer's allocator would end the program. */
    if (SANITIZED)
        skip(1, "%s: an allocation of more than there is", kind);
    else
        ok(run(3, memory), "%s: and so does memory that it lacks", kind);
    ok(run(2, counted), "%s: sums that cannot be counted are no memory", kind);
    ok(run(2, mixed) && run(4, mixed),
        "%s: chunks are made once, also if one rank wants the plain sequence",
        kind);
}

int main(void)
{
    plan(8);
    run_all(ranks_run, "processes");
    run_all(threads_run, "threads");
    return done_testing();
}
