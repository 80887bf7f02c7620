/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A backend in a module, for tests: it serves a second kind of memory, a range
 * of the module's own, and completes operations later, on a separate thread
 * for each group: any number of them, which move data in the order of their
 * start. It is linked only with the C library, so it has nothing of the
 * library except the functions of the core. fake_module.h selects its
 * failures.
 */
#include "t/backend/fake_state.h"

#include "backend/interface.h"

#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static _Alignas(64) char memory[FAKE_NBYTES];

struct fake_control fake_control = {.memory = memory,
    .refuses = -1,
    .refuses_late = -1,
    .tells_less = -1,
    .dies_opening = -1,
    .fails = -1,
    .hangs = -1,
    .keeps = -1,
    .unprepared = -1,
    .unprepared_by = SYMMCOLL_ERR_SYSTEM};

static bool find(const void *data, int16_t *device)
{
    const char *at = data;

    if (at < memory || at >= memory + FAKE_NBYTES)
        return false;
    *device = at >= memory + FAKE_NBYTES / 2;
    return true;
}

/* ---- rules ---- */

static void enter(struct fake *fake)
{
    if (atomic_fetch_add(&fake->inside, 1) != 0)
        atomic_fetch_add(&fake_control.strange, 1);
    if (atomic_load(&fake_control.lingers) != 0)
        sched_yield();
}

static symmcoll_status_t leave(struct fake *fake, symmcoll_status_t status)
{
    atomic_fetch_sub(&fake->inside, 1);
    return status;
}

/* Returns whether a token is valid; an invalid one is not dereferenced. */
static bool is_job(struct fake *fake, const void *token)
{
    const struct job *job;

    pthread_mutex_lock(&fake->lock);
    for (job = fake->first; job != NULL && job != token; job = job->next)
        ;
    pthread_mutex_unlock(&fake->lock);
    if (job == NULL)
        atomic_fetch_add(&fake_control.strange, 1);
    return job != NULL;
}

/* ---- operations ---- */

static bool serves(const struct symc_kind_info *info)
{
    if (strcmp(info->name, "barrier") == 0)
        return atomic_load(&fake_control.barriers) != 0;
    if (strcmp(info->name, "gather") == 0 &&
        atomic_load(&fake_control.lacks_gather) != 0)
        return false;
    return info->in_parts != SYMC_NO_PART || info->out_parts != SYMC_NO_PART;
}

static void *mark(void *state, const struct symc_op *op)
{
    struct mark *made = malloc(sizeof(*made));

    if (op->direct)
        atomic_fetch_add(&fake_control.strange, 1);
    if (made == NULL)
        return NULL;
    *made = (struct mark){state, op->stream};
    atomic_fetch_add(&fake_control.marks, 1);
    return made;
}

static void unmark(void *state, void *marked)
{
    struct mark *made = marked;

    if (made->fake != state)
        atomic_fetch_add(&fake_control.strange, 1);
    free(made);
    atomic_fetch_sub(&fake_control.marks, 1);
}

/* Records the attributes of a started operation for the tests. */
static void note(
    const struct symc_op *op, const struct mark *marked, bool captured)
{
    _Atomic int *all_started = atomic_load(&fake_control.all_started);
    int running = atomic_fetch_add(&fake_control.running, 1) + 1;
    int most = atomic_load(&fake_control.most);

    atomic_store(&fake_control.stream, op->stream);
    atomic_fetch_add(&fake_control.started, 1);
    atomic_fetch_add(&fake_control.direct, op->direct);
    atomic_fetch_add(&fake_control.captured, captured);
    if (all_started != NULL)
        atomic_fetch_add(all_started, 1);
    while (running > most &&
           !atomic_compare_exchange_weak(&fake_control.most, &most, running))
        ;
    if (marked == NULL)
        return;
    atomic_fetch_add(&fake_control.marked, 1);
    if (marked->stream != op->stream || op->direct)
        atomic_fetch_add(&fake_control.strange, 1);
}

static symmcoll_status_t add_job(
    struct fake *fake, const struct symc_op *op, void **token)
{
    struct job *job = calloc(1, sizeof(*job));

    if (job == NULL)
        return fake->core->fail(SYMMCOLL_ERR_NO_MEMORY, "fake: a job");
    job->op = *op;
    pthread_mutex_lock(&fake->lock);
    job->number = ++fake->jobs;
    *fake->last = job;
    fake->last = &job->next;
    pthread_cond_signal(&fake->changed);
    pthread_mutex_unlock(&fake->lock);
    *token = job;
    return SYMMCOLL_IN_PROGRESS;
}

static symmcoll_status_t start_one(struct fake *fake, const struct symc_op *op,
    const struct symc_agreed *agreed, void *marked, void **token)
{
    const struct symc_kind_info *info = &fake->core->kinds[op->kind];

    if (op->dtype != SYMMCOLL_FLOAT32 && op->count > 0)
        return fake->core->fail(
            SYMMCOLL_ERR_UNSUPPORTED, "%s: fake has float32", info->name);
    if ((info->traits & SYMC_UNEVEN) != 0)
        return fake->core->fail(
            SYMMCOLL_ERR_UNSUPPORTED, "%s: fake has equal parts", info->name);
    note(op, marked, agreed->captured);
    if (strcmp(op->label, "captured") != 0)
        return add_job(fake, op, token);
    atomic_fetch_sub(&fake_control.running, 1);
    return SYMMCOLL_OK;
}

static symmcoll_status_t start(void *state, const struct symc_op *op,
    const struct symc_agreed *agreed, void *marked, void **token)
{
    symmcoll_status_t status;

    enter(state);
    status = start_one(state, op, agreed, marked, token);
    if (marked != NULL) {
        free(marked);
        atomic_fetch_sub(&fake_control.marks, 1);
    }
    return leave(state, status);
}

/* Removes a job from the list, which makes it an invalid token. */
static void end_job(struct fake *fake, struct job *job)
{
    struct job **at = &fake->first;

    pthread_mutex_lock(&fake->lock);
    while (*at != job)
        at = &(*at)->next;
    *at = job->next;
    if (fake->last == &job->next)
        fake->last = at;
    pthread_mutex_unlock(&fake->lock);
    free(job);
    atomic_fetch_sub(&fake_control.running, 1);
}

/* Wait in a test until the program goes on, and a moment longer. */
static void hold(void)
{
    int none = 0;

    atomic_compare_exchange_strong(&fake_control.held, &none, 1);
    while (atomic_load(&fake_control.held) == 1)
        usleep(50);
    usleep(1000);
}

static symmcoll_status_t test_job(struct fake *fake, struct job *job)
{
    if (!is_job(fake, job))
        return fake->core->fail(SYMMCOLL_ERR_INTERNAL, "fake: a strange token");
    if (atomic_load(&fake_control.fails) == fake->rank) {
        /* The thread may still use it: it is freed at the end. */
        atomic_store(&job->cancelled, 1);
        atomic_fetch_sub(&fake_control.running, 1);
        return fake->core->fail(SYMMCOLL_ERR_DEVICE, "fake: out of order");
    }
    if (!atomic_load(&job->moved) ||
        atomic_load(&fake_control.turn) < atoi(job->op.label))
        return SYMMCOLL_IN_PROGRESS;
    if (strcmp(job->op.label, "held") == 0)
        hold();
    end_job(fake, job);
    return SYMMCOLL_OK;
}

static symmcoll_status_t test(void *state, void *token, int64_t *took_ns)
{
    *took_ns = 0;
    enter(state);
    return leave(state, test_job(state, token));
}

static symmcoll_status_t cancel_job(struct fake *fake, struct job *job)
{
    bool busy;

    if (!is_job(fake, job))
        return SYMMCOLL_ERR_CANCELED;
    if (atomic_load(&fake_control.keeps) == fake->rank)
        return SYMMCOLL_IN_PROGRESS;
    pthread_mutex_lock(&fake->lock);
    atomic_store(&job->cancelled, 1);
    busy = fake->current == job;
    pthread_mutex_unlock(&fake->lock);
    if (busy)
        return SYMMCOLL_IN_PROGRESS;
    end_job(fake, job);
    return SYMMCOLL_ERR_CANCELED;
}

static symmcoll_status_t cancel(void *state, void *token)
{
    enter(state);
    return leave(state, cancel_job(state, token));
}

static symmcoll_status_t watch(void *state, void *token)
{
    enter(state);
    (void)is_job(state, token);
    return leave(state, SYMMCOLL_OK);
}

/* Names no member. */
static symmcoll_status_t expire(void *state, void *token)
{
    enter(state);
    (void)is_job(state, token);
    return leave(state, SYMMCOLL_OK);
}

/* Finds nothing: no operation runs without a token. */
static symmcoll_status_t look(void *state, struct symc_op *op)
{
    (void)op;
    enter(state);
    return leave(state, SYMMCOLL_OK);
}

/* Jobs end when they are cancelled. */
static void stop(void *state)
{
    (void)state;
}

static const char *inside(void *state)
{
    (void)state;
    return NULL;
}

static symmcoll_status_t check(void *state, const struct symc_op *op)
{
    (void)state;
    (void)op;
    return SYMMCOLL_OK;
}

static symmcoll_status_t reach(
    void *state, const char *where, const char *what, const void *at)
{
    (void)state;
    (void)where;
    (void)what;
    (void)at;
    return SYMMCOLL_OK;
}

static symmcoll_status_t follow(void *state, void *token, void *stream)
{
    struct fake *fake = state;
    symmcoll_status_t status = SYMMCOLL_OK;

    enter(fake);
    if (!is_job(fake, token) || ((struct job *)token)->op.stream != stream)
        atomic_fetch_add(&fake_control.strange, 1);
    if (atomic_load(&fake_control.no_follow))
        status = fake->core->fail(SYMMCOLL_ERR_DEVICE, "fake: no such stream");
    atomic_store(&fake_control.following, stream);
    atomic_fetch_add(&fake_control.followed, 1);
    return leave(fake, status);
}

/* ---- resources that operations need ---- */

static bool needs(
    void *state, const struct symc_op *op, const struct symc_agreed *agreed)
{
    const struct fake *fake = state;

    (void)agreed;
    return !fake->prepared && strcmp(op->label, "useful") == 0;
}

static symmcoll_status_t prepare(
    void *state, const struct symc_op *op, const struct symc_agreed *agreed)
{
    struct fake *fake = state;
    const struct symc_core *core = fake->core;
    int told[RANKS];
    symmcoll_status_t status = SYMMCOLL_OK;

    (void)op;
    (void)agreed;
    atomic_fetch_add(&fake_control.prepared, 1);
    if (atomic_load(&fake_control.unprepared) == fake->rank)
        status = core->fail(
            (symmcoll_status_t)atomic_load(&fake_control.unprepared_by),
            "fake: unprepared");
    if (status == SYMMCOLL_OK)
        status = core->gather(core->group, &fake->rank, told, sizeof(*told));
    fake->prepared = status == SYMMCOLL_OK;
    return status;
}

static void forgo(void *state)
{
    (void)state;
    atomic_fetch_add(&fake_control.forgone, 1);
}

static bool is_captured(void *stream)
{
    return stream == atomic_load(&fake_control.capturing);
}

static const struct symc_device_ops device = {.serves = serves,
    .needs = needs,
    .prepare = prepare,
    .forgo = forgo,
    .start = start,
    .test = test,
    .watch = watch,
    .expire = expire,
    .cancel = cancel,
    .check = check,
    .reach = reach,
    .inside = inside,
    .mark = mark,
    .unmark = unmark,
    .follow = follow,
    .abort = stop,
    .look = look};

SYMMCOLL_API
extern const struct symc_backend symmcoll_backend;
const struct symc_backend symmcoll_backend = {
    .interface = SYMC_BACKEND_INTERFACE,
    .name = "fake_module",
    .priority = 5,
    .memory = SYMC_MEMORY_DEVICE,
    .find = find,
    .is_captured = is_captured,
    .probe = fake_probe,
    .open = fake_open,
    .close = fake_close,
    .device = &device};
