/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What the sources of symmetric memory share: allocations of a rank
 * (allocate.c, backing.c), what the members of a group have told each other of
 * theirs (share.c, symm_rendezvous.c), handles on it (symm_handle.c), signals
 * and barriers (signal.c, symm_barrier.c, symm_wait.c), and what a world and its
 * groups have of all that (symm_world.c).
 *
 * An allocation is in the rank's arena, which all ranks have mapped since they
 * joined, or in a memfd, which its peers map at the rendezvous; its signal pad
 * is in the arena.  One in the memory of a device is its backend's, as are its
 * pads, of which each group that joins it has its own (device_backing.c).  An
 * allocation and a group that has joined it are a share.
 * Its handles, one for each address, live as long as it does.
 */
#ifndef SYMC_SYMM_MEM_SYMM_MEM_H
#define SYMC_SYMM_MEM_SYMM_MEM_H

#include "group/group.h"
#include "segment/shared.h"

#include <symmcoll/symm_mem.h>

/* What a world has of it. */
struct symc_symm {
    struct symc_extension extension;
    struct symmcoll_world *world;
    pthread_mutex_t lock; /* of what follows, and of its members' lists */
    struct symc_allocation *allocations; /* that have not been freed, and those
                                            with an id */
    struct symc_share *shares;           /* all whose struct is there */
    struct symmcoll_symm_pool *pools;
    struct symmcoll_symm_pool *default_pool; /* among them; NULL: none yet */
    struct symc_symm_group *groups;          /* all that have any */
    uint64_t awaits; /* calls so far that wait for what runs on a device */
    struct symc_left *left, *left_tail; /* the first to be released first */
};

/* What is of the context of a device where something is to be; NULL: nothing is. */
struct symc_near {
    const void *memory;
    void *stream;
};

/* What a group has of it. */
struct symc_symm_group {
    struct symc_group_extension extension;
    struct symc_symm_group *next;
    struct symc_symm *symm; /* NULL: the world has been finalized */
    struct symmcoll_group *group;
    struct symmcoll_symm *workspace; /* NULL: none yet; under the ticket */
};

/* Memory that is kept when it is freed; see pool.c. */
struct symmcoll_symm_pool {
    struct symmcoll_symm_pool *next;
    struct symc_symm *home;
    size_t pad_nbytes; /* of each of its allocations */
    enum symmcoll_device device;
    int device_index;
    uint64_t count; /* allocations made so far */
};

struct symc_allocation {
    struct symc_allocation *next;
    struct symc_symm *home;
    int64_t id;                      /* 0: none */
    bool active;                     /* it has not been freed */
    bool workspace;                  /* a group's, which frees it */
    bool stuck;                      /* a device may use it for ever */
    struct symmcoll_symm_pool *pool; /* NULL: none */
    uint64_t number;                 /* of all of the pool, from 1 */
    uint64_t passed; /* number of the call that could not release it */
    uint64_t uses;   /* of a pool: how often it has been allocated */
    uint32_t
        users; /* 1 until it is freed, of one with an id for ever, of one of
                       a pool until that is trimmed; and one for each share, and
                       each rendezvous under way */
    size_t nbytes;
    size_t pad_nbytes;
    char *data; /* NULL: it is being allocated, and not found yet */
    enum symmcoll_device device;
    int device_index;
    struct symc_buffer *buffer; /* in the arena: the pad, and the data where
                                   there is no memfd */
    size_t data_at;             /* in the arena, or in the memfd */
    size_t pad_at;              /* in the arena */
    int fd;                     /* of the data; -1: in the arena */
    size_t mapped;              /* bytes of it from data on */

    /* Of a device: the data alone. */
    const struct symc_backend *backend; /* NULL: host memory */
    void *memory;                       /* the backend's */
    void *own; /* the program's, that has been registered; NULL: none is */
    struct symc_near
        near; /* as of the request; read until it has been joined */
};

/* An allocation in a group. */
struct symc_share {
    struct symc_shared shared;    /* as the group's operations find it */
    struct symc_share *next;      /* of all */
    struct symc_symm *home;       /* NULL: the world has been finalized */
    struct symmcoll_group *group; /* NULL: it has been released */
    struct symmcoll_group *bytes; /* the same, held: it is not freed before */
    struct symc_allocation *allocation;
    int rank;
    int size;
    int channels; /* that the pads have room for */
    size_t pad_nbytes;
    enum symmcoll_device device;
    int device_index;
    uint64_t uses;  /* the allocation's, at the last rendezvous */
    bool retired;   /* the allocation is no user of it any more */
    uint32_t users; /* handles as often as they were returned, and 1 until the
                       allocation is freed */
    struct symc_segment *segment; /* of the words of barriers */
    char **at;                    /* of each member; as are the next */
    uint32_t **pads;
    char **words;
    struct symc_doorbell **doorbells; /* the world's, which outlive the group */
    uint64_t *counts;                 /* barriers of each channel */
    _Atomic uint32_t waiting;         /* see symc_symm_enter() */
    _Atomic bool cut;                 /* of its group */
    uint64_t awaited; /* number of the call that has waited for it last */
    uint64_t through; /* of what runs on a device: the last that may use it by a
                         user that it has no more */
    uint64_t ended;   /* up to this one all has been waited for */
    bool stuck;       /* a device may use it for ever: it remains mapped */
    void **maps;      /* NULL: in its arena */
    size_t *mapped;
    struct symmcoll_symm *handles;

    /* Of a device: this rank's signal pad and the pad of its barriers, of this
     * group alone; the backend's, and joined with those of the others. */
    void *pad_memory; /* NULL: none */
    struct symc_joined *joined_pads;
    size_t barrier_at; /* in each member's */
    size_t table_at; /* in this rank's: addresses of all members' data, then of
                          their pads, for kernels of the program's */
    const char *table; /* where that is; stays when the memory is left */
    char *multicast;   /* as joined->multicast; likewise */
    struct symc_device_plan *plans;
};

/* Memory of a plan of exchanges, on the device of a share, which frees it at the
 * latest with its own. */
struct symc_device_plan {
    struct symc_device_plan *next;
    const struct symc_memory_ops *mem;
    void *memory; /* the backend's; NULL: it has been freed */
    void *at;
    bool left; /* by its user, while it was in use: it is the share's */
};

/* A share from an address on. */
struct symmcoll_symm {
    /* NULL: it has been released.  Who holds neither its ticket nor has entered
     * may find it a moment later than that, loads it once, and reads nothing there
     * but whether it has failed, and its timeout: see `bytes` of the share. */
    _Atomic(struct symmcoll_group *) group;
    const uint32_t *alive; /* as the group's */
    int rank;
    int size;
    int channels;    /* of signals and barriers that the host makes: 0 to
                        channels - 1; of a device 0 */
    uint32_t **pads; /* of each member: slot size * channel + source */
    char **words;    /* of barriers; see symm_barrier.c */
    struct symc_doorbell **doorbells;
    uint64_t *counts;
    char **at;     /* of each member's buffer, from the address on */
    size_t nbytes; /* likewise */
    size_t offset; /* of the address in the allocation */
    size_t pad_nbytes;
    _Atomic uint64_t
        intra_node; /* all_reduces, so far, see symm_ops/all_reduce.c */
    struct symc_share *share;
    struct symmcoll_symm *next; /* of the share's */
};

/* Words of barriers, of 8 bytes: so many of each of the first channels, and one
 * of each other. */
#define SYMC_SYMM_FAST ((size_t)8)
#define SYMC_SYMM_TURNS ((size_t)4)

/* Bytes for those of so many channels. */
static inline size_t symc_symm_words_nbytes(int channels)
{
    size_t fast = SYMC_SYMM_FAST * SYMC_SYMM_TURNS * SYMC_FALSE_SHARING;

    if ((size_t)channels <= SYMC_SYMM_FAST)
        return fast;
    return fast + symc_round_to_page((size_t)channels * sizeof(uint64_t));
}

/* How many channels a pad has for a group of so many. */
static inline int symc_symm_channels(size_t pad_nbytes, int size)
{
    return (int)(pad_nbytes / sizeof(uint32_t) / (size_t)size);
}

/* ---- backing.c ---- */

/* A user fewer, under the lock; the last one returns the memory. */
void symc_allocation_drop(struct symc_allocation *allocation);

/* ---- device_backing.c ---- */

/* The pads of a share in the memory of a device, as zeros; not under the lock.
 * Errors: those of allocate() of the backend. */
symmcoll_status_t symc_device_pads_allocate(
    struct symmcoll_world *world, struct symc_share *share);

#define SYMC_SYMM_PLACE 40

/* "host memory", "memory of CUDA device 3". */
const char *symc_symm_format_place(
    enum symmcoll_device device, int index, char buffer[SYMC_SYMM_PLACE]);

/* Whether a caller's device can be one.  Errors: INVALID, UNSUPPORTED. */
symmcoll_status_t symc_symm_check_place(
    const char *where, enum symmcoll_device device, int index);

/* Whether it is in host memory. */
static inline bool symc_allocation_is_host(
    const struct symc_allocation *allocation)
{
    return allocation->device == SYMMCOLL_HOST;
}

/* ---- allocations ---- */

/* Whether it remains allocated when it is freed. */
static inline bool symc_allocation_is_kept(
    const struct symc_allocation *allocation)
{
    return allocation->id != 0 || allocation->pool != NULL;
}

/* ---- allocate.c ---- */

/* What is asked for. */
struct symc_symm_request {
    const char *where;
    size_t nbytes;
    struct symmcoll_symm_args args;
    struct symmcoll_symm_pool *pool; /* NULL: none */
    void *own; /* memory of the program's, to be used; NULL: allocate some */
    struct symc_near near;
};

/* Whether a call is by the process of a world, and has a place for its result. */
symmcoll_status_t symc_symm_check_call(
    const char *where, const struct symmcoll_world *world, const void *out);

/* The caller's arguments, or the defaults.  Errors: INVALID. */
symmcoll_status_t symc_symm_read_args(const char *where,
    const struct symmcoll_world *world, const struct symmcoll_symm_args *given,
    struct symmcoll_symm_args *args);

/* Make an allocation, or use one once more.  Errors: those of
 * symmcoll_symm_alloc(). */
symmcoll_status_t symc_symm_allocate(struct symmcoll_world *world,
    const struct symc_symm_request *request, void **data);

/* As symmcoll_symm_alloc(), in a context. */
symmcoll_status_t symc_symm_allocate_near(struct symmcoll_world *world,
    size_t nbytes, const struct symmcoll_symm_args *args, struct symc_near near,
    void **data);

/* Free an allocation, or deregister one of the program's own (own); NULL is fine.
 * Errors: those of symmcoll_symm_free(). */
symmcoll_status_t symc_symm_return(
    struct symmcoll_world *world, const char *where, void *data, bool own);

/* ---- symm_overlap.c ---- */

/* Whether memory of the program's overlaps none that is symmetric, nor any that
 * has been and is still in use; under the lock.  Errors: INVALID. */
symmcoll_status_t symc_symm_check_own(
    const struct symc_symm *symm, const struct symc_symm_request *request);

/* ---- symm_world.c ---- */

/* A world's, and a group's; NULL: no memory. */
struct symc_symm *symc_symm_of(struct symmcoll_world *world);

/* Release its lock, and then the memory of devices that the caller has let go of
 * under it: nobody waits for the driver with the lock.  Cancellation is disabled
 * where there can be any. */
void symc_symm_unlock(struct symc_symm *symm);
struct symc_symm_group *symc_symm_group_of(struct symmcoll_group *group);

/* The allocation with an address, under the lock; NULL: there is none. */
struct symc_allocation *symc_allocation_find(
    struct symc_symm *symm, const void *address);

/* Take one from the list, under the lock; release one that is not in use, too. */
void symc_allocation_delist(struct symc_allocation *allocation);
void symc_allocation_release(struct symc_allocation *allocation, bool awaited);

/* Free a group's workspace, if it has one; under the lock, or at the world's
 * end. */
void symc_workspace_free(struct symc_symm_group *of);

/* Free memory of the library's own, of which this is the one handle, without
 * waiting: what runs on a device uses it still.  The handle is not used any more;
 * NULL is fine. */
void symc_symm_drop(struct symmcoll_symm *handle);

/* Release what has been dropped and is not used any more; whether something of
 * that is left. */
bool symc_symm_reap(struct symmcoll_world *world);

/* ---- shares ---- */

static inline bool symc_share_is_host(const struct symc_share *share)
{
    return share->device == SYMMCOLL_HOST;
}

/* ---- symm_handle.c ---- */

/* Whether a handle can be used, a rank is one of its group's, a channel is one
 * that its pads have; where is the call. */
symmcoll_status_t symc_symm_check(
    const struct symmcoll_symm *handle, const char *where);
symmcoll_status_t symc_symm_check_rank(
    const struct symmcoll_symm *handle, const char *where, int rank);
symmcoll_status_t symc_symm_check_channel(
    const struct symmcoll_symm *handle, const char *where, int channel);

/* Whether so many bytes from an offset on are within a handle's buffers. */
symmcoll_status_t symc_symm_check_range(const struct symmcoll_symm *handle,
    const char *where, size_t offset, size_t nbytes);

/* ---- symm_wait.c ---- */

#define SYMC_SYMM_NO_CHANNEL (-1)

/* What a call waits for. */
struct symc_symm_wait {
    enum symc_kind kind;      /* of the call */
    int peer;                 /* whom it waits for */
    int channel;              /* or SYMC_SYMM_NO_CHANNEL */
    const char *missing;      /* what has not happened, for messages */
    bool (*ready)(void *arg); /* whether it has; changes nothing */
    void *arg;
};

/* Begin the budget of a call from its timeout, in seconds, as it was passed.
 * Errors: INVALID. */
symmcoll_status_t symc_symm_read_timeout(const struct symmcoll_symm *handle,
    enum symc_kind kind, double timeout, struct symc_wait_budget *budget);

/*
 * Before the first wait of a call, and after its last use of the group: that is
 * not released meanwhile.  A call that waits for nothing does without.  Errors:
 * INVALID (the group has been released).
 */
symmcoll_status_t symc_symm_enter(
    struct symmcoll_symm *handle, enum symc_kind kind);
bool symc_symm_hold(const struct symmcoll_symm *handle); /* no error: false */
void symc_symm_leave(const struct symmcoll_symm *handle);

/*
 * Between these two: wait until ready(arg).  Errors: TIMEOUT (names both ranks
 * and the channel; the group does not fail), PEER (the peer has finalized or
 * released the group), INVALID (this rank has released it), and those of a group
 * that has failed.
 */
symmcoll_status_t symc_symm_await(struct symmcoll_symm *handle,
    const struct symc_symm_wait *wait, struct symc_wait_budget *budget);

/* The status of a call that finds its group failed, and has not entered.  Errors:
 * also INVALID (it has been released). */
symmcoll_status_t symc_symm_failure(
    struct symmcoll_symm *handle, enum symc_kind kind);

/* A word has been written that a member may wait for. */
static inline void symc_symm_notify(
    const struct symmcoll_symm *handle, int rank)
{
    symc_doorbell_notify(handle->doorbells[rank]);
}

/* The group of a handle, for one call; NULL: there is none. */
static inline const struct symmcoll_group *symc_symm_group(
    const struct symmcoll_symm *handle)
{
    return atomic_load_explicit(&handle->group, memory_order_acquire);
}

/* Whether that has failed, on this rank; also of one that has been released since,
 * whose bytes the handle's share holds. */
static inline bool symc_symm_is_stopped(const struct symmcoll_group *group)
{
    return atomic_load_explicit(
               &group->members.stopped, memory_order_acquire) != 0;
}

/* ---- device_access.c: in the memory of a device ---- */

/* Whether a handle's calls enqueue what they do. */
static inline bool symc_symm_is_host(const struct symmcoll_symm *handle)
{
    return symc_share_is_host(handle->share);
}

/* Enqueue on the group's current stream; a timeout as it was passed.  access has
 * what is particular to its kind: out, in, count, value, peer, channel.
 * Errors: INVALID (timeout, stream), and those of a group that has failed. */
symmcoll_status_t symc_symm_access(struct symmcoll_symm *handle,
    enum symc_kind kind, double timeout, const struct symc_access *access);

/* As symc_symm_access(), on a stream of the caller's. */
symmcoll_status_t symc_symm_access_on(struct symmcoll_symm *handle,
    enum symc_kind kind, void *stream, double timeout,
    const struct symc_access *access);

/* Checks that a caller's buffer of 1 byte or more begins and ends in the memory that
 * the handle's buffers are in; where and what name the call and the argument.
 * Errors: INVALID. */
symmcoll_status_t symc_symm_check_memory(const struct symmcoll_symm *handle,
    const char *where, const char *what, const void *buffer, size_t nbytes);

/* A signal or a barrier. */
symmcoll_status_t symc_symm_enqueue_signal(struct symmcoll_symm *handle,
    enum symc_kind kind, int peer, int channel, double timeout);

/* So many bytes of the caller's (buffer), which are on the same device, and of a
 * handle's.  Errors: also INVALID (another memory, overlapping). */
symmcoll_status_t symc_symm_enqueue_copy(struct symmcoll_symm *handle,
    enum symc_kind kind, void *out, const void *in, const void *buffer,
    size_t nbytes);

/* ---- signal.c ---- */

/* As symmcoll_symm_put_signal(), in another call. */
symmcoll_status_t symc_symm_put_signal(struct symmcoll_symm *handle,
    enum symc_kind kind, int dst, int channel, double timeout);

/* ---- symm_tensor.c ---- */

/* Check a shape and complete the strides of a tensor: contiguous, or where they
 * are all 0.  count (out): elements from the first to the end of the last. */
symmcoll_status_t symc_symm_lay_out(const char *where,
    struct symmcoll_tensor *tensor, bool contiguous, size_t *count);

/* Read a caller's tensor that is to be allocated, with the strides that it will
 * have, and how many bytes that are; and write it back with its memory.  Errors:
 * INVALID, UNSUPPORTED. */
symmcoll_status_t symc_symm_read_tensor(const char *where,
    const struct symmcoll_tensor *given, struct symmcoll_tensor *tensor,
    size_t *nbytes);
symmcoll_status_t symc_symm_write_tensor(const char *where,
    const struct symmcoll_tensor *made, struct symmcoll_tensor *tensor);

/* Whether a tensor says that it is in that memory.  Errors: INVALID. */
symmcoll_status_t symc_symm_check_same_place(const char *where,
    const struct symmcoll_tensor *tensor, enum symmcoll_device device,
    int index);

/* ---- symm_compare.c ---- */

/* A number of each member, in what they have told in a round. */
struct symc_symm_values {
    const char *where;
    const void *all;
    size_t nbytes;    /* of what each has told */
    size_t member;    /* where in it the number is; 8 bytes */
    const char *name; /* "sizes differ" */
    const char *unit; /* " bytes" */
};

/* Errors: MISMATCH (each number, with the ranks that passed it). */
symmcoll_status_t symc_symm_compare(
    const struct symmcoll_group *group, const struct symc_symm_values *values);

/* ---- symm_rendezvous.c ---- */

/* What a member has for a rendezvous. */
struct symc_symm_offer {
    enum symc_kind kind;                /* the call */
    struct symc_allocation *allocation; /* held by the caller */
    size_t offset;                      /* of the handle */
    symmcoll_status_t status; /* not OK: why it has none, with its detail */
    int64_t deadline_ns;      /* of all rounds and the exchange of memfds, but
                                 for opening a backend: symc_slot_open() */
};

/* The members join it, under the group's ticket.  handle (out) has a user more.
 * Errors: see symmcoll_symm_rendezvous(). */
symmcoll_status_t symc_symm_rendezvous(struct symmcoll_group *group,
    const struct symc_symm_offer *offer, struct symmcoll_symm **handle);

/* Whether a group can be used by such a call, on this thread. */
symmcoll_status_t symc_symm_check_group(
    const char *where, enum symc_kind kind, struct symmcoll_group *group);

/* The timeout of a call.  Errors: INVALID, UNSUPPORTED (a stream). */
symmcoll_status_t symc_symm_read_timeout_of(struct symmcoll_group *group,
    enum symc_kind kind, const struct symmcoll_call *call, int64_t *timeout_ns);

#endif
