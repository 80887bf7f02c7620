/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Definitions shared by the sources of symmetric memory: a rank's allocations
 * (allocate.c, backing.c), shares, which the members of a group exchange
 * (share.c, symm_rendezvous.c), handles (symm_handle.c), signals and barriers
 * (signal.c, symm_barrier.c, symm_wait.c), and the state of a world and of its
 * groups (symm_world.c).
 *
 * An allocation of host memory lies in the rank's arena, which every rank maps
 * when it joins, or in a memfd, which the peers map at the rendezvous; its
 * signal pad lies in the arena. An allocation in device memory belongs to a
 * backend. So do its pads; each group that joins it has pads of its own
 * (device_backing.c). An allocation together with a group that has joined it is
 * a share. The handles of a share, one per address, live as long as the share.
 */
#ifndef SYMC_SYMM_MEM_SYMM_MEM_H
#define SYMC_SYMM_MEM_SYMM_MEM_H

#include "group/group.h"
#include "segment/shared.h"

#include <symmcoll/symm_mem.h>

/* The symmetric memory of a world. */
struct symc_symm {
    struct symc_extension extension;
    struct symmcoll_world *world;
    pthread_mutex_t lock; /* protects the members below and the lists in them */
    /* not freed, or kept for their id or by their pool */
    struct symc_allocation *allocations;
    struct symc_share *shares; /* every share that has not been deallocated */
    struct symmcoll_symm_pool *pools;
    /* one of pools; NULL: not created yet */
    struct symmcoll_symm_pool *default_pool;
    struct symc_symm_group *groups; /* every group with such an extension */
    uint64_t awaits; /* number of the last call that waits for device work */
    /* queue of memory to release, oldest first */
    struct symc_left *left, *left_tail;
};

/* A buffer and a stream of the device context in which memory has to be
 * allocated; NULL: not given. */
struct symc_near {
    const void *memory;
    void *stream;
};

/* The symmetric memory of a group. */
struct symc_symm_group {
    struct symc_group_extension extension;
    struct symc_symm_group *next;
    struct symc_symm *symm; /* NULL: the world has been finalized */
    struct symmcoll_group *group;
    /* NULL: none yet; protected by the ticket */
    struct symmcoll_symm *workspace;
};

/* A pool keeps its allocations when they are freed; see pool.c. */
struct symmcoll_symm_pool {
    struct symmcoll_symm_pool *next;
    struct symc_symm *home;
    size_t pad_nbytes; /* of each allocation */
    enum symmcoll_device device;
    int device_index;
    uint64_t count; /* number of allocations made */
};

struct symc_allocation {
    struct symc_allocation *next;
    struct symc_symm *home;
    int64_t id;     /* 0: none */
    bool active;    /* not freed */
    bool workspace; /* the workspace of a group, which frees it */
    bool stuck;     /* a device may use it until the process ends */
    struct symmcoll_symm_pool *pool; /* NULL: none */
    uint64_t number; /* position among the allocations of the pool, from 1 */
    uint64_t passed; /* number of the last call that failed to release it */
    uint64_t uses;   /* in a pool: number of times it was allocated again */
    /* References: 1 until it is freed (never dropped if it has an id; dropped
     * by a trim if it belongs to a pool), plus 1 per share and per rendezvous
     * in progress. */
    uint32_t users;
    size_t nbytes;
    size_t pad_nbytes;
    char *data; /* NULL: its memory is still being allocated */
    enum symmcoll_device device;
    int device_index;
    /* in the arena: the pad, and the data if there is no memfd */
    struct symc_buffer *buffer;
    size_t data_at; /* offset of the data in the arena or in the memfd */
    size_t pad_at;  /* offset of the pad in the arena */
    int fd;         /* memfd of the data; -1: in the arena */
    size_t mapped;  /* bytes of the memfd mapped at data */

    /* Device memory; it holds only the data. */
    const struct symc_backend *backend; /* NULL: host memory */
    void *memory;                       /* handle of the backend */
    void *own; /* memory registered by the program; NULL: allocated by us */
    struct symc_near near; /* from the request; read until the first join */
};

/* An allocation in a group. */
struct symc_share {
    /* entry in the table of the group, which operations search */
    struct symc_shared shared;
    struct symc_share *next;      /* next in the world's list */
    struct symc_symm *home;       /* NULL: the world has been finalized */
    struct symmcoll_group *group; /* NULL: the group has been released */
    /* same group, with a reference that keeps its struct */
    struct symmcoll_group *bytes;
    struct symc_allocation *allocation;
    int rank;
    int size;
    int channels; /* channels that fit in a pad */
    size_t pad_nbytes;
    enum symmcoll_device device;
    int device_index;
    uint64_t uses; /* value of allocation->uses at the last rendezvous */
    bool retired;  /* the allocation no longer holds a reference to it */
    /* References: 1 per returned handle, and 1 until the allocation is
     * freed. */
    uint32_t users;
    struct symc_segment *segment; /* holds the words of barriers */
    char **at;                    /* these four: one entry per member */
    uint32_t **pads;
    char **words;
    struct symc_doorbell **doorbells; /* of the world; they outlive the group */
    uint64_t *counts;                 /* barriers passed on each channel */
    _Atomic uint32_t waiting; /* threads inside; see symc_symm_enter() */
    _Atomic bool cut;         /* the release of the group has begun */
    uint64_t awaited; /* number of the last call that has waited for it */
    /* The last device operation that may use it on behalf of a reference that
     * has been dropped. */
    uint64_t through;
    uint64_t ended; /* all operations up to this one have ended */
    /* a device may use it until the process ends: it stays mapped */
    bool stuck;
    void **maps; /* memfds mapped; NULL: the member's memory is in its arena */
    size_t *mapped;
    struct symmcoll_symm *handles;

    /* Device memory: this rank's signal pad and barrier pad for this group
     * alone. They belong to the backend and are joined with those of the other
     * members. */
    void *pad_memory; /* NULL: none */
    struct symc_joined *joined_pads;
    size_t barrier_at; /* offset in each member's pads */
    /* Offset in this rank's pads of a table for kernels of the program: the
     * addresses of every member's data, then of every member's pad. */
    size_t table_at;
    const char *table; /* address of the table; kept after the memory is left */
    /* equal to joined->multicast; kept after the memory is left */
    char *multicast;
    struct symc_device_plan *plans;
};

/* Memory of an exchange plan, on the device of a share. The share frees it, at
 * the latest together with its own memory. */
struct symc_device_plan {
    struct symc_device_plan *next;
    const struct symc_memory_ops *mem;
    void *memory; /* handle of the backend; NULL: freed */
    void *at;
    bool left; /* its user dropped it while in use: the share owns it */
};

/* A handle: a share from one address on. */
struct symmcoll_symm {
    /* NULL: the group has been released. A thread that neither holds the
     * group's ticket nor has entered the share may see the NULL late. Such a
     * thread loads this pointer once, and reads nothing there but whether the
     * group has failed and its timeout: the share's `bytes` keeps that
     * memory. */
    _Atomic(struct symmcoll_group *) group;
    const uint32_t *alive; /* pointer of the group */
    int rank;
    int size;
    /* Channels for signals and barriers made by the host: 0 to channels - 1. 0
     * for device memory. */
    int channels;
    uint32_t **pads; /* of each member: slot is size * channel + source */
    char **words;    /* barrier words; see symm_barrier.c */
    struct symc_doorbell **doorbells;
    uint64_t *counts;
    char **at;     /* each member's buffer, from the address on */
    size_t nbytes; /* bytes from the address on */
    size_t offset; /* offset of the address in the allocation */
    size_t pad_nbytes;
    /* successful intra-node all_reduces; see symm_ops/all_reduce.c */
    _Atomic uint64_t intra_node;
    struct symc_share *share;
    struct symmcoll_symm *next; /* next handle of the share */
};

/* Barrier words have 8 bytes. Each of the first SYMC_SYMM_FAST channels has
 * SYMC_SYMM_TURNS words, each other channel has one. */
#define SYMC_SYMM_FAST ((size_t)8)
#define SYMC_SYMM_TURNS ((size_t)4)

/* Returns the bytes that the barrier words of a number of channels need. */
static inline size_t symc_symm_words_nbytes(int channels)
{
    size_t fast = SYMC_SYMM_FAST * SYMC_SYMM_TURNS * SYMC_FALSE_SHARING;

    if ((size_t)channels <= SYMC_SYMM_FAST)
        return fast;
    return fast + symc_round_to_page((size_t)channels * sizeof(uint64_t));
}

/* Returns the number of channels of a signal pad in a group of `size` ranks. */
static inline int symc_symm_channels(size_t pad_nbytes, int size)
{
    return (int)(pad_nbytes / sizeof(uint32_t) / (size_t)size);
}

/* ---- backing.c ---- */

/* Drops a reference, under the lock; the last one frees the memory. */
void symc_allocation_drop(struct symc_allocation *allocation);

/* ---- device_backing.c ---- */

/* Allocates the pads of a share in device memory, set to zero. Not under the
 * lock.
 * Errors: those of the backend's allocate(). */
symmcoll_status_t symc_device_pads_allocate(
    struct symmcoll_world *world, struct symc_share *share);

#define SYMC_SYMM_PLACE 40

/* Formats a place: "host memory" or "memory of CUDA device 3". */
const char *symc_symm_format_place(
    enum symmcoll_device device, int index, char buffer[SYMC_SYMM_PLACE]);

/* Checks a device that the caller passed. Errors: INVALID, UNSUPPORTED. */
symmcoll_status_t symc_symm_check_place(
    const char *where, enum symmcoll_device device, int index);

/* Returns whether the allocation is in host memory. */
static inline bool symc_allocation_is_host(
    const struct symc_allocation *allocation)
{
    return allocation->device == SYMMCOLL_HOST;
}

/* ---- allocations ---- */

/* Returns whether a freed allocation keeps its memory, for a later
 * allocation. */
static inline bool symc_allocation_is_kept(
    const struct symc_allocation *allocation)
{
    return allocation->id != 0 || allocation->pool != NULL;
}

/* ---- allocate.c ---- */

/* A request for an allocation. */
struct symc_symm_request {
    const char *where;
    size_t nbytes;
    struct symmcoll_symm_args args;
    struct symmcoll_symm_pool *pool; /* NULL: none */
    void *own; /* the program's memory to register; NULL: allocate */
    struct symc_near near;
};

/* Checks that the caller is in the process of the world and that out is not
 * NULL. */
symmcoll_status_t symc_symm_check_call(
    const char *where, const struct symmcoll_world *world, const void *out);

/* Checks a call like symc_symm_check_call(), and reads the caller's arguments,
 * or the defaults. Errors: INVALID, UNSUPPORTED. */
symmcoll_status_t symc_symm_read_args(const char *where,
    const struct symmcoll_world *world, const void *out,
    const struct symmcoll_symm_args *given, struct symmcoll_symm_args *args);

/* Allocates memory, or reuses a freed allocation.
 * Errors: those of symmcoll_symm_alloc(). */
symmcoll_status_t symc_symm_allocate(struct symmcoll_world *world,
    const struct symc_symm_request *request, void **data);

/* Like symmcoll_symm_alloc(), in a given device context. */
symmcoll_status_t symc_symm_allocate_near(struct symmcoll_world *world,
    size_t nbytes, const struct symmcoll_symm_args *args, struct symc_near near,
    void **data);

/* Frees an allocation, or deregisters memory of the program (own). NULL is
 * ignored.
 * Errors: those of symmcoll_symm_free(). */
symmcoll_status_t symc_symm_return(
    struct symmcoll_world *world, const char *where, void *data, bool own);

/* ---- symm_overlap.c ---- */

/* Checks that memory of the program overlaps neither symmetric memory nor
 * former symmetric memory that is still in use; under the lock. Errors:
 * INVALID. */
symmcoll_status_t symc_symm_check_own(
    const struct symc_symm *symm, const struct symc_symm_request *request);

/* ---- symm_world.c ---- */

/* Returns the symmetric memory of a world; NULL: out of memory. */
struct symc_symm *symc_symm_of(struct symmcoll_world *world);

/* Releases the lock, and then the device memory whose release was queued under
 * it, so that no thread waits for the driver with the lock held. The caller has
 * disabled cancellation, where a thread can be canceled. */
void symc_symm_unlock(struct symc_symm *symm);
/* Returns the symmetric memory of a group; NULL: out of memory. */
struct symc_symm_group *symc_symm_group_of(struct symmcoll_group *group);

/* Returns the active allocation that contains an address, under the lock; NULL:
 * none. */
struct symc_allocation *symc_allocation_find(
    struct symc_symm *symm, const void *address);

/* Removes an allocation from the list, under the lock. */
void symc_allocation_delist(struct symc_allocation *allocation);
/* Removes an allocation from the list, under the lock, and drops its
 * references; awaited as in symc_share_drop(). */
void symc_allocation_release(struct symc_allocation *allocation, bool awaited);

/* Frees the workspace of a group, if it has one; under the lock. */
void symc_workspace_free(struct symc_symm_group *of);

/* Frees memory that the library itself allocated and to which this is the only
 * handle. Does not wait: a device may still use it, and the memory is freed
 * later. The handle is invalid afterwards. NULL is ignored. */
void symc_symm_drop(struct symmcoll_symm *handle);

/* Frees the dropped memory that no device uses any more. Returns whether some
 * is still in use. */
bool symc_symm_reap(struct symmcoll_world *world);

/* ---- shares ---- */

static inline bool symc_share_is_host(const struct symc_share *share)
{
    return share->device == SYMMCOLL_HOST;
}

/* ---- symm_handle.c ---- */

/* Check that a handle is usable, that a rank is a member of its group, and that
 * its pads have a channel. where names the call. */
symmcoll_status_t symc_symm_check(
    const struct symmcoll_symm *handle, const char *where);
symmcoll_status_t symc_symm_check_rank(
    const struct symmcoll_symm *handle, const char *where, int rank);
symmcoll_status_t symc_symm_check_channel(
    const struct symmcoll_symm *handle, const char *where, int channel);

/* Checks that nbytes from an offset on lie within the buffers of a handle. */
symmcoll_status_t symc_symm_check_range(const struct symmcoll_symm *handle,
    const char *where, size_t offset, size_t nbytes);

/* ---- symm_wait.c ---- */

#define SYMC_SYMM_NO_CHANNEL (-1)

/* A wait of a call. */
struct symc_symm_wait {
    enum symc_kind kind; /* the call */
    int peer;            /* the rank waited for */
    int channel;         /* or SYMC_SYMM_NO_CHANNEL */
    const char *missing; /* the missing event, for messages */
    /* returns whether it has happened; no side effects */
    bool (*ready)(void *arg);
    void *arg;
};

/* Starts the wait budget of a call from its timeout in seconds. Errors:
 * INVALID. */
symmcoll_status_t symc_symm_read_timeout(const struct symmcoll_symm *handle,
    enum symc_kind kind, double timeout, struct symc_wait_budget *budget);

/*
 * Called before the first wait of a call; symc_symm_leave() follows its last
 * use of the group. Between the two the group is not released. A call that does
 * not wait needs neither.
 * Errors: INVALID (the group has been released).
 */
symmcoll_status_t symc_symm_enter(
    struct symmcoll_symm *handle, enum symc_kind kind);
/* Like symc_symm_enter(); false instead of the error. */
bool symc_symm_hold(const struct symmcoll_symm *handle);
void symc_symm_leave(const struct symmcoll_symm *handle);

/*
 * Waits until wait->ready() returns true. The caller has entered.
 * Errors: TIMEOUT (names both ranks and the channel; the group does not fail),
 * PEER (the peer has finalized or released the group), INVALID (this rank has
 * released it), and those of a failed group.
 */
symmcoll_status_t symc_symm_await(struct symmcoll_symm *handle,
    const struct symc_symm_wait *wait, struct symc_wait_budget *budget);

/* Returns the status of a call that has found its group failed, and has not
 * entered.
 * Errors: also INVALID (the group has been released). */
symmcoll_status_t symc_symm_failure(
    struct symmcoll_symm *handle, enum symc_kind kind);

/* Wakes a member that may wait for a word just written. */
static inline void symc_symm_notify(
    const struct symmcoll_symm *handle, int rank)
{
    symc_doorbell_notify(handle->doorbells[rank]);
}

/* Loads the group of a handle, for one call; NULL: it has been released. */
static inline const struct symmcoll_group *symc_symm_group(
    const struct symmcoll_symm *handle)
{
    return atomic_load_explicit(&handle->group, memory_order_acquire);
}

/* Returns whether the group has failed on this rank. Valid after the group's
 * release as well, since the share of the handle keeps its memory. */
static inline bool symc_symm_is_stopped(const struct symmcoll_group *group)
{
    return symc_group_has_stopped(group);
}

/* ---- device_access.c: access to device memory ---- */

/* Returns whether a handle is on host memory; calls on device memory
 * enqueue. */
static inline bool symc_symm_is_host(const struct symmcoll_symm *handle)
{
    return symc_share_is_host(handle->share);
}

/* Enqueues an access on the group's current stream. timeout is as the caller
 * passed it. access has the members that its kind needs: out, in, count, value,
 * peer, channel.
 * Errors: INVALID (timeout, stream), and those of a failed group. */
symmcoll_status_t symc_symm_access(struct symmcoll_symm *handle,
    enum symc_kind kind, double timeout, const struct symc_access *access);

/* Like symc_symm_access(), on a stream of the caller. */
symmcoll_status_t symc_symm_access_on(struct symmcoll_symm *handle,
    enum symc_kind kind, void *stream, double timeout,
    const struct symc_access *access);

/* Checks that a caller's buffer of 1 byte or more begins and ends in the memory that
 * the handle's buffers are in; where and what name the call and the argument.
 * Errors: INVALID. */
symmcoll_status_t symc_symm_check_memory(const struct symmcoll_symm *handle,
    const char *where, const char *what, const void *buffer, size_t nbytes);

/* Enqueues a signal or a barrier. */
symmcoll_status_t symc_symm_enqueue_signal(struct symmcoll_symm *handle,
    enum symc_kind kind, int peer, int channel, double timeout);

/* Handles a signal or a barrier that the fast path does not take: an invalid
 * call, or one on device memory, where handles have no host channels. */
symmcoll_status_t symc_symm_check_and_enqueue(struct symmcoll_symm *handle,
    enum symc_kind kind, int rank, int channel, double timeout);

/* Enqueues a copy between a buffer of the caller, on the same device, and a
 * buffer of a handle. Errors: also INVALID (another memory, overlapping). */
symmcoll_status_t symc_symm_enqueue_copy(struct symmcoll_symm *handle,
    enum symc_kind kind, void *out, const void *in, const void *buffer,
    size_t nbytes);

/* ---- signal.c ---- */

/* Like symmcoll_symm_put_signal(); kind names the call in errors. */
symmcoll_status_t symc_symm_put_signal(struct symmcoll_symm *handle,
    enum symc_kind kind, int dst, int channel, double timeout);

/* ---- symm_tensor.c ---- */

/* Checks a tensor's shape and completes its strides: contiguous if requested or
 * if all are 0. count (out): elements from the first to the end of the last. */
symmcoll_status_t symc_symm_lay_out(const char *where,
    struct symmcoll_tensor *tensor, bool contiguous, size_t *count);

/* Reads a tensor to allocate: completes its strides and returns its bytes.
 * Errors: INVALID, UNSUPPORTED. */
symmcoll_status_t symc_symm_read_tensor(const char *where,
    const struct symmcoll_tensor *given, struct symmcoll_tensor *tensor,
    size_t *nbytes);
/* Writes an allocated tensor back to the caller's struct. */
symmcoll_status_t symc_symm_write_tensor(const char *where,
    const struct symmcoll_tensor *made, struct symmcoll_tensor *tensor);

/* Checks that a tensor names the given memory. Errors: INVALID. */
symmcoll_status_t symc_symm_check_same_place(const char *where,
    const struct symmcoll_tensor *tensor, enum symmcoll_device device,
    int index);

/* ---- symm_compare.c ---- */

/* One number per member, inside what the members exchanged in a round. */
struct symc_symm_values {
    const char *where;
    const void *all;
    size_t nbytes;    /* bytes per member */
    size_t member;    /* offset of the number in them; it has 8 bytes */
    const char *name; /* "sizes differ" */
    const char *unit; /* " bytes" */
};

/* Compares the numbers.
 * Errors: MISMATCH (each number, with the ranks that passed it). */
symmcoll_status_t symc_symm_compare(
    const struct symmcoll_group *group, const struct symc_symm_values *values);

/* ---- symm_rendezvous.c ---- */

/* A member's part in a rendezvous. */
struct symc_symm_offer {
    enum symc_kind kind;                /* the call */
    struct symc_allocation *allocation; /* referenced by the caller */
    size_t offset;                      /* of the handle */
    /* not OK: why it has no allocation; with a detail */
    symmcoll_status_t status;
    /* of all rounds and the exchange of memfds; symc_slot_open() has its own */
    int64_t deadline_ns;
};

/* Joins an allocation, with every member, under the group's ticket. handle
 * (out) holds a reference.
 * Errors: those of symmcoll_symm_rendezvous(). */
symmcoll_status_t symc_symm_rendezvous(struct symmcoll_group *group,
    const struct symc_symm_offer *offer, struct symmcoll_symm **handle);

/* Checks that a collective call of this module can use the group on this
 * thread, and that its handle (out) is not NULL.
 * Errors: INVALID, UNSUPPORTED, and those of symc_group_refuse(). */
symmcoll_status_t symc_symm_check_group(const char *where, enum symc_kind kind,
    struct symmcoll_group *group, struct symmcoll_symm *const *handle);

/* Reads the timeout of a call. Errors: INVALID, UNSUPPORTED (a stream). */
symmcoll_status_t symc_symm_read_timeout_of(struct symmcoll_group *group,
    enum symc_kind kind, const struct symmcoll_call *call, int64_t *timeout_ns);

#endif
