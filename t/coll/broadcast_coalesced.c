/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Tests broadcast_coalesced: buffers of mixed types reach all ranks, packed
 * type by type in their order, in the fewest operations.
 */
#include "../tap.h"
#include "data.h"
#include "t/published.h"

#include <string.h>

#define MOST 40 /* buffers */

struct set {
    struct guarded buffers[MOST];
    void *at[MOST];
    size_t counts[MOST];
    enum symmcoll_dtype dtypes[MOST];
    size_t n;
};

static void add(struct set *set, enum symmcoll_dtype dtype, size_t count)
{
    size_t i = set->n++;

    set->dtypes[i] = dtype;
    set->counts[i] = count;
    set->buffers[i] = guarded_open(count * symmcoll_dtype_size(dtype), i % 5);
    set->at[i] = set->buffers[i].at;
}

/* Broadcasts, compares with the root's buffers, and checks the number of
 * operations. */
static bool is_right(struct symmcoll_group *group, int rank, struct set *set,
    size_t buffer_nbytes, int root, uint64_t operations)
{
    uint64_t before = symmcoll_group_sequence(group);
    bool right;

    for (size_t i = 0; i < set->n; i++) {
        guarded_clear(&set->buffers[i]);
        if (rank == root)
            data_fill(set->at[i], set->dtypes[i], 0, set->counts[i], root,
                (unsigned)i);
    }
    right = symmcoll_broadcast_coalesced(group, set->at, set->counts,
                set->dtypes, set->n, buffer_nbytes, root, NULL) == SYMMCOLL_OK;
    for (size_t i = 0; i < set->n; i++) {
        struct guarded expected = guarded_open(set->buffers[i].nbytes, 0);

        data_fill(
            expected.at, set->dtypes[i], 0, set->counts[i], root, (unsigned)i);
        right =
            right && guarded_is_intact(&set->buffers[i]) &&
            data_is_same("buffer", set->at[i], expected.at, expected.nbytes);
        guarded_close(&expected);
    }
    before = symmcoll_group_sequence(group) - before;
    if (!right || before != operations)
        diag("rank %d: %llu operations, expected %llu; %s", rank,
            (unsigned long long)before, (unsigned long long)operations,
            symmcoll_last_error());
    return right && before == operations;
}

static void close_set(struct set *set)
{
    for (size_t i = 0; i < set->n; i++)
        guarded_close(&set->buffers[i]);
}

/* Broadcasts the mixed types of the PyTorch test, twice. */
static int types_are_grouped(struct symmcoll_group *group, int rank)
{
    static const enum symmcoll_dtype dtypes[] = {SYMMCOLL_FLOAT16,
        SYMMCOLL_FLOAT32, SYMMCOLL_FLOAT16, SYMMCOLL_FLOAT64, SYMMCOLL_FLOAT16,
        SYMMCOLL_FLOAT32};
    struct set set = {.n = 0};
    bool right = true;

    for (size_t i = 0; i < 30; i++)
        add(&set, dtypes[i / 5], 12);
    /* 15 of 24 bytes in two, 10 of 48 bytes in two, 5 of 96 bytes in three. */
    for (int root = 0; right && root < symmcoll_group_size(group); root++)
        right = is_right(group, rank, &set, 256, root, 2 + 2 + 3) &&
                is_right(group, rank, &set, 1, root, 30) &&
                is_right(group, rank, &set, 24, root, 15 + 10 + 5) &&
                is_right(group, rank, &set, 1 << 20, root, 3);
    close_set(&set);
    return right;
}

/* Checks that operation i in a rank's record began after operation i - 2 had
 * ended. */
static bool waits_for_two(const struct symc_trace_ring *ring, uint64_t i)
{
    const struct symc_trace_entry *entry = &ring->entries[i];
    uint64_t ended = atomic_load(&ring->entries[i - 2].completed);

    if (ended != 0 && entry->created >= ended)
        return true;
    diag("broadcast %llu began before the one two before it had ended",
        (unsigned long long)i + 1);
    return false;
}

/* Rank 1 begins when rank 0 has two operations in flight; there are never
 * three. */
static int two_are_in_flight(struct symmcoll_group *group, int rank)
{
    struct set set = {.n = 0};
    bool right = rank == 0 || await_published(group, 0, group->runner.wire + 2);

    for (size_t i = 0; i < 20; i++)
        add(&set, SYMMCOLL_FLOAT32, 12);
    right = is_right(group, rank, &set, 100, 0, 10) && right;
    for (uint64_t i = 2; i < 10; i++)
        right = right && waits_for_two(group->world->trace.ring, i);
    close_set(&set);
    return right;
}

static int sizes_are_mixed(struct symmcoll_group *group, int rank)
{
    struct set set = {.n = 0};
    bool right;

    add(&set, SYMMCOLL_INT32, 0);
    add(&set, SYMMCOLL_INT8, 100000); /* more than a buffer */
    add(&set, SYMMCOLL_INT32, 3);
    add(&set, SYMMCOLL_COMPLEX128, 1);
    add(&set, SYMMCOLL_INT8, 5);
    add(&set, SYMMCOLL_INT32, 5000);
    add(&set, SYMMCOLL_INT32, 5000);
    add(&set, SYMMCOLL_COMPLEX128, 0);
    add(&set, SYMMCOLL_INT8, 0);
    right = is_right(group, rank, &set, 40012, 1, 1 + 2 + 1) &&
            is_right(group, rank, &set, 40011, 1, 2 + 2 + 1) &&
            is_right(group, rank, &set, 1 << 20, 0, 3);
    close_set(&set);
    return right;
}

static int nothing_is_sent(struct symmcoll_group *group, int rank)
{
    struct set set = {.n = 0};
    bool right = is_right(group, rank, &set, 16, 0, 0);

    add(&set, SYMMCOLL_INT8, 0);
    right = right && is_right(group, rank, &set, 16, 0, 0);
    close_set(&set);
    return right;
}

static bool ends(
    symmcoll_status_t found, symmcoll_status_t expected, const char *text)
{
    if (found == expected && strstr(symmcoll_last_error(), text) != NULL)
        return true;
    diag("expected %s and '%s', found %s: %s", symmcoll_status_name(expected),
        text, symmcoll_status_name(found), symmcoll_last_error());
    return false;
}

/* Only one rank passes invalid arguments: nothing has begun, and the group
 * works. */
static int wrong_arguments_are_refused(struct symmcoll_group *group, int rank)
{
    float x[8] = {0};
    void *bufs[] = {x, NULL}, *good[] = {x, x + 4};
    static const size_t counts[] = {4, 4};
    enum symmcoll_dtype dtypes[] = {SYMMCOLL_FLOAT32, SYMMCOLL_FLOAT32};
    bool right = true;

    if (rank == 0) {
        right = ends(symmcoll_broadcast_coalesced(
                         NULL, good, counts, dtypes, 2, 16, 0, NULL),
                    SYMMCOLL_ERR_INVALID, "group") &&
                ends(symmcoll_broadcast_coalesced(
                         group, bufs, counts, dtypes, 2, 16, 0, NULL),
                    SYMMCOLL_ERR_INVALID, "of 16 bytes, found NULL") &&
                ends(symmcoll_broadcast_coalesced(
                         group, NULL, counts, dtypes, 2, 16, 0, NULL),
                    SYMMCOLL_ERR_INVALID, "of 2 buffers, found NULL") &&
                ends(symmcoll_broadcast_coalesced(
                         group, good, counts, dtypes, 2, 0, 0, NULL),
                    SYMMCOLL_ERR_INVALID, "found 0") &&
                ends(symmcoll_broadcast_coalesced(
                         group, good, counts, dtypes, 2, 16, 9, NULL),
                    SYMMCOLL_ERR_INVALID, "found 9");
        dtypes[1] = (enum symmcoll_dtype)99;
        right = right && ends(symmcoll_broadcast_coalesced(
                                  group, good, counts, dtypes, 2, 16, 0, NULL),
                             SYMMCOLL_ERR_INVALID, "found 99");
    }
    return right && symmcoll_group_sequence(group) == 0 &&
           symmcoll_barrier(group, NULL, NULL) == SYMMCOLL_OK;
}

/* The second broadcast differs: the first one completes, and operations in
 * flight end. */
static int differences_are_named(struct symmcoll_group *group, int rank)
{
    int32_t x[3] = {rank, rank, rank};
    void *bufs[] = {&x[0], &x[1], &x[2]};
    size_t counts[] = {1, 1, 1};
    enum symmcoll_dtype dtypes[] = {
        SYMMCOLL_INT32, SYMMCOLL_UINT32, SYMMCOLL_INT8};
    bool right;

    if (rank == 1)
        dtypes[1] = SYMMCOLL_FLOAT32;
    right = ends(symmcoll_broadcast_coalesced(
                     group, bufs, counts, dtypes, 3, 64, 0, NULL),
        SYMMCOLL_ERR_MISMATCH,
        "broadcast: dtype differs: rank 1 passed float32");
    return right && x[0] == 0 && x[1] == rank &&
           symmcoll_barrier(group, NULL, NULL) == SYMMCOLL_OK;
}

int main(void)
{
    static const int sizes[] = {1, 2, 3, 5};

    for (size_t i = 0; i < LENGTH(sizes); i++)
        both_run(
            sizes[i], types_are_grouped, "types are grouped in order (C33)");
    both_run(2, two_are_in_flight, "two broadcasts are in flight (C33)");
    for (int n = 2; n <= 4; n++)
        both_run(n, sizes_are_mixed, "buffers of all sizes are received");
    both_run(2, nothing_is_sent, "no elements take no operation");
    both_run(2, wrong_arguments_are_refused,
        "what is wrong is found before the first operation");
    both_run(3, differences_are_named, "a difference ends it on all ranks");
    return done_testing();
}
