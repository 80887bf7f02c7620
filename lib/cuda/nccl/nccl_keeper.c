/* SPDX-License-Identifier: BSD-3-Clause */
#include "cuda/nccl/nccl_keeper.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define QUIET_NS (SYMC_NS_PER_S / 2) /* for a revoked communicator, at most */
#define QUIET_NAP_NS (SYMC_NS_PER_S / 1000)

struct symc_cuda_keeper {
    struct symc_cuda_where where;
    char *name;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    enum symc_nccl_result (*call)(struct symc_nccl_comm *comm);
    struct symc_nccl_comm *comm;     /* NULL: nothing to end */
    const struct symc_nccl *revokes; /* NULL: it is not revoked first */
    struct symc_cuda_keeper *heir; /* of what NCCL makes of it; NULL: nothing */
    struct symc_nccl_comm *made;   /* written by NCCL, made of another's */
    struct symc_nccl_comm *nothing; /* written by NCCL if it makes none */
    bool requested;
    bool keeps;   /* a quiet one is kept until the owner leaves */
    bool quiet;   /* it is kept */
    bool claimed; /* by another owner: the thread waits for a new request */
    bool ends;    /* it is being ended, or was */
    bool left;    /* the owner has */
    bool over;    /* the thread only has to drop its use */
    int uses;     /* the thread's, the owner's, the parent's keeper's */
};

static void release(struct symc_cuda_keeper *keeper)
{
    bool last;

    pthread_mutex_lock(&keeper->lock);
    last = --keeper->uses == 0;
    pthread_mutex_unlock(&keeper->lock);
    if (!last)
        return;
    pthread_cond_destroy(&keeper->changed);
    pthread_mutex_destroy(&keeper->lock);
    free(keeper->name);
    free(keeper);
}

/* ---- the thread ---- */

static int64_t now_ns(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * SYMC_NS_PER_S + now.tv_nsec;
}

/* Revokes the communicator and waits until it is quiet; returns whether it is.  NCCL
 * joins its threads of the communicator, and reports progress until none of its work
 * runs. */
static bool make_quiet(const struct symc_cuda_keeper *keeper)
{
    const struct timespec nap = {.tv_nsec = QUIET_NAP_NS};
    const struct symc_nccl *nccl = keeper->revokes;
    enum symc_nccl_result found = nccl->comm_revoke(keeper->comm, 0);
    const int64_t until = now_ns() + QUIET_NS;

    while (found == SYMC_NCCL_IN_PROGRESS && now_ns() < until) {
        nanosleep(&nap, NULL);
        if (nccl->comm_get_async_error(keeper->comm, &found) !=
            SYMC_NCCL_SUCCESS)
            return false;
    }
    return found == SYMC_NCCL_SUCCESS;
}

/* Waits until a quiet communicator is claimed.  Returns false if it is to be ended. */
static bool await_claim(struct symc_cuda_keeper *keeper, bool quiet)
{
    bool claimed;

    pthread_mutex_lock(&keeper->lock);
    keeper->quiet = quiet && keeper->keeps;
    pthread_cond_broadcast(&keeper->changed);
    while (keeper->quiet && !keeper->claimed && !keeper->left)
        pthread_cond_wait(&keeper->changed, &keeper->lock);
    keeper->quiet = false;
    claimed = keeper->claimed;
    keeper->ends = !claimed;
    pthread_cond_broadcast(&keeper->changed);
    pthread_mutex_unlock(&keeper->lock);
    return claimed;
}

static void end_it(void *arg)
{
    struct symc_cuda_keeper *keeper = arg;

    if (keeper->revokes != NULL && await_claim(keeper, make_quiet(keeper)))
        return;
    (void)keeper->call(keeper->comm);
    if (keeper->heir != NULL && keeper->heir->made != NULL)
        (void)keeper->call(keeper->heir->made);
}

static void *keep(void *arg)
{
    struct symc_cuda_keeper *keeper = arg;
    const struct symc_cuda_where *where = &keeper->where;

    do {
        pthread_mutex_lock(&keeper->lock);
        keeper->claimed = false;
        while (!keeper->requested)
            pthread_cond_wait(&keeper->changed, &keeper->lock);
        pthread_mutex_unlock(&keeper->lock);
        if (keeper->comm != NULL && where->inside != NULL)
            where->inside(where->context, end_it, keeper);
        else if (keeper->comm != NULL)
            end_it(keeper);
    } while (keeper->claimed);
    if (keeper->heir != NULL)
        release(keeper->heir);
    if (where->release != NULL)
        where->release(where->context);
    pthread_mutex_lock(&keeper->lock);
    keeper->over = true;
    pthread_cond_broadcast(&keeper->changed);
    pthread_mutex_unlock(&keeper->lock);
    release(keeper);
    return NULL;
}

/* Starts the thread with the system's stack size, which NCCL needs, and with all signals
 * blocked, which are the program's. */
static int start_thread(struct symc_cuda_keeper *keeper)
{
    sigset_t all, before;
    pthread_t thread;
    int error;

    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    error = pthread_create(&thread, NULL, keep, keeper);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (error == 0)
        (void)pthread_detach(thread);
    return error;
}

/* ---- the owner's calls ---- */

static struct symc_cuda_keeper *make(
    struct symc_cuda_where where, const char *name)
{
    struct symc_cuda_keeper *made = calloc(1, sizeof(*made));
    char *copy = strdup(name);
    pthread_condattr_t attributes;

    if (made == NULL || copy == NULL) {
        free(copy);
        free(made);
        return NULL;
    }
    made->where = where;
    made->name = copy;
    made->uses = 2;
    pthread_mutex_init(&made->lock, NULL);
    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    pthread_cond_init(&made->changed, &attributes);
    pthread_condattr_destroy(&attributes);
    return made;
}

int symc_cuda_keeper_start(struct symc_cuda_where where, const char *name,
    struct symc_cuda_keeper **keeper)
{
    struct symc_cuda_keeper *made = make(where, name);
    int error = made != NULL ? start_thread(made) : ENOMEM;

    if (error == 0) {
        *keeper = made;
        return 0;
    }
    if (where.release != NULL)
        where.release(where.context);
    if (made != NULL) {
        made->uses = 1;
        release(made);
    }
    return error;
}

const char *symc_cuda_keeper_name(const struct symc_cuda_keeper *keeper)
{
    return keeper->name;
}

static void request(struct symc_cuda_keeper *keeper,
    enum symc_nccl_result (*call)(struct symc_nccl_comm *comm),
    struct symc_nccl_comm *comm, const struct symc_nccl *revokes)
{
    pthread_mutex_lock(&keeper->lock);
    if (!keeper->requested) {
        keeper->call = call;
        keeper->comm = comm;
        keeper->revokes = revokes;
        keeper->ends = revokes == NULL;
        keeper->requested = true;
        pthread_cond_broadcast(&keeper->changed);
    }
    pthread_mutex_unlock(&keeper->lock);
}

void symc_cuda_keeper_end(struct symc_cuda_keeper *keeper,
    enum symc_nccl_result (*call)(struct symc_nccl_comm *comm),
    struct symc_nccl_comm *comm)
{
    request(keeper, call, comm, NULL);
}

/* Does not revoke while NCCL makes a communicator of this one: no work runs then. */
void symc_cuda_keeper_stop(struct symc_cuda_keeper *keeper,
    const struct symc_nccl *nccl, struct symc_nccl_comm *comm, bool keeps)
{
    keeper->keeps = keeps;
    request(keeper, nccl->comm_abort, comm,
        nccl->comm_revoke != NULL && keeper->heir == NULL ? nccl : NULL);
}

struct symc_nccl_comm **symc_cuda_keeper_expect(
    struct symc_cuda_keeper *keeper, struct symc_cuda_keeper *heir)
{
    pthread_mutex_lock(&heir->lock);
    heir->uses++;
    pthread_mutex_unlock(&heir->lock);
    keeper->heir = heir;
    return &heir->made;
}

struct symc_nccl_comm **symc_cuda_keeper_expect_none(
    struct symc_cuda_keeper *keeper)
{
    return &keeper->nothing;
}

struct symc_nccl_comm *symc_cuda_keeper_settle(struct symc_cuda_keeper *keeper)
{
    struct symc_cuda_keeper *heir = keeper->heir;
    struct symc_nccl_comm *made = heir->made;

    heir->made = NULL;
    keeper->heir = NULL;
    release(heir);
    return made;
}

/* Returns the end of a timeout on the clock of the keepers' condition. */
static struct timespec find_end(int64_t timeout_ns)
{
    struct timespec until;

    clock_gettime(CLOCK_MONOTONIC, &until);
    timeout_ns =
        timeout_ns < SYMC_NS_PER_S * 3600 ? timeout_ns : SYMC_NS_PER_S * 3600;
    until.tv_sec += timeout_ns / SYMC_NS_PER_S;
    until.tv_nsec += timeout_ns % SYMC_NS_PER_S;
    if (until.tv_nsec >= SYMC_NS_PER_S) {
        until.tv_sec++;
        until.tv_nsec -= SYMC_NS_PER_S;
    }
    return until;
}

struct symc_nccl_comm *symc_cuda_keeper_claim(struct symc_cuda_keeper *keeper)
{
    const struct timespec until = find_end(2 * QUIET_NS);
    struct symc_nccl_comm *comm = NULL;
    int error = 0;

    pthread_mutex_lock(&keeper->lock);
    while (!keeper->quiet && !keeper->ends && error == 0)
        error = pthread_cond_timedwait(&keeper->changed, &keeper->lock, &until);
    if (keeper->quiet) {
        comm = keeper->comm;
        keeper->claimed = true;
        keeper->requested = false;
        keeper->quiet = false;
        keeper->comm = NULL;
        pthread_cond_broadcast(&keeper->changed);
    }
    pthread_mutex_unlock(&keeper->lock);
    return comm;
}

bool symc_cuda_keeper_leave(struct symc_cuda_keeper *keeper, int64_t timeout_ns)
{
    const struct timespec until = find_end(timeout_ns);
    int error = 0;
    bool over;

    symc_cuda_keeper_end(keeper, NULL, NULL);
    pthread_mutex_lock(&keeper->lock);
    keeper->left = true;
    pthread_cond_broadcast(&keeper->changed);
    while (!keeper->over && error == 0)
        error = pthread_cond_timedwait(&keeper->changed, &keeper->lock, &until);
    over = keeper->over;
    pthread_mutex_unlock(&keeper->lock);
    release(keeper);
    return over;
}
