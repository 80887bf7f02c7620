/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Tests gather: the root receives all contributions in the order of ranks, for
 * every element type; on other ranks out is not touched and may be NULL.
 */
#include "../tap.h"
#include "data.h"

static bool is_right(struct symmcoll_group *group, int rank, int root,
    enum symmcoll_dtype dtype, size_t count)
{
    int size = symmcoll_group_size(group);
    size_t nbytes = count * symmcoll_dtype_size(dtype);
    size_t whole = nbytes * (size_t)size, mine = nbytes * (size_t)rank;
    struct guarded in = guarded_open(nbytes, 1), out = guarded_open(whole, 7);
    struct guarded expected = guarded_open(whole, 0);

    for (int r = 0; r < size; r++)
        data_fill(expected.at + nbytes * (size_t)r, dtype, 0, count, r,
            (unsigned)(count + (size_t)root));
    data_fill(in.at, dtype, 0, count, rank, (unsigned)(count + (size_t)root));
    bool right = symmcoll_gather(group, out.at, in.at, count, dtype, root, NULL,
                     NULL) == SYMMCOLL_OK;
    right =
        right && (rank == root ? data_is_same("out", out.at, expected.at, whole)
                               : guarded_is_clear(&out));
    guarded_clear(&out);
    data_fill(
        out.at + mine, dtype, 0, count, rank, (unsigned)(count + (size_t)root));
    right = right &&
            symmcoll_gather(group, rank == root ? out.at : NULL, out.at + mine,
                count, dtype, root, NULL, NULL) == SYMMCOLL_OK;
    if (rank == root)
        right = right && data_is_same("in place", out.at, expected.at, whole);
    right = right && guarded_is_intact(&out) &&
            data_is_same("in", in.at, expected.at + mine, nbytes);
    if (!right)
        diag("rank %d: %zu %s to %d", rank, count, symmcoll_dtype_name(dtype),
            root);
    guarded_close(&in);
    guarded_close(&out);
    guarded_close(&expected);
    return right;
}

static int every_type_is_right(struct symmcoll_group *group, int rank)
{
    struct data_case at = {0};
    bool right = true;

    while (right && data_next_case(&at, symmcoll_group_size(group)))
        right = is_right(group, rank, at.root, at.dtype, at.count);
    return right;
}

static int every_root_is_right(struct symmcoll_group *group, int rank)
{
    bool right = true;

    for (int root = 0; right && root < symmcoll_group_size(group); root++)
        right =
            is_right(group, rank, root, SYMMCOLL_INT16, 3) &&
            is_right(group, rank, root, SYMMCOLL_INT64, CHUNK / 8) &&
            is_right(group, rank, root, SYMMCOLL_FLOAT8_E4M3FN, 5 * CHUNK + 1);
    return right;
}

static int megabytes_are_right(struct symmcoll_group *group, int rank)
{
    return is_right(group, rank, 1, SYMMCOLL_FLOAT64, STREAM_MIN / 8 + 1);
}

int main(void)
{
    static const int sizes[] = {1, 2, 3, 5, 17};

    for (size_t i = 0; i < LENGTH(sizes); i++)
        both_run(sizes[i], every_type_is_right,
            "every type is gathered in the order of ranks");
    both_run(2, every_root_is_right, "any rank can be the root");
    both_run(4, every_root_is_right, "any rank can be the root");
    both_run(3, megabytes_are_right, "several megabytes are gathered");
    return done_testing();
}
