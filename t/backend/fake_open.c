/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The fake module's groups: the data that members exchange when one is opened,
 * and the thread that moves the data of its operations.
 *
 * Each rank has a memfd that all ranks map: its contribution to operation n,
 * then n in `staged`; and n in `read` when it no longer needs the other ranks'
 * data.
 */
#include "t/backend/fake_state.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* ---- one operation, on the thread ---- */

/* Returns whether the thread must abandon the job. */
static bool is_over(const struct fake *fake, const struct job *job)
{
    return atomic_load(&job->cancelled) || atomic_load(&fake->stopping);
}

static bool await_all(const struct fake *fake, const struct job *job,
    size_t word, uint64_t target)
{
    for (int r = 0; r < fake->size; r++) {
        const _Atomic uint64_t *at =
            (const void *)((const char *)fake->shared[r] + word);

        while (atomic_load(at) < target) {
            if (is_over(fake, job))
                return false;
            usleep(20);
        }
    }
    return true;
}

static void write_result(const struct fake *fake, const struct symc_op *op)
{
    const struct symc_kind_info *info = &fake->core->kinds[op->kind];
    size_t first =
        info->in_parts == SYMC_ALL_PARTS ? (size_t)fake->rank * op->count : 0;
    float *out = op->out;

    if (fake->rank != op->root && (info->traits & SYMC_TO_ROOT) != 0)
        return;
    for (size_t i = 0; i < op->count; i++) {
        float sum = 0;

        for (int r = 0; r < fake->size; r++) {
            const float *data = fake->shared[r]->data;

            sum += data[first + i];
            if (info->out_parts == SYMC_ALL_PARTS)
                ((float *)(void *)symc_op_out_at(op, r))[i] = data[first + i];
        }
        if ((info->traits & SYMC_REDUCES) != 0)
            out[i] = sum;
        else if (info->out_parts == SYMC_ONE_PART)
            out[i] = fake->shared[op->root]->data[first + i];
    }
}

static void run_job(struct fake *fake, const struct job *job)
{
    const struct symc_op *op = &job->op;
    struct shared *mine = fake->shared[fake->rank];
    size_t parts =
        symc_parts_count(fake->core->kinds[op->kind].in_parts, fake->size);

    if (!await_all(fake, job, offsetof(struct shared, read), job->number - 1))
        return;
    while (atomic_load(&fake_control.hangs) == fake->rank ||
           atomic_load(&fake_control.keeps) == fake->rank) {
        if (is_over(fake, job))
            return;
        usleep(100);
    }
    for (int r = 0; r < fake->size && op->listed && op->lists->ins != NULL; r++)
        memcpy(mine->data + (size_t)r * op->count, symc_op_in_at(op, r),
            op->count * sizeof(float));
    if (op->in != NULL)
        memcpy(mine->data, op->in, op->count * parts * sizeof(float));
    atomic_store(&mine->staged, job->number);
    if (!await_all(fake, job, offsetof(struct shared, staged), job->number))
        return;
    write_result(fake, op);
    atomic_store(&mine->read, job->number);
}

/* Returns the next job with data to move. Called with the lock. */
static struct job *find_job(const struct fake *fake)
{
    struct job *job = fake->first;

    while (job != NULL &&
           (atomic_load(&job->moved) || atomic_load(&job->cancelled)))
        job = job->next;
    return job;
}

static void *work(void *arg)
{
    struct fake *fake = arg;

    pthread_mutex_lock(&fake->lock);
    while (!fake->stopping) {
        struct job *job = find_job(fake);

        if (job == NULL) {
            pthread_cond_wait(&fake->changed, &fake->lock);
            continue;
        }
        fake->current = job;
        pthread_mutex_unlock(&fake->lock);
        run_job(fake, job);
        pthread_mutex_lock(&fake->lock);
        fake->current = NULL;
        if (!is_over(fake, job)) {
            atomic_store(&job->moved, 1);
            fake->core->wake(fake->core->group, fake->rank);
        }
    }
    pthread_mutex_unlock(&fake->lock);
    return NULL;
}

/* ---- opening ---- */

symmcoll_status_t fake_probe(const struct symc_peers *peers)
{
    return peers->size <= RANKS ? SYMMCOLL_OK : SYMMCOLL_ERR_UNSUPPORTED;
}

void fake_close(void *state)
{
    struct fake *fake = state;

    pthread_mutex_lock(&fake->lock);
    atomic_store(&fake->stopping, 1);
    pthread_cond_signal(&fake->changed);
    pthread_mutex_unlock(&fake->lock);
    if (fake->thread != 0)
        pthread_join(fake->thread, NULL);
    while (fake->first != NULL) {
        struct job *job = fake->first;

        fake->first = job->next;
        free(job);
    }
    for (int r = 0; r < fake->size; r++) {
        if (fake->shared[r] != NULL)
            munmap(fake->shared[r], sizeof(struct shared));
    }
    pthread_cond_destroy(&fake->changed);
    pthread_mutex_destroy(&fake->lock);
    free(fake);
}

/* Maps the memfds of all ranks, and closes the descriptors. */
static symmcoll_status_t map_all(struct fake *fake, const int *fds)
{
    bool mapped = true;

    for (int r = 0; r < fake->size; r++) {
        void *at = fds[r] < 0
                       ? MAP_FAILED
                       : mmap(NULL, sizeof(struct shared),
                             PROT_READ | PROT_WRITE, MAP_SHARED, fds[r], 0);

        if (at != MAP_FAILED)
            fake->shared[r] = at;
        mapped = mapped && at != MAP_FAILED;
        if (fds[r] >= 0)
            close(fds[r]);
    }
    return mapped ? SYMMCOLL_OK
                  : fake->core->fail(SYMMCOLL_ERR_SYSTEM, "fake: mmap");
}

/* The data that members exchange while they open. */
struct told {
    int rank;
    int device;
    char more[SYMC_GATHER_MOST - 2 * sizeof(int)];
};

/* Exchanges the places of all members, which all read alike. */
static symmcoll_status_t tell(struct fake *fake, int16_t device)
{
    const struct symc_core *core = fake->core;
    struct told *all = calloc(RANKS + 1, sizeof(*all)), *mine = &all[RANKS];
    symmcoll_status_t status;

    if (all == NULL)
        return core->fail(SYMMCOLL_ERR_NO_MEMORY, "fake: what is told");
    mine->rank = fake->rank;
    mine->device = device;
    memset(mine->more, 'a' + fake->rank, sizeof(mine->more));
    status = core->gather(core->group, mine, all,
        sizeof(*mine) - (atomic_load(&fake_control.tells_less) == fake->rank));
    for (int r = 0; r < fake->size && status == SYMMCOLL_OK; r++) {
        fake_control.devices[r] = all[r].device;
        if (all[r].rank != r || all[r].more[0] != 'a' + r ||
            all[r].more[sizeof(all[r].more) - 1] != 'a' + r)
            status = core->fail(
                SYMMCOLL_ERR_INTERNAL, "fake: rank %d has told wrong", r);
    }
    free(all);
    return status;
}

/* Waits until all members have mapped all memfds, with the core's wait
 * function. */
static symmcoll_status_t await_ready(struct fake *fake)
{
    const struct symc_core *core = fake->core;
    struct symc_wait_budget budget = {
        .timeout_ns =
            core->settings->get_time(core->settings->config, "timeouts.init")};

    atomic_store(&fake->shared[fake->rank]->ready, 1);
    core->wake(core->group, -1);
    for (int r = 0; r < fake->size; r++) {
        if (core->wait(core->group, &fake->shared[r]->ready, 1, r, &budget) !=
            SYMC_WAIT_REACHED)
            return core->fail(SYMMCOLL_ERR_PEER, "fake: rank %d waits", r);
    }
    return SYMMCOLL_OK;
}

static symmcoll_status_t share(struct fake *fake, int16_t device)
{
    const struct symc_core *core = fake->core;
    int fds[RANKS], fd = memfd_create("fake", MFD_CLOEXEC);
    symmcoll_status_t status;

    if (fd < 0 || ftruncate(fd, sizeof(struct shared)) != 0)
        return core->fail(SYMMCOLL_ERR_SYSTEM, "fake: no memfd");
    status = core->exchange(core->group, fd, fds);
    close(fd);
    if (status != SYMMCOLL_OK)
        return status;
    status = map_all(fake, fds);
    if (status == SYMMCOLL_OK &&
        atomic_load(&fake_control.refuses_late) == fake->rank)
        status = core->fail(SYMMCOLL_ERR_NO_MEMORY, "fake: refused late");
    if (status == SYMMCOLL_OK)
        status = tell(fake, device);
    /* A member that has refused reports it in the round of the second
     * exchange. */
    if (status == SYMMCOLL_OK)
        status = core->exchange(core->group, -1, fds);
    return status == SYMMCOLL_OK ? await_ready(fake) : status;
}

symmcoll_status_t fake_open(
    const struct symc_core *core, const struct symc_peers *peers, void **state)
{
    struct fake *fake = calloc(1, sizeof(*fake));
    symmcoll_status_t status;

    if (fake == NULL)
        return core->fail(SYMMCOLL_ERR_NO_MEMORY, "fake: state");
    if (atomic_load(&fake_control.dies_opening) == peers->rank)
        _exit(0);
    fake->core = core;
    fake->last = &fake->first;
    fake->rank = peers->rank;
    fake->size = peers->size;
    pthread_mutex_init(&fake->lock, NULL);
    pthread_cond_init(&fake->changed, NULL);
    if (peers->channels != NULL)
        status = core->fail(SYMMCOLL_ERR_INTERNAL, "fake: the host's channels");
    else if (atomic_load(&fake_control.refuses) == peers->rank)
        status = core->fail(SYMMCOLL_ERR_UNSUPPORTED, "fake: refused");
    else
        status = share(fake, peers->device);
    if (status == SYMMCOLL_OK &&
        pthread_create(&fake->thread, NULL, work, fake) != 0)
        status = core->fail(SYMMCOLL_ERR_SYSTEM, "fake: no thread");
    if (status != SYMMCOLL_OK) {
        fake_close(fake);
        return status;
    }
    *state = fake;
    return SYMMCOLL_OK;
}
