/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Tests ranks that leave on purpose: by finalize, early or in time, and by
 * aborting the group. The bodies are the same for processes and threads.
 */
#include "t/published.h"
#include "t/ranks.h"
#include "t/tap.h"
#include "t/world/faults.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define SIZE 3
#define LARGE ((size_t)1 << 18)

static struct {
    _Atomic int done; /* ranks that are */
} * shared;

static bool said(int rank, symmcoll_status_t status, symmcoll_status_t expected,
    const char *text)
{
    bool good =
        status == expected && strstr(symmcoll_last_error(), text) != NULL;

    if (!good)
        diag("rank %d: expected %s with \"%s\", found %s: %s", rank,
            symmcoll_status_name(expected), text, symmcoll_status_name(status),
            symmcoll_last_error());
    return good;
}

static void wait_for(int done)
{
    while (shared->done < done)
        usleep(1000);
}

/* ---- orderly shutdown ---- */

static int early_finalize_is_named(struct symmcoll_group *group, int rank)
{
    bool good = symmcoll_barrier(group, NULL, NULL) == SYMMCOLL_OK;

    if (rank == 1) /* and finalizes */
        return good;
    good = good && said(rank, symmcoll_barrier(group, NULL, NULL),
                       SYMMCOLL_ERR_PEER, "rank 1 (pid ");
    good = good && strstr(symmcoll_last_error(), "has finalized") != NULL;
    good = good && said(rank, symmcoll_barrier(group, NULL, NULL),
                       SYMMCOLL_ERR_ABORTED, "has finalized");
    /* A rank that left before the others had their errors would be one more
     * missing rank. */
    shared->done++;
    wait_for(SIZE - 1);
    return good;
}

static int early_finalize_in_large(struct symmcoll_group *group, int rank)
{
    float *x = calloc(LARGE, sizeof(*x));
    bool good = true;

    if (rank != 1)
        good = said(rank,
            symmcoll_all_reduce(
                group, x, x, LARGE, SYMMCOLL_FLOAT32, SYMMCOLL_SUM, NULL, NULL),
            SYMMCOLL_ERR_PEER, "has finalized, and all_reduce seq 1 of group ");
    if (rank != 1) {
        shared->done++;
        wait_for(SIZE - 1);
    }
    free(x);
    return good;
}

/* Rank 0 has all it needs of a broadcast from the start; rank 2 comes when it
 * has long gone. */
static int last_operation_needs_no_shutdown(
    struct symmcoll_group *group, int rank)
{
    float x[4] = {0};
    bool good = symmcoll_barrier(group, NULL, NULL) == SYMMCOLL_OK;

    x[0] = (float)rank + 1;
    good = good && symmcoll_all_reduce(group, x, x, 4, SYMMCOLL_FLOAT32,
                       SYMMCOLL_SUM, NULL, NULL) == SYMMCOLL_OK;
    if (rank == 2)
        usleep(50000); /* the others have finalized */
    return good && x[0] == 6 && symmcoll_group_error(group) == SYMMCOLL_OK;
}

/* Many short worlds, each left the moment a rank is done. */
static int large_result_survives_shutdown(
    struct symmcoll_group *group, int rank)
{
    float *x = malloc(LARGE * sizeof(*x));
    bool good;

    for (size_t i = 0; i < LARGE; i++)
        x[i] = (float)rank + 1;
    good = symmcoll_all_reduce(group, x, x, LARGE, SYMMCOLL_FLOAT32,
               SYMMCOLL_SUM, NULL, NULL) == SYMMCOLL_OK;
    for (size_t i = 0; i < LARGE; i++)
        good = good && x[i] == 6;
    free(x);
    return good;
}

/* ---- abort ---- */

/* Checks that the last error names the aborter; on the aborter itself it says
 * "this rank". */
static bool speaks_of(const struct symmcoll_group *group, int rank, int aborter)
{
    char text[128];

    snprintf(text, sizeof(text), "rank %d aborted group %s", aborter,
        symmcoll_group_name(group));
    if (rank == aborter)
        snprintf(text, sizeof(text), "this rank aborted group %s",
            symmcoll_group_name(group));
    if (strstr(symmcoll_last_error(), text) != NULL)
        return true;
    diag("rank %d: expected \"%s\" in: %s", rank, text, symmcoll_last_error());
    return false;
}

/* Ranks 0 and 1 are in an operation, for which rank 2 does not come. */
static bool await_two(const struct symmcoll_group *group, uint64_t number)
{
    return await_published(group, 0, number) &&
           await_published(group, 1, number);
}

struct aborting {
    struct symmcoll_group *group;
    uint64_t number; /* of the operation to be aborted */
};

static void *abort_it(void *arg)
{
    struct aborting *aborting = arg;

    await_two(aborting->group, aborting->number);
    symmcoll_group_abort(aborting->group, "the user said so");
    return NULL;
}

/* No call times out here: rank 2 never calls the barrier. */
static int abort_unblocks_all(struct symmcoll_group *group, int rank)
{
    struct aborting aborting = {group, group->runner.wire + 2};
    pthread_t thread;
    bool good = symmcoll_barrier(group, NULL, NULL) == SYMMCOLL_OK;
    double began;

    if (rank == 0 && pthread_create(&thread, NULL, abort_it, &aborting) != 0)
        return 0;
    began = faults_now();
    if (rank != 2) {
        good = good &&
               said(rank, symmcoll_barrier(group, NULL, NULL),
                   SYMMCOLL_ERR_CANCELED, "the user said so") &&
               speaks_of(group, rank, 0);
        good = good && faults_now() - began < FAULTS_WAIT_MAX;
        shared->done++;
    }
    wait_for(2);
    if (rank == 0)
        pthread_join(thread, NULL);
    while (symmcoll_group_error(group) == SYMMCOLL_OK)
        usleep(1000);
    good = good &&
           said(rank, symmcoll_barrier(group, NULL, NULL), SYMMCOLL_ERR_ABORTED,
               "the user said so") &&
           speaks_of(group, rank, 0);
    good = good && said(rank, symmcoll_group_error(group),
                       SYMMCOLL_ERR_CANCELED, "the user said so");
    shared->done++;
    wait_for(2 + SIZE);
    return good;
}

static int abort_before_any_operation(struct symmcoll_group *group, int rank)
{
    bool good;

    if (rank == 1)
        symmcoll_group_abort(group, NULL);
    while (symmcoll_group_error(group) == SYMMCOLL_OK)
        usleep(1000);
    good = said(rank, symmcoll_barrier(group, NULL, NULL), SYMMCOLL_ERR_ABORTED,
               "has failed before: CANCELED: ") &&
           speaks_of(group, rank, 1);
    shared->done++;
    wait_for(SIZE);
    return good;
}

static int abort_ends_queued_works(struct symmcoll_group *group, int rank)
{
    enum {
        WORKS = 3
    };
    struct symmcoll_work *works[WORKS] = {NULL};
    float x[WORKS][4] = {{0}};
    uint64_t first = group->runner.wire + 1;
    bool good = true;

    for (int i = 0; rank != 2 && i < WORKS; i++)
        good = symmcoll_all_reduce(group, x[i], x[i], 4, SYMMCOLL_FLOAT32,
                   SYMMCOLL_SUM, NULL, &works[i]) == SYMMCOLL_OK &&
               good;
    if (rank != 2)
        shared->done++; /* it has issued all of them */
    if (rank == 0) {
        wait_for(2);
        good = await_two(group, first) && good;
        symmcoll_group_abort(group, "enough");
    }
    for (int i = 0; rank != 2 && i < WORKS; i++) {
        symmcoll_status_t status = symmcoll_work_wait(works[i], -1);

        /* The operation in flight is canceled, the others never begin. */
        good = (status ==
                   (i == 0 ? SYMMCOLL_ERR_CANCELED : SYMMCOLL_ERR_ABORTED)) &&
               strstr(symmcoll_work_error(works[i]), "enough") != NULL && good;
        symmcoll_work_free(works[i]);
    }
    shared->done++;
    wait_for(2 + SIZE);
    return good;
}

/* ---- running ---- */

static bool run(bool threads, rank_fn body)
{
    shared->done = 0;
    return threads ? threads_run(SIZE, body) : ranks_run(SIZE, body);
}

static void run_all(bool threads, const char *kind)
{
    bool good = true;

    ok(run(threads, early_finalize_is_named),
        "%s: a rank that finalizes while it is needed is named", kind);
    ok(run(threads, early_finalize_in_large),
        "%s: also by those in a large operation", kind);
    ok(run(threads, last_operation_needs_no_shutdown),
        "%s: a rank that finalizes in good time is no failure", kind);
    for (int i = 0; i < 10 && good; i++)
        good = run(threads, large_result_survives_shutdown);
    ok(good, "%s: nor while others still read what it has staged", kind);
    ok(run(threads, abort_unblocks_all),
        "%s: an abort from another thread ends what is stuck, on all ranks",
        kind);
    ok(run(threads, abort_before_any_operation),
        "%s: after an abort before any operation every call is ABORTED", kind);
    ok(run(threads, abort_ends_queued_works), "%s: an abort ends queued works",
        kind);
}

int main(void)
{
    plan(21);
    faults_begin();
    shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE,
        MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (shared == MAP_FAILED)
        return 1;
    run_all(false, "processes");
    run_all(true, "threads");
    setenv("SYMMCOLL_HOST_DIRECT", "off", 1);
    run_all(true, "threads, staged");
    munmap(shared, sizeof(*shared));
    faults_end();
    return done_testing();
}
