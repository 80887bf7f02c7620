/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Tests 64 ranks on any number of processors: right results in reasonable
 * time.
 */
#include "../tap.h"
#include "data.h"

#define RANKS 64

/* Checks a sum of elements that are exact, at both ends of every size. */
static bool sum_is_right(struct symmcoll_group *group, int rank, size_t count)
{
    struct guarded buf = guarded_open(count * sizeof(int32_t), 0);
    int32_t *at = (int32_t *)(void *)buf.at;
    bool right;

    for (size_t i = 0; i < count; i++)
        at[i] = (int32_t)i + rank;
    right = symmcoll_all_reduce(group, at, at, count, SYMMCOLL_INT32,
                SYMMCOLL_SUM, NULL, NULL) == SYMMCOLL_OK;
    for (size_t i = 0; right && i < count; i++)
        right = at[i] == (int32_t)i * RANKS + RANKS * (RANKS - 1) / 2;
    right = right && guarded_is_intact(&buf);
    guarded_close(&buf);
    return right;
}

static bool floats_are_right(struct symmcoll_group *group, int rank)
{
    float in[33], out[33], expected[33];

    data_fill(in, SYMMCOLL_FLOAT32, 0, 33, rank, 5);
    data_reduce(expected, SYMMCOLL_FLOAT32, SYMMCOLL_SUM, 0, 33, RANKS, 16, 5);
    return symmcoll_all_reduce(group, out, in, 33, SYMMCOLL_FLOAT32,
               SYMMCOLL_SUM, NULL, NULL) == SYMMCOLL_OK &&
           data_is_same("floats", out, expected, sizeof(out));
}

static bool gathered_is_right(struct symmcoll_group *group, int rank)
{
    int64_t mine = rank * 1000, all[RANKS], sum[1], each[RANKS];
    bool right = symmcoll_all_gather(group, all, &mine, 1, SYMMCOLL_INT64, NULL,
                     NULL) == SYMMCOLL_OK;

    for (int r = 0; r < RANKS; r++) {
        right = right && all[r] == r * 1000;
        each[r] = r * 10 + rank;
    }
    return right &&
           symmcoll_reduce_scatter(group, sum, each, 1, SYMMCOLL_INT64,
               SYMMCOLL_SUM, NULL, NULL) == SYMMCOLL_OK &&
           sum[0] == (int64_t)rank * 10 * RANKS + RANKS * (RANKS - 1) / 2;
}

static int all_is_right(struct symmcoll_group *group, int rank)
{
    bool right = true;

    for (int i = 0; right && i < 20; i++) {
        int word = rank == i % RANKS ? i : -1;

        right = symmcoll_broadcast(group, &word, 1, SYMMCOLL_INT32, i % RANKS,
                    NULL, NULL) == SYMMCOLL_OK &&
                word == i && sum_is_right(group, rank, 1) &&
                symmcoll_barrier(group, NULL, NULL) == SYMMCOLL_OK;
    }
    return right && sum_is_right(group, rank, 2048) &&
           sum_is_right(group, rank, 2049) &&
           sum_is_right(group, rank, 70000) && floats_are_right(group, rank) &&
           gathered_is_right(group, rank);
}

int main(void)
{
    both_run(RANKS, all_is_right, "collectives are right on many ranks");
    return done_testing();
}
