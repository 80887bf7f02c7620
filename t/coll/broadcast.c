/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Tests broadcast: every rank receives the root's bytes, for every element
 * type and every root.
 */
#include "../tap.h"
#include "data.h"

static bool is_right(struct symmcoll_group *group, int rank, int root,
    enum symmcoll_dtype dtype, size_t count)
{
    size_t nbytes = count * symmcoll_dtype_size(dtype);
    struct guarded buf = guarded_open(nbytes, 3),
                   expected = guarded_open(nbytes, 0);

    data_fill(expected.at, dtype, 0, count, root, (unsigned)count);
    data_fill(buf.at, dtype, 0, count, rank, (unsigned)count);
    bool right = symmcoll_broadcast(group, buf.at, count, dtype, root, NULL,
                     NULL) == SYMMCOLL_OK &&
                 data_is_same("buf", buf.at, expected.at, nbytes) &&
                 guarded_is_intact(&buf);
    if (!right)
        diag("rank %d: %zu %s from %d", rank, count, symmcoll_dtype_name(dtype),
            root);
    guarded_close(&buf);
    guarded_close(&expected);
    return right;
}

static int every_type_is_right(struct symmcoll_group *group, int rank)
{
    struct data_case at = {.every = true};
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
            is_right(group, rank, root, SYMMCOLL_INT64, CHUNK / 8) &&
            is_right(group, rank, root, SYMMCOLL_BOOL, CHUNK + 1) &&
            is_right(group, rank, root, SYMMCOLL_INT32, 2) &&
            is_right(group, rank, root, SYMMCOLL_FLOAT32, STREAM_MIN / 4 + 9);
    return right;
}

int main(void)
{
    static const int sizes[] = {1, 2, 3, 5, 17};

    for (size_t i = 0; i < LENGTH(sizes); i++)
        both_run(
            sizes[i], every_type_is_right, "every type reaches every rank");
    both_run(2, every_root_is_right, "any rank can be the root");
    both_run(4, every_root_is_right, "any rank can be the root");
    return done_testing();
}
