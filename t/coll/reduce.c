/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Tests reduce: the root receives the bits of the plain reference, for every
 * root; on other ranks out is not touched and may be NULL.
 */
#include "../tap.h"
#include "data.h"

#include "base/dtype.h"

static bool is_right(struct symmcoll_group *group, int rank, int root,
    enum symmcoll_dtype dtype, symmcoll_op_t op, size_t count)
{
    unsigned seed = (unsigned)(count + (size_t)root * 64 + (size_t)op);
    int size = symmcoll_group_size(group);
    size_t nbytes = count * symmcoll_dtype_size(dtype);
    symmcoll_op_t wanted = data_op(group, op, rank);
    struct guarded in = guarded_open(nbytes, 0), out = guarded_open(nbytes, 1);
    struct guarded again = guarded_open(nbytes, 0),
                   expected = guarded_open(nbytes, 0);

    data_fill(in.at, dtype, 0, count, rank, seed);
    data_fill(again.at, dtype, 0, count, rank, seed);
    if (rank == root)
        data_reduce(expected.at, dtype, op, 0, count, size, 16, seed);
    bool right = symmcoll_reduce(group, out.at, in.at, count, dtype, wanted,
                     root, NULL, NULL) == SYMMCOLL_OK;
    if (rank == root)
        right = right && data_is_same("out", out.at, expected.at, nbytes);
    else
        right = right && guarded_is_clear(&out);
    right = right && data_is_same("in", in.at, again.at, nbytes);
    /* Repeated in place at the root, without out on other ranks. */
    right = right && symmcoll_reduce(group, rank == root ? in.at : NULL, in.at,
                         count, dtype, wanted, root, NULL, NULL) == SYMMCOLL_OK;
    right = right &&
            data_is_same("in place", in.at,
                rank == root ? expected.at : again.at, nbytes) &&
            guarded_is_intact(&in) && guarded_is_intact(&out);
    if (!right)
        diag("rank %d: %s of %zu %s to %d", rank, symmcoll_op_name(op), count,
            symmcoll_dtype_name(dtype), root);
    guarded_close(&in);
    guarded_close(&out);
    guarded_close(&again);
    guarded_close(&expected);
    return right;
}

static int every_pair_is_right(struct symmcoll_group *group, int rank)
{
    int size = symmcoll_group_size(group);
    bool right = true;

    for (int d = 0; d < SYMMCOLL_DTYPE_COUNT; d++) {
        const struct symc_dtype *type = symc_dtype_find((enum symmcoll_dtype)d);
        size_t counts[DATA_COUNTS];

        if (data_leaves_out((enum symmcoll_dtype)d))
            continue;
        data_counts(type->size, counts);
        for (symmcoll_op_t op = 0; op < SYMMCOLL_OP_COUNT; op++) {
            for (int i = d % 2;
                 right && symc_dtype_reduces(type, op) && i < DATA_COUNTS;
                 i += 2)
                right = is_right(group, rank, (d + i) % size,
                    (enum symmcoll_dtype)d, op, counts[i]);
        }
    }
    return right;
}

static int every_root_is_right(struct symmcoll_group *group, int rank)
{
    bool right = true;

    for (int root = 0; right && root < symmcoll_group_size(group); root++)
        right = is_right(group, rank, root, SYMMCOLL_INT32, SYMMCOLL_SUM, 5) &&
                is_right(group, rank, root, SYMMCOLL_FLOAT32, SYMMCOLL_SUM,
                    CHUNK / 4 + 1) &&
                is_right(group, rank, root, SYMMCOLL_FLOAT16, SYMMCOLL_AVG,
                    5 * CHUNK / 2 + 3);
    return right;
}

static int megabytes_are_right(struct symmcoll_group *group, int rank)
{
    return is_right(group, rank, 1, SYMMCOLL_FLOAT64, SYMMCOLL_PREMUL_SUM,
        STREAM_MIN / 8 + 3);
}

int main(void)
{
    static const int sizes[] = {1, 2, 3, 5, 17};

    for (size_t i = 0; i < LENGTH(sizes); i++)
        both_run(sizes[i], every_pair_is_right,
            "every type and operation reaches the root");
    both_run(2, every_root_is_right, "any rank can be the root");
    both_run(4, every_root_is_right, "any rank can be the root");
    both_run(3, megabytes_are_right, "several megabytes reach the root");
    return done_testing();
}
