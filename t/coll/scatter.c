/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Tests scatter: each rank receives its part of the root's elements, for every
 * element type; on other ranks in is not read and may be NULL.
 */
#include "../tap.h"
#include "data.h"

static bool is_right(struct symmcoll_group *group, int rank, int root,
    enum symmcoll_dtype dtype, size_t count)
{
    int size = symmcoll_group_size(group);
    size_t nbytes = count * symmcoll_dtype_size(dtype);
    size_t whole = nbytes * (size_t)size, mine = nbytes * (size_t)rank;
    unsigned seed = (unsigned)(count + (size_t)root);
    struct guarded in = guarded_open(whole, 1), out = guarded_open(nbytes, 7);
    struct guarded all = guarded_open(whole, 0);

    data_fill(all.at, dtype, 0, count * (size_t)size, root, seed);
    data_fill(in.at, dtype, 0, count * (size_t)size, rank, seed);
    bool right = symmcoll_scatter(group, out.at, rank == root ? in.at : NULL,
                     count, dtype, root, NULL, NULL) == SYMMCOLL_OK;
    right = right && data_is_same("out", out.at, all.at + mine, nbytes);
    guarded_clear(&out);
    right =
        right && symmcoll_scatter(group, rank == root ? in.at + mine : out.at,
                     in.at, count, dtype, root, NULL, NULL) == SYMMCOLL_OK;
    if (rank == root)
        right = right && guarded_is_clear(&out) &&
                data_is_same("in", in.at, all.at, whole);
    else
        right =
            right && data_is_same("in place", out.at, all.at + mine, nbytes);
    right = right && guarded_is_intact(&out) && guarded_is_intact(&in);
    if (!right)
        diag("rank %d: %zu %s from %d: %s", rank, count,
            symmcoll_dtype_name(dtype), root, symmcoll_last_error());
    guarded_close(&in);
    guarded_close(&out);
    guarded_close(&all);
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

/* Scatters the numbers of the PyTorch test: four ranks, nine elements, the
 * receiver's number. */
static int ones_are_scattered(struct symmcoll_group *group, int rank)
{
    int size = symmcoll_group_size(group);
    float in[4 * 9], out[9];
    bool right;

    for (int i = 0; i < size * 9; i++)
        in[i] = (float)(i / 9);
    right = symmcoll_scatter(group, out, rank == 0 ? in : NULL, 9,
                SYMMCOLL_FLOAT32, 0, NULL, NULL) == SYMMCOLL_OK;
    for (int i = 0; i < 9; i++)
        right = right && out[i] == (float)rank;
    return right;
}

static int every_root_is_right(struct symmcoll_group *group, int rank)
{
    size_t piece = CHUNK / (size_t)symmcoll_group_size(group);
    bool right = true;

    for (int root = 0; right && root < symmcoll_group_size(group); root++)
        right =
            is_right(group, rank, root, SYMMCOLL_INT16, 3) &&
            is_right(group, rank, root, SYMMCOLL_INT64, piece / 8) &&
            is_right(group, rank, root, SYMMCOLL_INT32, piece / 4 - 1) &&
            is_right(group, rank, root, SYMMCOLL_FLOAT8_E4M3FN, 5 * piece + 1);
    return right;
}

static int megabytes_are_right(struct symmcoll_group *group, int rank)
{
    return is_right(group, rank, 1, SYMMCOLL_FLOAT64, STREAM_MIN / 8 + 1);
}

/* Starts works without waiting in between; small ones are issued at once. */
static int works_end_in_order(struct symmcoll_group *group, int rank)
{
    enum {
        WORKS = 12
    };
    struct symmcoll_work *works[WORKS];
    static const size_t counts[] = {1, 300, 40000};
    int size = symmcoll_group_size(group), started = 0;
    size_t most = counts[2] * (size_t)size;
    struct guarded in = guarded_open(most * 4, 0);
    struct guarded out = guarded_open(WORKS * counts[2] * 4, 0);
    bool right = true;

    data_fill(in.at, SYMMCOLL_INT32, 0, most, 0, 1);
    for (int i = 0; i < WORKS && right; i++, started++)
        right = symmcoll_scatter(group, out.at + (size_t)i * counts[2] * 4,
                    in.at, counts[i % 3], SYMMCOLL_INT32, i % size, NULL,
                    &works[i]) == SYMMCOLL_OK;
    for (int i = 0; i < started; i++) {
        size_t nbytes = counts[i % 3] * 4;

        right = symmcoll_work_wait(works[i], 60) == SYMMCOLL_OK && right &&
                data_is_same("work", out.at + (size_t)i * counts[2] * 4,
                    in.at + nbytes * (size_t)rank, nbytes);
        symmcoll_work_free(works[i]);
    }
    guarded_close(&in);
    guarded_close(&out);
    return right;
}

int main(void)
{
    static const int sizes[] = {1, 2, 3, 5, 17};

    for (size_t i = 0; i < LENGTH(sizes); i++)
        both_run(sizes[i], every_type_is_right,
            "each rank receives its part of every type");
    both_run(4, ones_are_scattered, "each rank receives its own number");
    both_run(2, every_root_is_right, "any rank can be the root");
    both_run(4, every_root_is_right, "any rank can be the root");
    both_run(3, megabytes_are_right, "several megabytes are scattered");
    both_run(3, works_end_in_order, "works of all sizes end");
    return done_testing();
}
