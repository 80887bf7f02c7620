/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Tests all_gather: every rank receives all contributions in the order of
 * ranks, byte for byte, for every element type, in and out of place.
 */
#include "../tap.h"
#include "data.h"

static bool is_right(struct symmcoll_group *group, int rank,
    enum symmcoll_dtype dtype, size_t count)
{
    int size = symmcoll_group_size(group);
    size_t nbytes = count * symmcoll_dtype_size(dtype);
    size_t whole = nbytes * (size_t)size, mine = nbytes * (size_t)rank;
    struct guarded in = guarded_open(nbytes, 1), out = guarded_open(whole, 5);
    struct guarded expected = guarded_open(whole, 0);

    for (int r = 0; r < size; r++)
        data_fill(expected.at + nbytes * (size_t)r, dtype, 0, count, r,
            (unsigned)count);
    data_fill(in.at, dtype, 0, count, rank, (unsigned)count);
    bool right = symmcoll_all_gather(group, out.at, in.at, count, dtype, NULL,
                     NULL) == SYMMCOLL_OK &&
                 data_is_same("out", out.at, expected.at, whole) &&
                 data_is_same("in", in.at, expected.at + mine, nbytes);
    guarded_clear(&out);
    data_fill(out.at + mine, dtype, 0, count, rank, (unsigned)count);
    right = right &&
            symmcoll_all_gather(group, out.at, out.at + mine, count, dtype,
                NULL, NULL) == SYMMCOLL_OK &&
            data_is_same("in place", out.at, expected.at, whole) &&
            guarded_is_intact(&out);
    if (!right)
        diag("rank %d: %zu %s", rank, count, symmcoll_dtype_name(dtype));
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
        right = is_right(group, rank, at.dtype, at.count);
    return right;
}

static int chunk_limits_are_right(struct symmcoll_group *group, int rank)
{
    return is_right(group, rank, SYMMCOLL_INT64, CHUNK / 8) &&
           is_right(group, rank, SYMMCOLL_FLOAT8_E5M2, CHUNK + 1) &&
           is_right(group, rank, SYMMCOLL_FLOAT32, 6 * CHUNK / 4 + 3);
}

static int megabytes_are_right(struct symmcoll_group *group, int rank)
{
    return is_right(group, rank, SYMMCOLL_COMPLEX128, STREAM_MIN / 16 + 1);
}

int main(void)
{
    static const int sizes[] = {1, 2, 3, 4, 5, 16, 17};

    for (size_t i = 0; i < LENGTH(sizes); i++)
        both_run(sizes[i], every_type_is_right,
            "every type is gathered in the order of ranks (T4, T7)");
    for (size_t i = 1; i < 5; i++)
        both_run(sizes[i], chunk_limits_are_right,
            "sizes around a staging chunk are gathered");
    both_run(2, megabytes_are_right, "several megabytes are gathered");
    both_run(3, megabytes_are_right, "several megabytes are gathered");
    return done_testing();
}
