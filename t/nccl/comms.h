/* SPDX-License-Identifier: BSD-3-Clause */
/* Internals of the stand-in for NCCL. */
#ifndef T_NCCL_COMMS_H
#define T_NCCL_COMMS_H

#include "cuda/nccl/nccl.h"
#include "t/nccl/fake_nccl.h"

#include <pthread.h>

#define API __attribute__((visibility("default")))
#define FAKE_CLIQUES 64
#define FAKE_COMMS 512
#define FAKE_RANKS 8
#define FAKE_WINDOWS 8
#define FAKE_SPLITS 8   /* of a communicator */
#define FAKE_CHUNK 4096 /* bytes on their way from a rank to another */

enum fake_phase {
    FAKE_BEGINNING,
    FAKE_READY,
    FAKE_FINALIZING,
    FAKE_FINALIZED,
    FAKE_SPLITTING,
    FAKE_REVOKED,
    FAKE_OVER
};

/* The call to which a message belongs; in a collective all ranks make the same
 * one. */
enum fake_routine {
    FAKE_MESSAGE,
    FAKE_BROADCAST,
    FAKE_ALL_GATHER,
    FAKE_ALL_REDUCE,
    FAKE_REDUCE,
    FAKE_REDUCE_SCATTER,
    FAKE_ALL_TO_ALL
};

/* Data from one rank to another, until that has taken it. */
struct fake_channel {
    _Atomic int full;
    enum fake_routine routine;
    uint64_t placed; /* as struct fake_work has it */
    size_t total;    /* bytes of the message */
    size_t nbytes;
    unsigned char data[FAKE_CHUNK];
};

/* Ranks with one id: memory that all of them have mapped, be they threads or
 * processes. */
struct fake_clique {
    _Atomic int size, joined;
    /* The process of each rank until it has finalized or aborted; 0: none. */
    _Atomic int pids[FAKE_RANKS];
    /* Windows: how many calls of all ranks, and what each had and passed when it
     * called last. */
    _Atomic int registered, used[FAKE_RANKS];
    _Atomic size_t nbytes[FAKE_RANKS];
    struct {
        _Atomic int told; /* members that have called it */
        int colors[FAKE_RANKS], keys[FAKE_RANKS];
        _Atomic int drawn[FAKE_RANKS]; /* by the lowest of a color */
        struct symc_nccl_id ids[FAKE_RANKS];
    } splits[FAKE_SPLITS];
    struct fake_channel channels[FAKE_RANKS][FAKE_RANKS]; /* from, to */
};

/* A message of a rank to or from a peer. */
struct fake_call {
    const char *in; /* of a send, else NULL */
    char *out;
    size_t nbytes, moved;
    int peer;
    int over;
    enum fake_routine routine;
};

/* Combines the elements of all ranks when they have arrived. */
struct fake_sum {
    unsigned char *parts; /* of each rank, one after another; freed with it */
    void *out;
    size_t count;
    int type, op;
};

/* Scales this rank's elements before they are sent. */
struct fake_scale {
    const void *in;
    unsigned char *out; /* freed with it */
    size_t count;
    int type;
    double factor;
};

#define FAKE_CALLS 256
#define FAKE_SUMS 8
#define FAKE_OPS 4
#define FAKE_OP_FIRST 5 /* of those that are created */

/* The calls of a group, on one communicator and one stream. */
struct fake_work {
    struct symc_nccl_comm *comm;
    struct CUstream_st *stream;
    enum fake_routine routine; /* of the calls that are added */
    int windows;               /* that have its buffers, a bit for each */
    uint64_t placed;           /* where they are in these; 0: in none */
    int ncalls, nsums, nscales;
    struct fake_call calls[FAKE_CALLS];
    struct fake_sum sums[FAKE_SUMS];
    struct fake_scale scales[FAKE_SUMS];
};

/* Memory that is registered; no bytes: none is. */
struct symc_nccl_window {
    const char *at;
    size_t nbytes;
    int plain;        /* it is none, but memory that is registered */
    _Atomic int uses; /* by what is enqueued */
};

struct symc_nccl_comm {
    struct fake_clique *clique;
    int rank;
    _Atomic enum fake_phase phase;
    int number;            /* of those that were made of an id; 0: it was not */
    int questions;         /* that are answered "in progress" */
    _Atomic int inside;    /* threads in it */
    _Atomic int running;   /* works that are in streams */
    int quiet;             /* since it is revoked */
    int splits;            /* splits made */
    int awaited, excluded; /* members that call it; a bit for each other one */
    enum fake_phase before;
    struct symc_nccl_comm *child, **child_at; /* while it is split */
    struct fake_work *pending; /* enqueued when these have been queried */
    struct {
        int used, type;
        double factor;
    } ops[FAKE_OPS]; /* that were created */
    struct symc_nccl_window windows[FAKE_WINDOWS];
    struct symc_nccl_window *registering; /* with all other ranks; NULL: none */
    struct symc_nccl_window **made;       /* where it is to be written */
    int nregistered, broken; /* calls; the error of one, which it keeps */
};

_Noreturn void fake_nccl_die(const char *what);

/* Around a call with a communicator: from one to the other with the lock. */
void fake_nccl_enter(struct symc_nccl_comm *comm);
int fake_nccl_leave(struct symc_nccl_comm *comm, int result);

/* ---- cliques.c ---- */

/* Errors: 2, a system's. */
int fake_clique_draw(struct symc_nccl_id *id);
/* Returns the clique of an id; NULL: its creator no longer exists. */
struct fake_clique *fake_clique_find(const struct symc_nccl_id *id);

/* ---- comms.c ---- */

/* With the lock: one that has no clique yet; and it has one. */
struct symc_nccl_comm *fake_comm_add(void);
void fake_comm_join(struct symc_nccl_comm *comm, struct fake_clique *clique,
    int size, int rank);

/* ---- splits.c ---- */

/* With the lock: a result. */
int fake_split_ask(struct symc_nccl_comm *comm);

/* ---- messages.c ---- */

/* Calls between the two are added to the thread's group of calls, or to one
 * that begins and ends here. fake_group_enter() returns that group,
 * fake_group_leave() a result. */
struct fake_work *fake_group_enter(
    struct symc_nccl_comm *comm, struct CUstream_st *stream);
int fake_group_leave(void);

/* Ends the process if the call is made in a group. */
void fake_group_leave_out(void);

void fake_work_add(struct fake_work *work, struct fake_call call);

/* Have the stream do it; takes the work.  Returns a result. */
int fake_work_enqueue(struct fake_work *work);
void fake_work_free(struct fake_work *work);

/* ---- driver.c ---- */

/* In a stream of the primary context of a device: of another one NCCL can launch
 * nothing.  Returns a result. */
int fake_driver_launch(
    struct CUstream_st *stream, void (*call)(void *arg), void *arg);

/* ---- registered.c ---- */

/* Returns the window that contains an address; -1: none. */
int fake_windows_find(const struct symc_nccl_comm *comm, const void *at);

/* The work's buffers, in windows if both are; until it is over. */
void fake_windows_use(struct fake_work *work, const void *in, const void *out);
void fake_windows_unuse(struct fake_work *work);

/* With the lock: whether what is being registered is on all ranks. */
int fake_windows_ask(struct symc_nccl_comm *comm);

void fake_windows_end(struct symc_nccl_comm *comm, int destroyed);

/* ---- collectives.c ---- */

/* Elements of a type. */
size_t fake_nbytes_of(int type, size_t count);

/* Before anything is sent. */
void fake_scale_begin(const struct fake_scale *scale);

/* Combines the elements when all have arrived. */
void fake_sum_finish(const struct fake_sum *sum, int size);

#endif
