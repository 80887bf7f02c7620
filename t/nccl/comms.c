/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Communicators of the stand-in for NCCL: when they are ready, how they end,
 * and which threads may use them.
 */
#include "t/nccl/comms.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* The communicators of the process, with one lock for all of them. */
static struct {
    pthread_mutex_t lock;
    int count;
    struct symc_nccl_comm comms[FAKE_COMMS]; /* never used again */
} all = {.lock = PTHREAD_MUTEX_INITIALIZER};

API struct fake_nccl fake_nccl;

/* Reads FAKE_NCCL_RESULT, the result of calls, for programs other than the
 * tests. */
__attribute__((constructor)) static void read_environment(void)
{
    const char *result = getenv("FAKE_NCCL_RESULT");

    if (result != NULL)
        atomic_store(&fake_nccl.call_result, atoi(result));
}

/* The names of NCCL; its own header has other types. */
API int ncclGetUniqueId(struct symc_nccl_id *id);
API int ncclCommInitRankConfig(struct symc_nccl_comm **made, int size,
    struct symc_nccl_id id, int rank, struct symc_nccl_config *config);
API int ncclCommGetAsyncError(struct symc_nccl_comm *comm, int *error);
API int ncclCommFinalize(struct symc_nccl_comm *comm);
API int ncclCommDestroy(struct symc_nccl_comm *comm);
API int ncclCommAbort(struct symc_nccl_comm *comm);
API const char *ncclGetErrorString(int result);
API const char *ncclGetLastError(struct symc_nccl_comm *comm);

_Noreturn void fake_nccl_die(const char *what)
{
    fprintf(stderr, "# NCCL's stand-in: %s\n", what);
    abort();
}

/* ---- threads in a communicator ---- */

void fake_nccl_enter(struct symc_nccl_comm *comm)
{
    int pause = atomic_load(&fake_nccl.pause_us);

    if (atomic_fetch_add(&comm->inside, 1) != 0)
        fake_nccl_die("two threads are in one communicator");
    if (comm->phase == FAKE_OVER)
        fake_nccl_die("a communicator is used that was destroyed or aborted");
    if (pause > 0)
        usleep((useconds_t)pause);
    pthread_mutex_lock(&all.lock);
}

int fake_nccl_leave(struct symc_nccl_comm *comm, int result)
{
    pthread_mutex_unlock(&all.lock);
    atomic_fetch_sub(&comm->inside, 1);
    return result;
}

static void end(struct symc_nccl_comm *comm, int destroyed)
{
    fake_windows_end(comm, destroyed);
    for (int i = 0; i < FAKE_OPS; i++)
        if (comm->ops[i].used)
            fake_nccl_die("a reduction that was created is left");
    comm->phase = FAKE_OVER;
    fake_work_free(comm->pending);
    comm->pending = NULL;
    atomic_fetch_sub(&fake_nccl.live, 1);
}

/* ---- operations in progress ---- */

/* Enqueues pending work when the communicator has been queried often enough.
 * Called with the lock. */
static int ask_pending(struct symc_nccl_comm *comm)
{
    struct fake_work *work = comm->pending;

    if (comm->questions > 0 && comm->questions-- > 0)
        return SYMC_NCCL_IN_PROGRESS;
    comm->pending = NULL;
    return work != NULL ? fake_work_enqueue(work) : SYMC_NCCL_SUCCESS;
}

/* Returns whether nothing of this rank runs. Called with the lock. */
static int ask_revoked(struct symc_nccl_comm *comm)
{
    if (atomic_load(&fake_nccl.restless) || atomic_load(&comm->running) != 0 ||
        comm->questions-- > 0)
        return SYMC_NCCL_IN_PROGRESS;
    comm->questions = 0;
    if (!comm->quiet)
        atomic_fetch_add(&fake_nccl.quiet, 1);
    comm->quiet = 1;
    return SYMC_NCCL_SUCCESS;
}

/* Returns whether members are still missing, or the test keeps the
 * communicator from ever being created. Called with the lock. */
static bool is_beginning(const struct symc_nccl_comm *comm)
{
    int most = atomic_load(&fake_nccl.begun_most);

    return comm->phase == FAKE_BEGINNING &&
           ((most != 0 && comm->number > most) ||
               atomic_load(&comm->clique->joined) <
                   atomic_load(&comm->clique->size));
}

/* Called with the lock. */
static int ask(struct symc_nccl_comm *comm)
{

    if (comm->phase == FAKE_FINALIZED)
        return SYMC_NCCL_SUCCESS;
    if (comm->phase == FAKE_REVOKED)
        return ask_revoked(comm);
    if (atomic_load(&fake_nccl.stuck))
        return comm->phase == FAKE_READY && comm->pending == NULL &&
                       comm->registering == NULL
                   ? SYMC_NCCL_SUCCESS
                   : SYMC_NCCL_IN_PROGRESS;
    if (comm->broken != 0)
        return comm->broken;
    if (comm->registering != NULL)
        return fake_windows_ask(comm);
    if (comm->phase == FAKE_SPLITTING)
        return fake_split_ask(comm);
    if (comm->phase == FAKE_READY)
        return ask_pending(comm);
    if (is_beginning(comm) || comm->questions-- > 0)
        return SYMC_NCCL_IN_PROGRESS;
    comm->phase = comm->phase == FAKE_BEGINNING ? FAKE_READY : FAKE_FINALIZED;
    comm->questions = 0;
    return SYMC_NCCL_SUCCESS;
}

int ncclCommGetAsyncError(struct symc_nccl_comm *comm, int *error)
{
    fake_nccl_enter(comm);
    *error = atomic_load(&fake_nccl.error);
    if (*error == 0)
        *error = ask(comm);
    return fake_nccl_leave(comm, SYMC_NCCL_SUCCESS);
}

/* ---- making ---- */

/* Reads FAKE_NCCL_REFUSAL: the result of connecting ranks. */

int ncclGetUniqueId(struct symc_nccl_id *id)
{
    int result = atomic_load(&fake_nccl.id_result);

    atomic_fetch_add(&fake_nccl.drawn, 1);
    while (atomic_load(&fake_nccl.id_hangs))
        usleep(1000);
    return result != 0 ? result : fake_clique_draw(id);
}

struct symc_nccl_comm *fake_comm_add(void)
{
    struct symc_nccl_comm *comm = &all.comms[all.count++];

    if (all.count == FAKE_COMMS)
        fake_nccl_die("there are too many communicators");
    comm->questions = atomic_load(&fake_nccl.slow);
    atomic_fetch_add(&fake_nccl.live, 1);
    return comm;
}

void fake_comm_join(
    struct symc_nccl_comm *comm, struct fake_clique *clique, int size, int rank)
{
    atomic_store(&clique->size, size);
    atomic_store(&clique->pids[rank], getpid());
    comm->clique = clique;
    comm->rank = rank;
    atomic_fetch_add(&clique->joined, 1);
}

/* Called with the lock. */
static void keep_config(const struct symc_nccl_config *config)
{
    const char *net = config->net_name != NULL ? config->net_name : "";

    atomic_store(&fake_nccl.min_ctas, config->min_ctas);
    atomic_store(&fake_nccl.max_ctas, config->max_ctas);
    atomic_store(&fake_nccl.cga, config->cga_cluster_size);
    if (config->size > offsetof(struct symc_nccl_config, cta_policy))
        atomic_store(&fake_nccl.cta_policy, config->cta_policy);
    snprintf(fake_nccl.net, sizeof(fake_nccl.net), "%s", net);
}

int ncclCommInitRankConfig(struct symc_nccl_comm **made, int size,
    struct symc_nccl_id id, int rank, struct symc_nccl_config *config)
{
    const char *refusal = getenv("FAKE_NCCL_REFUSAL");
    int result = atomic_load(&fake_nccl.init_result);
    struct fake_clique *clique;

    if (config->magic != 0xcafebeef || config->size > sizeof(*config) ||
        config->blocking != 0 || rank < 0 || rank >= size || size > FAKE_RANKS)
        fake_nccl_die("a config or a rank is wrong");
    fake_group_leave_out();
    *made = NULL;
    /* Before it replaces undefined values, which are the smallest number. */
    if (config->min_ctas != SYMC_NCCL_UNDEFINED &&
        config->min_ctas > config->max_ctas)
        return SYMC_NCCL_INVALID_ARGUMENT;
    if (result == 0 && size > 1 && refusal != NULL)
        result = atoi(refusal);
    if (result != 0)
        return result;
    clique = fake_clique_find(&id);
    if (clique == NULL)
        return SYMC_NCCL_SYSTEM_ERROR;
    pthread_mutex_lock(&all.lock);
    *made = fake_comm_add();
    fake_comm_join(*made, clique, size, rank);
    (*made)->number = atomic_fetch_add(&fake_nccl.begun, 1) + 1;
    keep_config(config);
    pthread_mutex_unlock(&all.lock);
    return SYMC_NCCL_IN_PROGRESS;
}

/* ---- ending ---- */

int ncclCommFinalize(struct symc_nccl_comm *comm)
{
    fake_group_leave_out();
    fake_nccl_enter(comm);
    if (comm->phase != FAKE_READY)
        fake_nccl_die("a communicator is finalized that is not ready");
    if (atomic_load(&fake_nccl.finalize_result) != 0)
        return fake_nccl_leave(comm, atomic_load(&fake_nccl.finalize_result));
    comm->phase = FAKE_FINALIZING;
    atomic_store(&comm->clique->pids[comm->rank], 0);
    atomic_fetch_add(&fake_nccl.finalized, 1);
    comm->questions = atomic_load(&fake_nccl.slow);
    return fake_nccl_leave(comm, SYMC_NCCL_IN_PROGRESS);
}

/* Returns whether a process lives; a dead one exists until its parent has
 * waited for it. */
static bool is_alive(int pid)
{
    char path[64], state = 'Z';
    FILE *file;

    snprintf(path, sizeof(path), "/proc/%d/stat", pid);
    file = fopen(path, "re");
    if (file == NULL)
        return false;
    if (fscanf(file, "%*d (%*[^)]) %c", &state) != 1)
        state = 'Z';
    fclose(file);
    return state != 'Z' && state != 'X';
}

/* Waits until all other ranks have finalized or aborted their communicators,
 * or have died. Called with the lock, which is released in between. */
static void await_others(const struct symc_nccl_comm *comm)
{
    for (int r = 0; r < FAKE_RANKS; r++) {
        for (int pid; (pid = atomic_load(&comm->clique->pids[r])) != 0;) {
            if (r == comm->rank || (pid != getpid() && !is_alive(pid)))
                break;
            pthread_mutex_unlock(&all.lock);
            usleep(200);
            pthread_mutex_lock(&all.lock);
        }
    }
}

int ncclCommDestroy(struct symc_nccl_comm *comm)
{
    fake_nccl_enter(comm);
    if (comm->phase != FAKE_FINALIZED)
        fake_nccl_die("a communicator is destroyed before it is finalized");
    await_others(comm);
    end(comm, 1);
    atomic_fetch_add(&fake_nccl.destroyed, 1);
    return fake_nccl_leave(comm, SYMC_NCCL_SUCCESS);
}

int ncclCommAbort(struct symc_nccl_comm *comm)
{
    fake_nccl_enter(comm);
    if (comm->clique != NULL) {
        atomic_store(&comm->clique->pids[comm->rank], 0);
        await_others(comm);
    }
    /* A split that waits for the communicator cannot succeed any more. */
    if (comm->child != NULL)
        *comm->child_at = comm->child;
    end(comm, 0);
    atomic_fetch_add(&fake_nccl.aborted, 1);
    return fake_nccl_leave(comm, SYMC_NCCL_SUCCESS);
}

/* ---- since 2.28.7 ---- */

#ifndef NCCL_FEW

API int ncclCommRevoke(struct symc_nccl_comm *comm, int flags);

/* Revokes on this rank only: pending work is not enqueued, and running work
 * ends. */
int ncclCommRevoke(struct symc_nccl_comm *comm, int flags)
{
    fake_nccl_enter(comm);
    if (flags != 0 || comm->phase != FAKE_READY)
        fake_nccl_die("a communicator is revoked that is not ready");
    if (atomic_load(&fake_nccl.revoke_result) != 0)
        return fake_nccl_leave(comm, atomic_load(&fake_nccl.revoke_result));
    comm->phase = FAKE_REVOKED;
    comm->questions = atomic_load(&fake_nccl.slow);
    fake_work_free(comm->pending);
    comm->pending = NULL;
    atomic_fetch_add(&fake_nccl.revoked, 1);
    return fake_nccl_leave(comm, SYMC_NCCL_IN_PROGRESS);
}

#endif

/* ---- texts ---- */

const char *ncclGetErrorString(int result)
{
    return result == SYMC_NCCL_INVALID_USAGE ? "invalid usage" : "an error";
}

const char *ncclGetLastError(struct symc_nccl_comm *comm)
{
    const char *said = atomic_load(&fake_nccl.said);

    if (said != NULL)
        return said;
    return comm != NULL ? "\n" : "said of no communicator\n";
}
