/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Tests errors.nan_check in fused operations: a NaN that a rank would send is
 * reported on all ranks.
 */
#include "t/fused/made.h"

#include <math.h>
#include <stdlib.h>

#define FAILED 1 /* the rank with the NaN */
#define SIDE 4   /* of a matrix, and rows of each rank */

struct operands {
    float a[2 * SIDE * SIDE], b[SIDE * SIDE];
};

static symmcoll_status_t gather(
    struct symmcoll_group *group, struct operands *it, bool transposed)
{
    struct symmcoll_tensor a =
        SYMMCOLL_TENSOR_SHAPE(it->a, SYMMCOLL_FLOAT32, SIDE, SIDE);
    struct symmcoll_tensor b =
        SYMMCOLL_TENSOR_SHAPE(it->b, SYMMCOLL_FLOAT32, SIDE, SIDE);
    struct symmcoll_tensor out = SYMMCOLL_TENSOR_INIT;
    symmcoll_status_t status;

    if (transposed) {
        a.strides[0] = 1;
        a.strides[1] = SIDE;
    }
    status =
        symmcoll_fused_all_gather_matmul(group, &a, &b, 1, 0, NULL, NULL, &out);
    if (status == SYMMCOLL_OK)
        symmcoll_f_free(symmcoll_group_world(group), &out);
    return status;
}

static symmcoll_status_t scatter(
    struct symmcoll_group *group, struct operands *it)
{
    struct symmcoll_tensor a =
        SYMMCOLL_TENSOR_SHAPE(it->a, SYMMCOLL_FLOAT32, 2 * SIDE, SIDE);
    struct symmcoll_tensor b =
        SYMMCOLL_TENSOR_SHAPE(it->b, SYMMCOLL_FLOAT32, SIDE, SIDE);
    struct symmcoll_tensor out = SYMMCOLL_TENSOR_INIT;
    symmcoll_status_t status = symmcoll_fused_matmul_reduce_scatter(
        group, &a, &b, SYMMCOLL_SUM, 0, NULL, &out);

    if (status == SYMMCOLL_OK)
        symmcoll_f_free(symmcoll_group_world(group), &out);
    return status;
}

static int shards(struct symmcoll_group *group, int rank)
{
    struct operands it = {{0}, {0}};
    int good = OK(gather(group, &it, false));

    /* A NaN in B is not sent. */
    it.b[3] = NAN;
    good = OK(gather(group, &it, true)) && good;
    if (rank == FAILED)
        it.a[6] = NAN;
    for (int i = 0; i < 2; i++)
        good = made_says(gather(group, &it, i == 1), SYMMCOLL_ERR_INVALID,
                   rank != FAILED ? ": rank 1 cannot go on: INVALID"
                   : i == 0 ? "rank 1: expected numbers, found element 6 of "
                              "a_shard NaN (1, of 16)"
                            : "found element 9 of a_shard NaN (1, of 16)") &&
               good;
    return good;
}

/* Puts a NaN in a row for rank 0, in rank 1's product; in the plain sequence
 * own rows are searched, too. */
static int products(struct symmcoll_group *group, int rank)
{
    struct operands it = {{0}, {0}};
    int good = OK(scatter(group, &it));

    if (rank == FAILED)
        it.a[6] = NAN;
    for (int i = 0; i < 2; i++)
        good = OK(symmcoll_fused_set_plain(group, i)) &&
               made_says(scatter(group, &it), SYMMCOLL_ERR_INVALID,
                   rank != FAILED ? ": rank 1 cannot go on: INVALID"
                                  : "expected numbers, found element 4 of the "
                                    "product for rank 0 NaN (4, of 16)") &&
               good;
    it.a[6] = 0;
    if (rank == FAILED)
        it.a[SIDE * SIDE] = NAN;
    good = made_says(scatter(group, &it), SYMMCOLL_ERR_INVALID,
               rank != FAILED ? ": rank 1 cannot go on: INVALID"
                              : "the product for rank 1 NaN (4, of 16)") &&
           good;
    return OK(symmcoll_fused_set_plain(group, 0)) && OK(scatter(group, &it)) &&
           good;
}

/* Checks that the NaN is logged, and the product computed. */
static int warns(struct symmcoll_group *group, int rank)
{
    struct operands it = {{0}, {0}};

    if (rank == FAILED)
        it.a[6] = NAN;
    return OK(gather(group, &it, false)) && OK(scatter(group, &it));
}

static void run_all(int (*run)(int n, rank_fn body), const char *kind)
{
    ok(run(2, shards), "%s: H26: a NaN in a shard is an error of all", kind);
    ok(run(2, products), "%s: H26: and so is one in a product for another rank",
        kind);
}

int main(void)
{
    plan(6);
    setenv("SYMMCOLL_ERRORS_NAN_CHECK", "error", 1);
    run_all(ranks_run, "processes");
    run_all(threads_run, "threads");
    setenv("SYMMCOLL_ERRORS_NAN_CHECK", "warn", 1);
    setenv("SYMMCOLL_LOG_LEVEL", "off", 1);
    ok(ranks_run(2, warns), "processes: H26: warn is no error");
    ok(threads_run(2, warns), "threads: H26: warn is no error");
    return done_testing();
}
