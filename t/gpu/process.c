/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Tests processes that share a device. Without MPS they run on it alternately,
 * and a kernel that waits for one of another process does so for a whole time
 * slice: few operations, long timeouts, and no measurements.
 */
#include "t/cuda/every.h"
#include "t/cuda/unlike.h"
#include "t/gpu/ranks.h"
#include "t/gpu/standing.h"
#include "t/world/others.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

#define SIZE 3
#define VICTIM 1

/* ---- operations ---- */

/* Runs several sizes: some bytes, odd ones, and more than the staging
 * memory. */
static int few(struct symmcoll_group *group, int rank, enum symc_kind kind)
{
    static const size_t counts[] = {1, 37, 2501, 70001};
    const size_t n = gpu_is_rehearsal() ? 3 : 4;
    int right = 1;

    device_use(rank);
    for (size_t i = 0; i < n && right; i++) {
        const struct collective one = {
            .kind = kind, .dtype = F32, .count = counts[i]};

        right = same_as_host(group, rank, &one);
    }
    return right;
}

static int all_reduce(struct symmcoll_group *group, int rank)
{
    return few(group, rank, SYMC_ALL_REDUCE);
}

static int all_gather(struct symmcoll_group *group, int rank)
{
    return few(group, rank, SYMC_ALL_GATHER);
}

static int others(struct symmcoll_group *group, int rank)
{
    return few(group, rank, SYMC_REDUCE_SCATTER) &&
           few(group, rank, SYMC_ALL_TO_ALL) &&
           few(group, rank, SYMC_BROADCAST) && few(group, rank, SYMC_GATHER);
}

/* Exchanges parts of unlike sizes. */
static int exchanges(struct symmcoll_group *group, int rank)
{
    static const size_t most[] = {37, 2501, 70001};
    const int n = gpu_is_rehearsal() ? 2 : 3;
    int right = 1;

    device_use(rank);
    for (int i = 0; i < n * UNLIKE_SHAPES && right; i++) {
        const struct unlike one = {.shape = (enum unlike_shape)(i / n),
            .form = (enum unlike_form)(i % UNLIKE_FORMS),
            .dtype = F32,
            .most = most[i % n]};

        right = unlike_same_as_host(group, rank, &one);
    }
    return right;
}

#define BARRIERS 5

/* How often each rank's stream has reached a barrier, in memory shared by all
 * processes. */
static _Atomic int *arrivals;

struct arrival {
    int rank, size;
    _Atomic bool
        missed; /* the stream passed a barrier that another had not reached */
};

/* Counts an arrival. One rank is late each time, long enough for the others'
 * streams. */
static void arrive(void *arg)
{
    const struct timespec pause = {.tv_nsec = 30000000};
    const struct arrival *arrival = arg;

    if (atomic_load(&arrivals[arrival->rank]) % arrival->size == arrival->rank)
        nanosleep(&pause, NULL);
    atomic_fetch_add(&arrivals[arrival->rank], 1);
}

static void look(void *arg)
{
    struct arrival *arrival = arg;

    for (int r = 0; r < arrival->size; r++)
        if (atomic_load(&arrivals[r]) < atomic_load(&arrivals[arrival->rank]))
            atomic_store(&arrival->missed, true);
}

/* Checks that no stream passes a barrier before all have reached it. */
static int barriers(struct symmcoll_group *group, int rank)
{
    struct symmcoll_call call = SYMMCOLL_CALL_INIT;
    struct arrival arrival = {rank, symmcoll_group_size(group), false};
    struct standing standing;
    int right = standing_begin(&standing, group, rank);

    call.stream = standing.stream;
    for (int i = 0; i < BARRIERS && right; i++) {
        GPU_CHECK(cuLaunchHostFunc(call.stream, arrive, &arrival));
        right = say(
            symmcoll_barrier(group, &call, NULL) == SYMMCOLL_OK, "a barrier");
        GPU_CHECK(cuLaunchHostFunc(call.stream, look, &arrival));
    }
    standing_end(&standing);
    return say(!atomic_load(&arrival.missed), "a barrier that held") && right;
}

static void test_barriers(int n)
{
    const size_t nbytes = sizeof(*arrivals) * 64;

    arrivals = mmap(NULL, nbytes, PROT_READ | PROT_WRITE,
        MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    on_processes(n, barriers, "barriers hold until all have come");
    munmap((void *)arrivals, nbytes);
}

/* ---- faults ---- */

static bool begin(struct faults_rank *self, struct standing *standing)
{
    if (!faults_init(self))
        return false;
    return standing_begin(standing, self->group, self->rank);
}

/* Records how a work ended; then all streams end, too. */
static void await(struct faults_rank *self, struct symmcoll_work *work)
{
    faults_note(self, symmcoll_work_wait(work, FAULTS_WAIT_MAX));
    symmcoll_work_free(work);
    standing_await();
}

static int lose_a_peer(struct faults_rank *self)
{
    struct symmcoll_work *work = NULL;
    struct standing standing;

    if (!begin(self, &standing))
        return 1;
    if (self->rank == VICTIM)
        standing_stall(&standing);
    if (standing_sum(self->group, &standing, -1, &work) != SYMMCOLL_OK)
        return 1;
    faults_reach(self, 1);
    await(self, work);
    faults_reach(self, 2);
    return faults_finalize(self);
}

static int miss_a_deadline(struct faults_rank *self)
{
    struct symmcoll_work *work = NULL;
    struct standing standing;

    if (!begin(self, &standing))
        return 1;
    if (self->rank == VICTIM)
        standing_stall(&standing);
    if (standing_sum(self->group, &standing, *(const double *)self->arg,
            &work) != SYMMCOLL_OK)
        return 1;
    if (self->rank == VICTIM) {
        faults_pass(self, 1);
        standing_resume(&standing);
    }
    await(self, work);
    faults_reach(self, 1);
    return faults_finalize(self);
}

static void *abort_group(void *arg)
{
    struct faults_rank *self = arg;

    faults_pass(self, 1);
    symmcoll_group_abort(self->group, "enough");
    return NULL;
}

/* Aborts the group from another thread of rank 0. */
static int abort_from_thread(struct faults_rank *self)
{
    struct symmcoll_work *work = NULL;
    struct standing standing;
    pthread_t thread = 0;

    if (!begin(self, &standing))
        return 1;
    if (self->rank == VICTIM)
        standing_stall(&standing);
    if (standing_sum(self->group, &standing, -1, &work) != SYMMCOLL_OK)
        return 1;
    if (self->rank == 0 &&
        pthread_create(&thread, NULL, abort_group, self) != 0)
        return 1;
    faults_reach(self, 1);
    if (self->rank == VICTIM) {
        faults_pass(self, 2);
        standing_resume(&standing);
    }
    await(self, work);
    if (self->rank == 0)
        pthread_join(thread, NULL);
    faults_reach(self, 2);
    return faults_finalize(self);
}

/* ---- the tests ---- */

static void test_deadline(void)
{
    const double seconds = standing_deadline();
    struct faults_job job;
    bool told;

    faults_start(&job, SIZE, miss_a_deadline, &seconds);
    told = others_await(&job, VICTIM, 1);
    faults_open(&job, 1);
    told = faults_await(&job, VICTIM, 1) && told;
    for (int r = 0; r < SIZE; r += 2)
        told = faults_said(faults_told(&job, r, 0), SYMMCOLL_ERR_TIMEOUT,
                   "all_reduce seq 2 'the sum'", "rank 1 did not come", NULL) &&
               told;
    ok(faults_finish(&job, 0) && told,
        "a process whose stream stands still: the deadline of the kernels that "
        "wait names it");
}

static void test_abort(void)
{
    struct faults_job job;
    bool told;

    faults_start(&job, SIZE, abort_from_thread, NULL);
    told = faults_await_all(&job, 1);
    faults_open(&job, 1);
    told = others_await(&job, VICTIM, 2) && told;
    faults_open(&job, 2);
    told = faults_await(&job, VICTIM, 2) && told;
    for (int r = 0; r < SIZE; r++)
        told = faults_said(faults_told(&job, r, 0), SYMMCOLL_ERR_CANCELED,
                   "enough", NULL) &&
               told;
    ok(faults_finish(&job, 0) && told,
        "a group that one process aborts: kernels end, all are told");
}

int main(void)
{
    gpu_begin(300);
    setenv("SYMMCOLL_CUDA_STAGING", gpu_is_rehearsal() ? "4KiB" : "128KiB", 1);
    setenv("SYMMCOLL_CUDA_BLOCKS", gpu_is_rehearsal() ? "2" : "8", 1);
    for (int n = 2; n <= gpu_choose(4, 4, 2); n++) {
        on_processes(n, all_reduce, "all_reduce has the host's bits");
        on_processes(n, all_gather, "all_gather has the host's bits");
        on_processes(n, others, "so have other collectives");
        on_processes(n, exchanges, "so have exchanges of unlike parts");
        test_barriers(n);
    }
    faults_begin();
    ok(others_survive(SIZE, VICTIM, lose_a_peer, NULL),
        "a process that is killed while kernels wait for it: the others are "
        "told its name, and their streams end");
    test_deadline();
    test_abort();
    faults_end();
    return done_testing();
}
