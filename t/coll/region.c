/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Tests regions: the calls in a region run at its end as one operation with
 * one work; calls that cannot be combined are refused, and the others are
 * kept.
 */
#include "../tap.h"
#include "data.h"

#include <pthread.h>
#include <string.h>

static bool told(
    struct symmcoll_group *group, symmcoll_status_t status, const char *text)
{
    if (status == SYMMCOLL_ERR_INVALID &&
        strstr(symmcoll_last_error(), text) != NULL)
        return true;
    diag("rank %d: expected INVALID with \"%s\", found %s: %s",
        symmcoll_group_rank(group), text, symmcoll_status_name(status),
        symmcoll_last_error());
    return false;
}

static symmcoll_status_t sum(
    struct symmcoll_group *group, int32_t *x, size_t count)
{
    return symmcoll_all_reduce(
        group, x, x, count, SYMMCOLL_INT32, SYMMCOLL_SUM, NULL, NULL);
}

/* Checks that nothing runs before the end of a region; then all calls have one
 * number and one work. */
static int runs_as_one(struct symmcoll_group *group, int rank)
{
    int size = symmcoll_group_size(group);
    int32_t total = size * (size - 1) / 2;
    bool right = true;

    for (int i = 0; right && i < 40; i++) {
        bool async = i % 2 == 1;
        int32_t x[30];
        struct symmcoll_work *work = NULL;
        uint64_t before = symmcoll_group_sequence(group);

        right = symmcoll_coalesce_begin(group) == SYMMCOLL_OK;
        for (int b = 0; b < 30; b++) {
            x[b] = rank + b;
            right = right && sum(group, &x[b], 1) == SYMMCOLL_OK;
        }
        right = right && x[3] == rank + 3 &&
                symmcoll_group_sequence(group) == before &&
                symmcoll_coalesce_end(group, NULL, async ? &work : NULL) ==
                    SYMMCOLL_OK &&
                async == (work != NULL);
        /* The next one may begin while this one runs. */
        right = right && symmcoll_coalesce_begin(group) == SYMMCOLL_OK &&
                symmcoll_coalesce_end(group, NULL, NULL) == SYMMCOLL_OK;
        if (work != NULL)
            right = right && symmcoll_work_wait(work, -1) == SYMMCOLL_OK &&
                    symmcoll_work_sequence(work) == before + 1;
        symmcoll_work_free(work);
        for (int b = 0; b < 30; b++)
            right = right && x[b] == total + b * size;
        right = right && symmcoll_group_sequence(group) == before + 1;
    }
    return right;
}

/* Runs two reduce_scatters of two ranks, as the PyTorch test does. */
static int parts_are_scattered(struct symmcoll_group *group, int rank)
{
    float in[2][4] = {{1, 2, 3, 4}, {5, 6, 7, 8}}, out[2][2];
    float all[2][2], one[2] = {(float)rank, (float)(10 + rank)};
    bool right = symmcoll_coalesce_begin(group) == SYMMCOLL_OK;

    for (int i = 0; i < 2; i++)
        right = right &&
                symmcoll_reduce_scatter(group, out[i], in[i], 2,
                    SYMMCOLL_FLOAT32, SYMMCOLL_SUM, NULL, NULL) == SYMMCOLL_OK;
    right = right && symmcoll_coalesce_end(group, NULL, NULL) == SYMMCOLL_OK &&
            symmcoll_group_sequence(group) == 1;
    for (int i = 0; i < 2; i++)
        right = right && out[i][0] == 2 * in[i][2 * rank] &&
                out[i][1] == 2 * in[i][2 * rank + 1];
    right = right && symmcoll_coalesce_begin(group) == SYMMCOLL_OK;
    for (int i = 0; i < 2; i++)
        right = right && symmcoll_all_gather(group, all[i], &one[i], 1,
                             SYMMCOLL_FLOAT32, NULL, NULL) == SYMMCOLL_OK;
    right = right && symmcoll_coalesce_end(group, NULL, NULL) == SYMMCOLL_OK;
    return right && all[0][0] == 0 && all[0][1] == 1 && all[1][0] == 10 &&
           all[1][1] == 11;
}

static int an_empty_one_has_no_number(struct symmcoll_group *group, int rank)
{
    int here = rank;
    struct symmcoll_work *work = (struct symmcoll_work *)(void *)&here;

    return symmcoll_coalesce_begin(group) == SYMMCOLL_OK &&
           symmcoll_coalesce_end(group, NULL, &work) == SYMMCOLL_OK &&
           work == NULL && symmcoll_group_sequence(group) == 0 &&
           symmcoll_barrier(group, NULL, NULL) == SYMMCOLL_OK &&
           symmcoll_group_sequence(group) == 1;
}

static int what_differs_is_refused(struct symmcoll_group *group, int rank)
{
    struct symmcoll_call call = SYMMCOLL_CALL_INIT;
    struct symmcoll_work *work = NULL;
    int size = symmcoll_group_size(group);
    int32_t x[4] = {rank, 1, 2, 3};
    uint32_t y = 0;
    void *outs[] = {x};
    const void *ins[] = {x};
    static const size_t one = 1;
    bool right =
        told(group, symmcoll_coalesce_end(group, NULL, NULL), "found none") &&
        symmcoll_coalesce_begin(group) == SYMMCOLL_OK &&
        told(group, symmcoll_coalesce_begin(group), "found one") &&
        sum(group, &x[0], 1) == SYMMCOLL_OK &&
        told(group,
            symmcoll_all_reduce(group, &x[1], &x[1], 1, SYMMCOLL_INT32,
                SYMMCOLL_MAX, NULL, NULL),
            "expected sum, as passed first in this region, found max") &&
        told(group,
            symmcoll_all_reduce(
                group, &y, &y, 1, SYMMCOLL_UINT32, SYMMCOLL_SUM, NULL, NULL),
            "expected int32, as passed first in this region, found uint32") &&
        told(group,
            symmcoll_all_gather(
                group, NULL, NULL, 0, SYMMCOLL_INT32, NULL, NULL),
            "expected all_reduce, as called first") &&
        told(group,
            symmcoll_all_reduce(group, &x[1], &x[1], 1, SYMMCOLL_INT32,
                SYMMCOLL_SUM, NULL, &work),
            "expected work NULL in a region") &&
        told(group,
            symmcoll_all_reduce(group, &x[1], &x[1], 1, SYMMCOLL_INT32,
                SYMMCOLL_SUM, &call, NULL),
            "expected call NULL in a region") &&
        told(group, symmcoll_barrier(group, NULL, NULL), "in a region") &&
        told(group,
            symmcoll_all_reduce_coalesced(group, outs, ins, &one, 1,
                SYMMCOLL_INT32, SYMMCOLL_SUM, NULL, NULL),
            "in a region") &&
        told(group, symmcoll_monitored_barrier(group, 0, NULL, NULL, NULL),
            "in a region") &&
        told(group,
            symmcoll_all_reduce(
                group, NULL, x, 1, SYMMCOLL_INT32, SYMMCOLL_SUM, NULL, NULL),
            "found NULL");

    right = right && work == NULL && symmcoll_group_sequence(group) == 0 &&
            symmcoll_coalesce_end(group, NULL, NULL) == SYMMCOLL_OK &&
            symmcoll_group_sequence(group) == 1 &&
            x[0] == size * (size - 1) / 2 && x[1] == 1;
    /* A buffer that is used twice is detected at the end, which closes the region. */
    return right && symmcoll_coalesce_begin(group) == SYMMCOLL_OK &&
           sum(group, x, 2) == SYMMCOLL_OK &&
           sum(group, &x[1], 2) == SYMMCOLL_OK &&
           told(group, symmcoll_coalesce_end(group, NULL, NULL),
               "expected buffers apart") &&
           symmcoll_group_sequence(group) == 1 &&
           symmcoll_barrier(group, NULL, NULL) == SYMMCOLL_OK &&
           told(NULL, symmcoll_coalesce_begin(NULL), "found NULL") &&
           told(NULL, symmcoll_coalesce_end(NULL, NULL, NULL), "found NULL");
}

static void *run_beside(void *arg)
{
    struct symmcoll_group *group = arg;
    int32_t x = 1;
    bool right = sum(group, &x, 1) == SYMMCOLL_OK &&
                 x == symmcoll_group_size(group) &&
                 told(group, symmcoll_coalesce_begin(group), "found one") &&
                 told(group, symmcoll_coalesce_end(group, NULL, NULL),
                     "another thread's");

    return right ? group : NULL;
}

static int other_threads_are_not_concerned(
    struct symmcoll_group *group, int rank)
{
    pthread_t thread;
    void *result = NULL;
    int32_t x = rank;
    int size = symmcoll_group_size(group);
    bool right = symmcoll_coalesce_begin(group) == SYMMCOLL_OK &&
                 sum(group, &x, 1) == SYMMCOLL_OK;

    if (pthread_create(&thread, NULL, run_beside, group) != 0)
        return 0;
    pthread_join(thread, &result);
    return right && result == group && x == rank &&
           symmcoll_coalesce_end(group, NULL, NULL) == SYMMCOLL_OK &&
           x == size * (size - 1) / 2;
}

/* Checks that sends and receives, which have their own numbers, are not kept
 * in a region. */
static int messages_are_not_kept(struct symmcoll_group *group, int rank)
{
    int32_t x = rank, sent = 5 + rank, received = 0;
    bool right = symmcoll_coalesce_begin(group) == SYMMCOLL_OK &&
                 sum(group, &x, 1) == SYMMCOLL_OK &&
                 symmcoll_send(group, &sent, 1, SYMMCOLL_INT32, 1 - rank, 0,
                     NULL, NULL) == SYMMCOLL_OK &&
                 symmcoll_recv(group, &received, 1, SYMMCOLL_INT32, 1 - rank, 0,
                     NULL, NULL, NULL) == SYMMCOLL_OK;

    return right && received == 6 - rank && x == rank &&
           symmcoll_coalesce_end(group, NULL, NULL) == SYMMCOLL_OK && x == 1;
}

/* Keeps sums of these values in a region, and runs them at its end. */
static bool keep(struct symmcoll_group *group, int32_t *x, int count)
{
    bool right = symmcoll_coalesce_begin(group) == SYMMCOLL_OK;

    for (int i = 0; i < count; i++)
        right = right && sum(group, &x[i], 1) == SYMMCOLL_OK;
    return right;
}

/* Rank 1 calls after rank 0 has filled its second region, so that the
 * operation of the first one is still running: the second region must not
 * overwrite what it reads. */
static int one_follows_another(struct symmcoll_group *group, int rank)
{
    struct symmcoll_work *works[2] = {NULL, NULL};
    int32_t x[2][8], token = 0;
    bool right = true;

    for (int i = 0; i < 16; i++)
        x[i / 8][i % 8] = 10 * rank + i;
    if (rank == 1)
        right = symmcoll_recv(group, &token, 1, SYMMCOLL_INT32, 0, 0, NULL,
                    NULL, NULL) == SYMMCOLL_OK;
    for (int i = 0; i < 2; i++) {
        right = right && keep(group, x[i], 8);
        if (rank == 0 && i == 1)
            right = right && symmcoll_send(group, &token, 1, SYMMCOLL_INT32, 1,
                                 0, NULL, NULL) == SYMMCOLL_OK;
        right = right &&
                symmcoll_coalesce_end(group, NULL, &works[i]) == SYMMCOLL_OK;
    }
    for (int i = 0; i < 2; i++) {
        right = right && symmcoll_work_wait(works[i], -1) == SYMMCOLL_OK;
        symmcoll_work_free(works[i]);
    }
    for (int i = 0; i < 16; i++)
        right = right && x[i / 8][i % 8] == 10 + 2 * i;
    return right;
}

/* Checks that an open region ends with the group without an operation, and
 * without a leak. */
static int may_be_left_open(struct symmcoll_group *group, int rank)
{
    int32_t x = rank;

    return symmcoll_coalesce_begin(group) == SYMMCOLL_OK &&
           sum(group, &x, 1) == SYMMCOLL_OK && x == rank;
}

int main(void)
{
    both_run(3, runs_as_one, "C50 C51: calls in a region run as one");
    both_run(2, parts_are_scattered,
        "C62: two reduce_scatters in a region are one operation");
    both_run(2, an_empty_one_has_no_number,
        "C53: an empty region has no number and no work");
    both_run(2, what_differs_is_refused,
        "C55 C56: what cannot run with the rest is refused");
    both_run(
        2, other_threads_are_not_concerned, "a region is that of a thread");
    both_run(
        2, messages_are_not_kept, "sends and receives in a region run at once");
    both_run(2, one_follows_another,
        "a region may begin while the operation of another runs");
    both_run(2, may_be_left_open, "a region may be left open");
    return done_testing();
}
