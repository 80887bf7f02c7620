/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Tests fused products of ranks that share a device: every dimension, type and
 * order with 2, 3, 4 and 8 threads, both operations, is close to the result in
 * float64, in memory of the caller that was full of NaN; 200 runs have the
 * same bits. Also tests 8-bit floats with their scales, on devices that
 * multiply them; and a product with rows that other ranks write while it
 * waits.
 */
#include "t/fused/async_on_device.h"
#include "t/fused/on_device.h"
#include "t/gpu/cublaslt.h"
#include "t/gpu/eighths.h"
#include "t/gpu/gpu.h"
#include "t/gpu/ranks.h"

#include <stdlib.h>
#include <string.h>

#define LENGTH(array) (sizeof(array) / sizeof((array)[0]))

/* ---- numbers ---- */

#define TF32_ERROR 0x1.01p-10 /* of a product of two that have 10 bits */

static int repeated = 1;
static double inexact; /* float32 */
static bool rounded;   /* what goes from rank to rank, of 16 bits */

/* Returns the relative error of a rounded sum: one rounding for each rank, to
 * 11 bits or to 8. */
static double find_rounding(
    const struct symmcoll_group *group, enum symmcoll_dtype dtype)
{
    if (!rounded || symmcoll_dtype_size(dtype) != 2)
        return 0;
    return symmcoll_group_size(group) *
           (dtype == SYMMCOLL_FLOAT16 ? 0x1p-11 : 0x1p-8);
}

static int both(
    struct symmcoll_group *group, int rank, const struct made_case *given)
{
    struct gathered gathered = {.dtype = given->dtype,
        .ndim = given->ndim,
        .dim = given->dim,
        .order = given->order,
        .b_order = given->b_order,
        .n = 2,
        .no_a = given->dim == 1,
        .repeated = repeated,
        .inexact = given->dtype == SYMMCOLL_FLOAT32 ? inexact : 0};
    struct scattered scattered = {.dtype = given->dtype,
        .ndim = given->ndim,
        .columns = 3,
        .dim = given->dim,
        .op = given->dim % 2 == 0 ? SYMMCOLL_SUM : SYMMCOLL_AVG,
        .order = given->order,
        .b_order = given->b_order,
        .repeated = repeated,
        .inexact = given->dtype == SYMMCOLL_FLOAT32
                       ? inexact
                       : find_rounding(group, given->dtype)};

    memcpy(gathered.shape, given->shape, sizeof(gathered.shape));
    memcpy(scattered.shape, given->shape, sizeof(scattered.shape));
    return gathered_on_device(group, rank, &gathered) &&
           scattered_on_device(group, rank, &scattered);
}

/* Runs part by part, and all at once. */
static int both_ways(struct symmcoll_group *group, int rank,
    int (*each)(struct symmcoll_group *group, int rank, made_case_fn body))
{
    int right = 1;

    for (int plain = 0; plain < 2 && right; plain++)
        right = OK(symmcoll_fused_set_plain(group, plain)) &&
                each(group, rank, both);
    return right;
}

static int every_dimension(struct symmcoll_group *group, int rank)
{
    return both_ways(group, rank, made_each_dimension);
}

static int every_order(struct symmcoll_group *group, int rank)
{
    return both_ways(group, rank, made_each_order);
}

/* Runs odd sizes that occupy a device, of every type. */
static int each_odd(struct symmcoll_group *group, int rank, made_case_fn body)
{
    static const enum symmcoll_dtype types[] = {SYMMCOLL_FLOAT32,
        SYMMCOLL_FLOAT64, SYMMCOLL_FLOAT16, SYMMCOLL_BFLOAT16};
    int right = 1;

    for (size_t i = 0; i < LENGTH(types) && right; i++) {
        struct made_case given = {.dtype = types[i],
            .ndim = 2,
            .shape = {gpu_choose(517, 37, 9), gpu_choose(131, 19, 5)},
            .dim = (int)(i % 2),
            .order = (enum made_order)(i % 3)};

        right = body(group, rank, &given);
        given.dim = 1 - given.dim;
        right = right && body(group, rank, &given);
    }
    return right;
}

static int odd_sizes(struct symmcoll_group *group, int rank)
{
    return both_ways(group, rank, each_odd);
}

/* ---- all ---- */

static void test_numbers(int n)
{
    repeated = 1;
    ok(threads_run(n, every_dimension),
        "every dimension and type, part by part and at once (%d threads)", n);
    repeated = gpu_choose(200, 3, 2);
    ok(threads_run(n, odd_sizes),
        "odd sizes of every type, %d times with the same bits (%d threads)",
        repeated, n);
}

/* Waits of a rank do not keep the others' stores from it. */
static void test_async(void)
{
    for (int n = 2; n <= gpu_choose(4, 2, 2); n += 2)
        ok(threads_run(n, async_rows_arrive),
            "rows that arrive while their product waits (%d threads)", n);
    ok(threads_run(2, async_orders), "such a product of operands in any order");
    ok(threads_run(2, async_captured), "and in a graph that is started again");
}

int main(void)
{
    static const int sizes[] = {2, 3, 4, 8};
    const int n = gpu_choose((int)LENGTH(sizes), 3, 1);

    gpu_begin(300);
    gpu_need_cublaslt();
    setenv("SYMMCOLL_FUSED_DEVICE_ROWS", "0", 1);
    ok(threads_run(2, every_order), "every order, part by part and at once");
    for (int i = 0; i < n; i++) {
        test_numbers(sizes[i]);
        gpu_test_eighths(sizes[i]);
    }
    test_async();
    setenv("SYMMCOLL_FUSED_TF32", "on", 1);
    inexact = TF32_ERROR;
    ok(threads_run(2, odd_sizes), "with fused.tf32 they are near, too");
    setenv("SYMMCOLL_FUSED_ROUND_PARTS", "on", 1);
    rounded = true;
    ok(threads_run(3, odd_sizes), "so with fused.round_parts");
    return done_testing();
}
