/* SPDX-License-Identifier: BSD-3-Clause */
/* What the files of a communicator of NCCL share. */
#ifndef SYMC_CUDA_NCCL_NCCL_STATE_H
#define SYMC_CUDA_NCCL_NCCL_STATE_H

#include "cuda/nccl/nccl_comm.h"
#include "cuda/nccl/nccl_keeper.h"

#include <pthread.h>

/* The end of one that failed while it was made, which the others find out. */
#define SYMC_CUDA_COMM_FAILED_NS SYMC_NS_PER_S

#define SYMC_CUDA_COMM_NAP_NS (INT64_C(200) * 1000) /* between two questions */

struct symc_cuda_comm {
    struct symc_cuda_comm *next; /* of those that are retired */
    const struct symc_nccl *nccl;
    const struct symc_core *core;
    int rank, size;
    pthread_mutex_t lock;            /* around each call of NCCL with it */
    struct symc_nccl_comm *made;     /* NULL: there is none, or none any more */
    struct symc_cuda_keeper *keeper; /* which ends it; NULL: it has */
    bool ready;   /* members have made it; before, what NCCL says is of how */
    bool keeps;   /* what is stopped and quiet stays */
    bool forgone; /* see symc_cuda_comm_forgo() */
    bool tells; /* NCCL says whether a thread is in a group of the program's */
    const char *call; /* the latest one, in messages; under the lock */
    symmcoll_status_t
        broken; /* an error of its own, for which it was aborted */
    char reason[SYMC_DETAIL_MAX];
};

int symc_cuda_comm_world_rank(const struct symc_cuda_comm *comm, int rank);

/* The status that a result of NCCL's is. */
symmcoll_status_t symc_cuda_comm_status(enum symc_nccl_result result);

/* With the lock: what a call that has failed says, in SYMC_DETAIL_MAX bytes; the
 * status of one that has returned something, and that detail; that it was
 * aborted. */
void symc_cuda_comm_describe(const struct symc_cuda_comm *comm,
    enum symc_nccl_result result, char *text);
symmcoll_status_t symc_cuda_comm_judge(
    const struct symc_cuda_comm *comm, enum symc_nccl_result result);
symmcoll_status_t symc_cuda_comm_refuse_aborted(
    const struct symc_cuda_comm *comm);

/* At any time: whether the calling thread is in a group of calls of the program's, where it
 * is known, and nothing is to be called. */
bool symc_cuda_comm_is_grouped(const struct symc_cuda_comm *comm);

/* With the lock: have the keeper stop what runs, and abort it. */
void symc_cuda_comm_drop(struct symc_cuda_comm *comm);

/* One (out) that NCCL has not made yet, and is ended in `where`, which it takes in
 * any case.  Errors: NO_MEMORY, SYSTEM (no thread). */
symmcoll_status_t symc_cuda_comm_create(const struct symc_nccl *nccl,
    const struct symc_core *core, struct symc_cuda_where where, int rank,
    int size, struct symc_cuda_comm **comm);

/* One that a keeper has to end, which it takes; NULL: no memory, with a detail, and it
 * is not taken. */
struct symc_cuda_comm *symc_cuda_comm_wrap(const struct symc_nccl *nccl,
    const struct symc_core *core, struct symc_cuda_keeper *keeper, int rank,
    int size);

/* Abort it, with what NCCL has made; whether nothing of it is left after that
 * time. */
bool symc_cuda_comm_release(struct symc_cuda_comm *comm, int64_t timeout_ns);

/* The same, but it is still there for who aborts it, until it is closed. */
bool symc_cuda_comm_end(struct symc_cuda_comm *comm, int64_t timeout_ns);

/* It has ended on all members: what has been made of a communicator, while nobody has
 * aborted that.  child NULL: nothing for this rank. */
symmcoll_status_t symc_cuda_comm_take_made(
    struct symc_cuda_comm *parent, struct symc_cuda_comm *child);

/* Whether nobody can be waited for: the group has failed (out: -1), or a member is
 * not there any more. */
bool symc_cuda_comm_find_broken(const struct symc_cuda_comm *comm, int *member);

/* A call of NCCL, or a group of them. */
struct symc_cuda_routine {
    const char *name; /* in messages */
    enum symc_nccl_result (*call)(const struct symc_cuda_comm *comm,
        const void *arg, struct CUstream_st *stream);
};

/* Make it, with the lock, and return when NCCL has enqueued it.  Errors: as of
 * symc_cuda_comm_exchange(). */
symmcoll_status_t symc_cuda_comm_enqueue(struct symc_cuda_comm *comm,
    const struct symc_op *op, struct symc_cuda_routine routine, const void *arg,
    struct CUstream_st *stream);

/* Collective, where core->gather may be called: until what was called has ended on
 * all members.  They tell each other again and again, for one on which it fails, or
 * that dies, would leave the others in progress: who does not gather any more has an
 * error that all learn.  busy has room for a word of each member. */
symmcoll_status_t symc_cuda_comm_await_all(
    struct symc_cuda_comm *comm, struct symc_cuda_until until, uint32_t *busy);

void symc_cuda_comm_doze(const struct symc_core *core, int64_t nap_ns);

#endif
