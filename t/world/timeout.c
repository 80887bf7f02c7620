/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Tests a rank that does not arrive: the others' errors have its name and
 * position, it learns later what it has missed, and no memory is accessed
 * after its owner has taken it back. The bodies are the same for processes and
 * threads, for every algorithm that moves data. A rank that times out frees
 * its buffers at once, so that a sanitizer detects late accesses.
 */
#include "t/attempts.h"
#include "t/ranks.h"
#include "t/tap.h"
#include "t/world/faults.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#define SIZE 3
#define LATE 2
#define SMALL 16                /* elements: one_shot */
#define LARGE ((size_t)1 << 18) /* elements: direct, two_shot */

/* State shared by ranks of either kind; inherited by every process of a
 * point. */
static struct {
    _Atomic int gave_up; /* ranks that have got the error */
    _Atomic int pids[SIZE];
    size_t count;
    double delay; /* of the late rank, which calls at about the time when the
                   * others leave */
    double timeout;
} * shared;

static void sleep_for(double seconds)
{
    struct timespec time = {.tv_sec = (time_t)seconds};

    time.tv_nsec = (long)((seconds - (double)time.tv_sec) * 1e9);
    nanosleep(&time, NULL);
}

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

/* Returns "timed out after 0.5 s: rank 2 did not come". */
static const char *timed_out(char text[64])
{
    snprintf(
        text, 64, "timed out after %g s: rank 2 did not come", shared->timeout);
    return text;
}

static float *make_ones(size_t count)
{
    float *x = malloc(count * sizeof(*x));

    for (size_t i = 0; x != NULL && i < count; i++)
        x[i] = 1;
    return x;
}

static bool holds(const float *x, size_t count, float value)
{
    for (size_t i = 0; i < count; i++) {
        if (x[i] != value)
            return false;
    }
    return true;
}

/* The late rank calls after the others have left, and freed the memory that it
 * would read. */
static int come_when_all_have_gone(struct symmcoll_group *group)
{
    float *in = make_ones(shared->count), *out = make_ones(shared->count);
    char text[64];
    bool good;

    while (shared->gave_up < SIZE - 1)
        sleep_for(0.001);
    good = said(LATE,
        symmcoll_all_reduce(group, out, in, shared->count, SYMMCOLL_FLOAT32,
            SYMMCOLL_SUM, NULL, NULL),
        SYMMCOLL_ERR_ABORTED, timed_out(text));
    good = said(LATE, symmcoll_barrier(group, NULL, NULL), SYMMCOLL_ERR_ABORTED,
               "rank 2 did not come") &&
           good;
    good = good && holds(in, shared->count, 1) && holds(out, shared->count, 1);
    free(in);
    free(out);
    return good;
}

static int late_rank_is_named(struct symmcoll_group *group, int rank)
{
    struct symmcoll_call call = faults_timeout(shared->timeout);
    float *in, *out;
    symmcoll_status_t status;
    char name[256], text[64];
    bool good;

    shared->pids[rank] = getpid();
    if (symmcoll_barrier(group, NULL, NULL) != SYMMCOLL_OK)
        return 0;
    if (rank == LATE)
        return come_when_all_have_gone(group);
    in = make_ones(shared->count);
    out = make_ones(shared->count);
    status = symmcoll_all_reduce(group, out, in, shared->count,
        SYMMCOLL_FLOAT32, SYMMCOLL_SUM, &call, NULL);
    free(in);
    free(out);
    snprintf(name, sizeof(name),
        "all_reduce seq 2 of group %s %s; rank 2 (pid %d) is after barrier "
        "seq 1",
        symmcoll_group_name(group), timed_out(text), shared->pids[LATE]);
    good = said(rank, status, SYMMCOLL_ERR_TIMEOUT, name);
    shared->gave_up++;
    good = said(rank, symmcoll_barrier(group, NULL, NULL), SYMMCOLL_ERR_ABORTED,
               "rank 2 did not come") &&
           good;
    good = said(rank, symmcoll_group_error(group), SYMMCOLL_ERR_TIMEOUT,
               "rank 2 did not come") &&
           good;
    while (shared->gave_up < SIZE - 1)
        sleep_for(0.001);
    return good;
}

/* The late rank arrives at the moment when the others leave: each rank
 * succeeds or fails, and those that succeed have the right result. */
static int late_rank_in_the_same_moment(struct symmcoll_group *group, int rank)
{
    struct symmcoll_call call = faults_timeout(0.03);
    float *in = make_ones(shared->count), *out = make_ones(shared->count);
    symmcoll_status_t status = symmcoll_barrier(group, NULL, NULL);
    bool good = status == SYMMCOLL_OK;

    if (rank == LATE)
        sleep_for(shared->delay);
    if (good)
        status = symmcoll_all_reduce(group, out, in, shared->count,
            SYMMCOLL_FLOAT32, SYMMCOLL_SUM, &call, NULL);
    if (status == SYMMCOLL_OK)
        good = good && holds(out, shared->count, SIZE);
    else
        good = good && (status == SYMMCOLL_ERR_TIMEOUT ||
                           status == SYMMCOLL_ERR_ABORTED);
    if (!good)
        diag("rank %d: %s", rank, symmcoll_last_error());
    good = good && holds(in, shared->count, 1);
    free(in);
    free(out);
    /* An orderly shutdown now would be one more reason. */
    shared->gave_up++;
    while (shared->gave_up < SIZE)
        sleep_for(0.001);
    return good;
}

/* Checks a broadcast with a root that does not arrive. */
static int late_root_is_named(struct symmcoll_group *group, int rank)
{
    struct symmcoll_call call = faults_timeout(shared->timeout);
    float *x = make_ones(shared->count);
    symmcoll_status_t status;
    char text[64];
    bool good;

    if (symmcoll_barrier(group, NULL, NULL) != SYMMCOLL_OK)
        return 0;
    if (rank == LATE) {
        while (shared->gave_up < SIZE - 1)
            sleep_for(0.001);
        status = symmcoll_broadcast(
            group, x, shared->count, SYMMCOLL_FLOAT32, LATE, NULL, NULL);
        good = said(rank, status, SYMMCOLL_ERR_ABORTED, "rank 2 did not come");
    } else {
        status = symmcoll_broadcast(
            group, x, shared->count, SYMMCOLL_FLOAT32, LATE, &call, NULL);
        good = said(rank, status, SYMMCOLL_ERR_TIMEOUT, timed_out(text));
        shared->gave_up++;
        while (shared->gave_up < SIZE - 1)
            sleep_for(0.001);
    }
    good = good && holds(x, shared->count, 1);
    free(x);
    return good;
}

/* Checks that a work's wait which times out changes nothing, and that the
 * operation's own timeout fails the group. */
static int late_rank_of_a_work(struct symmcoll_group *group, int rank)
{
    struct symmcoll_call call = faults_timeout(shared->timeout);
    struct symmcoll_work *work = NULL;
    float *x = make_ones(shared->count);
    bool good = true;

    if (symmcoll_barrier(group, NULL, NULL) != SYMMCOLL_OK)
        return 0;
    if (rank == LATE) {
        while (shared->gave_up < SIZE - 1)
            sleep_for(0.001);
        good = said(rank, symmcoll_barrier(group, NULL, NULL),
            SYMMCOLL_ERR_ABORTED, "rank 2 did not come");
        free(x);
        return good;
    }
    if (symmcoll_all_reduce(group, x, x, shared->count, SYMMCOLL_FLOAT32,
            SYMMCOLL_SUM, &call, &work) != SYMMCOLL_OK)
        return 0;
    good = said(rank, symmcoll_work_wait(work, 0.02), SYMMCOLL_ERR_TIMEOUT,
               "it goes on") &&
           symmcoll_work_test(work) == SYMMCOLL_IN_PROGRESS;
    good = said(rank, symmcoll_work_wait(work, -1), SYMMCOLL_ERR_TIMEOUT,
               "rank 2 did not come") &&
           good;
    free(x);
    symmcoll_work_free(work);
    shared->gave_up++;
    while (shared->gave_up < SIZE - 1)
        sleep_for(0.001);
    return good;
}

/* ---- running ---- */

static bool run(bool threads, rank_fn body, size_t count)
{
    shared->gave_up = 0;
    shared->count = count;
    return threads ? threads_run(SIZE, body) : ranks_run(SIZE, body);
}

struct late {
    bool threads;
    rank_fn body;
    size_t count;
};

static bool run_late(double seconds, void *arg)
{
    const struct late *late = arg;

    shared->timeout = seconds;
    return run(late->threads, late->body, late->count);
}

/* Runs with a timeout in which all but the late rank arrive. */
static bool is_named(bool threads, rank_fn body, size_t count)
{
    struct late late = {threads, body, count};

    return attempts_hold(run_late, 0.5, &late);
}

/* Runs around the moment of the timeout, slightly before and after it. */
static bool run_moments(bool threads, size_t count)
{
    bool good = true;

    for (int i = 0; i < 6 && good; i++) {
        shared->delay = 0.028 + 0.001 * i;
        good = run(threads, late_rank_in_the_same_moment, count);
    }
    return good;
}

static void run_all(bool threads, const char *kind)
{
    ok(is_named(threads, late_rank_is_named, SMALL),
        "%s, one_shot: a late rank is named and learns what it has missed",
        kind);
    ok(is_named(threads, late_rank_is_named, LARGE),
        "%s, in large: a late rank is named and learns what it has missed",
        kind);
    ok(run_moments(threads, SMALL),
        "%s, one_shot: a rank may come in the moment of the timeout", kind);
    ok(run_moments(threads, LARGE),
        "%s, in large: a rank may come in the moment of the timeout", kind);
    ok(is_named(threads, late_root_is_named, SMALL),
        "%s, one_shot: a root that does not come is named", kind);
    ok(is_named(threads, late_root_is_named, LARGE),
        "%s, in large: a root that does not come is named", kind);
    ok(is_named(threads, late_rank_of_a_work, LARGE),
        "%s: a work ends by its operation's deadline, not by a wait", kind);
}

int main(void)
{
    plan(23);
    faults_begin();
    setenv("SYMMCOLL_LOG_LEVEL", "error", 1);
    shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE,
        MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (shared == MAP_FAILED)
        return 1;
    run_all(false, "processes, staged");
    ok(faults_dumped(LATE, NULL), "a record of the late rank is written");
    ok(faults_clear_dumps(SIZE), "and one for each rank, no more");
    run_all(true, "threads, direct");
    setenv("SYMMCOLL_HOST_DIRECT", "off", 1);
    run_all(true, "threads, staged");
    munmap(shared, sizeof(*shared));
    faults_end();
    return done_testing();
}
