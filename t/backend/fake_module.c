/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A backend in a module, for tests: it serves a second kind of memory, a range
 * of this module's own, and completes operations later, on a thread of its own
 * for each group.  It links with the C library alone, so that all it knows of
 * the library is what the core offers.  What shall go wrong: fake_module.h.
 *
 * Each rank has a memfd that everybody maps: its contribution to operation n,
 * then n in `staged`; and n in `read` when it needs nobody's any more.
 */
#include "t/backend/fake_module.h"

#include "backend/backend.h"
#include "backend/interface.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define RANKS FAKE_RANKS
#define FLOATS 4096 /* of a contribution */

/* From one rank to another. */
struct mail {
    _Atomic uint64_t sent;
    _Atomic uint64_t received;
    uint64_t count;
    int64_t tag;
    float data[16];
};

struct shared {
    _Atomic uint64_t ready;
    _Atomic uint64_t staged;
    _Atomic uint64_t read;
    struct mail mail[RANKS];
    float data[FLOATS];
};

enum job_state {
    JOB_NONE,
    JOB_RUNNING,
    JOB_DONE
};

struct fake {
    const struct symc_core *core;
    int rank;
    int size;
    struct shared *shared[RANKS];
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    struct symc_op op; /* of the job */
    uint64_t jobs;
    _Atomic int state; /* enum job_state */
    _Atomic int cancelled;
    _Atomic int stopping;
};

static _Alignas(64) char memory[FAKE_NBYTES];

SYMMCOLL_API
extern struct fake_control fake_control;
struct fake_control fake_control = {.memory = memory,
    .refuses = -1,
    .refuses_late = -1,
    .tells_less = -1,
    .dies_opening = -1,
    .fails = -1,
    .hangs = -1,
    .keeps = -1};

static bool find(const void *data, int16_t *device)
{
    const char *at = data;

    if (at < memory || at >= memory + FAKE_NBYTES)
        return false;
    *device = at >= memory + FAKE_NBYTES / 2;
    return true;
}

/* ---- one operation, on the thread ---- */

/* Whether the job is to be left. */
static bool is_over(const struct fake *fake)
{
    return atomic_load(&fake->cancelled) || atomic_load(&fake->stopping);
}

static bool await_all(const struct fake *fake, size_t word, uint64_t target)
{
    for (int r = 0; r < fake->size; r++) {
        const _Atomic uint64_t *at =
            (const void *)((const char *)fake->shared[r] + word);

        while (atomic_load(at) < target) {
            if (is_over(fake))
                return false;
            usleep(20);
        }
    }
    return true;
}

static void write_result(const struct fake *fake)
{
    const struct symc_op *op = &fake->op;
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

static void run_job(struct fake *fake)
{
    const struct symc_op *op = &fake->op;
    struct shared *mine = fake->shared[fake->rank];
    size_t parts =
        symc_parts_count(fake->core->kinds[op->kind].in_parts, fake->size);

    if (!await_all(fake, offsetof(struct shared, read), fake->jobs - 1))
        return;
    while (atomic_load(&fake_control.hangs) == fake->rank ||
           atomic_load(&fake_control.keeps) == fake->rank) {
        if (is_over(fake))
            return;
        usleep(100);
    }
    for (int r = 0; r < fake->size && op->listed && op->lists->ins != NULL; r++)
        memcpy(mine->data + (size_t)r * op->count, symc_op_in_at(op, r),
            op->count * sizeof(float));
    if (op->in != NULL)
        memcpy(mine->data, op->in, op->count * parts * sizeof(float));
    atomic_store(&mine->staged, fake->jobs);
    if (!await_all(fake, offsetof(struct shared, staged), fake->jobs))
        return;
    write_result(fake);
    atomic_store(&mine->read, fake->jobs);
}

static void *work(void *arg)
{
    struct fake *fake = arg;

    pthread_mutex_lock(&fake->lock);
    while (!fake->stopping) {
        if (atomic_load(&fake->state) != JOB_RUNNING) {
            pthread_cond_wait(&fake->changed, &fake->lock);
            continue;
        }
        pthread_mutex_unlock(&fake->lock);
        run_job(fake);
        atomic_store(&fake->state, JOB_DONE);
        if (!is_over(fake))
            fake->core->wake(fake->core->group, fake->rank);
        pthread_mutex_lock(&fake->lock);
    }
    pthread_mutex_unlock(&fake->lock);
    return NULL;
}

/* ---- opening ---- */

static symmcoll_status_t probe(const struct symc_peers *peers)
{
    return peers->size <= RANKS ? SYMMCOLL_OK : SYMMCOLL_ERR_UNSUPPORTED;
}

static void close_fake(void *state)
{
    struct fake *fake = state;

    pthread_mutex_lock(&fake->lock);
    atomic_store(&fake->stopping, 1);
    pthread_cond_signal(&fake->changed);
    pthread_mutex_unlock(&fake->lock);
    if (fake->thread != 0)
        pthread_join(fake->thread, NULL);
    for (int r = 0; r < fake->size; r++) {
        if (fake->shared[r] != NULL)
            munmap(fake->shared[r], sizeof(struct shared));
    }
    pthread_cond_destroy(&fake->changed);
    pthread_mutex_destroy(&fake->lock);
    free(fake);
}

/* Map everybody's memfd, and close the descriptors. */
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

/* What members tell each other while they open. */
struct told {
    int rank;
    int device;
    char more[SYMC_GATHER_MOST - 2 * sizeof(int)];
};

/* Everybody tells where it is, and all read the same. */
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

/* Everybody has mapped all, which the core's waiting shows. */
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
    /* A member that has refused says so in the round of the second one. */
    if (status == SYMMCOLL_OK)
        status = core->exchange(core->group, -1, fds);
    return status == SYMMCOLL_OK ? await_ready(fake) : status;
}

static symmcoll_status_t open_fake(
    const struct symc_core *core, const struct symc_peers *peers, void **state)
{
    struct fake *fake = calloc(1, sizeof(*fake));
    symmcoll_status_t status;

    if (fake == NULL)
        return core->fail(SYMMCOLL_ERR_NO_MEMORY, "fake: state");
    if (atomic_load(&fake_control.dies_opening) == peers->rank)
        _exit(0);
    fake->core = core;
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
        close_fake(fake);
        return status;
    }
    *state = fake;
    return SYMMCOLL_OK;
}

/* ---- operations ---- */

static bool serves(const struct symc_kind_info *info)
{
    return info->in_parts != SYMC_NO_PART || info->out_parts != SYMC_NO_PART;
}

static symmcoll_status_t start(
    void *state, const struct symc_op *op, void *mark, void **token)
{
    struct fake *fake = state;
    const struct symc_kind_info *info = &fake->core->kinds[op->kind];
    _Atomic int *all_started = atomic_load(&fake_control.all_started);

    (void)mark;
    if (op->dtype != SYMMCOLL_FLOAT32)
        return fake->core->fail(
            SYMMCOLL_ERR_UNSUPPORTED, "%s: fake has float32", info->name);
    if ((info->traits & SYMC_UNEVEN) != 0)
        return fake->core->fail(
            SYMMCOLL_ERR_UNSUPPORTED, "%s: fake has equal parts", info->name);
    atomic_store(&fake_control.stream, op->stream);
    atomic_fetch_add(&fake_control.started, 1);
    if (all_started != NULL)
        atomic_fetch_add(all_started, 1);
    fake->op = *op;
    *token = fake;
    if ((info->traits & SYMC_PAIR) != 0)
        return SYMMCOLL_IN_PROGRESS;
    pthread_mutex_lock(&fake->lock);
    fake->jobs++;
    atomic_store(&fake->state, JOB_RUNNING);
    pthread_cond_signal(&fake->changed);
    pthread_mutex_unlock(&fake->lock);
    return SYMMCOLL_IN_PROGRESS;
}

static symmcoll_status_t test_send(struct fake *fake)
{
    const struct symc_op *op = &fake->op;
    struct mail *mail = &fake->shared[fake->rank]->mail[op->peer];

    if (atomic_load(&mail->received) < atomic_load(&mail->sent))
        return SYMMCOLL_IN_PROGRESS;
    mail->count = op->count;
    mail->tag = op->tag;
    memcpy(mail->data, op->in, op->count * sizeof(float));
    atomic_fetch_add(&mail->sent, 1);
    fake->core->wake(fake->core->group, op->peer);
    return SYMMCOLL_OK;
}

static symmcoll_status_t test_recv(struct fake *fake)
{
    const struct symc_op *op = &fake->op;
    unsigned int compared = fake->core->kinds[op->kind].compared;
    struct mail *mail = &fake->shared[op->peer]->mail[fake->rank];

    if (atomic_load(&mail->sent) == atomic_load(&mail->received))
        return SYMMCOLL_IN_PROGRESS;
    if (mail->tag != op->tag ||
        ((compared & SYMC_COMPARE_COUNT) != 0 && mail->count != op->count))
        return fake->core->fail(SYMMCOLL_ERR_MISMATCH,
            "recv: expected %zu elements, found %llu", op->count,
            (unsigned long long)mail->count);
    memcpy(op->out, mail->data, op->count * sizeof(float));
    atomic_fetch_add(&mail->received, 1);
    fake->core->wake(fake->core->group, op->peer);
    return SYMMCOLL_OK;
}

static symmcoll_status_t test(void *state, void *token)
{
    struct fake *fake = state;

    if (token != fake)
        return fake->core->fail(SYMMCOLL_ERR_INTERNAL, "fake: a strange token");
    if (fake->op.kind == SYMC_SEND)
        return test_send(fake);
    if (fake->op.kind == SYMC_RECV)
        return test_recv(fake);
    if (atomic_load(&fake_control.fails) == fake->rank)
        return fake->core->fail(SYMMCOLL_ERR_DEVICE, "fake: out of order");
    return atomic_load(&fake->state) == JOB_DONE ? SYMMCOLL_OK
                                                 : SYMMCOLL_IN_PROGRESS;
}

static symmcoll_status_t cancel(void *state, void *token)
{
    struct fake *fake = state;

    (void)token;
    if (atomic_load(&fake_control.keeps) == fake->rank)
        return SYMMCOLL_IN_PROGRESS;
    atomic_store(&fake->cancelled, 1);
    return atomic_load(&fake->state) == JOB_RUNNING ? SYMMCOLL_IN_PROGRESS
                                                    : SYMMCOLL_ERR_CANCELED;
}

static const struct symc_coll_ops coll = {
    .serves = serves, .start = start, .test = test, .cancel = cancel};

SYMMCOLL_API
extern const struct symc_backend symmcoll_backend;
const struct symc_backend symmcoll_backend = {
    .interface = SYMC_BACKEND_INTERFACE,
    .name = "fake_module",
    .priority = 5,
    .memory = SYMC_MEMORY_DEVICE,
    .find = find,
    .probe = probe,
    .open = open_fake,
    .close = close_fake,
    .coll = &coll};
