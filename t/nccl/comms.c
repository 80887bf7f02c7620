/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Communicators of the stand-in for NCCL: when they are ready, how they end, and
 * who may be in them.
 */
#include "cuda/nccl.h"
#include "t/nccl/fake_nccl.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define API __attribute__((visibility("default")))
#define CLIQUES 64
#define COMMS 512

enum phase {
    BEGINNING,
    READY,
    FINALIZING,
    FINALIZED,
    OVER
};

/* Ranks with one id. */
struct clique {
    int size, joined, finalized;
};

struct symc_nccl_comm {
    struct clique *clique;
    enum phase phase;
    int questions;      /* that are answered "in progress" */
    _Atomic int inside; /* threads in it */
};

static struct {
    pthread_mutex_t lock;
    int ncliques, ncomms;
    struct clique cliques[CLIQUES];
    struct symc_nccl_comm comms[COMMS]; /* never used again */
} all = {.lock = PTHREAD_MUTEX_INITIALIZER};

API struct fake_nccl fake_nccl;

/* As NCCL names them; its own header has other types. */
API int ncclGetUniqueId(struct symc_nccl_id *id);
API int ncclCommInitRankConfig(struct symc_nccl_comm **made, int size,
    struct symc_nccl_id id, int rank, struct symc_nccl_config *config);
API int ncclCommGetAsyncError(struct symc_nccl_comm *comm, int *error);
API int ncclCommFinalize(struct symc_nccl_comm *comm);
API int ncclCommDestroy(struct symc_nccl_comm *comm);
API int ncclCommAbort(struct symc_nccl_comm *comm);
API const char *ncclGetErrorString(int result);
API const char *ncclGetLastError(struct symc_nccl_comm *comm);

static _Noreturn void die(const char *what)
{
    fprintf(stderr, "# NCCL's stand-in: %s\n", what);
    abort();
}

/* ---- who is in a communicator ---- */

static void enter(struct symc_nccl_comm *comm)
{
    int pause = atomic_load(&fake_nccl.pause_us);

    if (atomic_fetch_add(&comm->inside, 1) != 0)
        die("two threads are in one communicator");
    if (comm->phase == OVER)
        die("a communicator is used that was destroyed or aborted");
    if (pause > 0)
        usleep((useconds_t)pause);
    pthread_mutex_lock(&all.lock);
}

static int leave(struct symc_nccl_comm *comm, int result)
{
    pthread_mutex_unlock(&all.lock);
    atomic_fetch_sub(&comm->inside, 1);
    return result;
}

static void end(struct symc_nccl_comm *comm)
{
    comm->phase = OVER;
    atomic_fetch_sub(&fake_nccl.live, 1);
}

/* ---- what is in progress ---- */

/* With the lock. */
static int is_pending(struct symc_nccl_comm *comm)
{
    const struct clique *clique = comm->clique;

    if (comm->phase == READY || comm->phase == FINALIZED)
        return 0;
    if (atomic_load(&fake_nccl.stuck) ||
        (comm->phase == BEGINNING ? clique->joined : clique->finalized) <
            clique->size)
        return 1;
    if (comm->questions-- > 0)
        return 1;
    comm->phase = comm->phase == BEGINNING ? READY : FINALIZED;
    return 0;
}

int ncclCommGetAsyncError(struct symc_nccl_comm *comm, int *error)
{
    enter(comm);
    *error = atomic_load(&fake_nccl.error);
    if (*error == 0 && is_pending(comm))
        *error = SYMC_NCCL_IN_PROGRESS;
    return leave(comm, SYMC_NCCL_SUCCESS);
}

/* ---- making ---- */

int ncclGetUniqueId(struct symc_nccl_id *id)
{
    if (atomic_load(&fake_nccl.id_result) != 0)
        return atomic_load(&fake_nccl.id_result);
    pthread_mutex_lock(&all.lock);
    if (all.ncliques == CLIQUES)
        die("there are too many ids");
    memset(id, 0x5a, sizeof(*id));
    memcpy(id, &all.ncliques, sizeof(all.ncliques));
    all.ncliques++;
    pthread_mutex_unlock(&all.lock);
    return SYMC_NCCL_SUCCESS;
}

/* With the lock. */
static struct clique *find_clique(const struct symc_nccl_id *id)
{
    int index = -1;

    memcpy(&index, id, sizeof(index));
    if (index < 0 || index >= all.ncliques || id->bytes[127] != 0x5a)
        die("an id is none that was drawn");
    return &all.cliques[index];
}

static struct symc_nccl_comm *add(struct clique *clique, int size)
{
    struct symc_nccl_comm *comm = &all.comms[all.ncomms++];

    if (all.ncomms == COMMS)
        die("there are too many communicators");
    clique->size = size;
    clique->joined++;
    comm->clique = clique;
    comm->questions = atomic_load(&fake_nccl.slow);
    atomic_fetch_add(&fake_nccl.live, 1);
    return comm;
}

int ncclCommInitRankConfig(struct symc_nccl_comm **made, int size,
    struct symc_nccl_id id, int rank, struct symc_nccl_config *config)
{
    int result = atomic_load(&fake_nccl.init_result);

    if (config->magic != 0xcafebeef || config->size > sizeof(*config) ||
        config->blocking != 0 || rank < 0 || rank >= size)
        die("a config or a rank is wrong");
    *made = NULL;
    if (result != 0)
        return result;
    pthread_mutex_lock(&all.lock);
    *made = add(find_clique(&id), size);
    pthread_mutex_unlock(&all.lock);
    return SYMC_NCCL_IN_PROGRESS;
}

/* ---- ending ---- */

int ncclCommFinalize(struct symc_nccl_comm *comm)
{
    enter(comm);
    if (comm->phase != READY)
        die("a communicator is finalized that is not ready");
    if (atomic_load(&fake_nccl.finalize_result) != 0)
        return leave(comm, atomic_load(&fake_nccl.finalize_result));
    comm->phase = FINALIZING;
    comm->clique->finalized++;
    atomic_fetch_add(&fake_nccl.finalized, 1);
    comm->questions = atomic_load(&fake_nccl.slow);
    return leave(comm, SYMC_NCCL_IN_PROGRESS);
}

int ncclCommDestroy(struct symc_nccl_comm *comm)
{
    enter(comm);
    if (comm->phase != FINALIZED)
        die("a communicator is destroyed before it is finalized");
    end(comm);
    atomic_fetch_add(&fake_nccl.destroyed, 1);
    return leave(comm, SYMC_NCCL_SUCCESS);
}

int ncclCommAbort(struct symc_nccl_comm *comm)
{
    enter(comm);
    end(comm);
    atomic_fetch_add(&fake_nccl.aborted, 1);
    return leave(comm, SYMC_NCCL_SUCCESS);
}

/* ---- texts ---- */

const char *ncclGetErrorString(int result)
{
    return result == SYMC_NCCL_INVALID_USAGE ? "invalid usage" : "an error";
}

const char *ncclGetLastError(struct symc_nccl_comm *comm)
{
    return comm != NULL ? "\n" : "said of no communicator\n";
}
