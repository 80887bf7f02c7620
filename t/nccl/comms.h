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
    /* Windows: the number of calls of all ranks, and the state and arguments
     * of each rank's latest call. */
    _Atomic int registered, used[FAKE_RANKS];
    _Atomic size_t nbytes[FAKE_RANKS];
    struct {
        _Atomic int told; /* members that have called it */
        int colors[FAKE_RANKS], keys[FAKE_RANKS];
        _Atomic int drawn[FAKE_RANKS]; /* set by the lowest rank of a color */
        struct symc_nccl_id ids[FAKE_RANKS];
    } splits[FAKE_SPLITS];
    struct fake_channel channels[FAKE_RANKS][FAKE_RANKS]; /* from, to */
};

/* A message from a rank to a peer, or in the other direction. */
struct fake_call {
    const char *in; /* of a send; otherwise NULL */
    char *out;
    size_t nbytes, moved;
    int peer;
    int over;
    enum fake_routine routine;
};

/* Combines the elements of all ranks when they have arrived. */
struct fake_sum {
    unsigned char *parts; /* one for each rank, contiguous; freed with this */
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
#define FAKE_OP_FIRST 5 /* number of the first created operation */

/* The calls of a group, on one communicator and one stream. */
struct fake_work {
    struct symc_nccl_comm *comm;
    struct CUstream_st *stream;
    enum fake_routine routine; /* of the calls to add */
    int windows;               /* that contain its buffers, a bit for each */
    uint64_t placed;           /* offset in these; 0: in none */
    int ncalls, nsums, nscales;
    struct fake_call calls[FAKE_CALLS];
    struct fake_sum sums[FAKE_SUMS];
    struct fake_scale scales[FAKE_SUMS];
};

/* Registered memory; no bytes: unused. */
struct symc_nccl_window {
    const char *at;
    size_t nbytes;
    int plain;        /* memory registered without a window */
    _Atomic int uses; /* by enqueued work */
};

struct symc_nccl_comm {
    struct fake_clique *clique;
    int rank;
    _Atomic enum fake_phase phase;
    int number;            /* among those created from an id; 0: another one */
    int questions;         /* still to be answered "in progress" */
    _Atomic int inside;    /* threads in it */
    _Atomic int running;   /* works in streams */
    int quiet;             /* after its revocation */
    int splits;            /* splits made */
    int awaited, excluded; /* members that call it; a bit for each other
                            * member */
    enum fake_phase before;
    struct symc_nccl_comm *child, **child_at; /* during a split */
    struct fake_work *pending; /* enqueued when these have been queried */
    struct {
        int used, type;
        double factor;
    } ops[FAKE_OPS]; /* that were created */
    struct symc_nccl_window windows[FAKE_WINDOWS];
    struct symc_nccl_window *registering; /* with all other ranks; NULL: none */
    struct symc_nccl_window **made;       /* the address of the result */
    int nregistered, broken; /* calls; the error of one, which is kept */
};

_Noreturn void fake_nccl_die(const char *what);

/* Enclose a call with a communicator, in which the lock is held. */
void fake_nccl_enter(struct symc_nccl_comm *comm);
int fake_nccl_leave(struct symc_nccl_comm *comm, int result);

/* ---- cliques.c ---- */

/* Draws an id. Returns 2 (a system error) on failure. */
int fake_clique_draw(struct symc_nccl_id *id);
/* Returns the clique of an id; NULL: its creator no longer exists. */
struct fake_clique *fake_clique_find(const struct symc_nccl_id *id);

/* ---- comms.c ---- */

/* fake_comm_add() returns a communicator without a clique; fake_comm_join()
 * sets its clique. Called with the lock. */
struct symc_nccl_comm *fake_comm_add(void);
void fake_comm_join(struct symc_nccl_comm *comm, struct fake_clique *clique,
    int size, int rank);

/* ---- splits.c ---- */

/* Returns the result of a split. Called with the lock. */
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

/* Enqueues the work in its stream, and takes it. Returns a result. */
int fake_work_enqueue(struct fake_work *work);
void fake_work_free(struct fake_work *work);

/* ---- driver.c ---- */

/* Launches in a stream of a device's primary context, because NCCL cannot
 * launch in another one. Returns a result. */
int fake_driver_launch(
    struct CUstream_st *stream, void (*call)(void *arg), void *arg);

/* ---- registered.c ---- */

/* Returns the window that contains an address; -1: none. */
int fake_windows_find(const struct symc_nccl_comm *comm, const void *at);

/* Mark the windows of the work's buffers as used, if both are in windows;
 * until the work has ended. */
void fake_windows_use(struct fake_work *work, const void *in, const void *out);
void fake_windows_unuse(struct fake_work *work);

/* fake_windows_ask() returns whether all ranks have registered the current
 * window. Called with the lock. */
int fake_windows_ask(struct symc_nccl_comm *comm);

void fake_windows_end(struct symc_nccl_comm *comm, int destroyed);

/* ---- collectives.c ---- */

/* Returns the bytes of elements of a type. */
size_t fake_nbytes_of(int type, size_t count);

/* Scales the elements before they are sent. */
void fake_scale_begin(const struct fake_scale *scale);

/* Combines the elements when all have arrived. */
void fake_sum_finish(const struct fake_sum *sum, int size);

#endif
