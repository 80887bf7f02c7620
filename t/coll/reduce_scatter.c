/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Tests reduce_scatter: rank r receives the bits of the r-th part of the
 * reduction, in and out of place.
 */
#include "../tap.h"
#include "data.h"

#include "base/dtype.h"

static bool is_right(struct symmcoll_group *group, int rank,
    enum symmcoll_dtype dtype, symmcoll_op_t op, size_t count)
{
    unsigned seed = (unsigned)count * 16 + (unsigned)op;
    int size = symmcoll_group_size(group);
    size_t nbytes = count * symmcoll_dtype_size(dtype);
    size_t whole = nbytes * (size_t)size, mine = nbytes * (size_t)rank;
    symmcoll_op_t wanted = data_op(group, op, rank);
    struct guarded in = guarded_open(whole, 0), out = guarded_open(nbytes, 3);
    struct guarded again = guarded_open(whole, 0),
                   expected = guarded_open(nbytes, 0);

    data_fill(in.at, dtype, 0, count * (size_t)size, rank, seed);
    data_fill(again.at, dtype, 0, count * (size_t)size, rank, seed);
    data_reduce(
        expected.at, dtype, op, count * (size_t)rank, count, size, 16, seed);
    bool right = symmcoll_reduce_scatter(group, out.at, in.at, count, dtype,
                     wanted, NULL, NULL) == SYMMCOLL_OK &&
                 data_is_same("out", out.at, expected.at, nbytes) &&
                 data_is_same("in", in.at, again.at, whole) &&
                 guarded_is_intact(&out);
    right = right && symmcoll_reduce_scatter(group, in.at + mine, in.at, count,
                         dtype, wanted, NULL, NULL) == SYMMCOLL_OK;
    right = right &&
            data_is_same("in place", in.at + mine, expected.at, nbytes) &&
            data_is_same("before it", in.at, again.at, mine) &&
            data_is_same("after it", in.at + mine + nbytes,
                again.at + mine + nbytes, whole - mine - nbytes) &&
            guarded_is_intact(&in);
    if (!right)
        diag("rank %d: %s of %zu %s", rank, symmcoll_op_name(op), count,
            symmcoll_dtype_name(dtype));
    guarded_close(&in);
    guarded_close(&out);
    guarded_close(&again);
    guarded_close(&expected);
    return right;
}

static int every_pair_is_right(struct symmcoll_group *group, int rank)
{
    bool right = true;

    for (int d = 0; d < SYMMCOLL_DTYPE_COUNT; d++) {
        const struct symc_dtype *type = symc_dtype_find((enum symmcoll_dtype)d);
        size_t ranks = (size_t)symmcoll_group_size(group);
        size_t counts[DATA_COUNTS];

        if (data_leaves_out((enum symmcoll_dtype)d))
            continue;
        data_counts(type->size, counts);
        for (symmcoll_op_t op = 0; op < SYMMCOLL_OP_COUNT; op++) {
            /* The limits apply to all parts together. */
            for (int i = (d + op) % 3;
                 right && i < DATA_COUNTS && symc_dtype_reduces(type, op);
                 i += 3)
                right = is_right(group, rank, (enum symmcoll_dtype)d, op,
                    (counts[i] + ranks - 1) / ranks);
        }
    }
    return right;
}

static int chunk_limits_are_right(struct symmcoll_group *group, int rank)
{
    size_t part = CHUNK / (size_t)symmcoll_group_size(group);

    return is_right(group, rank, SYMMCOLL_FLOAT32, SYMMCOLL_SUM, part / 4) &&
           is_right(
               group, rank, SYMMCOLL_BFLOAT16, SYMMCOLL_SUM, part / 2 + 1) &&
           is_right(
               group, rank, SYMMCOLL_FLOAT64, SYMMCOLL_AVG, 6 * part / 8 + 3) &&
           is_right(group, rank, SYMMCOLL_UINT8, SYMMCOLL_MAX, 100003);
}

static int megabytes_are_right(struct symmcoll_group *group, int rank)
{
    return is_right(
        group, rank, SYMMCOLL_FLOAT32, SYMMCOLL_SUM, STREAM_MIN / 4 + 5);
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

int main(void)
{
    static const int sizes[] = {1, 2, 3, 4, 5, 17};

    for (size_t i = 0; i < LENGTH(sizes); i++)
        both_run(sizes[i], every_pair_is_right,
            "every type and operation leaves each rank its part");
    for (size_t i = 1; i < 5; i++)
        both_run(sizes[i], chunk_limits_are_right,
            "sizes around a staging chunk leave each rank its part");
    both_run(
        2, megabytes_are_right, "several megabytes leave each rank its part");
    both_run(3, rows_are_scattered,
        "of an input with a row for each rank each has its row (C30)");
    return done_testing();
}
