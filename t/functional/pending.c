/* SPDX-License-Identifier: BSD-3-Clause */
/* Tests pending results: which calls wait for them, and which do not. */
#include "t/functional/made.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* ---- waiting ---- */

/* Uses the result of one call as the input of the next, also in another
 * group. */
static int chains(struct symmcoll_group *group, int rank)
{
    float ones[6] = {1, 1, 1, 1, 1, 1};
    struct symmcoll_tensor in =
        SYMMCOLL_TENSOR_SHAPE(ones, SYMMCOLL_FLOAT32, 2, 3);
    struct symmcoll_tensor a = SYMMCOLL_TENSOR_INIT, b = SYMMCOLL_TENSOR_INIT,
                           c = SYMMCOLL_TENSOR_INIT;
    int size = symmcoll_group_size(group), good;

    (void)rank;
    good = OK(symmcoll_f_all_gather(group, &in, 1, NULL, &a, NULL)) &&
           OK(symmcoll_f_all_reduce(group, &a, SYMMCOLL_SUM, NULL, &b, NULL)) &&
           OK(symmcoll_f_reduce_scatter(
               group, &b, SYMMCOLL_SUM, 1, NULL, &c, NULL)) &&
           waits(group, &c) && is_shape(&c, 2, 2, 3, 0) &&
           all_are(&c, (float)(size * size));
    release(group, &a);
    release(group, &b);
    release(group, &c);
    return good;
}

static int unknown_is_complete(struct symmcoll_group *group, int rank)
{
    float mine[1] = {5};
    struct symmcoll_tensor in = SYMMCOLL_TENSOR_FLAT(mine, 1, SYMMCOLL_FLOAT32);
    struct symmcoll_tensor out = SYMMCOLL_TENSOR_INIT;
    int good;

    (void)rank;
    good =
        waits(group, &in) && mine[0] == 5 &&
        OK(symmcoll_f_all_reduce(group, &in, SYMMCOLL_SUM, NULL, &out, NULL)) &&
        waits(group, &in) && waits(group, &out) && waits(group, &out);
    release(group, &out);
    release(group, &out);
    release(group, NULL);
    return good && symmcoll_f_wait(NULL, &in, -1) == SYMMCOLL_ERR_INVALID &&
           symmcoll_f_wait(group->world, NULL, -1) == SYMMCOLL_ERR_INVALID;
}

/* Two operations write to one buffer: a wait covers both. */
static int several_on_one(struct symmcoll_group *group, int rank)
{
    float low[2] = {1, 1}, place[4] = {0};
    struct symmcoll_tensor in = SYMMCOLL_TENSOR_FLAT(low, 2, SYMMCOLL_FLOAT32);
    struct symmcoll_tensor out =
        SYMMCOLL_TENSOR_FLAT(place, 2, SYMMCOLL_FLOAT32);
    float size = (float)symmcoll_group_size(group);

    (void)rank;
    return OK(symmcoll_f_all_reduce(
               group, &in, SYMMCOLL_SUM, NULL, &out, NULL)) &&
           out.data == place &&
           OK(symmcoll_f_all_reduce(
               group, &out, SYMMCOLL_SUM, NULL, &out, NULL)) &&
           waits(group, &out) && all_are(&out, size * size) && low[0] == 1;
}

/* Whether rank 0 has tested, in memory shared by processes. */
static _Atomic int *asked;

/* A wait that times out leaves the result pending. Rank 1 calls afterwards. */
static int zero_does_not_block(struct symmcoll_group *group, int rank)
{
    float ones[2] = {1, 1};
    struct symmcoll_tensor in = SYMMCOLL_TENSOR_FLAT(ones, 2, SYMMCOLL_FLOAT32);
    struct symmcoll_tensor out = SYMMCOLL_TENSOR_INIT;
    int good;

    if (rank == 0)
        good =
            OK(symmcoll_f_all_reduce(
                group, &in, SYMMCOLL_SUM, NULL, &out, NULL)) &&
            symmcoll_f_wait(group->world, &out, 0.05) == SYMMCOLL_ERR_TIMEOUT &&
            symmcoll_f_wait(group->world, &out, 0) == SYMMCOLL_ERR_TIMEOUT;
    else {
        while (atomic_load(asked) == 0)
            usleep(1000);
        good = OK(
            symmcoll_f_all_reduce(group, &in, SYMMCOLL_SUM, NULL, &out, NULL));
    }
    if (rank == 0)
        atomic_store(asked, 1);
    good = good && waits(group, &out) && all_are(&out, 2);
    release(group, &out);
    return good;
}

/* A result may arrive between two polls of one wait, which then takes it or
 * leaves it pending: it is complete when the wait returns OK. */
static int is_there_when_found(struct symmcoll_group *group, int rank)
{
    float mine[2], place[4];
    struct symmcoll_tensor in =
        SYMMCOLL_TENSOR_SHAPE(mine, SYMMCOLL_FLOAT32, 2, 1);
    struct symmcoll_tensor out =
        SYMMCOLL_TENSOR_SHAPE(place, SYMMCOLL_FLOAT32, 2, 2);
    int good = 1;

    (void)rank;
    for (int round = 1; round <= 200 && good; round++) {
        symmcoll_status_t status;

        fill(&in, (float)round);
        fill(&out, -1);
        good = OK(symmcoll_f_all_gather(group, &in, 1, NULL, &out, NULL)) &&
               out.data == place;
        do
            status = symmcoll_f_wait(group->world, &out, 0);
        while (good && status == SYMMCOLL_ERR_TIMEOUT);
        good = good && OK(status) && all_are(&out, (float)round);
    }
    return good;
}

/* ---- threads ---- */

struct waiter {
    struct symmcoll_group *group;
    const struct symmcoll_tensor *tensor;
    int good;
};

static void *wait_there(void *arg)
{
    struct waiter *waiter = arg;

    waiter->good =
        waits(waiter->group, waiter->tensor) && all_are(waiter->tensor, 1);
    return NULL;
}

static int threads_wait(struct symmcoll_group *group, int rank)
{
    float ones[64][16];
    struct symmcoll_tensor in =
        SYMMCOLL_TENSOR_SHAPE(ones, SYMMCOLL_FLOAT32, 64, 16);
    int good = 1;

    (void)rank;
    fill(&in, 1);
    for (int round = 0; round < 20 && good; round++) {
        struct symmcoll_tensor out = SYMMCOLL_TENSOR_INIT;
        struct waiter waiters[2] = {{group, &out, 0}, {group, &out, 0}};
        pthread_t threads[2];

        good = OK(symmcoll_f_all_gather(group, &in, 1, NULL, &out, NULL));
        for (int i = 0; i < 2; i++)
            pthread_create(&threads[i], NULL, wait_there, &waiters[i]);
        for (int i = 0; i < 2; i++) {
            pthread_join(threads[i], NULL);
            good = good && waiters[i].good;
        }
        release(group, &out);
    }
    return good;
}

/* ---- results without a wait ---- */

static int leave_two(struct symmcoll_group *group, int rank)
{
    float ones[2] = {1, 1};
    struct symmcoll_tensor in = SYMMCOLL_TENSOR_FLAT(ones, 2, SYMMCOLL_FLOAT32);
    static struct symmcoll_tensor out[3] = {
        SYMMCOLL_TENSOR_INIT, SYMMCOLL_TENSOR_INIT, SYMMCOLL_TENSOR_INIT};

    (void)rank;
    return OK(symmcoll_f_all_reduce(
               group, &in, SYMMCOLL_SUM, NULL, &out[0], NULL)) &&
           OK(symmcoll_f_all_gather(group, &in, 0, NULL, &out[1], NULL)) &&
           OK(symmcoll_f_all_gather(group, &in, 0, NULL, &out[2], NULL)) &&
           waits(group, &out[0]) && symmcoll_barrier(group, NULL, NULL) == 0;
}

/* An operation on two tensors fails, and a wait for one of them returns the
 * error. */
static int leave_failed(struct symmcoll_group *group, int rank)
{
    float ones[2] = {1, 1};
    struct symmcoll_tensor in[2] = {
        SYMMCOLL_TENSOR_FLAT(ones, 1, SYMMCOLL_FLOAT32),
        SYMMCOLL_TENSOR_FLAT(ones, 1 + rank, SYMMCOLL_FLOAT32)};
    static struct symmcoll_tensor out[2] = {
        SYMMCOLL_TENSOR_INIT, SYMMCOLL_TENSOR_INIT};

    return OK(symmcoll_f_all_reduce_coalesced(
               group, in, 2, SYMMCOLL_SUM, NULL, out, NULL)) &&
           symmcoll_f_wait(group->world, &out[rank], -1) ==
               SYMMCOLL_ERR_MISMATCH;
}

/* Counts the lines that ranks log about results without a wait, and those with
 * the text. */
static int logs(int n, rank_fn body, const char *text, int *lines, int *right)
{
    FILE *log = tmpfile();
    int saved = dup(STDERR_FILENO), good;
    char line[512];

    if (log == NULL || saved < 0)
        return 0;
    fflush(stderr);
    dup2(fileno(log), STDERR_FILENO);
    good = ranks_run(n, body);
    dup2(saved, STDERR_FILENO);
    close(saved);
    rewind(log);
    *lines = *right = 0;
    while (fgets(line, sizeof(line), log) != NULL) {
        diag("%s", line);
        *lines += strstr(line, "never waited for") != NULL;
        *right += strstr(line, text) != NULL;
    }
    fclose(log);
    return good;
}

static int reported_once(void)
{
    int lines, right;

    return logs(1, leave_two,
               "2 results of functional calls were never waited for, the first "
               "of f_all_gather, seq 2",
               &lines, &right) &&
           lines == 1 && right == 1;
}

static int failures_are_not_reported(void)
{
    int lines, right;

    return logs(2, leave_failed, "never", &lines, &right) && lines == 0;
}

static void run_all(int (*run)(int n, rank_fn body), const char *kind)
{
    ok(run(4, chains), "%s: calls wait for pending inputs themselves (F1)",
        kind);
    ok(run(2, unknown_is_complete),
        "%s: waiting for what is not pending does nothing (F2)", kind);
    ok(run(2, several_on_one),
        "%s: memory of the caller takes results, several even (F2 F8)", kind);
    atomic_store(asked, 0);
    ok(run(2, zero_does_not_block),
        "%s: a wait that expires leaves the result pending", kind);
    ok(run(2, is_there_when_found),
        "%s: what a wait finds has been received (F2)", kind);
    ok(run(2, threads_wait), "%s: several threads wait for one result (F2)",
        kind);
}

int main(void)
{
    asked = mmap(
        NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (asked == MAP_FAILED)
        skip_all("no shared memory");
    plan(14);
    run_all(ranks_run, "processes");
    run_all(threads_run, "threads");
    ok(reported_once(),
        "results that nobody waits for are reported once, at the end (F2)");
    ok(failures_are_not_reported(),
        "those of which a failure is known are not (F2)");
    return done_testing();
}
