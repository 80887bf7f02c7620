/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Tests failures of an exchange by NCCL, and of a sum of integers that is
 * large enough for NCCL, while its communicator is created and while it runs:
 * all ranks get the cause, nothing hangs, and unaffected groups continue.
 */
#include "t/attempts.h"
#include "t/cuda/members.h"
#include "t/nccl/exchanged.h"
#include "t/world/faults.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define SIZE 3
#define VICTIM 1
#define EACH 10 /* floats from a rank to each */
#define COUNT (EACH * SIZE)
#define SYSTEM_ERROR 2
#define INVALID_USAGE 5
#define REMOTE_ERROR 6

/* Seconds in which all ranks arrive, and after which creating a communicator
 * times out. */
#if SANITIZED
#define SHORT 3
#define LONGER 6
#define SHORT_TEXT "3"
#define LONGER_TEXT "6"
#else
#define SHORT 0.5
#define LONGER 1
#define SHORT_TEXT "0.5"
#define LONGER_TEXT "1"
#endif

/* Whether ranks add integers instead of exchanging. */
static bool adds;

/* Whether the group of this process did not report which call a thread is
 * in. */
static atomic_bool lost;

/* The fault of a rank. */
struct plan {
    bool made;     /* there is a communicator; otherwise creating it does not
                    * end */
    bool enqueued; /* the victim's stream is blocked; else the enqueue does not
                   * end */
    double timeout;
    int64_t init_ns;        /* timeouts.init from then on; 0: unchanged */
    bool aborts;            /* another thread of rank 0 aborts */
    bool noticed;           /* the others lose the victim before it dies */
    int id_result;          /* of rank 0 */
    bool id_hangs;          /* rank 0 does not return from drawing an id until
                             * gate 1 is open */
    int init_result, error; /* of the victim */
    const char *reason;     /* why there is none; NULL: not checked */
    symmcoll_status_t status;
};

struct buffers {
    CUstream stream;
    void *in, *out;
};

static symmcoll_status_t run(struct symmcoll_group *group,
    const struct buffers *buffers, double timeout, struct symmcoll_work **work)
{
    static const size_t splits[SIZE] = {EACH, EACH, EACH};
    struct symmcoll_call call = SYMMCOLL_CALL_INIT;

    call.timeout = timeout;
    call.stream = buffers->stream;
    call.label = "the exchange";
    if (adds)
        return symmcoll_all_reduce(group, buffers->out, buffers->in, COUNT,
            SYMMCOLL_INT32, SUM, &call, work);
    return symmcoll_all_to_all_v(group, buffers->out, COUNT, splits,
        buffers->in, COUNT, splits, F32, &call, work);
}

static bool sum(struct symmcoll_group *group, const struct buffers *buffers)
{
    struct symmcoll_call call = SYMMCOLL_CALL_INIT;
    symmcoll_status_t status;

    call.stream = buffers->stream;
    status = symmcoll_all_reduce(
        group, buffers->in, buffers->in, COUNT, F32, SUM, &call, NULL);
    if (status != SYMMCOLL_OK)
        diag("sum: %s", symmcoll_last_error());
    device_wait(buffers->stream);
    return status == SYMMCOLL_OK;
}

static bool begin(struct faults_rank *self, struct buffers *buffers)
{
    const struct plan *plan = self->arg;
    struct fake_nccl *fake = find_nccl();

    if (fake == NULL || !faults_init(self))
        return false;
    device_use(self->rank);
    *buffers =
        (struct buffers){device_stream(), device_alloc(COUNT * sizeof(float)),
            device_alloc(COUNT * sizeof(float))};
    if (!sum(self->group, buffers))
        return false;
    if (plan->init_ns != 0)
        self->world->config->timeouts_init = plan->init_ns;
    if (self->rank == 0)
        atomic_store(&fake->id_result, plan->id_result);
    if (self->rank == 0)
        atomic_store(&fake->id_hangs, plan->id_hangs);
    if (self->rank == VICTIM)
        atomic_store(&fake->init_result, plan->init_result);
    atomic_store(&fake->stuck, !plan->made);
    if (plan->made && run(self->group, buffers, -1, NULL) != SYMMCOLL_OK)
        return false;
    device_wait(buffers->stream);
    atomic_store(&fake->stuck, !plan->enqueued);
    return true;
}

/* Returns whether another thread soon sees which NCCL call this rank's thread
 * is in. */
static bool is_said_to_enqueue(struct symmcoll_group *group)
{
    double began = faults_now();
    char text[300] = "nothing";

    while (!symc_slot_format_inside(&group->runner, text, sizeof(text)) &&
           faults_now() - began < FAULTS_WAIT_MAX)
        faults_rest();
    if (strstr(text, "NCCL has not returned for ") == text &&
        strstr(text, "'the exchange'") != NULL)
        return true;
    diag("expected that NCCL has not returned, found: %s", text);
    return false;
}

/* Performs the fault of a rank in another thread: its own may be blocked in
 * NCCL. */
static void *strike(void *arg)
{
    struct faults_rank *self = arg;
    const struct plan *plan = self->arg;

    faults_pass(self, 1);
    atomic_store(&find_nccl()->id_hangs, 0);
    if (plan->aborts && self->rank == 0 && plan->made && !plan->enqueued)
        atomic_store(&lost, !is_said_to_enqueue(self->group));
    if (plan->aborts && self->rank == 0)
        symmcoll_group_abort(self->group, "enough");
    if (plan->error != 0 && self->rank == VICTIM)
        atomic_store(&find_nccl()->error, plan->error);
    if (plan->noticed && self->rank != VICTIM)
        atomic_store(&find_nccl()->error, REMOTE_ERROR);
    return NULL;
}

/* Begins an exchange, and records how it ends; the group continues afterwards
 * if it can. Step 1: begun, 2: ended. */
static int meet_a_fault(struct faults_rank *self)
{
    const struct plan *plan = self->arg;
    struct symmcoll_work *work = NULL;
    struct buffers buffers;
    bool strikes =
        plan->aborts || plan->error != 0 || plan->noticed || plan->id_hangs;
    bool right = true;
    bool stands = adds && plan->made && !plan->enqueued;
    pthread_t thread = 0;

    if (!begin(self, &buffers) ||
        (strikes && pthread_create(&thread, NULL, strike, self) != 0))
        return 1;
    if (plan->enqueued && self->rank == VICTIM)
        fake_stall(buffers.stream);
    if (stands)
        faults_reach(self, 1);
    if (run(self->group, &buffers, plan->timeout, &work) != SYMMCOLL_OK)
        return 1;
    if (!stands)
        faults_reach(self, 1);
    faults_note(self, symmcoll_work_wait(work, FAULTS_WAIT_MAX));
    symmcoll_work_free(work);
    faults_reach(self, 2);
    if (plan->enqueued && self->rank == VICTIM) {
        faults_pass(self, 2);
        fake_resume(buffers.stream);
    }
    device_wait(buffers.stream);
    if (strikes)
        pthread_join(thread, NULL);
    if (symmcoll_group_error(self->group) == SYMMCOLL_OK)
        right = sum(self->group, &buffers) &&
                faults_note(self, run(self->group, &buffers, -1, NULL)) ==
                    SYMMCOLL_OK;
    if (plan->reason != NULL)
        right = lacks_nccl(self->group, plan->status, plan->reason) && right;
    return faults_finalize(self) != 0 || !right || lost ||
           find_nccl()->live != 0;
}

/* Fails a group that has nothing pending in NCCL. */
static int abort_at_rest(struct faults_rank *self)
{
    struct buffers buffers;
    struct fake_nccl *fake = find_nccl();
    double began;

    if (!begin(self, &buffers))
        return 1;
    faults_reach(self, 1);
    faults_pass(self, 1);
    if (self->rank == 0)
        symmcoll_group_abort(self->group, "enough");
    for (began = faults_now();
         fake->aborted == 0 && faults_now() - began < FAULTS_WAIT_MAX;)
        faults_rest();
    if (fake->aborted != 1)
        diag("rank %d has not aborted its communicator", self->rank);
    return faults_finalize(self) != 0 || fake->aborted != 1 || fake->live != 0;
}

/* ---- the tests ---- */

static const char *named(void)
{
    return adds ? "a sum" : "an exchange";
}

static bool all_told(struct faults_job *job, unsigned but,
    symmcoll_status_t status, const char *text)
{
    bool told = true;

    for (int r = 0; r < SIZE; r++)
        if ((but >> r & 1) == 0)
            told =
                faults_said(faults_told(job, r, 0), status, text, NULL) && told;
    return told;
}

/* Checks that creating the communicator failed on all ranks, and that all do
 * without, then and later. */
static void test_refusal(const struct plan *refused, symmcoll_status_t status,
    const char *text, const char *what)
{
    struct plan plan = *refused;
    struct faults_job job;
    bool told = true;

    plan.status = status;
    plan.reason = text;
    faults_start(&job, SIZE, meet_a_fault, &plan);
    for (int r = 0; r < SIZE; r++) {
        faults_reap(&job, r);
        for (int i = 0; i < 2; i++)
            told =
                faults_said(faults_told(&job, r, i), SYMMCOLL_OK, NULL) && told;
    }
    ok(faults_finish(&job, 0) && told, "%s: %s", named(), what);
}

/* Returns whether all ranks except one have ended the operation. */
static bool others_end(const struct faults_job *job, int but)
{
    bool ended = true;

    for (int r = 0; r < SIZE; r++)
        ended = (r == but || faults_await(job, r, 2)) && ended;
    return ended;
}

static void test_death_of(int victim, const struct plan *plan, const char *what)
{
    struct faults_job job;
    char name[64];
    bool told;

    faults_start(&job, SIZE, meet_a_fault, plan);
    told = faults_await_all(&job, 1);
    usleep(50000);
    if (plan->noticed) {
        faults_open(&job, 1);
        usleep(50000);
    }
    faults_signal(&job, victim, SIGKILL);
    told = others_end(&job, victim) && told;
    faults_open(&job, 1);
    faults_name(&job, victim, name);
    told =
        all_told(&job, 1u << victim, SYMMCOLL_ERR_PEER, name) &&
        all_told(&job, 1u << victim, SYMMCOLL_ERR_PEER, "killed by SIGKILL") &&
        told;
    ok(faults_finish(&job, 1u << victim) && told, "%s: %s", named(), what);
}

static void test_death(const struct plan *plan, const char *what)
{
    test_death_of(VICTIM, plan, what);
}

/* Checks that rank 0 is reported when it does not return from a call for which
 * the others wait. */
static void test_hang(const struct plan *plan, const char *what)
{
    struct faults_job job;
    bool told;

    faults_start(&job, SIZE, meet_a_fault, plan);
    told = faults_await_all(&job, 1) && others_end(&job, 0);
    faults_open(&job, 1);
    told = faults_await_all(&job, 2) && told;
    told = all_told(&job, 1, SYMMCOLL_ERR_TIMEOUT,
               "rank 0 did not come; rank 0 (pid ") &&
           all_told(&job, 1, SYMMCOLL_ERR_TIMEOUT, "'the exchange'") && told;
    ok(faults_finish(&job, 0) && told, "%s: %s", named(), what);
}

/* Checks that the group fails on all ranks, with a text. */
static void test_failure(const struct plan *plan, symmcoll_status_t status,
    const char *text, const char *what)
{
    struct faults_job job;
    bool told;

    faults_start(&job, SIZE, meet_a_fault, plan);
    told = faults_await_all(&job, 1);
    usleep(50000);
    faults_open(&job, 1);
    told = faults_await_all(&job, 2) && told;
    faults_open(&job, 2);
    told = all_told(&job, 0, status, text) && told;
    ok(faults_finish(&job, 0) && told, "%s: %s", named(), what);
}

static void test_making(void)
{
    test_refusal(&(struct plan){.timeout = SHORT, .init_ns = 1},
        SYMMCOLL_ERR_TIMEOUT,
        "expected it to end on all 3 members within " SHORT_TEXT
        " s, found it in progress on rank 0, 1, 2",
        "a communicator that is not made in time: all go on without");
    test_refusal(
        &(struct plan){.timeout = SHORT, .init_ns = SYMC_NS_PER_S * LONGER},
        SYMMCOLL_ERR_TIMEOUT,
        "expected it to end on all 3 members within " LONGER_TEXT
        " s, found it in progress on rank 0, 1, 2",
        "timeouts.init is how long it may take, where that is longer");
    test_refusal(&(struct plan){.timeout = -1, .id_result = SYSTEM_ERROR},
        SYMMCOLL_ERR_SYSTEM, "ncclGetUniqueId on rank 0: NCCL error 2",
        "an id that rank 0 cannot draw: all go on without");
    test_hang(&(struct plan){.timeout = SHORT,
                  .init_ns = SYMC_NS_PER_S * LONGER,
                  .id_hangs = true},
        "a rank 0 that hangs while it draws one: all are told who and why");
    test_death_of(0, &(struct plan){.timeout = -1, .id_hangs = true},
        "a rank 0 that dies while it draws one: the others are told who and "
        "why");
    test_refusal(&(struct plan){.timeout = -1, .init_result = INVALID_USAGE},
        SYMMCOLL_ERR_DEVICE,
        "ncclCommInitRankConfig on rank 1: NCCL error 5, invalid usage",
        "a rank that cannot begin one: all go on without");
    test_death(&(struct plan){.timeout = -1},
        "a peer that dies while it is made: the others are told who");
    test_failure(&(struct plan){.timeout = -1, .aborts = true},
        SYMMCOLL_ERR_CANCELED, "enough",
        "a group that another thread aborts while it is made");
    test_failure(&(struct plan){.timeout = -1,
                     .error = REMOTE_ERROR,
                     .status = SYMMCOLL_ERR_PEER,
                     .reason = "rank 1: NCCL error 6"},
        SYMMCOLL_OK, "",
        "an error of NCCL's while it is made: all go on without");
}

static void test_running(void)
{
    test_death(&(struct plan){.made = true, .enqueued = true, .timeout = -1},
        "a peer that dies while others wait for its part: they are told who");
    test_death(
        &(struct plan){
            .made = true, .enqueued = true, .timeout = -1, .noticed = true},
        "a peer whose connection NCCL finds closed before its death is found: the "
        "others are told who");
    test_failure(&(struct plan){.made = true, .enqueued = true, .timeout = 0.3},
        SYMMCOLL_ERR_TIMEOUT, "the exchange",
        "a peer that does not come in time");
    test_failure(
        &(struct plan){
            .made = true, .enqueued = true, .timeout = -1, .aborts = true},
        SYMMCOLL_ERR_CANCELED, "enough",
        "a group that another thread aborts while others wait");
    test_failure(&(struct plan){.made = true,
                     .enqueued = true,
                     .timeout = -1,
                     .error = REMOTE_ERROR},
        SYMMCOLL_ERR_PEER, "rank 1: NCCL error 6",
        "an error of NCCL's while others wait");
}

static void test_enqueuing(void)
{
    test_death(&(struct plan){.made = true, .timeout = -1},
        "a peer that dies while NCCL enqueues: they are told who");
    test_failure(&(struct plan){.made = true, .timeout = 0.3},
        SYMMCOLL_ERR_TIMEOUT, "the exchange",
        "what NCCL does not enqueue in time");
    test_failure(&(struct plan){.made = true, .timeout = -1, .aborts = true},
        SYMMCOLL_ERR_CANCELED, "enough",
        "a group that another thread aborts while NCCL enqueues");
    test_failure(
        &(struct plan){.made = true, .timeout = -1, .error = REMOTE_ERROR},
        SYMMCOLL_ERR_PEER, "rank 1: NCCL error 6",
        "an error of NCCL's while it enqueues");
}

/* Checks that NCCL ends the communicator on one rank when the others end it,
 * too. */
static void test_rest(void)
{
    struct faults_job job;
    bool right;

    faults_start(&job, SIZE, abort_at_rest,
        &(struct plan){.made = true, .enqueued = true, .timeout = -1});
    right = faults_await_all(&job, 1);
    faults_open(&job, 1);
    for (int r = 0; r < SIZE; r++)
        faults_reap(&job, r);
    ok(faults_finish(&job, 0) && right,
        "%s: a group that fails aborts its communicator on all ranks", named());
}

int main(void)
{
    device_begin();
    name_nccl();
    faults_begin();
    setenv("SYMMCOLL_CUDA_NCCL_MIN", "4", 1);
    for (int i = 0; i < 2; i++) {
        adds = i > 0;
        test_making();
        test_enqueuing();
        test_running();
        test_rest();
    }
    faults_end();
    return done_testing();
}
