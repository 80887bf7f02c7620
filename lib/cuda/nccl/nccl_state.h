/* SPDX-License-Identifier: BSD-3-Clause */
/* The state that the files of a communicator of NCCL share. */
#ifndef SYMC_CUDA_NCCL_NCCL_STATE_H
#define SYMC_CUDA_NCCL_NCCL_STATE_H

#include "cuda/nccl/nccl_comm.h"
#include "cuda/nccl/nccl_keeper.h"

#include <pthread.h>

/* How long to wait for the end of a communicator that could not be made; the other
 * members find the error out. */
#define SYMC_CUDA_COMM_FAILED_NS SYMC_NS_PER_S

#define SYMC_CUDA_COMM_NAP_NS (INT64_C(200) * 1000) /* between two polls */

struct symc_cuda_comm {
    struct symc_cuda_comm *next; /* in the list of retired ones */
    const struct symc_nccl *nccl;
    const struct symc_core *core;
    int rank, size;
    pthread_mutex_t lock;            /* held in each call of NCCL with it */
    struct symc_nccl_comm *made;     /* NULL: not made, or ended */
    struct symc_cuda_keeper *keeper; /* ends it; NULL: it has */
    bool ready;   /* it has been made; before, errors are of its making */
    bool keeps;   /* a quiet one is kept when it is stopped */
    bool forgone; /* see symc_cuda_comm_forgo() */
    bool detects_groups; /* as symc_nccl_detects_groups() returned */
    const char *call;    /* the latest one, in messages; under the lock */
    symmcoll_status_t
        broken; /* the error of its own for which it was aborted */
    char reason[SYMC_DETAIL_MAX];
};

int symc_cuda_comm_world_rank(const struct symc_cuda_comm *comm, int rank);

/* Returns the status of a result of NCCL. */
symmcoll_status_t symc_cuda_comm_status(enum symc_nccl_result result);

/* Describes the failed latest call in SYMC_DETAIL_MAX bytes.  Needs the lock. */
void symc_cuda_comm_describe(const struct symc_cuda_comm *comm,
    enum symc_nccl_result result, char *text);
/* Returns the status of the latest call's result, with that detail on failure.  Needs the
 * lock. */
symmcoll_status_t symc_cuda_comm_judge(
    const struct symc_cuda_comm *comm, enum symc_nccl_result result);
/* Fails because the communicator was aborted.  Needs the lock. */
symmcoll_status_t symc_cuda_comm_refuse_aborted(
    const struct symc_cuda_comm *comm);

/* Returns whether the calling thread is known to be in a group of calls by the program:
 * NCCL must not be called then.  May be called at any time. */
bool symc_cuda_comm_is_grouped(const struct symc_cuda_comm *comm);

/* With the lock held: makes the keeper stop running work and abort the communicator. */
void symc_cuda_comm_drop(struct symc_cuda_comm *comm);

/* Creates the object (out) of a communicator that NCCL has not made yet, which is ended
 * in `where`; takes `where` in any case.  Errors: NO_MEMORY, SYSTEM (no thread). */
symmcoll_status_t symc_cuda_comm_create(const struct symc_nccl *nccl,
    const struct symc_core *core, struct symc_cuda_where where, int rank,
    int size, struct symc_cuda_comm **comm);

/* Creates the object of a communicator with a keeper, which it takes.  NULL: no memory,
 * with a detail; the keeper is not taken then. */
struct symc_cuda_comm *symc_cuda_comm_wrap(const struct symc_nccl *nccl,
    const struct symc_core *core, struct symc_cuda_keeper *keeper, int rank,
    int size);

/* Aborts a communicator and frees it.  Returns whether it ended within the timeout. */
bool symc_cuda_comm_release(struct symc_cuda_comm *comm, int64_t timeout_ns);

/* symc_cuda_comm_release() without freeing the object, for threads that may still abort
 * it, until it is closed. */
bool symc_cuda_comm_end(struct symc_cuda_comm *comm, int64_t timeout_ns);

/* Takes the communicator that a call has made from another one, after the call has ended
 * on all members, unless the parent was aborted.  child: NULL if none was made for this
 * rank. */
symmcoll_status_t symc_cuda_comm_take_made(
    struct symc_cuda_comm *parent, struct symc_cuda_comm *child);

/* Returns whether waiting for other members is pointless: the group has failed (member:
 * -1), or a member has left (member, out). */
bool symc_cuda_comm_find_broken(const struct symc_cuda_comm *comm, int *member);

/* A call of NCCL, or several in a group. */
struct symc_cuda_routine {
    const char *name; /* in messages */
    enum symc_nccl_result (*call)(const struct symc_cuda_comm *comm,
        const void *arg, struct CUstream_st *stream);
};

/* Makes the call with the lock held, and returns when NCCL has enqueued it.  Errors:
 * those of symc_cuda_comm_exchange(). */
symmcoll_status_t symc_cuda_comm_enqueue(struct symc_cuda_comm *comm,
    const struct symc_op *op, struct symc_cuda_routine routine, const void *arg,
    struct CUstream_st *stream);

/* Collective; core->gather must be allowed: waits until the latest call has ended on all
 * members.  They gather again and again, because a member that fails or dies would leave
 * the others in progress: a member that has an error stops gathering, and the others get
 * it from their gather.  busy: room for a word of each member. */
symmcoll_status_t symc_cuda_comm_await_all(
    struct symc_cuda_comm *comm, struct symc_cuda_until until, uint32_t *busy);

void symc_cuda_comm_pause(const struct symc_core *core, int64_t nap_ns);

#endif
