/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A group on devices: the state that the files of this backend share.  Each member has a
 * segment of device memory that all members map, a stream, and a few words of host memory
 * that its kernels and the host share.
 */
#ifndef SYMC_CUDA_DEVICE_GROUP_H
#define SYMC_CUDA_DEVICE_GROUP_H

#include "backend/backend.h"
#include "cuda/context.h"
#include "cuda/driver.h"
#include "cuda/launch.h"
#include "cuda/row.h"

#include <pthread.h>
#include <stdatomic.h>

/* Limits that are equal on all members: the least of their settings unless noted. */
struct symc_cuda_limits {
    uint64_t staging;               /* bytes of each member */
    uint64_t packets_max;           /* reductions of up to these bytes: */
    uint64_t one_shot_max;          /* by packets, in one shot, else in two */
    uint64_t one_shot_max_two;      /* one_shot_max for two ranks */
    uint32_t blocks;                /* of a kernel that waits for members */
    uint32_t groups;                /* at once on a device; the largest */
    uint32_t multimem;              /* 1: a switch may reduce */
    uint32_t multicast_blocks;      /* of a kernel that uses multicast */
    uint64_t multimem_one_shot_max; /* bytes for a switch in one shot */
    uint32_t copy_engine;           /* 1: moves are copies by the driver */
    uint64_t nccl_min;              /* bytes of a part for NCCL; the largest */
    uint32_t nccl_sums;             /* 1: NCCL also sums floats */
    uint32_t nccl_shared;           /* 1: also on devices that ranks share */
    uint32_t nccl_windows;          /* 1: symmetric memory is registered */
    uint32_t nccl_split;            /* 1: subgroups split from it */
    uint32_t nccl_shrink;           /* 1: a shrunk group shrinks it */
};

/* Blocks per multiprocessor of a kernel that waits for no member, at most: as many as fit
 * on it. */
#define SYMC_CUDA_BLOCKS_OF_PROCESSOR 4

/* Stretches of buffers that are searched for NaN at once, at most. */
#define SYMC_CUDA_NANS 1024

/* Host memory that kernels read and write while they run.  The host sets flags that end
 * kernels; a wait whose condition is already true succeeds all the same. */
struct symc_cuda_words {
    uint32_t aborted; /* not 0: kernels that wait for all members end */
    uint32_t left[SYMC_KERNEL_RANKS]; /* kernels that wait for this rank end */
    struct symc_device_failure failure; /* record of a kernel that gave up */
    struct symc_device_nan nans[SYMC_CUDA_NANS]; /* see device_nan.c */
};

/* An event of the driver, in a list of unused ones. */
struct symc_cuda_event {
    struct symc_cuda_event *next;
    CUevent event;
};

/* Details of a call that messages add to its operation; see calls.h. */
struct symc_cuda_call {
    uint32_t number;
    bool alone; /* an access by one rank; else an operation of all members */
    enum symc_access_kind kind;
    int channel;
    uint32_t value;
    bool by_nccl;
    bool by_window; /* by NCCL, on the communicator that has windows */
    int nan;        /* the first stretch searched; see device_nan.c */
};

/* An operation that has been enqueued. */
struct symc_cuda_token {
    struct symc_cuda_token
        *next; /* in the list of unused tokens, or of running ones */
    struct symc_cuda_token *before;
    CUevent event;     /* recorded after its last kernel */
    CUevent begun;     /* recorded before its first one; NULL: not timed */
    bool endless;      /* `event` was not recorded: the operation's end cannot
                          be detected */
    CUstream beside;   /* holds a part of it that `event` does not cover; NULL:
                        none */
    struct symc_op op; /* for messages: without its lists */
    struct symc_cuda_call call;
};

/* Calls that were captured in graphs; kept as long as the group exists. */
struct symc_cuda_captured {
    struct symc_op op;
    struct symc_cuda_call call;
};
struct symc_cuda_captures {
    struct symc_cuda_captured *calls; /* NULL: there are none */
    uint32_t count;
};

/* The order of operations.  An operation runs after all that were started before it,
 * whatever their streams, because all use the same staging. */
struct symc_cuda_order {
    CUstream own;    /* for operations that are not `direct` */
    CUstream aside;  /* for copies by one rank; NULL: the caller's stream */
    CUevent passing; /* recorded on one stream for another that waits at once */
    CUstream last; /* of the latest operation; not dereferenced, as the program
                      may have destroyed it */
    unsigned long long last_id; /* the unique id of `last`; 0: unknown */
    CUevent event;              /* of its end; NULL: nothing to wait for */
    struct symc_cuda_token *unused;
    struct symc_cuda_token *taken;   /* for the call that is being enqueued */
    struct symc_cuda_token *started; /* running ones */
    int running;                     /* their number */
    CUstream beside; /* could not be joined with the operation that is abandoned
                        next; NULL: none */
    bool lost;       /* work was enqueued whose end cannot be detected */
};

struct symc_cuda_comm;
struct symc_cuda_windows;
struct symc_cuda_nan;

struct symc_cuda_group {
    struct symc_cuda_group *next_kept; /* of groups that are never released */
    const struct symc_core *core;
    const struct symc_cuda *cuda;
    struct symc_cuda_context context;
    struct symc_cuda_log log;
    int rank;
    int size;
    int device;
    bool threads;
    bool multicast; /* all members have it, each on a device of its own */
    bool shared;    /* at least two members are on one device */
    int foreign; /* the first member in another context than its device's primary
                    one, which NCCL uses; -1: none */
    bool one_default; /* another member is a thread on this device: they share
                         the default stream */
    bool across;      /* another member is a thread on another device */
    struct symc_cuda_limits limits;
    uint32_t blocks; /* of a kernel that waits for no member; of this rank */
    struct symc_cuda_row segment;
    uint64_t packets; /* offsets in a segment */
    uint64_t staging;
    struct symc_cuda_words *words;        /* NULL: not allocated */
    struct symc_cuda_words *device_words; /* their address for kernels */
    struct symc_kernels kernels;
    struct symc_cuda_order order;
    struct symc_cuda_captures captures;
    /* of the operation that is prepared or enqueued */
    const struct symc_agreed *agreed;
    struct symc_cuda_call launching; /* the call that is being enqueued */
    uint32_t numbered; /* of the latest call that was not captured */
    int64_t left_ns[SYMC_KERNEL_RANKS];  /* when a member's departure was first
                                            seen; 0: it has not left */
    struct symc_cuda_comm *_Atomic comm; /* of NCCL; NULL: not needed yet */
    bool detects_groups; /* as symc_nccl_detects_groups() returned */
    struct symc_cuda_comm
        *retired; /* former `comm`s, which an aborting thread may still use */
    struct symc_cuda_windows *_Atomic windows; /* see nccl_window.h */
    atomic_bool in_nccl;                       /* a thread enqueues with it */
    bool checked; /* an operation has passed its checks at its start: later ones
                        are checked at their calls */
    bool timed;   /* operations are timed, from first to last kernel */
    int64_t took_ns; /* of the operation last found to have ended; 0: unknown */
    struct symc_cuda_nan *nans; /* NULL: nothing is searched */
    int unused_nan;
    bool warned_full, warned_captured; /* a warning that a search was skipped */
    pthread_mutex_t lock;              /* protects `marks` */
    struct symc_cuda_event *marks;     /* unused ones */
};

/* Fails with an error of the driver on the group's device; see symc_cuda_fail(). */
#define symc_cuda_group_fail(group, result, ...)               \
    symc_cuda_fail((group)->cuda, (group)->core->fail, result, \
        (group)->device, __VA_ARGS__)

/* Returns the status of an operation that failed on this rank alone: DEVICE for all
 * errors but NO_MEMORY.  It fails the group. */
static inline symmcoll_status_t symc_cuda_of_one(symmcoll_status_t status)
{
    return status == SYMMCOLL_OK || status == SYMMCOLL_ERR_NO_MEMORY
               ? status
               : SYMMCOLL_ERR_DEVICE;
}

/* Makes the group's context the thread's current one until symc_cuda_leave(). */
static inline symmcoll_status_t symc_cuda_group_enter(
    const struct symc_cuda_group *group, struct symc_cuda_entered *entered)
{
    return symc_cuda_enter_or_fail(&group->context, group->core->fail, entered);
}

/* Returns a rank's number in the world, for messages. */
static inline int symc_cuda_world_rank(
    const struct symc_cuda_group *group, int rank)
{
    const struct symc_ranks *ranks = group->core->ranks;

    return ranks->global != NULL ? ranks->global[rank] : rank;
}

/* ---- device_request.c ---- */

/* Opens the context (out) for a rank's request without a group, independent of the
 * calling thread's.  Errors: those of symc_cuda_load() and symc_cuda_context_open(). */
symmcoll_status_t symc_cuda_request_open(
    const struct symc_memory_request *request,
    struct symc_cuda_context *context);

/* Returns whether symc_cuda_request_open() would choose this context, of its device. */
bool symc_cuda_request_serves(const struct symc_memory_request *request,
    const struct symc_cuda_context *context);

/* ---- device_members.c ---- */

/*
 * Collective: gathers the members' devices and limits; sets group->limits to values that
 * are equal on all members, and what the group knows of its devices: multicast, shared,
 * foreign, one_default, across.
 * Errors: those of the driver and of core->gather; UNSUPPORTED, alike on all members: two
 * ranks on one device without cuda.share_device, or too few multiprocessors.
 */
symmcoll_status_t symc_cuda_members_agree(struct symc_cuda_group *group);

/* ---- device_choice.c ---- */

/* Returns this rank's limits, from the settings. */
struct symc_cuda_limits symc_cuda_limits_get(
    const struct symc_settings *settings);

/* Lowers packets_max to the packets that limits->blocks blocks have threads for, one
 * thread per packet. */
void symc_cuda_limit_packets(struct symc_cuda_limits *limits);

/* ---- device_describe.c ---- */

/* describe() of struct symc_device_ops. */
struct symc_algorithm_name symc_cuda_name_algorithm(
    const struct symc_settings *settings, int size,
    const struct symc_kind_info *info, const struct symc_op *op);

/* ---- device_segment.c ---- */

/*
 * Collective: creates this rank's segment, maps the segments of all members, and zeroes
 * the part where kernels synchronise.  The limits must be agreed on.
 * Errors: those of core->gather and core->exchange, and of symc_cuda_fail().
 */
symmcoll_status_t symc_cuda_segment_open(struct symc_cuda_group *group);

void symc_cuda_segment_close(struct symc_cuda_group *group);

/* ---- device_first.c ---- */

/*
 * Uses each kind of kernel, copy and memset once on the group's stream, and waits for
 * them, before any member's operation begins; only if ranks are threads.  The context
 * must be current and the kernels loaded.  Errors: those of symc_cuda_fail().
 */
symmcoll_status_t symc_cuda_use_first(const struct symc_cuda_group *group);

/* ---- device_order.c: streams and events ---- */

symmcoll_status_t symc_cuda_order_open(struct symc_cuda_group *group);
void symc_cuda_order_close(struct symc_cuda_group *group);

/* Reads whether a stream is being captured (out).  Errors: those of symc_cuda_fail(). */
symmcoll_status_t symc_cuda_query_captured(
    const struct symc_cuda_group *group, CUstream stream, bool *captured);

/* Checks that an operation's stream cannot deadlock with other members, and is the same
 * from any thread.  Errors: INVALID (a default stream that members share, on which the
 * others would enqueue their kernels after this one; the default stream of a thread). */
symmcoll_status_t symc_cuda_check_order(
    const struct symc_cuda_group *group, const struct symc_op *op);

/* mark() and unmark() of struct symc_device_ops. */
void *symc_cuda_mark(void *state, const struct symc_op *op);
void symc_cuda_unmark(void *state, void *mark);

/* The stream for an operation; captured: in a graph. */
struct symc_cuda_place {
    CUstream stream;
    bool captured;
    bool aside;            /* it is not the caller's, which waits for it */
    unsigned long long id; /* of the stream; 0: unknown */
};

/*
 * Finds the stream for an operation, and lets it wait for the caller's stream and for the
 * group's previous operation.  Takes the mark.  The context must be current.
 * Errors: INVALID (the stream's capture began before the group's first operation),
 * NO_MEMORY, those of symc_cuda_fail().
 */
symmcoll_status_t symc_cuda_order_begin(struct symc_cuda_group *group,
    const struct symc_op *op, void *mark, struct symc_cuda_place *place);

/* Ends the operation that was enqueued since symc_cuda_order_begin(): returns its token
 * (out), after which the next operation is ordered; sets none if it was captured.
 * Errors: those of symc_cuda_fail(); then call symc_cuda_order_abandon(). */
symmcoll_status_t symc_cuda_order_end(struct symc_cuda_group *group,
    const struct symc_op *op, struct symc_cuda_place place,
    struct symc_cuda_token **token);

/* Take and record the token of an access, which is ordered by its stream alone.  The
 * token is taken first, so that nothing is enqueued without one.  Errors: NO_MEMORY, and
 * those of symc_cuda_fail(). */
symmcoll_status_t symc_cuda_order_take(
    struct symc_cuda_group *group, CUstream stream);
symmcoll_status_t symc_cuda_order_beside(struct symc_cuda_group *group,
    const struct symc_op *op, CUstream stream, struct symc_cuda_token **token);

/* Returns a token for what may be on the stream after an operation could not be enqueued
 * or ended completely; the caller cancels it. */
struct symc_cuda_token *symc_cuda_order_abandon(
    struct symc_cuda_group *group, const struct symc_op *op, CUstream stream);

/* Returns the token of an operation that has ended to the list of unused ones. */
void symc_cuda_order_put(
    struct symc_cuda_group *group, struct symc_cuda_token *token);

/* follow() of struct symc_device_ops. */
symmcoll_status_t symc_cuda_follow(void *state, void *token, void *stream);

/* ---- device_aside.c: work that must not be on a default stream ---- */

/* Creates the stream and the event for it.  The context must be current.  After an error
 * symc_cuda_aside_close() frees what was created. */
struct symc_cuda_called symc_cuda_aside_open(
    struct symc_cuda_group *group, int priority);
void symc_cuda_aside_close(struct symc_cuda_group *group);

/* Returns whether copies between members, on this stream of the caller's, would wait for
 * all work of both devices. */
bool symc_cuda_is_aside(const struct symc_cuda_group *group, CUstream stream);

/* Lets a stream wait for the work enqueued on another so far.  The context must be
 * current.  Errors: those of symc_cuda_fail(). */
symmcoll_status_t symc_cuda_order_after(
    const struct symc_cuda_group *group, CUstream later, CUstream earlier);

/* ---- device_buffers.c ---- */

/* Checks that each buffer of an operation ends in the device memory in which it begins,
 * and that a reduction's buffers are aligned to their elements.
 * Errors: INVALID (the buffer, its address and what is there), those of
 * symc_cuda_fail(). */
symmcoll_status_t symc_cuda_check_buffers(
    const struct symc_cuda_group *group, const struct symc_op *op);

/* reach() of struct symc_device_ops. */
symmcoll_status_t symc_cuda_reach(
    void *state, const char *where, const char *what, const void *at);

/* ---- device_run.c: enqueuing ---- */

bool symc_cuda_serves(const struct symc_kind_info *info);

/* check() and start() of struct symc_device_ops. */
symmcoll_status_t symc_cuda_check(void *state, const struct symc_op *op);
symmcoll_status_t symc_cuda_start(void *state, const struct symc_op *op,
    const struct symc_agreed *agreed, void *mark, void **token);

/* ---- device_test.c: the end of an operation ---- */

/* Returns whether a kernel of this group gave up. */
bool symc_cuda_gave_up(const struct symc_cuda_group *group);
/* Explains why a kernel gave up, as the status of an operation op.  Fails the group in
 * the name of the kernel's call. */
symmcoll_status_t symc_cuda_explain(
    const struct symc_cuda_group *group, const struct symc_op *op);

/* The members of struct symc_device_ops of these names. */
symmcoll_status_t symc_cuda_test(void *state, void *token, int64_t *took_ns);
symmcoll_status_t symc_cuda_watch(void *state, void *token);
symmcoll_status_t symc_cuda_expire(void *state, void *token);
symmcoll_status_t symc_cuda_cancel(void *state, void *token);
void symc_cuda_abort(void *state);

/* ---- device_nan.c: errors.nan_check ---- */

/* Allocates the list of stretches if errors.nan_check is on.  Errors: NO_MEMORY. */
symmcoll_status_t symc_cuda_nans_open(struct symc_cuda_group *group);
void symc_cuda_nans_close(struct symc_cuda_group *group);

/* Enqueues the search of this rank's input, before any kernel reads it, as a part of
 * group->launching.  Errors: those of symc_cuda_fail(). */
symmcoll_status_t symc_cuda_nans_search(struct symc_cuda_group *group,
    const struct symc_op *op, CUstream stream, bool captured);

/* Checks what the search of an operation that ended successfully found.  Errors: INVALID,
 * which fails the group, with the rank, the element and the number of NaNs. */
symmcoll_status_t symc_cuda_nans_judge(
    struct symc_cuda_group *group, const struct symc_cuda_token *token);

/* Frees the stretches of an operation that has ended. */
void symc_cuda_nans_end(
    struct symc_cuda_group *group, struct symc_cuda_token *token);

/* ---- device_watch.c ---- */

/* look() of struct symc_device_ops. */
symmcoll_status_t symc_cuda_look(void *state, struct symc_op *op);

#endif
