/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Tests messages of device memory that a driver or a device never completes:
 * the library abandons them, finalize returns, and unused resources are
 * released.
 */
#include "t/attempts.h"
#include "t/cuda/message.h"
#include "t/logged.h"
#include "t/world/faults.h"

#include "config/config.h"
#include "world/world.h"

#include <dirent.h>
#include <string.h>

#define VICTIM 1
#define NBYTES (9 * MESSAGE_CHUNK)

/* Milliseconds of a call: longer than the waits for a message, its copies, and
 * the thread. */
#define STANDS (SANITIZED ? "40000" : "15000")

static bool begin(struct faults_rank *self, struct message *message)
{
    if (!faults_init(self))
        return false;
    message_begin(message, self->rank, NBYTES);
    message_fill(message, NBYTES, self->rank);
    return true;
}

/* The victim sends to rank 0, or receives from it. */
struct plan {
    bool receives;    /* the victim does */
    const char *call; /* of its driver, blocked; NULL: none */
    bool late;        /* its device ends the copy late; otherwise never */
    double timeout;
};

/* Runs the exchange and records its outcome. */
static bool exchange(struct faults_rank *self, const struct message *message,
    const struct plan *plan)
{
    struct symmcoll_call call = SYMMCOLL_CALL_INIT;
    struct symmcoll_work *work = NULL;
    const int peer = !self->rank;
    const size_t nbytes = plan->late ? MESSAGE_CHUNK : NBYTES; /* one copy */
    symmcoll_status_t status;

    call.stream = message->stream;
    call.timeout = plan->timeout;
    status = (self->rank == VICTIM) != plan->receives
                 ? symmcoll_send(self->group, message->at, nbytes,
                       SYMMCOLL_UINT8, peer, 0, &call, &work)
                 : symmcoll_recv(self->group, message->at, nbytes,
                       SYMMCOLL_UINT8, peer, 0, NULL, &call, &work);
    if (status != SYMMCOLL_OK)
        return false;
    faults_note(self, symmcoll_work_wait(work, FAULTS_WAIT_MAX));
    symmcoll_work_free(work);
    return true;
}

/* ---- calls that do not return ---- */

/* Returns whether this process has a copier thread. */
static bool has_copier(void)
{
    DIR *tasks = opendir("/proc/self/task");
    struct dirent *entry;
    bool found = false;

    while (tasks != NULL && (entry = readdir(tasks)) != NULL) {
        char path[300], name[32] = "";
        FILE *file;

        snprintf(path, sizeof(path), "/proc/self/task/%s/comm", entry->d_name);
        file = fopen(path, "r");
        if (file == NULL)
            continue;
        if (fgets(name, sizeof(name), file) != NULL)
            found = strcmp(name, "symc-copier\n") == 0 || found;
        fclose(file);
    }
    if (tasks != NULL)
        closedir(tasks);
    return found;
}

/* The victim's driver call returns long after its finalize(), and its thread
 * then finds nothing of the world. Step 1: both have finalized. */
static int outlive_a_call(struct faults_rank *self)
{
    const struct plan *plan = self->arg;
    struct message message;
    struct logged logged;
    char device[64], said[4096], fault[64];
    bool right;

    snprintf(fault, sizeof(fault), "slow=%s:%s", plan->call, STANDS);

    if (!begin(self, &message))
        return 1;
    if (self->rank == VICTIM)
        fake_configure(fault);
    self->world->config->timeouts_finalize = SYMC_NS_PER_S / 2;
    if (!exchange(self, &message, plan))
        return 1;
    logged_begin(&logged);
    right = faults_finalize(self) == 0;
    (void)logged_end(&logged, said, sizeof(said));
    snprintf(device, sizeof(device),
        "finalize: the driver of device %d has not returned for ", VICTIM);
    faults_reach(self, 1);
    if (self->rank != VICTIM)
        return !right;
    if (strstr(said, device) == NULL || !has_copier()) {
        diag("expected a thread that is left, and '%s', found: %s", device,
            said);
        right = false;
    }
    faults_pass(self, 1);
    for (double began = faults_now();
         has_copier() && faults_now() - began < FAULTS_WAIT_MAX;)
        faults_rest();
    return !right || has_copier();
}

static void test_outlived(bool receives, const char *call, const char *what)
{
    const struct plan plan = {
        .receives = receives, .call = call, .timeout = 0.5};
    struct faults_job job;
    bool told;

    faults_start(&job, 2, outlive_a_call, &plan);
    told = faults_await_all(&job, 1);
    faults_open(&job, 1);
    ok(faults_finish(&job, 0) && told, "%s", what);
}

/* ---- copies that do not end ---- */

#define GREATEST (-5)   /* the priority of the copier's streams */
#define NEVER_MS 600000 /* longer than any test */
#define LATE_MS \
    600 /* after the message's timeout; less than the wait for a copy */

/* The victim's device never ends a copy, or ends it late. Its message is
 * abandoned after a while; finalize releases nothing that the copy uses, and
 * no longer waits for it. */
static int hold_a_copy(struct faults_rank *self)
{
    const struct plan *plan = self->arg;
    struct message message;
    struct logged logged;
    char said[4096], expected[64];
    bool right;

    if (!begin(self, &message))
        return 1;
    if (self->rank == VICTIM)
        fake_hold_back(VICTIM, GREATEST,
            plan->late ? (int)(plan->timeout * 1000) + LATE_MS : NEVER_MS);
    logged_begin(&logged);
    if (!exchange(self, &message, plan))
        return 1;
    right = faults_finalize(self) == 0;
    (void)logged_end(&logged, said, sizeof(said));
    snprintf(expected, sizeof(expected),
        "a copy on device %d has not ended: it may still use", VICTIM);
    if ((strstr(said, expected) != NULL) ==
        (self->rank == VICTIM && !plan->late))
        return !right;
    diag("a copy of rank %d ends %s, and rank %d said: %s", VICTIM,
        plan->late ? "late" : "never", self->rank, said);
    return 1;
}

/* Checks that the rank's own message or its peer's has timed out. */
static bool is_told(const struct faults_note *note)
{
    if (note->status != SYMMCOLL_OK &&
        strstr(note->detail, "timed out") != NULL)
        return true;
    diag("expected that time has passed, found %s: %s",
        symmcoll_status_name(note->status), note->detail);
    return false;
}

static bool is_held(double seconds, void *arg)
{
    const struct plan *given = arg;
    struct plan plan = *given;
    struct faults_job job;
    bool told = true;

    plan.timeout = seconds;
    faults_start(&job, 2, hold_a_copy, &plan);
    for (int r = 0; r < 2; r++) {
        faults_reap(&job, r);
        told = is_told(faults_told(&job, r, 0)) && told;
    }
    return faults_finish(&job, 0) && told;
}

/* ---- a peer that leaves late ---- */

/* Rank 0 finalizes while its peer may still read its staging memory, which
 * remains. It has already left the peer's staging memory, so the peer frees
 * that without waiting. Step 1: rank 0 has finalized. */
static int leave_one_by_one(struct faults_rank *self)
{
    struct message message;
    int left;
    bool right;

    if (!begin(self, &message))
        return 1;
    right =
        message_fine(self->rank == 0
                         ? message_send(self->group, &message, NBYTES, 1, 0)
                         : message_recv(self->group, &message, NBYTES, 0, 0)) &&
        message_fine(self->rank == 0
                         ? message_recv(self->group, &message, NBYTES, 1, 0)
                         : message_send(self->group, &message, NBYTES, 0, 0));
    message_end(&message);
    if (self->rank != 0)
        faults_pass(self, 1);
    right = faults_finalize(self) == 0 && right;
    faults_reach(self, 1);
    left = fake_live(FAKE_ALLOCATED);
    if (left == (self->rank == 0))
        return !right;
    diag("rank %d has %d allocations after finalize", self->rank, left);
    return 1;
}

static void test_leaving(void)
{
    struct faults_job job;
    bool left;

    faults_start(&job, 2, leave_one_by_one, NULL);
    left = faults_await(&job, 0, 1);
    faults_open(&job, 1);
    ok(faults_finish(&job, 0) && left,
        "finalize keeps what a peer that has not left may read, and frees what "
        "nobody does");
}

int main(void)
{
    struct plan sends = {.receives = false}, receives = {.receives = true},
                late = {.late = true};

    device_begin();
    setenv("SYMMCOLL_CUDA_MESSAGE_CHUNK", "64KiB", 1);
    faults_begin();
    test_outlived(false, "cuMemcpyAsync",
        "finalize leaves a thread to which a copy's call does not return");
    test_outlived(true, "cuEventQuery", "so it does in another call");
    ok(attempts_hold(is_held, 0.5, &sends),
        "a send is given up whose copy does not end, and finalize goes on");
    ok(attempts_hold(is_held, 0.5, &receives), "so is a receive");
    ok(attempts_hold(is_held, 0.5, &late),
        "a copy that ends late is waited for, and nothing is said");
    test_leaving();
    faults_end();
    return done_testing();
}
