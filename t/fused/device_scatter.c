/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Tests matmul and reduce_scatter in device memory: shapes, strides and
 * numbers as in host memory, for every type and dimension, with 1 to 8 ranks.
 */
#include "t/fused/on_device.h"

#include <stdlib.h>
#include <string.h>

#define ROWS "4"

/* ---- bodies ---- */

static bool rounded; /* data sent between ranks is rounded */

/* Returns the relative error of a rounded sum: one rounding for each rank, to
 * 11 bits or to 8. */
static double inexact(
    const struct symmcoll_group *group, enum symmcoll_dtype dtype)
{
    if (!rounded || symmcoll_dtype_size(dtype) != 2)
        return 0;
    return symmcoll_group_size(group) *
           (dtype == SYMMCOLL_FLOAT16 ? 0x1p-11 : 0x1p-8);
}

static int run_case(
    struct symmcoll_group *group, int rank, const struct made_case *given)
{
    struct scattered test = {.dtype = given->dtype,
        .ndim = given->ndim,
        .columns = 3,
        .dim = given->dim,
        .op = given->dim % 2 == 0 ? SYMMCOLL_SUM : SYMMCOLL_AVG,
        .order = given->order,
        .b_order = given->b_order,
        .inexact = inexact(group, given->dtype)};

    memcpy(test.shape, given->shape, sizeof(test.shape));
    return scattered_on_device(group, rank, &test);
}

static int every_dimension(struct symmcoll_group *group, int rank)
{
    return made_each_dimension(group, rank, run_case);
}

static int every_order(struct symmcoll_group *group, int rank)
{
    return made_each_order(group, rank, run_case);
}

static int small_and_empty(struct symmcoll_group *group, int rank)
{
    static const int64_t shapes[][4] = {{1, 1, 1, 1}, {0, 2, 3, 2},
        {2, 0, 3, 2}, {2, 3, 0, 2}, {2, 3, 2, 0}, {5, 3, 7, 5}, {5, 3, 0, 2}};
    int right = 1;

    for (int i = 0; i < 7 * 3 && right; i++) {
        struct scattered test = {
            .dtype = i % 2 == 0 ? SYMMCOLL_FLOAT32 : SYMMCOLL_FLOAT16,
            .ndim = 3,
            .columns = shapes[i % 7][3],
            .dim = i / 7};

        memcpy(test.shape, shapes[i % 7], 3 * sizeof(shapes[0][0]));
        right = scattered_on_device(group, rank, &test);
    }
    return right;
}

/* Alternates both sequences, and the one chosen when only one rank requests
 * the plain sequence. */
static int both_ways(struct symmcoll_group *group, int rank)
{
    int right = 1;

    for (int i = 0; i < 8 && right; i++) {
        struct scattered test = {
            .dtype = i % 4 == 0 ? SYMMCOLL_BFLOAT16 : SYMMCOLL_FLOAT32,
            .ndim = 2,
            .shape = {i % 2 == 0 ? 9 : 2, 5},
            .columns = 7,
            .inexact = i % 4 == 0 ? inexact(group, SYMMCOLL_BFLOAT16) : 0};

        right = OK(symmcoll_fused_set_plain(group, i / 2 == 1 && rank == 0)) &&
                scattered_on_device(group, rank, &test);
    }
    return OK(symmcoll_fused_set_plain(group, 0)) && right;
}

/* Sums 256 of rank 0 and 1 of each other rank, which bfloat16 would lose one
 * by one if each partial sum was rounded. */
static int sum_of_ones(
    struct symmcoll_group *group, int rank, double wanted_of_last)
{
    struct symmcoll_call call = SYMMCOLL_CALL_INIT;
    int size = symmcoll_group_size(group), device = device_use(rank), right;
    const uint16_t one = 0x3f80, large = 0x4380;
    uint16_t a_data[64], b_data = one;
    struct symmcoll_tensor a =
        SYMMCOLL_TENSOR_SHAPE(a_data, SYMMCOLL_BFLOAT16, size * 8, 1);
    struct symmcoll_tensor b =
        SYMMCOLL_TENSOR_SHAPE(&b_data, SYMMCOLL_BFLOAT16, 1, 1);
    struct symmcoll_tensor out = SYMMCOLL_TENSOR_INIT, read;

    for (int i = 0; i < size * 8; i++)
        a_data[i] = rank == 0 ? large : one;
    a = on_device(&a, device);
    b = on_device(&b, device);
    call.stream = device_stream();
    right = OK(symmcoll_fused_matmul_reduce_scatter(
        group, &a, &b, SYMMCOLL_SUM, 0, &call, &out));
    device_wait(call.stream);
    if (right) {
        read = on_host(&out);
        right = rank < size - 1 || made_at(&read, 0) == wanted_of_last ||
                (diag("found %g", made_at(&read, 0)), 0);
        free(read.data);
    }
    symmcoll_f_free(symmcoll_group_world(group), &out);
    device_wait(call.stream);
    on_device_free(&a);
    on_device_free(&b);
    device_end_stream(call.stream);
    return right;
}

static int rounded_once(struct symmcoll_group *group, int rank)
{
    return sum_of_ones(group, rank, 260);
}

static int rounded_on_each(struct symmcoll_group *group, int rank)
{
    return sum_of_ones(group, rank, 256);
}

/* Makes one rank send sums of another size than the others expect. */
static int unlike_parts(struct symmcoll_group *group, int rank)
{
    struct scattered test = {
        .dtype = SYMMCOLL_BFLOAT16, .ndim = 2, .shape = {9, 5}, .columns = 7};

    group->world->config->fused_round_parts = rank == 1;
    return !scattered_on_device(group, rank, &test) &&
           made_says(SYMMCOLL_ERR_MISMATCH, SYMMCOLL_ERR_MISMATCH,
               "fused.round_parts");
}

/* Uses parts that begin at odd addresses: cuBLASLt is given an alignment that
 * the parts of all ranks have. */
static int rows_apart(struct symmcoll_group *group, int rank)
{
    enum {
        LINES = 8,
        DEPTH = 8,
        COLUMNS = 8,
        APART = LINES * DEPTH + 1
    };
    struct symmcoll_call call = SYMMCOLL_CALL_INIT;
    int size = symmcoll_group_size(group), device = device_use(rank), right;
    uint16_t a_data[8 * APART], b_data[DEPTH * COLUMNS];
    struct symmcoll_tensor a =
        SYMMCOLL_TENSOR_SHAPE(a_data, SYMMCOLL_FLOAT16, size, LINES, DEPTH);
    struct symmcoll_tensor b =
        SYMMCOLL_TENSOR_SHAPE(b_data, SYMMCOLL_FLOAT16, DEPTH, COLUMNS);
    struct symmcoll_tensor out = SYMMCOLL_TENSOR_INIT, read;

    for (int i = 0; i < size * APART; i++)
        a_data[i] = 0x3c00; /* 1 */
    for (int i = 0; i < DEPTH * COLUMNS; i++)
        b_data[i] = 0x3c00;
    a.strides[0] = APART;
    a = on_device(&a, device);
    b = on_device(&b, device);
    call.stream = device_stream();
    right = OK(symmcoll_fused_matmul_reduce_scatter(
        group, &a, &b, SYMMCOLL_SUM, 0, &call, &out));
    device_wait(call.stream);
    if (right) {
        read = on_host(&out);
        for (int64_t i = 0; i < LINES * COLUMNS; i++)
            right &= made_at(&read, i) == DEPTH * size;
        free(read.data);
    }
    symmcoll_f_free(symmcoll_group_world(group), &out);
    device_wait(call.stream);
    on_device_free(&a);
    on_device_free(&b);
    device_end_stream(call.stream);
    return say(right, "a sum");
}

int main(void)
{
    on_device_begin(ROWS);
    for (int n = 1; n <= 3; n++)
        on_both(n, every_dimension,
            "every dimension of 2 to 4, the last one too, of every type");
    on_both(4, every_dimension, "so of four ranks");
    ok(threads_run(8, every_dimension), "and of eight (8 threads)");
    on_both(2, every_order, "operands in any order of strides");
    on_both(3, small_and_empty, "lengths of 1 and 0");
    on_both(3, both_ways,
        "part by part, and all at once where one rank asks for it");
    on_both(3, rows_apart, "ranks' rows that are not at whole lines");
    on_both(5, rounded_once, "products are added in float and rounded once");
    on_both(3, unlike_parts,
        "fused.round_parts of one rank alone is refused, and told");
    setenv("SYMMCOLL_FUSED_ROUND_PARTS", "on", 1);
    on_both(5, rounded_on_each,
        "fused.round_parts: sums that are sent are rounded on each rank");
    rounded = true;
    on_both(3, every_dimension, "and near, in every dimension");
    on_both(3, both_ways, "also where all is one product");
    return done_testing();
}
