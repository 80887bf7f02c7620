/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Tests that the results of an operation are visible after its wait: for every
 * collective, for works on one buffer, and for works on each other's results
 * (W3).
 */
#include "../coll/data.h"
#include "../tap.h"

#include <stdlib.h>

#define SIZE 3 /* ranks */
#define I32 SYMMCOLL_INT32

static const size_t counts[] = {1, 7, 1000, 40000};

/* Returns element i that rank r passes for rank `to`. */
static int value(int r, int to, size_t i)
{
    return (int)(i % 1000) + 10000 * r + 100000 * to;
}

/* The buffers of one rank: its parts for all ranks, and the parts from all. */
struct bench {
    struct symmcoll_group *group;
    int rank;
    size_t n; /* elements of a part */
    int *in, *out;
};

static void fill(struct bench *bench)
{
    for (int to = 0; to < SIZE; to++) {
        for (size_t i = 0; i < bench->n; i++)
            bench->in[(size_t)to * bench->n + i] = value(bench->rank, to, i);
    }
    for (size_t i = 0; i < SIZE * bench->n; i++)
        bench->out[i] = -1;
}

/* Wait for a work, if the call has started it. */
static bool is_over(symmcoll_status_t status, struct symmcoll_work **work)
{
    if (status == SYMMCOLL_OK) {
        status = symmcoll_work_wait(*work, -1);
        symmcoll_work_free(*work);
    }
    if (status != SYMMCOLL_OK)
        diag("%s: %s", symmcoll_status_name(status), symmcoll_last_error());
    return status == SYMMCOLL_OK;
}

/* Checks that part p of the result is the part of rank `from` for rank `to`;
 * from SIZE: the sum over all ranks. */
static bool is_part(const struct bench *bench, int p, int from, int to)
{
    for (size_t i = 0; i < bench->n; i++) {
        int expected = 0, found = bench->out[(size_t)p * bench->n + i];

        for (int r = 0; r < SIZE; r++)
            expected += r == from || from == SIZE ? value(r, to, i) : 0;
        if (found == expected)
            continue;
        diag("rank %d: element %zu of part %d: expected %d, found %d",
            bench->rank, i, p, expected, found);
        return false;
    }
    return true;
}

/* Runs every collective with a work, and checks the results after its wait. */
static bool each_is_there(struct bench *bench)
{
    struct symmcoll_group *group = bench->group;
    struct symmcoll_work *work = NULL;
    int rank = bench->rank, *in = bench->in, *out = bench->out;
    size_t n = bench->n;
    bool root = rank == 1, right = true;

    fill(bench);
    right = is_over(symmcoll_all_reduce(
                        group, out, in, n, I32, SYMMCOLL_SUM, NULL, &work),
                &work) &&
            is_part(bench, 0, SIZE, 0) && right;
    fill(bench);
    right = is_over(symmcoll_reduce(
                        group, out, in, n, I32, SYMMCOLL_SUM, 1, NULL, &work),
                &work) &&
            (!root || is_part(bench, 0, SIZE, 0)) && right;
    right = is_over(symmcoll_reduce_scatter(
                        group, out, in, n, I32, SYMMCOLL_SUM, NULL, &work),
                &work) &&
            is_part(bench, 0, SIZE, rank) && right;
    right = is_over(symmcoll_all_gather(group, out, in, n, I32, NULL, &work),
                &work) &&
            is_part(bench, 0, 0, 0) && is_part(bench, 2, 2, 0) && right;
    fill(bench);
    right = is_over(symmcoll_gather(group, out, in, n, I32, 1, NULL, &work),
                &work) &&
            (!root || is_part(bench, 2, 2, 0)) && right;
    right = is_over(symmcoll_scatter(group, out, in, n, I32, 1, NULL, &work),
                &work) &&
            is_part(bench, 0, 1, rank) && right;
    right = is_over(symmcoll_all_to_all(group, out, in, n, I32, NULL, &work),
                &work) &&
            is_part(bench, 0, 0, rank) && is_part(bench, 2, 2, rank) && right;
    for (size_t i = 0; i < n; i++)
        out[i] = root ? value(1, 0, i) : -1;
    right = is_over(symmcoll_broadcast(group, out, n, I32, 1, NULL, &work),
                &work) &&
            is_part(bench, 0, 1, 0) && right;
    return is_over(symmcoll_barrier(group, NULL, &work), &work) && right;
}

typedef bool (*body_fn)(struct bench *bench);

/* Runs a check with parts of every size. */
static int run(struct symmcoll_group *group, int rank, body_fn check)
{
    bool right = true;

    for (size_t i = 0; i < LENGTH(counts) && right; i++) {
        struct bench bench = {.group = group, .rank = rank, .n = counts[i]};

        bench.in = malloc(SIZE * bench.n * sizeof(int));
        bench.out = malloc(SIZE * bench.n * sizeof(int));
        right = bench.in != NULL && bench.out != NULL && check(&bench);
        free(bench.in);
        free(bench.out);
    }
    return right;
}

static int results_are_there(struct symmcoll_group *group, int rank)
{
    return run(group, rank, each_is_there);
}

/* Starts works on one buffer, and waits for them in another order. */
static bool in_a_row(struct bench *bench)
{
    struct symmcoll_work *works[3];
    int *buf = bench->out;
    bool right = true;

    for (size_t i = 0; i < bench->n; i++)
        buf[i] = (int)(i % 1000) + bench->rank;
    for (int k = 0; k < 3; k++)
        right = symmcoll_all_reduce(bench->group, buf, buf, bench->n, I32,
                    SYMMCOLL_SUM, NULL, &works[k]) == SYMMCOLL_OK &&
                right;
    for (int k = 2; k >= 0; k--)
        right = is_over(SYMMCOLL_OK, &works[k]) && right;
    for (size_t i = 0; i < bench->n && right; i++)
        right = buf[i] == 9 * (3 * (int)(i % 1000) + 3);
    return right;
}

static int works_in_a_row(struct symmcoll_group *group, int rank)
{
    return run(group, rank, in_a_row);
}

/* Each work uses the result of the one before, without a wait in between: a
 * sum, a message with it around the ranks, and a gather of the messages. */
static bool nested(struct bench *bench)
{
    struct symmcoll_group *group = bench->group;
    int rank = bench->rank, *sum = bench->in, *all = bench->out;
    size_t n = bench->n;
    struct symmcoll_work *first = NULL, *second = NULL, *third = NULL;
    bool right;

    for (size_t i = 0; i < n; i++)
        sum[i] = value(rank, 0, i);
    right = symmcoll_all_reduce(group, sum, sum, n, I32, SYMMCOLL_SUM, NULL,
                &first) == SYMMCOLL_OK &&
            symmcoll_all_gather(group, all, sum, n, I32, NULL, &second) ==
                SYMMCOLL_OK &&
            symmcoll_reduce_scatter(group, sum, all, n, I32, SYMMCOLL_SUM, NULL,
                &third) == SYMMCOLL_OK;
    if (!right)
        return false;
    symmcoll_work_free(first);
    right = is_over(SYMMCOLL_OK, &third);
    right =
        is_over(SYMMCOLL_OK, &second) && is_part(bench, 2, SIZE, 0) && right;
    for (size_t i = 0; i < n && right; i++)
        right = sum[i] == SIZE * all[i];
    return right;
}

static int nested_works(struct symmcoll_group *group, int rank)
{
    return run(group, rank, nested);
}

int main(void)
{
    plan(6);
    both_run(SIZE, results_are_there,
        "W3: the result of every collective is there after a wait");
    both_run(SIZE, works_in_a_row,
        "W3: works in a row on one buffer, waited for in the other order");
    both_run(SIZE, nested_works,
        "W3: a work takes the result of one that nobody has waited for");
    return done_testing();
}
