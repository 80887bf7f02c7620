/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Messages of device memory that a driver or a device does not end: they are given up, and
 * finalize goes on, and releases what nobody uses.
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

/* Milliseconds of a call: longer than a message is waited for, its copies, and the
 * thread. */
#define STANDS (SANITIZED ? "40000" : "15000")

static bool begin(struct faults_rank *self, struct message *message)
{
    if (!faults_init(self))
        return false;
    message_begin(message, self->rank, NBYTES);
    message_fill(message, NBYTES, self->rank);
    return true;
}

/* The victim sends to rank 0, or receives of it. */
struct plan {
    bool receives;    /* the victim does */
    const char *call; /* of its driver, that does not return; NULL: none */
    double timeout;
};

/* Do it, and note what has come of it. */
static bool exchange(struct faults_rank *self, const struct message *message,
    const struct plan *plan)
{
    struct symmcoll_call call = SYMMCOLL_CALL_INIT;
    struct symmcoll_work *work = NULL;
    const int peer = !self->rank;
    symmcoll_status_t status;

    call.stream = message->stream;
    call.timeout = plan->timeout;
    status = (self->rank == VICTIM) != plan->receives
                 ? symmcoll_send(self->group, message->at, NBYTES,
                       SYMMCOLL_UINT8, peer, 0, &call, &work)
                 : symmcoll_recv(self->group, message->at, NBYTES,
                       SYMMCOLL_UINT8, peer, 0, NULL, &call, &work);
    if (status != SYMMCOLL_OK)
        return false;
    faults_note(self, symmcoll_work_wait(work, FAULTS_WAIT_MAX));
    symmcoll_work_free(work);
    return true;
}

/* ---- what does not return ---- */

/* Whether this process has a thread of the copier's. */
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

/* The victim's driver returns long after its finalize(), and then its thread finds nothing
 * of the world.  1: both have finalized. */
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

int main(void)
{
    device_begin();
    setenv("SYMMCOLL_CUDA_MESSAGE_CHUNK", "64KiB", 1);
    faults_begin();
    test_outlived(false, "cuMemcpyAsync",
        "finalize leaves a thread to which a copy's call does not return");
    test_outlived(true, "cuEventQuery", "so it does in another call");
    faults_end();
    return done_testing();
}
