/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Symmetric memory: a buffer of the same size on every rank of a group, which all
 * of them read and write where it lies, and signals between them.  Memory of one
 * machine: the host's, or that of its devices.  Manual: symmcoll_symm_alloc(3),
 * symmcoll_symm_rendezvous(3), symmcoll_symm_put_signal(3).
 *
 * Order of memory: what a rank has done before symmcoll_symm_put_signal() is
 * seen by the rank whose symmcoll_symm_wait_signal() takes that signal; and what
 * the taking rank has done before that, by the source after its next put on the
 * same channel.  What each rank has done before symmcoll_symm_barrier() is seen
 * by all after it; where that has expired, before the call that has, since it
 * counts as arrived from then on: what it does before it repeats the call need
 * not be seen.  Nothing else here orders anything.
 *
 * Memory of devices: signals, barriers and what symm_ops.h has for one rank are
 * enqueued on the group's current stream (symmcoll_group_set_stream()) and return.
 * They are ordered by that stream alone; a timeout of 0 is INVALID; and a wait in
 * vain fails the group, with the call, both ranks and the channel.
 */
#ifndef SYMMCOLL_SYMM_MEM_H
#define SYMMCOLL_SYMM_MEM_H

#include <symmcoll/tensor.h>
#include <symmcoll/types.h>

SYMMCOLL_BEGIN_DECLS

struct symmcoll_call;
struct symmcoll_group;
struct
    symmcoll_symm; /* a handle: an allocation, from an address on, in a group */
struct symmcoll_symm_pool;
struct symmcoll_world;

/* ---- memory of a rank ---- */

/* How to allocate.  Initialise it with SYMMCOLL_SYMM_ARGS_INIT. */
struct symmcoll_symm_args {
    size_t size; /* sizeof(struct symmcoll_symm_args) */
    size_t pad;  /* bytes of the signal pad, a multiple of 16, the same on all
                    ranks; 0: symm_mem.pad */
    int64_t id; /* not 0: what was freed with this id is allocated again, at the
                    same address, with its bytes and its handles; it is positive,
                    and its memory stays this rank's until finalize.  Of a device
                    it is waited for as by symmcoll_symm_free() */
    enum symmcoll_device device; /* SYMMCOLL_HOST or SYMMCOLL_CUDA */
    int device_index;            /* which of its kind; 0 for the host */
};
#define SYMMCOLL_SYMM_ARGS_INIT                                   \
    {                                                             \
        sizeof(struct symmcoll_symm_args), 0, 0, SYMMCOLL_HOST, 0 \
    }

/*
 * Allocate symmetric memory.  Local: the ranks allocate each their own, and join
 * them by symmcoll_symm_rendezvous().
 *
 * nbytes  0 is valid: signals alone
 * args    NULL for the defaults
 * data    out: begins on a page, reads as zeros, is backed by memory; release
 *         with symmcoll_symm_free().  symmcoll_finalize() releases what is left.
 *         Of a device: an address there, which the host does not read
 *
 * Errors: INVALID (an id whose memory has not been freed, or had another size or
 * place; no such device), NO_MEMORY (what was asked, what there is), SYSTEM,
 * UNSUPPORTED (no driver, no module for the device: what is missing), DEVICE,
 * TIMEOUT (something still runs in the memory of an id).
 * Source: torch.distributed._symmetric_memory.empty, and
 * _SymmetricMemory.empty_strided_p2p.         Manual: symmcoll_symm_alloc(3).
 */
SYMMCOLL_CHECKED
symmcoll_status_t symmcoll_symm_alloc(struct symmcoll_world *world,
    size_t nbytes, const struct symmcoll_symm_args *args, void **data);

/*
 * The same for a tensor, in the memory that its device and device_index name.  Its
 * type, dimensions, lengths and strides are read, and data is set; strides that
 * are all 0 are set to those of a contiguous one.
 * Errors: as above; INVALID (shape, strides; args that name another device).
 */
SYMMCOLL_CHECKED
symmcoll_status_t symmcoll_symm_alloc_tensor(struct symmcoll_world *world,
    const struct symmcoll_symm_args *args, struct symmcoll_tensor *tensor);

/*
 * Use memory of the program's own, without a copy: so many bytes of a memfd.
 *
 * fd      sealed against shrinking (F_SEAL_SHRINK) and not against writing;
 *         borrowed for the call
 * offset  in it; on a page, a huge one where the memfd is made of those
 * args    without an id, and of host memory
 * data    out: where this rank sees it; release with symmcoll_symm_free()
 *
 * Errors: INVALID (no memfd, seals, fewer bytes: expected and found),
 * NO_MEMORY, SYSTEM.
 */
SYMMCOLL_CHECKED
symmcoll_status_t symmcoll_symm_import(struct symmcoll_world *world, int fd,
    uint64_t offset, size_t nbytes, const struct symmcoll_symm_args *args,
    void **data);

/*
 * Make device memory of the program's own symmetric, without a copy: so many bytes
 * of what cuMemAlloc() or cudaMalloc() has returned, or of what cuMemMap() has
 * mapped.  Local, as symmcoll_symm_alloc().  The address is then as one of that:
 * symmcoll_symm_rendezvous() joins it, with every operation.
 *
 * data    borrowed until symmcoll_symm_deregister(), see there; at a multiple of
 *         16 bytes, anywhere in an allocation: peers map all of that.  Its bytes
 *         are as they were
 * nbytes  1 or more, within that allocation
 * args    without an id; SYMMCOLL_HOST, as in NULL, stands for the device that
 *         the memory is on
 *
 * All ranks of a group pass memory of cuMemAlloc(), or all mapped memory, which
 * symmcoll_symm_alloc() counts as; the rendezvous returns UNSUPPORTED otherwise.
 * Mapped memory has been created with CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,
 * unless all ranks are of one process.
 *
 * Errors: INVALID (freed, of another device, fewer bytes: expected and found;
 * bytes that are symmetric, or were and are still in use, or that these take
 * besides), UNSUPPORTED (host memory; memory that other processes cannot map; no
 * module for the device), NO_MEMORY, DEVICE.
 * Source: ncclCommWindowRegister of NCCL 2.27, which is collective.
 * Manual: symmcoll_symm_alloc(3).
 */
SYMMCOLL_CHECKED
symmcoll_status_t symmcoll_symm_register(struct symmcoll_world *world,
    void *data, size_t nbytes, const struct symmcoll_symm_args *args);

/*
 * The opposite; NULL is fine.  Waits as symmcoll_symm_free(), and frees nothing.
 * The program may free memory of cuMemAlloc() when all ranks have deregistered
 * theirs and released their handles on it, or finalized; and unmap what cuMemMap()
 * has mapped when this rank has, for peers keep that.
 * Errors: those of symmcoll_symm_free(); INVALID (no address that has been
 * registered).
 */
SYMMCOLL_API
symmcoll_status_t symmcoll_symm_deregister(
    struct symmcoll_world *world, void *data);

/*
 * Release an allocation; NULL is fine.  Local: what peers still read remains until
 * they have released their handles or ended, and on this rank until it has released
 * its own.  What is of a pool returns to it.
 *
 * Of host memory it waits for nobody.  Of a device it waits until all that this rank
 * had enqueued by then in groups that have joined the memory has ended, also what
 * waits for peers itself: for its timeout, of calls that have none the group's, and
 * 1.5 s to end what has failed.  It may be called while a stream is captured; a graph
 * that uses the memory is not started after that.
 *
 * Errors, after which nothing has been released: INVALID (no address that an
 * allocation begins with; a workspace; memory that has been registered), TIMEOUT
 * (what still runs, on which stream: the call can be repeated), DEVICE (the group was
 * released before a device had let go of the memory, which remains until the process
 * ends).
 */
SYMMCOLL_API
symmcoll_status_t symmcoll_symm_free(struct symmcoll_world *world, void *data);

/* 1 where an address is in memory that this rank has allocated, imported or
 * registered and not freed, else 0. */
SYMMCOLL_API
int symmcoll_symm_is_symmetric(
    struct symmcoll_world *world, const void *address);

/* ---- pools ---- */

/*
 * A pool keeps what is freed, for the next allocation of that size: temporary
 * tensors cost no system calls, and no new rendezvous.  Nothing is
 * split and nothing is lent to other pools: each allocation begins on a page and
 * has a signal pad of its own.
 *
 * args  the pad and the device of each allocation; without an id.  NULL for the
 *       defaults
 * pool  out: release with symmcoll_symm_pool_free(), or by symmcoll_finalize()
 *
 * Errors: INVALID (no such device), NO_MEMORY, and as of symmcoll_symm_alloc()
 * UNSUPPORTED, DEVICE.
 * Source: torch.cuda.MemPool of torch.distributed._symmetric_memory.get_mem_pool.
 * Manual: symmcoll_symm_pool_create(3).
 */
SYMMCOLL_CHECKED
symmcoll_status_t symmcoll_symm_pool_create(struct symmcoll_world *world,
    const struct symmcoll_symm_args *args, struct symmcoll_symm_pool **pool);

/* The pool that every world has, for those that need none of their own; borrowed.
 * Errors: INVALID, NO_MEMORY. */
SYMMCOLL_CHECKED
symmcoll_status_t symmcoll_symm_default_pool(
    struct symmcoll_world *world, struct symmcoll_symm_pool **pool);

/*
 * Allocate from a pool.  Local.  Of what has been freed the oldest allocation of
 * exactly nbytes is used, with the bytes that it has, unless this rank has a
 * handle on it; else a new one is made, as by symmcoll_symm_alloc().
 *
 * data  out: release with symmcoll_symm_free(), which returns it to the pool.
 *       Peers that have handles on it see what it is used for next
 *
 * symmcoll_symm_rendezvous() is collective once after each such call, on all
 * ranks, also where the memory has been joined before: then, if it was with the
 * same memory of all others, nothing is exchanged and the former handle is
 * returned.
 *
 * Errors: as of symmcoll_symm_alloc().
 */
SYMMCOLL_CHECKED
symmcoll_status_t symmcoll_symm_pool_alloc(
    struct symmcoll_symm_pool *pool, size_t nbytes, void **data);

/* The same for a tensor, as by symmcoll_symm_alloc_tensor(). */
SYMMCOLL_CHECKED
symmcoll_status_t symmcoll_symm_pool_alloc_tensor(
    struct symmcoll_symm_pool *pool, struct symmcoll_tensor *tensor);

/* What a pool has.  Begins as SYMMCOLL_SYMM_POOL_INFO_INIT. */
struct symmcoll_symm_pool_info {
    size_t size;         /* sizeof(struct symmcoll_symm_pool_info) */
    size_t used;         /* allocations that have not been freed */
    size_t used_nbytes;  /* as asked for */
    size_t freed;        /* allocations that can be used again */
    size_t freed_nbytes; /* as asked for */
};
#define SYMMCOLL_SYMM_POOL_INFO_INIT                       \
    {                                                      \
        sizeof(struct symmcoll_symm_pool_info), 0, 0, 0, 0 \
    }

/* Errors: INVALID. */
SYMMCOLL_CHECKED
symmcoll_status_t symmcoll_symm_pool_get_info(
    struct symmcoll_symm_pool *pool, struct symmcoll_symm_pool_info *info);

/* Release what has been freed.  Local; memory of a device as by symmcoll_symm_free().
 * Errors: INVALID; TIMEOUT, DEVICE (as there; some of it is left). */
SYMMCOLL_API
symmcoll_status_t symmcoll_symm_pool_trim(struct symmcoll_symm_pool *pool);

/* Release a pool; NULL is fine.  What has not been freed remains, as what
 * symmcoll_symm_alloc() returns.  Errors: INVALID (the default pool); those of
 * symmcoll_symm_pool_trim(), after which the pool is still there. */
SYMMCOLL_API
symmcoll_status_t symmcoll_symm_pool_free(struct symmcoll_symm_pool *pool);

/* ---- handles ---- */

/*
 * Join the allocations of all members of a group.  Collective, once for an
 * allocation and a group, in the order of their other operations; calls after
 * that are local and return the same handle for the same address.  An allocation
 * may be joined in several groups.
 *
 * data    an address in an allocation: equally far from its start on all ranks
 * call    timeout; NULL for the default
 * handle  out: for what there is from data on; release with
 *         symmcoll_symm_release(), as often as it was returned
 *
 * Every rank passes memory of the same size, with a signal pad of the same size:
 * all in host memory, or each in that of its device of the group.
 * Errors, on all ranks: MISMATCH (sizes, addresses or kinds of memory that differ:
 * names each rank's), NOT_SYMMETRIC (no such memory: names the rank), NO_MEMORY,
 * SYSTEM, INVALID (a pad too small for a group of so many; another device than the
 * group's), UNSUPPORTED (ranks on
 * several machines), and those of collectives, of which the group fails.
 * Source: torch.distributed._symmetric_memory.rendezvous.
 * Manual: symmcoll_symm_rendezvous(3).
 */
SYMMCOLL_CHECKED
symmcoll_status_t symmcoll_symm_rendezvous(struct symmcoll_group *group,
    void *data, const struct symmcoll_call *call,
    struct symmcoll_symm **handle);

/*
 * The handle for an address, of an allocation that has been joined in the group.
 * handle (out) is borrowed: valid until the allocation is freed.
 * Errors: INVALID (before the rendezvous), NOT_SYMMETRIC.
 * Source: torch._C._distributed_c10d._SymmetricMemory.get_symmetric_memory.
 */
SYMMCOLL_CHECKED
symmcoll_status_t symmcoll_symm_get(struct symmcoll_group *group,
    const void *data, struct symmcoll_symm **handle);

/* Release a handle; NULL is fine.  Waits for nobody; the last one on memory of a
 * device that has been freed, as symmcoll_symm_free(): what does not end by then keeps
 * the memory until a later release, rendezvous or finalize finds that it has.  A handle
 * keeps the memory of all members for this rank, also where the allocation has been
 * freed or the group released, until finalize; it can be released after that. */
SYMMCOLL_API
void symmcoll_symm_release(struct symmcoll_symm *handle);

/* What is known of a handle.  Begins as SYMMCOLL_SYMM_INFO_INIT. */
struct symmcoll_symm_info {
    size_t size;                  /* sizeof(struct symmcoll_symm_info) */
    struct symmcoll_group *group; /* borrowed; NULL: it has been released */
    int rank;                     /* this rank's, in the group */
    int nranks;
    size_t nbytes;         /* of each rank's buffer, from the address on */
    size_t offset;         /* bytes from the start of the allocation to it */
    size_t pad;            /* bytes of each rank's signal pad */
    int channels;          /* of signals: 0 to channels - 1 */
    void *const *buffers;  /* each rank's buffer, where this rank sees it;
                              borrowed from the handle, as are the pads */
    uint32_t *const *pads; /* each rank's signal pad */
    enum symmcoll_device device; /* the memory of all */
    int device_index;            /* this rank's of that kind */

    /* For kernels of the program's; NULL in host memory. */
    void *multicast; /* from the address on: what multimem instructions store
                        there every rank has, what they load is the sum; NULL
                        without multicast, or with cuda.multicast = off */
    void *const *device_starts;   /* in memory of the device: each rank's
                                     allocation, whose buffer begins at offset */
    uint32_t *const *device_pads; /* likewise, each rank's signal pad */
};
#define SYMMCOLL_SYMM_INFO_INIT                                                \
    {                                                                          \
        sizeof(struct symmcoll_symm_info), NULL, 0, 0, 0, 0, 0, 0, NULL, NULL, \
            SYMMCOLL_HOST, 0, NULL, NULL, NULL                                 \
    }

/* Errors: INVALID. */
SYMMCOLL_CHECKED
symmcoll_status_t symmcoll_symm_get_info(
    const struct symmcoll_symm *handle, struct symmcoll_symm_info *info);

/*
 * Bytes of a rank's buffer, where this rank sees them.
 *
 * rank    of the group; this one's own, too
 * offset  in bytes, from the handle's address on
 * buffer  out: valid as long as the handle
 *
 * Errors: INVALID (past the end: both numbers of bytes).
 * Source: torch._C._distributed_c10d._SymmetricMemory.get_buffer.
 */
SYMMCOLL_CHECKED
symmcoll_status_t symmcoll_symm_buffer(struct symmcoll_symm *handle, int rank,
    size_t offset, size_t nbytes, void **buffer);

/* The same as a contiguous tensor, whose type, dimensions and lengths are read,
 * and whose data and strides are set; offset is in elements. */
SYMMCOLL_CHECKED
symmcoll_status_t symmcoll_symm_tensor(struct symmcoll_symm *handle, int rank,
    int64_t offset, struct symmcoll_tensor *tensor);

/*
 * Words of a rank's signal pad, from word number `offset` on.  Slot nranks *
 * channel + source is of the signals of that rank on that channel: 0 but between
 * a put and its wait.  A program may use words as it likes, and puts them back to
 * 0.  Errors: INVALID (past the end).
 * Source: torch._C._distributed_c10d._SymmetricMemory.get_signal_pad.
 */
SYMMCOLL_CHECKED
symmcoll_status_t symmcoll_symm_pad(struct symmcoll_symm *handle, int rank,
    size_t offset, size_t count, uint32_t **pad);

/* ---- signals ---- */

/*
 * Put a signal for a rank: its slot for this rank goes from 0 to 1.  Waits while
 * the signal before has not been taken.  Release order, see above.
 *
 * channel  0 to channels - 1, see struct symmcoll_symm_info; signals of different
 *          channels are independent.  One thread of a rank at a time puts to a
 *          rank on a channel.  Groups that an allocation in host memory is
 *          joined in have one pad in common: they use channels whose words are
 *          apart.  On a device each group has pads of its own, zeroed when it
 *          joins the allocation
 * timeout  seconds; negative: the group's; 0: does not block
 *
 * Errors: INVALID, TIMEOUT (names both ranks and the channel; the group does not
 * fail), PEER (the rank has died, finalized or released the group), and those of
 * a group that has failed.
 * Source: torch._C._distributed_c10d._SymmetricMemory.put_signal, whose timeout
 * is in milliseconds and ends the device's work.
 * Manual: symmcoll_symm_put_signal(3).
 */
SYMMCOLL_CHECKED
symmcoll_status_t symmcoll_symm_put_signal(
    struct symmcoll_symm *handle, int dst, int channel, double timeout);

/*
 * Wait for the signal of a rank, and take it: this rank's slot for it goes from
 * 1 to 0.  Acquire order.  One thread of a rank at a time waits for a rank on a
 * channel.  A signal that is there is taken, whatever has become of its source.
 * Otherwise as symmcoll_symm_put_signal().
 * Source: torch._C._distributed_c10d._SymmetricMemory.wait_signal.
 */
SYMMCOLL_CHECKED
symmcoll_status_t symmcoll_symm_wait_signal(
    struct symmcoll_symm *handle, int src, int channel, double timeout);

/*
 * Wait until all ranks of the handle have arrived at a barrier on this channel;
 * acquire and release order.  Uses no slot of the signal pads.  One thread of a
 * rank at a time is at a barrier of a channel.  After TIMEOUT this rank has
 * arrived, as far as the others know; the next call on this channel waits for the
 * same barrier again.
 * Source: torch._C._distributed_c10d._SymmetricMemory.barrier.
 */
SYMMCOLL_CHECKED
symmcoll_status_t symmcoll_symm_barrier(
    struct symmcoll_symm *handle, int channel, double timeout);

/* ---- workspaces ---- */

/*
 * The group's workspace, of so many bytes or more.  Collective: every rank passes
 * the same nbytes.  Where that is more than any call before has asked for it is
 * allocated anew, as zeros, and who has a handle on the former keeps that.  The
 * group's operations use it where it lies; the group frees it.  It is in the memory
 * of the group's device once an operation has been there, else in host memory.
 *
 * handle  out: release with symmcoll_symm_release(), as often as it was returned
 *
 * Errors: MISMATCH (names each rank's nbytes), and those of symmcoll_symm_alloc()
 * and symmcoll_symm_rendezvous().
 * Source: torch.distributed._symmetric_memory.get_symm_mem_workspace.
 */
SYMMCOLL_CHECKED
symmcoll_status_t symmcoll_symm_workspace(struct symmcoll_group *group,
    size_t nbytes, const struct symmcoll_call *call,
    struct symmcoll_symm **handle);

SYMMCOLL_END_DECLS

#endif
