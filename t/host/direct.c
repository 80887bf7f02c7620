/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Compares threads that read each other's buffers with threads that use
 * staging: the same bits, for every operation that supports both.
 */
#include "../coll/data.h"
#include "../tap.h"

#include <stdlib.h>

#define COUNT ((size_t)70001) /* several rounds of a direct sum's chunk */

/* The buffers of one rank. */
struct results {
    struct guarded in;
    struct guarded out;
    size_t nbytes; /* of one contribution */
    int size;
};

/* Returns whether out holds the sum over all ranks, beginning at element
 * `first`. */
static bool holds_sum(const struct results *results, size_t first, size_t count)
{
    struct guarded expected = guarded_open(count * 4, 0);
    bool same;

    data_reduce(expected.at, SYMMCOLL_FLOAT32, SYMMCOLL_SUM, first, count,
        results->size, 16, 9);
    same = data_is_same("sum", results->out.at, expected.at, count * 4);
    guarded_close(&expected);
    return same;
}

static bool holds_all(const struct results *results)
{
    struct guarded expected = guarded_open(results->nbytes, 0);
    bool same = true;

    for (int r = 0; same && r < results->size; r++) {
        data_fill(expected.at, SYMMCOLL_FLOAT32, 0, COUNT, r, 9);
        same = data_is_same("contribution",
            results->out.at + results->nbytes * (size_t)r, expected.at,
            results->nbytes);
    }
    guarded_close(&expected);
    return same;
}

static bool all_are_right(
    struct symmcoll_group *group, int rank, struct results *results)
{
    void *in = results->in.at, *out = results->out.at;
    int last = results->size - 1;
    size_t part = COUNT / (size_t)results->size;

    return symmcoll_all_reduce(group, out, in, COUNT, SYMMCOLL_FLOAT32,
               SYMMCOLL_SUM, NULL, NULL) == SYMMCOLL_OK &&
           holds_sum(results, 0, COUNT) &&
           symmcoll_reduce(group, out, in, COUNT, SYMMCOLL_FLOAT32,
               SYMMCOLL_SUM, last, NULL, NULL) == SYMMCOLL_OK &&
           holds_sum(results, 0, COUNT) && /* elsewhere still all_reduce's */
           symmcoll_reduce_scatter(group, out, in, part, SYMMCOLL_FLOAT32,
               SYMMCOLL_SUM, NULL, NULL) == SYMMCOLL_OK &&
           holds_sum(results, part * (size_t)rank, part) &&
           symmcoll_all_gather(group, out, in, COUNT, SYMMCOLL_FLOAT32, NULL,
               NULL) == SYMMCOLL_OK &&
           holds_all(results) &&
           symmcoll_gather(group, out, in, COUNT, SYMMCOLL_FLOAT32, last, NULL,
               NULL) == SYMMCOLL_OK &&
           holds_all(results) && /* elsewhere still all_gather's */
           symmcoll_broadcast(group, in, COUNT, SYMMCOLL_FLOAT32, last, NULL,
               NULL) == SYMMCOLL_OK &&
           data_is_same("broadcast", in,
               (char *)out + results->nbytes * (size_t)last, results->nbytes);
}

static int every_operation_is_right(struct symmcoll_group *group, int rank)
{
    int size = symmcoll_group_size(group);
    struct results results = {.nbytes = COUNT * 4, .size = size};

    results.in = guarded_open(results.nbytes, 0);
    results.out = guarded_open(results.nbytes * (size_t)size, 0);
    data_fill(results.in.at, SYMMCOLL_FLOAT32, 0, COUNT, rank, 9);

    bool right = all_are_right(group, rank, &results) &&
                 guarded_is_intact(&results.in) &&
                 guarded_is_intact(&results.out);
    guarded_close(&results.in);
    guarded_close(&results.out);
    return right;
}

int main(void)
{
    static const int sizes[] = {2, 3, 5};

    plan(12);
    for (size_t i = 0; i < LENGTH(sizes); i++) {
        unsetenv("SYMMCOLL_HOST_DIRECT");
        ok(threads_run(sizes[i], every_operation_is_right),
            "%d threads that read each other's buffers get the right bits",
            sizes[i]);
        setenv("SYMMCOLL_HOST_DIRECT", "off", 1);
        ok(threads_run(sizes[i], every_operation_is_right),
            "%d threads that go through staging get the same", sizes[i]);
        setenv("SYMMCOLL_HOST_STREAM_MIN", "0", 1);
        ok(threads_run(sizes[i], every_operation_is_right),
            "%d threads whose staged results pass by the cache get the same",
            sizes[i]);
        unsetenv("SYMMCOLL_HOST_DIRECT");
        ok(threads_run(sizes[i], every_operation_is_right),
            "%d threads whose direct results pass by the cache get the same",
            sizes[i]);
        unsetenv("SYMMCOLL_HOST_STREAM_MIN");
    }
    return done_testing();
}
