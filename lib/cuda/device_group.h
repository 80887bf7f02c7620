/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A group on devices: what the files of this backend share.  Each member has a
 * segment of device memory that all members have mapped, a stream, and a few
 * words of memory of the host that its kernels and the host both use.
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

/* What all members do alike: the least that any of them told. */
struct symc_cuda_limits {
    uint64_t staging;               /* bytes of each member's */
    uint64_t packets_max;           /* bytes of a reduction, from here: */
    uint64_t one_shot_max;          /* by packets, in one shot, else in two */
    uint64_t one_shot_max_two;      /* of two ranks */
    uint32_t blocks;                /* of a kernel that waits for members */
    uint32_t groups;                /* at once on a device; the most of all */
    uint32_t multimem;              /* 1: a switch may add up */
    uint32_t multicast_blocks;      /* of a kernel that uses it */
    uint64_t multimem_one_shot_max; /* bytes that it adds up in one shot */
    uint32_t copy_engine;           /* 1: what is moved is copied */
    uint64_t nccl_min;              /* of a part, for NCCL; the most of all */
    uint32_t nccl_sums;             /* 1: sums of floats, too */
    uint32_t nccl_shared;           /* 1: on devices that ranks share, too */
    uint32_t nccl_windows;          /* 1: symmetric memory is registered */
    uint32_t nccl_split;            /* 1: groups of this one split from it */
    uint32_t nccl_shrink;           /* 1: what is left of it shrinks it */
};

/* Blocks of a kernel that waits for nobody, at most: as many for each multiprocessor as
 * that holds. */
#define SYMC_CUDA_BLOCKS_OF_PROCESSOR 4

/* Stretches that are searched for NaN at once. */
#define SYMC_CUDA_NANS 1024

/* Memory of the host that kernels read and write while they run.  The host writes
 * what ends kernels: a wait that is over ends as it should all the same. */
struct symc_cuda_words {
    uint32_t aborted; /* not 0: those that wait for all members end */
    uint32_t left[SYMC_KERNEL_RANKS];   /* those that wait for this one */
    struct symc_device_failure failure; /* written by a kernel that gave up */
    struct symc_device_nan nans[SYMC_CUDA_NANS]; /* see device_nan.c */
};

/* An event of the driver, in a list of those that are not in use. */
struct symc_cuda_event {
    struct symc_cuda_event *next;
    CUevent event;
};

/* A call, as messages have it beside its operation; see calls.h. */
struct symc_cuda_call {
    uint32_t number;
    bool alone; /* what a rank does alone; else an operation of all members */
    enum symc_access_kind kind;
    int channel;
    uint32_t value;
    bool by_nccl;
    bool by_window; /* of NCCL's, on the communicator that has windows */
    int nan;        /* the first stretch that is searched; see device_nan.c */
};

/* An operation that has been enqueued. */
struct symc_cuda_token {
    struct symc_cuda_token
        *next; /* of those not in use, or of those that run */
    struct symc_cuda_token *before;
    CUevent event;   /* of the end of its last kernel */
    CUevent begun;   /* before its first one; NULL: not timed */
    bool endless;    /* `event` was not recorded: the device never tells that it
                          has ended */
    CUstream beside; /* has a part of it that is not before `event`; NULL: there
                        is none */
    struct symc_op op; /* for messages: without its lists */
    struct symc_cuda_call call;
};

/* Calls whose kernels are in graphs, as long as the group is there. */
struct symc_cuda_captured {
    struct symc_op op;
    struct symc_cuda_call call;
};
struct symc_cuda_captures {
    struct symc_cuda_captured *calls; /* NULL: there are none */
    uint32_t count;
};

/* Where operations are enqueued.  What is started after an operation runs after
 * it, whatever the streams of both, for they use the same staging. */
struct symc_cuda_order {
    CUstream own;    /* what operations run on that are not `direct` */
    CUstream aside;  /* copies that a rank makes alone; NULL: on the caller's */
    CUevent passing; /* of one stream, for one that waits for it at once */
    CUstream last; /* what the latest one was enqueued on; not dereferenced, for
                      the program may have destroyed it */
    unsigned long long
        last_id;   /* its own, which no other stream has; 0: unknown */
    CUevent event; /* of its end; NULL: nothing to wait for */
    struct symc_cuda_token *unused;
    struct symc_cuda_token *taken;   /* for what is being enqueued */
    struct symc_cuda_token *started; /* that are with the group */
    int running;                     /* how many */
    CUstream beside; /* that the operation which is abandoned next could not be
                        ordered after; NULL: there is none */
    bool lost; /* of what was enqueued nobody can say whether it has ended */
};

struct symc_cuda_comm;
struct symc_cuda_windows;
struct symc_cuda_nan;

struct symc_cuda_group {
    struct symc_cuda_group *next_kept; /* of those that are never released */
    const struct symc_core *core;
    const struct symc_cuda *cuda;
    struct symc_cuda_context context;
    struct symc_cuda_log log;
    int rank;
    int size;
    int device;
    bool threads;
    bool multicast; /* all members have it, each on a device of its own */
    bool shared;    /* some members are on one device */
    int foreign; /* the first member in another context than its device's primary
                    one, which is NCCL's; -1: none is */
    bool one_default; /* another member is a thread on this device: both have
                         one default stream */
    bool across;      /* another one is a thread on another device */
    struct symc_cuda_limits limits;
    uint32_t blocks; /* of a kernel that waits for nobody; this rank's alone */
    struct symc_cuda_row segment;
    uint64_t packets; /* offsets in a segment */
    uint64_t staging;
    struct symc_cuda_words *words;        /* NULL: not allocated */
    struct symc_cuda_words *device_words; /* the same, as kernels see it */
    struct symc_kernels kernels;
    struct symc_cuda_order order;
    struct symc_cuda_captures captures;
    struct symc_cuda_call launching; /* what is being enqueued */
    uint32_t numbered; /* of the latest call that was not captured */
    int64_t left_ns[SYMC_KERNEL_RANKS]; /* when a member was first found to have
                                           left; 0: it has not */
    struct symc_cuda_comm *_Atomic comm; /* of NCCL; NULL: not needed so far */
    bool nccl_tells; /* as symc_nccl_tells_groups() has it */
    struct symc_cuda_comm
        *retired; /* that were that; who aborts may be there */
    struct symc_cuda_windows *_Atomic windows; /* the same; see nccl_window.h */
    atomic_bool in_nccl;                       /* a thread enqueues with it */
    bool checked; /* an operation has been when it was started: later ones are
                        when they are called */
    bool timed;   /* operations are, from their first kernel to their last */
    int64_t took_ns; /* the one whose test() has returned last; or 0 */
    struct symc_cuda_nan *nans; /* NULL: nothing is searched */
    int unused_nan;
    bool told_full, told_captured; /* that something was not searched */
    pthread_mutex_t lock;          /* of `marks` */
    struct symc_cuda_event *marks; /* not in use */
};

/* The group's, with an error of the driver; see symc_cuda_fail(). */
#define symc_cuda_group_fail(group, result, ...)               \
    symc_cuda_fail((group)->cuda, (group)->core->fail, result, \
        (group)->device, __VA_ARGS__)

/* The status of an operation that has failed on this rank alone, whatever the
 * driver said: it fails the group. */
static inline symmcoll_status_t symc_cuda_of_one(symmcoll_status_t status)
{
    return status == SYMMCOLL_OK || status == SYMMCOLL_ERR_NO_MEMORY
               ? status
               : SYMMCOLL_ERR_DEVICE;
}

/* In its context, until symc_cuda_leave(). */
static inline symmcoll_status_t symc_cuda_group_enter(
    const struct symc_cuda_group *group, struct symc_cuda_entered *entered)
{
    return symc_cuda_enter_or_fail(&group->context, group->core->fail, entered);
}

/* A rank's number in the world, for messages. */
static inline int symc_cuda_world_rank(
    const struct symc_cuda_group *group, int rank)
{
    const struct symc_ranks *ranks = group->core->ranks;

    return ranks->global != NULL ? ranks->global[rank] : rank;
}

/* ---- device_request.c ---- */

/* The context (out) in which a rank has what it asks for without a group, whatever
 * thread does.  Errors: those of symc_cuda_load() and symc_cuda_context_open(). */
symmcoll_status_t symc_cuda_request_open(
    const struct symc_memory_request *request,
    struct symc_cuda_context *context);

/* Whether that would be this one, of the same device. */
bool symc_cuda_request_serves(const struct symc_memory_request *request,
    const struct symc_cuda_context *context);

/* ---- device_members.c ---- */

/*
 * Collective: tell the others of this device and of group->limits; lower these to
 * what all have, and set what the group knows of its devices: multicast, shared,
 * foreign, one_default, across.
 * Errors: those of the driver and of core->gather; UNSUPPORTED, the same on all
 * members: two ranks on one device that is not to be shared, limits below what
 * kernels need.
 */
symmcoll_status_t symc_cuda_members_agree(struct symc_cuda_group *group);

/* ---- device_limits.c ---- */

/* What this rank would like. */
struct symc_cuda_limits symc_cuda_limits_get(
    const struct symc_settings *settings);

/* A packet has a thread of its own: so many blocks have no more. */
void symc_cuda_limit_packets(struct symc_cuda_limits *limits);

/* ---- device_describe.c ---- */

/* See struct symc_coll_ops. */
struct symc_algorithm_name symc_cuda_name_algorithm(
    const struct symc_settings *settings, int size,
    const struct symc_kind_info *info, const struct symc_op *op);

/* ---- device_segment.c ---- */

/*
 * Collective: create this rank's memory, zeroed where kernels synchronise, and
 * map that of all members.  limits are agreed on.
 * Errors: those of core->gather and core->exchange, and of symc_cuda_fail().
 */
symmcoll_status_t symc_cuda_segment_open(struct symc_cuda_group *group);

void symc_cuda_segment_close(struct symc_cuda_group *group);

/* ---- device_first.c ---- */

/*
 * Where ranks are threads: use on the group's stream what operations enqueue, once each,
 * and wait until that has ended; before any member's operation begins.  In the context,
 * with kernels loaded.  Errors: those of symc_cuda_fail().
 */
symmcoll_status_t symc_cuda_use_first(const struct symc_cuda_group *group);

/* ---- device_order.c: streams and events ---- */

symmcoll_status_t symc_cuda_order_open(struct symc_cuda_group *group);
void symc_cuda_order_close(struct symc_cuda_group *group);

/* Whether a stream is being captured (out).  Errors: those of symc_cuda_fail(). */
symmcoll_status_t symc_cuda_ask_captured(
    const struct symc_cuda_group *group, CUstream stream, bool *captured);

/* The same, or cannot be asked: then start() fails. */
bool symc_cuda_is_captured(
    const struct symc_cuda_group *group, CUstream stream);

/* Whether what an operation enqueues can wait for the other members, and whatever
 * thread enqueues it.  Errors: INVALID (they would enqueue theirs after it, on the
 * same stream; the default stream of a thread). */
symmcoll_status_t symc_cuda_check_order(
    const struct symc_cuda_group *group, const struct symc_op *op);

/* See struct symc_coll_ops. */
void *symc_cuda_mark(void *state, const struct symc_op *op);
void symc_cuda_unmark(void *state, void *mark);

/* Where an operation is to be enqueued: `captured`, in a graph. */
struct symc_cuda_place {
    CUstream stream;
    bool captured;
    bool aside;            /* that is not the caller's, which waits for it */
    unsigned long long id; /* of the stream; 0: unknown */
};

/*
 * Find that stream, and have it wait for what comes before: what the caller's
 * stream had, and the group's operation before this one.  In the context.
 * Errors: DEVICE (a stream of another context, with both), those of
 * symc_cuda_fail().
 */
symmcoll_status_t symc_cuda_order_begin(struct symc_cuda_group *group,
    const struct symc_op *op, void *mark, struct symc_cuda_place *place);

/* What was enqueued since is all: the token for it (out), with which what comes
 * next is ordered; as it was where it was captured.  Errors: those of
 * symc_cuda_fail(); then symc_cuda_order_abandon() comes next. */
symmcoll_status_t symc_cuda_order_end(struct symc_cuda_group *group,
    const struct symc_op *op, struct symc_cuda_place place,
    struct symc_cuda_token **token);

/* The same of what is ordered by its stream alone, before which a token has been
 * taken: nothing is enqueued that no token stands for.  Errors: NO_MEMORY, and those
 * of symc_cuda_fail(). */
symmcoll_status_t symc_cuda_order_take(
    struct symc_cuda_group *group, CUstream stream);
symmcoll_status_t symc_cuda_order_beside(struct symc_cuda_group *group,
    const struct symc_op *op, CUstream stream, struct symc_cuda_token **token);

/* It could not be enqueued, or ended, as a whole: the token for what may be on the
 * stream, to be cancelled. */
struct symc_cuda_token *symc_cuda_order_abandon(
    struct symc_cuda_group *group, const struct symc_op *op, CUstream stream);

/* The token's operation has ended. */
void symc_cuda_order_put(
    struct symc_cuda_group *group, struct symc_cuda_token *token);

/* See struct symc_coll_ops. */
symmcoll_status_t symc_cuda_follow(void *state, void *token, void *stream);

/* ---- device_aside.c: what is not for a default stream ---- */

/* What that needs; in the context.  What has been made is closed, whatever failed. */
struct symc_cuda_called symc_cuda_aside_open(
    struct symc_cuda_group *group, int priority);
void symc_cuda_aside_close(struct symc_cuda_group *group);

/* Whether copies between members, in such a stream of the caller's, would wait for all
 * that both devices have to do. */
bool symc_cuda_is_aside(const struct symc_cuda_group *group, CUstream stream);

/* What comes later in a stream is after what another one has.  In the context.
 * Errors: those of symc_cuda_fail(). */
symmcoll_status_t symc_cuda_order_after(
    const struct symc_cuda_group *group, CUstream later, CUstream earlier);

/* ---- device_buffers.c ---- */

/* Whether the buffers of an operation end in memory of the group's device, in which
 * they begin.
 * Errors: INVALID (which one, its address and what is there), those of
 * symc_cuda_fail(). */
symmcoll_status_t symc_cuda_check_buffers(
    const struct symc_cuda_group *group, const struct symc_op *op);

/* See struct symc_coll_ops. */
symmcoll_status_t symc_cuda_reach(
    void *state, const char *where, const char *what, const void *at);

/* ---- device_run.c: enqueuing ---- */

bool symc_cuda_serves(const struct symc_kind_info *info);

/* See struct symc_coll_ops. */
symmcoll_status_t symc_cuda_check(void *state, const struct symc_op *op);
symmcoll_status_t symc_cuda_start(
    void *state, const struct symc_op *op, void *mark, void **token);

/* ---- device_test.c: what has become of an operation ---- */

/* Whether a kernel of this group gave up. */
bool symc_cuda_gave_up(const struct symc_cuda_group *group);
/* Then why, as the status of an operation; it fails the group, in the name of the
 * call whose kernel that was. */
symmcoll_status_t symc_cuda_explain(
    const struct symc_cuda_group *group, const struct symc_op *op);

/* See struct symc_coll_ops. */
symmcoll_status_t symc_cuda_test(void *state, void *token);
symmcoll_status_t symc_cuda_watch(void *state, void *token);
int64_t symc_cuda_took(void *state);
symmcoll_status_t symc_cuda_expire(void *state, void *token);
symmcoll_status_t symc_cuda_cancel(void *state, void *token);
void symc_cuda_abort(void *state);

/* ---- device_nan.c: errors.nan_check ---- */

/* Errors: NO_MEMORY. */
symmcoll_status_t symc_cuda_nans_open(struct symc_cuda_group *group);
void symc_cuda_nans_close(struct symc_cuda_group *group);

/* Enqueue the search of what this rank sends, before it is read; as a part of
 * group->launching.  Errors: those of symc_cuda_fail(). */
symmcoll_status_t symc_cuda_nans_search(struct symc_cuda_group *group,
    const struct symc_op *op, CUstream stream, bool captured);

/* An operation has ended as it should: what was found.  Errors: INVALID, which fails
 * the group, with rank, element and how many there are. */
symmcoll_status_t symc_cuda_nans_judge(
    struct symc_cuda_group *group, const struct symc_cuda_token *token);

/* It runs no more. */
void symc_cuda_nans_end(
    struct symc_cuda_group *group, struct symc_cuda_token *token);

/* ---- device_watch.c ---- */

/* See struct symc_coll_ops. */
symmcoll_status_t symc_cuda_look(void *state, struct symc_op *op);

#endif
