/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Tests a thread that is blocked in the driver while it holds its group's
 * ticket, because the queue of its stream is full: calls by other threads of
 * the rank end in time with an error, and the group is released when the
 * driver has returned.
 */
#include "group/group.h"
#include "run/device.h"
#include "t/cuda/sums.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SIZE 2
#define VICTIM 1
#define COUNT 300
#define CALLS 12
#define TIMEOUT 2
#define SOON 20 /* seconds: less than any unbounded wait here */

/* A call that another thread of the victim makes at the same time. */
typedef symmcoll_status_t (*call_fn)(struct symmcoll_group *group);

struct caller {
    struct symmcoll_group *group;
    call_fn call;
    pthread_t thread;
    symmcoll_status_t status;
    char text[600];
};

static symmcoll_status_t sum_host(struct symmcoll_group *group)
{
    float value = 1;

    return symmcoll_all_reduce(
        group, &value, &value, 1, F32, SYMMCOLL_SUM, NULL, NULL);
}

static symmcoll_status_t sum_work(struct symmcoll_group *group)
{
    struct symmcoll_work *work = NULL;
    float value = 1;
    symmcoll_status_t status = symmcoll_all_reduce(
        group, &value, &value, 1, F32, SYMMCOLL_SUM, NULL, &work);

    if (status == SYMMCOLL_OK)
        status = symmcoll_work_wait(work, -1);
    symmcoll_work_free(work);
    return status;
}

static symmcoll_status_t sum_device(struct symmcoll_group *group)
{
    struct sums sums = {device_stream(), device_alloc(sizeof(float))};

    return sums_add(group, &sums, 1, TIMEOUT, NULL);
}

static symmcoll_status_t make_workspace(struct symmcoll_group *group)
{
    struct symmcoll_symm *handle;

    return symmcoll_symm_workspace(group, 4096, NULL, &handle);
}

static symmcoll_status_t split(struct symmcoll_group *group)
{
    struct symmcoll_group *made;

    return symmcoll_group_split(group, 0, 0, NULL, &made);
}

static void *call(void *arg)
{
    struct caller *caller = arg;

    device_use(VICTIM);
    caller->status = caller->call(caller->group);
    snprintf(caller->text, sizeof(caller->text), "%s", symmcoll_last_error());
    return NULL;
}

/* ---- the blocked thread ---- */

struct flood {
    struct symmcoll_group *group;
    struct sums sums;
    int rank;
    double timeout;
    _Atomic int calls; /* that have returned */
};

static void *enqueue(void *arg)
{
    struct flood *flood = arg;
    symmcoll_status_t status = SYMMCOLL_OK;

    device_use(flood->rank);
    for (int i = 0; i < CALLS && status == SYMMCOLL_OK; i++) {
        status =
            sums_add(flood->group, &flood->sums, COUNT, flood->timeout, NULL);
        flood->calls++;
    }
    return NULL;
}

/* Waits until no call has returned for a while. */
static void await_standing(struct flood *flood)
{
    for (int quiet = 0, calls = 0; quiet < 300; quiet++) {
        faults_rest();
        quiet = flood->calls != calls ? 0 : quiet;
        calls = flood->calls;
    }
}

static bool was_told(const struct caller *caller)
{
    if (caller->status == SYMMCOLL_ERR_TIMEOUT &&
        strstr(caller->text, "all_reduce seq ") != NULL &&
        strstr(caller->text, "'the sum'") != NULL &&
        strstr(caller->text, "has not returned") != NULL)
        return true;
    diag("expected TIMEOUT and who has not returned, found %s: %s",
        symmcoll_status_name(caller->status), caller->text);
    return false;
}

static bool is_soon(double began, const char *what)
{
    double took = faults_now() - began;

    if (took > SOON)
        diag("%s took %.3g s", what, took);
    return took <= SOON;
}

static bool others_are_told(struct symmcoll_group *group)
{
    static const call_fn calls[] = {
        sum_host, sum_work, sum_device, make_workspace, split, sum_host};
    struct caller callers[sizeof(calls) / sizeof(calls[0])];
    const int n = (int)(sizeof(calls) / sizeof(calls[0]));
    double began = faults_now();
    bool right = true;

    for (int i = 0; i < n; i++) {
        callers[i] = (struct caller){.group = group, .call = calls[i]};
        if (pthread_create(&callers[i].thread, NULL, call, &callers[i]) != 0)
            return false;
    }
    for (int i = 0; i < n; i++) {
        pthread_join(callers[i].thread, NULL);
        right = was_told(&callers[i]) && right;
    }
    return is_soon(began, "the calls") && right;
}

static bool is_kept(symmcoll_status_t status, const char *where, double began)
{
    const char *text = symmcoll_last_error();

    if (status == SYMMCOLL_ERR_TIMEOUT && strstr(text, where) == text &&
        strstr(text, "'the sum' on stream 0x") != NULL &&
        strstr(text, "the call can be repeated") != NULL)
        return is_soon(began, where);
    diag("found %s: %s", symmcoll_status_name(status), text);
    return false;
}

/* ---- the ranks ---- */

static bool stand(struct flood *flood, struct symmcoll_world *world)
{
    struct symmcoll_group *own = symmcoll_world_group(world);
    pthread_t thread;
    double began;
    bool right;

    fake_stall(flood->sums.stream);
    if (pthread_create(&thread, NULL, enqueue, flood) != 0)
        return false;
    await_standing(flood);
    right = others_are_told(flood->group) && flood->calls < CALLS;
    began = faults_now();
    if (flood->group != own)
        right = is_kept(symmcoll_group_free(flood->group),
                    "group_free: the driver of device ", began) &&
                right;
    began = faults_now();
    right = is_kept(symmcoll_finalize(world), "finalize: the driver of device ",
                began) &&
            right;
    fake_resume(flood->sums.stream);
    pthread_join(thread, NULL);
    return right;
}

static int stand_in_driver(struct faults_rank *self)
{
    struct flood flood = {.rank = self->rank,
        /* Its kernels wait for the victim, which must find out first. */
        .timeout = self->rank == VICTIM ? TIMEOUT : 8 * FAULTS_WAIT_MAX};
    bool right = sums_begin(self, &flood.sums, COUNT);

    flood.group = self->group;

    if (right && self->arg != NULL)
        right = symmcoll_group_create(self->world, NULL, &flood.group) ==
                    SYMMCOLL_OK &&
                sums_add(flood.group, &flood.sums, 3, -1, NULL) == SYMMCOLL_OK;
    if (!right || (self->rank == VICTIM && !fake_configure("queue=4")))
        return 1;
    if (self->rank == VICTIM)
        right = stand(&flood, self->world);
    else
        enqueue(&flood);
    device_wait(flood.sums.stream);
    if (self->arg != NULL)
        right = symmcoll_group_free(flood.group) == SYMMCOLL_OK && right;
    return faults_finalize(self) != 0 || !right;
}

/* Checks a call that entered the backend `ns` ago and holds the ticket. */
static bool stands_after(
    struct symmcoll_group *group, struct symc_slot *slot, int64_t ns)
{
    pthread_mutex_lock(&slot->noted);
    slot->entered_ns = symc_now_ns() - ns;
    pthread_mutex_unlock(&slot->noted);
    return symc_slot_stands(&group->runner, true);
}

static int has_a_moment(struct symmcoll_group *all, int rank)
{
    struct sums sums;
    struct symmcoll_group *group = NULL;
    struct symc_op op = {.kind = SYMC_ALL_REDUCE,
        .label = "the sum",
        .timeout_ns = 100 * SYMC_NS_PER_S};
    struct symc_slot *slot;
    bool right;

    device_use(rank);
    sums = (struct sums){device_stream(), device_alloc(sizeof(float))};
    if (symmcoll_group_create(symmcoll_group_world(all), NULL, &group) !=
            SYMMCOLL_OK ||
        sums_add(group, &sums, 1, -1, NULL) != SYMMCOLL_OK)
        return 0;
    slot = &group->runner.slots[SYMC_MEMORY_DEVICE];
    right = symc_slot_enqueue(&group->runner, slot, &op, true) == SYMMCOLL_OK &&
            /* the clock advances: the call has just begun, whenever this is
             * read */
            say(!stands_after(group, slot, -SYMC_NS_PER_S), "a moment") &&
            say(symmcoll_group_error(group) == SYMMCOLL_OK, "the group") &&
            say(stands_after(group, slot, SYMC_NS_PER_S), "a second") &&
            ended(symmcoll_group_error(group), SYMMCOLL_ERR_TIMEOUT,
                "has not returned");
    symc_slot_enqueued(slot);
    device_wait(sums.stream);
    right = symmcoll_group_free(group) == SYMMCOLL_OK && right;
    device_end_stream(sums.stream);
    device_free(sums.at);
    return right;
}

/* Checks the end of a wait for a work that the blocked thread starts, or that
 * is started after it, and whether the error states who owns the work's
 * buffers. */
static bool is_given_up(
    struct symmcoll_group *group, struct symmcoll_work *work, bool owned)
{
    symmcoll_status_t status;

    if (!say(symc_device_give_up(&group->runner, work),
            "who stands has come back"))
        return false;
    status = symc_device_refuse(&group->runner, &work->op, work->owned);
    return say(work->given_up && work->owned == owned, "whose it is") &&
           ended(status, SYMMCOLL_ERR_TIMEOUT,
               owned ? "backend cuda still owns in (12 bytes at 0x"
                     : "has not returned") &&
           say((strstr(symmcoll_last_error(), "still owns") != NULL) == owned,
               "still owns");
}

static int tells_its_owner(struct symmcoll_group *all, int rank)
{
    struct sums sums;
    struct symmcoll_group *group = NULL;
    struct symmcoll_work works[2];
    struct symc_slot *slot;
    bool right;

    device_use(rank);
    sums = (struct sums){device_stream(), device_alloc(3 * sizeof(float))};
    if (symmcoll_group_create(symmcoll_group_world(all), NULL, &group) !=
            SYMMCOLL_OK ||
        sums_add(group, &sums, 3, -1, NULL) != SYMMCOLL_OK)
        return 0;
    for (int i = 0; i < 2; i++)
        works[i] = (struct symmcoll_work){.op = {.kind = SYMC_ALL_REDUCE,
                                              .dtype = F32,
                                              .elem = sizeof(float),
                                              .count = 3,
                                              .in = sums.at,
                                              .out = sums.at,
                                              .memory = SYMC_MEMORY_DEVICE,
                                              .label = "the sum",
                                              .timeout_ns = SYMC_NS_PER_S}};
    slot = &group->runner.slots[SYMC_MEMORY_DEVICE];
    right = symc_slot_enqueue(&group->runner, slot, &works[0].op, true) ==
                SYMMCOLL_OK &&
            say(stands_after(group, slot, 2 * SYMC_NS_PER_S), "it stands") &&
            is_given_up(group, &works[1], false) &&
            is_given_up(group, &works[0], true);
    symc_slot_enqueued(slot);
    device_wait(sums.stream);
    right = symmcoll_group_free(group) == SYMMCOLL_OK && right;
    device_end_stream(sums.stream);
    device_free(sums.at);
    return right;
}

int main(void)
{
    struct faults_job job;

    plan(4);
    device_begin();
    ok(ranks_run(1, has_a_moment),
        "a call that is in the driver for a moment fails nobody, however late "
        "who waits for it is");
    ok(ranks_run(1, tells_its_owner),
        "who does not wait any more is told whose the buffers are of what stands "
        "there");
    setenv("SYMMCOLL_TIMEOUTS_FINALIZE", "1s", 1);
    faults_begin();
    faults_start(&job, SIZE, stand_in_driver, NULL);
    ok(faults_finish(&job, 0) && faults_clear_dumps(SIZE),
        "who waits for a thread that stands in the driver is told, at the end "
        "too");
    faults_start(&job, SIZE, stand_in_driver, &(int){1});
    ok(faults_finish(&job, 0) && faults_clear_dumps(SIZE),
        "and so is who releases its group");
    faults_end();
    return done_testing();
}
