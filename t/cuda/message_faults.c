/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Tests failing messages of device memory: a peer that dies or does not call,
 * blocked streams, calls refused by the driver. Each rank gets the cause in
 * time, and unaffected operations continue.
 */
#include "t/attempts.h"
#include "t/cuda/message.h"
#include "t/world/others.h"

#include <pthread.h>
#include <signal.h>

#define SIZE 3 /* if others continue; otherwise two */
#define VICTIM 1
#define NBYTES (9 * MESSAGE_CHUNK)

static bool begin(struct faults_rank *self, struct message *message)
{
    if (!faults_init(self))
        return false;
    message_begin(message, self->rank, NBYTES);
    message_fill(message, NBYTES, self->rank);
    return true;
}

/* The victim sends to the others, or receives from them. */
struct plan {
    bool receives;     /* the victim does */
    bool stalls;       /* its stream is blocked */
    const char *fault; /* of its driver; NULL: none */
    double timeout;
};

/* Starts the message on all ranks; the victim has one with each of the
 * others. */
static symmcoll_status_t start(const struct faults_rank *self,
    const struct message *message, const struct plan *plan,
    struct symmcoll_work *works[2])
{
    struct symmcoll_call call = SYMMCOLL_CALL_INIT;
    const bool sends = (self->rank == VICTIM) != plan->receives;
    symmcoll_status_t status = SYMMCOLL_OK;
    int n = 0;

    call.stream = message->stream;
    call.timeout = plan->timeout;
    for (int peer = 0; peer < self->size && status == SYMMCOLL_OK; peer++) {
        if (self->rank == VICTIM ? peer == VICTIM : peer != VICTIM)
            continue;
        status = sends ? symmcoll_send(self->group, message->at, NBYTES,
                             SYMMCOLL_UINT8, peer, 0, &call, &works[n])
                       : symmcoll_recv(self->group, message->at, NBYTES,
                             SYMMCOLL_UINT8, peer, 0, NULL, &call, &works[n]);
        n += status == SYMMCOLL_OK;
    }
    return status;
}

static void await(struct faults_rank *self, struct symmcoll_work *works[2])
{
    for (int i = 0; i < 2; i++) {
        if (works[i] == NULL)
            continue;
        faults_note(self, symmcoll_work_wait(works[i], FAULTS_WAIT_MAX));
        symmcoll_work_free(works[i]);
    }
}

/* Sends a message between the other ranks, in their own group. */
static bool others_go_on(
    struct symmcoll_group *other, int rank, const struct message *message)
{
    if (rank == VICTIM)
        return true;
    message_fill(message, NBYTES, 40 + rank);
    return message_fine(rank == 0
                            ? message_send(other, message, NBYTES, 1, 8)
                            : message_recv(other, message, NBYTES, 0, 8)) &&
           message_is(message, NBYTES, 40);
}

static int lose_a_peer(struct faults_rank *self)
{
    const struct plan *plan = self->arg;
    struct symmcoll_work *works[2] = {NULL, NULL};
    struct symmcoll_group *other;
    struct message message;
    bool right;

    if (!begin(self, &message))
        return 1;
    other = others_group(self, VICTIM);
    if (self->rank == VICTIM && plan->fault == NULL)
        fake_stall(message.stream);
    else if (self->rank == VICTIM)
        fake_configure(plan->fault);
    if (start(self, &message, plan, works) != SYMMCOLL_OK)
        return 1;
    faults_reach(self, 1);
    await(self, works);
    right = others_go_on(other, self->rank, &message);
    faults_reach(self, 2);
    return faults_finalize(self) != 0 || !right;
}

static void test_death(bool receives, const char *fault, const char *what)
{
    const struct plan plan = {
        .receives = receives, .fault = fault, .timeout = -1};

    ok(others_survive(SIZE, VICTIM, lose_a_peer, &plan), "%s", what);
}

/* ---- deadlines ---- */

/* The victim's stream is blocked, or the victim does not call at all. */
static int miss_a_deadline(struct faults_rank *self)
{
    const struct plan *plan = self->arg;
    struct symmcoll_work *works[2] = {NULL, NULL};
    struct message message;

    if (!begin(self, &message))
        return 1;
    if (self->rank == VICTIM && plan->stalls)
        fake_stall(message.stream);
    if ((self->rank != VICTIM || plan->stalls) &&
        start(self, &message, plan, works) != SYMMCOLL_OK)
        return 1;
    if (self->rank != VICTIM)
        await(self, works);
    faults_reach(self, 1);
    faults_pass(self, 1);
    if (self->rank == VICTIM && plan->stalls) {
        await(self, works);
        fake_resume(message.stream);
    }
    return faults_finalize(self);
}

static bool is_late(double seconds, void *arg)
{
    const struct plan *given = arg;
    struct plan plan = *given;
    struct faults_job job;
    bool told;

    plan.timeout = seconds;
    faults_start(&job, 2, miss_a_deadline, &plan);
    told = faults_await_all(&job, 1);
    faults_open(&job, 1);
    told = faults_said(faults_told(&job, 0, 0), SYMMCOLL_ERR_TIMEOUT,
               plan.stalls     ? " seq 1"
               : plan.receives ? "send seq 1"
                               : "recv seq 1",
               plan.stalls ? NULL : "rank 1 did not come", NULL) &&
           told;
    if (plan.stalls) {
        faults_reap(&job, VICTIM);
        told = faults_told(&job, VICTIM, 0)->status < 0 && told;
    }
    return faults_finish(&job, 0) && told;
}

/* Only the victim has a timeout, so its error is about its own stream. */
static int stand_still(struct faults_rank *self)
{
    const struct plan *given = self->arg;
    struct plan plan = *given;
    struct symmcoll_work *works[2] = {NULL, NULL};
    struct message message;

    if (!begin(self, &message))
        return 1;
    if (self->rank == VICTIM)
        fake_stall(message.stream);
    else
        plan.timeout = FAULTS_WAIT_MAX;
    if (start(self, &message, &plan, works) != SYMMCOLL_OK)
        return 1;
    await(self, works);
    if (self->rank == VICTIM)
        fake_resume(message.stream);
    return faults_finalize(self);
}

static bool stands_still(double seconds, void *arg)
{
    const struct plan *given = arg;
    struct plan plan = *given;
    struct faults_job job;
    bool told = true;

    plan.timeout = seconds;
    faults_start(&job, 2, stand_still, &plan);
    for (int r = 0; r < 2; r++) {
        faults_reap(&job, r);
        told =
            faults_said(faults_told(&job, r, 0), SYMMCOLL_ERR_TIMEOUT,
                plan.receives ? "recv seq" : "send seq", "expected the stream",
                "what it had before has not ended", NULL) &&
            told;
    }
    return faults_finish(&job, 0) && told;
}

/* ---- an abort ---- */

static void *abort_group(void *arg)
{
    struct faults_rank *self = arg;

    faults_pass(self, 1);
    symmcoll_group_abort(self->group, "enough");
    return NULL;
}

static int abort_from_thread(struct faults_rank *self)
{
    const struct plan plan = {.timeout = -1};
    struct symmcoll_work *works[2] = {NULL, NULL};
    struct message message;
    pthread_t thread = 0;

    if (!begin(self, &message))
        return 1;
    if (self->rank == VICTIM)
        fake_stall(message.stream);
    if (start(self, &message, &plan, works) != SYMMCOLL_OK)
        return 1;
    if (self->rank == 0 &&
        pthread_create(&thread, NULL, abort_group, self) != 0)
        return 1;
    faults_reach(self, 1);
    await(self, works);
    if (self->rank == 0)
        pthread_join(thread, NULL);
    if (self->rank == VICTIM)
        fake_resume(message.stream);
    return faults_finalize(self);
}

static void test_abort(void)
{
    struct faults_job job;
    bool told;

    faults_start(&job, 2, abort_from_thread, NULL);
    told = faults_await_all(&job, 1);
    faults_open(&job, 1);
    for (int r = 0; r < 2; r++) {
        faults_reap(&job, r);
        told = faults_said(faults_told(&job, r, 0), SYMMCOLL_ERR_CANCELED,
                   "enough", NULL) &&
               told;
    }
    ok(faults_finish(&job, 0) && told,
        "messages of a group that another thread aborts end, and say so");
}

/* ---- the driver ---- */

static int refuse(struct faults_rank *self)
{
    const struct plan *plan = self->arg;
    struct symmcoll_work *works[2] = {NULL, NULL};
    struct message message;

    if (!begin(self, &message))
        return 1;
    /* The fake device continues the work that a broken device would drop, so
     * memory is freed when that work has ended. */
    if (self->rank == VICTIM &&
        !(fake_configure("waits=1") && fake_configure(plan->fault)))
        return 1;
    if (start(self, &message, plan, works) != SYMMCOLL_OK)
        return 1;
    await(self, works);
    return faults_finalize(self);
}

static void test_refusal(
    bool receives, const char *fault, const char *text, const char *what)
{
    const struct plan plan = {
        .receives = receives, .fault = fault, .timeout = -1};
    struct faults_job job;
    bool told = true;

    faults_start(&job, 2, refuse, &plan);
    for (int r = 0; r < 2; r++) {
        faults_reap(&job, r);
        told = faults_said(faults_told(&job, r, 0), SYMMCOLL_ERR_DEVICE, text,
                   receives ? "recv seq" : "send seq", NULL) &&
               told;
    }
    ok(faults_finish(&job, 0) && told, "%s", what);
}

/* Checks that a device without memory for messages is an error of its rank,
 * before the message has a number, and that a later send succeeds. */
static int is_short_of_memory(struct symmcoll_group *group, int rank)
{
    struct message message;
    int right = 1;

    message_begin(&message, rank, MESSAGE_CHUNK);
    message_fill(&message, MESSAGE_CHUNK, 80 + rank);
    if (rank == 0) {
        fake_configure("fail=cuMemAlloc:1:2");
        right = ended(message_send(group, &message, MESSAGE_CHUNK, 1, 0),
            SYMMCOLL_ERR_NO_MEMORY, "send: device 0: cuMemAlloc of 2 MiB");
    }
    right =
        message_fine(
            rank == 0 ? message_send(group, &message, MESSAGE_CHUNK, 1, 0)
                      : message_recv(group, &message, MESSAGE_CHUNK, 0, 0)) &&
        message_is(&message, MESSAGE_CHUNK, 80) && right;
    message_end(&message);
    return right;
}

int main(void)
{
    struct plan silent = {.receives = false}, deaf = {.receives = true},
                still = {.receives = false, .stalls = true},
                full = {.receives = true, .stalls = true};

    device_begin();
    setenv("SYMMCOLL_CUDA_MESSAGE_CHUNK", "64KiB", 1);
    faults_begin();
    test_death(
        false, NULL, "a sender that dies: its name, and others that go on");
    test_death(true, NULL, "a receiver that dies: the same");
    test_death(false, "slow=cuMemcpyAsync:300",
        "a sender that dies while its message is copied: the same");
    test_death(true, "slow=cuMemcpyAsync:300", "a receiver: the same");
    ok(attempts_hold(is_late, 0.5, &silent),
        "a peer that sends nothing is named when the time has passed");
    ok(attempts_hold(is_late, 0.5, &deaf), "so is one that receives nothing");
    ok(attempts_hold(is_late, 0.5, &still),
        "a sender whose stream stands still ends the others' receives in time");
    ok(attempts_hold(is_late, 0.5, &full),
        "a receiver whose stream stands still ends the others' sends in time");
    ok(attempts_hold(stands_still, 0.5, &still),
        "a sender says that its own stream stands still, and all are told");
    ok(attempts_hold(stands_still, 0.5, &full), "so does a receiver");
    test_abort();
    test_refusal(false, "fail=cuMemcpyAsync:2:719",
        "cuMemcpyAsync of 65536 bytes",
        "a copy that the driver refuses a sender fails the group, with its error");
    test_refusal(true, "fail=cuMemcpyAsync:3:719",
        "cuMemcpyAsync of 65536 bytes", "so does one of a receiver");
    test_refusal(false, "fail=cuEventQuery:3:719", "cuEventQuery of a copy",
        "so does a device that does not say how far it is");
    test_refusal(true, "fail=cuIpcOpenMemHandle:1:101",
        "cuIpcOpenMemHandle of another rank's memory for messages",
        "so does memory that cannot be opened");
    ok(ranks_run(2, is_short_of_memory),
        "a device without memory for messages is the caller's error alone");
    faults_end();
    return done_testing();
}
