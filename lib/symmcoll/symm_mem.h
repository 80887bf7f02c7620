/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Symmetric memory: a buffer of the same size on every rank of a group, which
 * all ranks read and write in place, and signals between the ranks.  The memory
 * is on one machine: that of the host, or of its devices.
 * Manual: symmcoll_symm_alloc(3), symmcoll_symm_rendezvous(3),
 * symmcoll_symm_put_signal(3).
 *
 * Memory ordering: accesses of a rank before symmcoll_symm_put_signal() are
 * visible to the rank that takes the signal by symmcoll_symm_wait_signal();
 * accesses of that rank before the wait are visible to the source after its
 * next put on the same channel.  Accesses of each rank before
 * symmcoll_symm_barrier() are visible to all ranks after it.  A rank counts as
 * arrived from the first call of a barrier: if that call expires and is
 * repeated, accesses between the two need not be visible.  Nothing else here
 * orders anything.
 *
 * Device memory: signals, barriers and the one-sided operations of symm_ops.h
 * are enqueued on the group's current stream (symmcoll_group_set_stream()) and
 * return.  Only that stream orders them; a timeout of 0 is INVALID.  A wait
 * that expires on the device fails the group, with a detail that names the
 * call, both ranks and the channel.
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

/* ---- allocation ---- */

/* The options of an allocation.  Initialise it with SYMMCOLL_SYMM_ARGS_INIT. */
struct symmcoll_symm_args {
    size_t size; /* sizeof(struct symmcoll_symm_args) */
    size_t pad;  /* bytes of the signal pad, a multiple of 16, the same on all
                    ranks; 0: symm_mem.pad */
    int64_t id;  /* positive: a persistent allocation.  Memory that was freed
                    with this id is allocated again, at the same address, with
                    its bytes and its handles, and is kept until finalize.  On
                    a device, the call waits as symmcoll_symm_free() does.
                    0: none */
    enum symmcoll_device device; /* SYMMCOLL_HOST or SYMMCOLL_CUDA */
    int device_index;            /* of its kind; 0 for the host */
};
#define SYMMCOLL_SYMM_ARGS_INIT                                   \
    {                                                             \
        sizeof(struct symmcoll_symm_args), 0, 0, SYMMCOLL_HOST, 0 \
    }

/*
 * Allocates symmetric memory.  Local: each rank allocates its own, and
 * symmcoll_symm_rendezvous() joins the allocations of the ranks.
 *
 * nbytes  0 is valid: signals only
 * args    NULL for the defaults
 * data    out: page-aligned, zeroed, backed by memory; release with
 *         symmcoll_symm_free().  symmcoll_finalize() releases what remains.
 *         Device memory has a device address, which the host cannot read
 *
 * Errors: INVALID (memory of this id has not been freed, or had another size or
 * place; no such device), NO_MEMORY (the detail has the requested and the
 * available size), SYSTEM, UNSUPPORTED (no driver, no module for the device),
 * DEVICE, TIMEOUT (an operation still uses the memory of this id).
 * Source: torch.distributed._symmetric_memory.empty, and
 * _SymmetricMemory.empty_strided_p2p.         Manual: symmcoll_symm_alloc(3).
 */
SYMMCOLL_CHECKED
symmcoll_status_t symmcoll_symm_alloc(struct symmcoll_world *world,
    size_t nbytes, const struct symmcoll_symm_args *args, void **data);

/*
 * Allocates symmetric memory for a tensor, on its device and device_index, as
 * symmcoll_symm_alloc() does.  Reads its type, dimensions, lengths and strides,
 * and sets data.  Strides that are all 0 are set to those of a contiguous
 * tensor.
 * Errors: those of symmcoll_symm_alloc(); INVALID (shape, strides; args that
 * name another device).
 */
SYMMCOLL_CHECKED
symmcoll_status_t symmcoll_symm_alloc_tensor(struct symmcoll_world *world,
    const struct symmcoll_symm_args *args, struct symmcoll_tensor *tensor);

/*
 * Makes memory of the program symmetric without a copy: nbytes of a memfd.
 *
 * fd      sealed against shrinking (F_SEAL_SHRINK) and not against writing;
 *         borrowed for the call
 * offset  in the memfd; a multiple of the page size, that of a huge page if the
 *         memfd has those
 * args    without an id, and of host memory
 * data    out: the address in this rank; release with symmcoll_symm_free()
 *
 * Errors: INVALID (not a memfd, wrong seals, too short), NO_MEMORY, SYSTEM.
 */
SYMMCOLL_CHECKED
symmcoll_status_t symmcoll_symm_import(struct symmcoll_world *world, int fd,
    uint64_t offset, size_t nbytes, const struct symmcoll_symm_args *args,
    void **data);

/*
 * Makes device memory of the program symmetric without a copy: nbytes of an
 * allocation of cuMemAlloc() or cudaMalloc(), or of a mapping of cuMemMap().
 * Local.  symmcoll_symm_rendezvous() joins the address as one of
 * symmcoll_symm_alloc(), and all operations work on it.
 *
 * data    borrowed until symmcoll_symm_deregister(); a multiple of 16 bytes,
 *         anywhere in an allocation, all of which peers map.  Its bytes are
 *         kept
 * nbytes  1 or more, within that allocation
 * args    without an id; SYMMCOLL_HOST, the default, stands for the device that
 *         the memory is on
 *
 * All ranks of a group pass memory of cuMemAlloc(), or all pass mapped memory,
 * which includes that of symmcoll_symm_alloc(); otherwise the rendezvous
 * returns UNSUPPORTED.  Unless all ranks are threads of one process, mapped
 * memory has to be created with CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR.
 *
 * Errors: INVALID (memory that was freed, is on another device or too short;
 * bytes that are symmetric, or were and are still in use, or share a piece of
 * device memory with such bytes), UNSUPPORTED (host memory; memory that other
 * processes cannot map; no module for the device), NO_MEMORY, DEVICE.
 * Source: ncclCommWindowRegister of NCCL 2.27, which is collective.
 * Manual: symmcoll_symm_alloc(3).
 */
SYMMCOLL_CHECKED
symmcoll_status_t symmcoll_symm_register(struct symmcoll_world *world,
    void *data, size_t nbytes, const struct symmcoll_symm_args *args);

/*
 * Ends the registration of memory by symmcoll_symm_register(); NULL is valid.
 * Waits as symmcoll_symm_free() does; the memory remains the program's.  The
 * program may free memory of cuMemAlloc() when all ranks have deregistered
 * theirs and released their handles on it, or have finalized.  It may unmap
 * memory of cuMemMap() when this rank has deregistered it, since peers keep
 * their mappings.
 * Errors: those of symmcoll_symm_free(); INVALID (not an address that has been
 * registered).
 */
SYMMCOLL_API
symmcoll_status_t symmcoll_symm_deregister(
    struct symmcoll_world *world, void *data);

/*
 * Frees an allocation; NULL is valid.  Local: peers can access its bytes until
 * they have released their handles or ended, this rank until it has released
 * its own.  An allocation of a pool returns to the pool.
 *
 * For host memory the call does not wait.  For device memory it waits until all
 * operations that this rank has enqueued in the groups that have joined the
 * memory have ended, including those that wait for peers.  The limit is their
 * timeout (the group's, for calls without one), and 1.5 s more to end a failed
 * operation.  It may be called while a stream is captured; do not launch a
 * graph that uses the memory after that.
 *
 * Errors, with nothing released: INVALID (not the address of an allocation; a
 * workspace; registered memory), TIMEOUT (the detail names the operation that
 * still runs and its stream: call again later), DEVICE (the group was released
 * while a device still used the memory, which remains until the process ends).
 */
SYMMCOLL_API
symmcoll_status_t symmcoll_symm_free(struct symmcoll_world *world, void *data);

/* Returns 1 if an address is in memory that this rank has allocated, imported
 * or registered and not freed or deregistered, else 0. */
SYMMCOLL_API
int symmcoll_symm_is_symmetric(
    struct symmcoll_world *world, const void *address);

/* ---- pools ---- */

/*
 * Creates a pool, which keeps freed allocations for later ones of the same
 * size: temporary tensors need no system calls and no new rendezvous.
 * Allocations are neither split nor shared with other pools: each is
 * page-aligned and has a signal pad of its own.
 *
 * args  the pad and the device of each allocation; without an id.  NULL for the
 *       defaults
 * pool  out: released by symmcoll_symm_pool_free(), or by symmcoll_finalize()
 *
 * Errors: INVALID (no such device), NO_MEMORY, and, as for
 * symmcoll_symm_alloc(), UNSUPPORTED and DEVICE.
 * Source: torch.cuda.MemPool of
 * torch.distributed._symmetric_memory.get_mem_pool.
 * Manual: symmcoll_symm_pool_create(3).
 */
SYMMCOLL_CHECKED
symmcoll_status_t symmcoll_symm_pool_create(struct symmcoll_world *world,
    const struct symmcoll_symm_args *args, struct symmcoll_symm_pool **pool);

/* Returns the world's default pool, borrowed.  Errors: INVALID, NO_MEMORY. */
SYMMCOLL_CHECKED
symmcoll_status_t symmcoll_symm_default_pool(
    struct symmcoll_world *world, struct symmcoll_symm_pool **pool);

/*
 * Allocates from a pool.  Local.  Takes the oldest freed allocation of exactly
 * nbytes, with its bytes, on which this rank has no handle and which no
 * operation uses; if there is none, makes a new one, as symmcoll_symm_alloc()
 * does.
 *
 * data  out: release with symmcoll_symm_free(), which returns it to the pool.
 *       Peers that have handles on it see its next contents
 *
 * symmcoll_symm_rendezvous() is collective once after each such call, on all
 * ranks, even if the memory has been joined before.  If it was joined with the
 * same memory of all other ranks, the former handle is returned.
 *
 * Errors: those of symmcoll_symm_alloc().
 */
SYMMCOLL_CHECKED
symmcoll_status_t symmcoll_symm_pool_alloc(
    struct symmcoll_symm_pool *pool, size_t nbytes, void **data);

/* Allocates from a pool for a tensor, as symmcoll_symm_alloc_tensor() does. */
SYMMCOLL_CHECKED
symmcoll_status_t symmcoll_symm_pool_alloc_tensor(
    struct symmcoll_symm_pool *pool, struct symmcoll_tensor *tensor);

/* The contents of a pool.  Initialise it with SYMMCOLL_SYMM_POOL_INFO_INIT. */
struct symmcoll_symm_pool_info {
    size_t size;         /* sizeof(struct symmcoll_symm_pool_info) */
    size_t used;         /* allocations that have not been freed */
    size_t used_nbytes;  /* as requested */
    size_t freed;        /* allocations that can be used again */
    size_t freed_nbytes; /* as requested */
};
#define SYMMCOLL_SYMM_POOL_INFO_INIT                       \
    {                                                      \
        sizeof(struct symmcoll_symm_pool_info), 0, 0, 0, 0 \
    }

/* Fills in the contents of a pool.  Errors: INVALID. */
SYMMCOLL_CHECKED
symmcoll_status_t symmcoll_symm_pool_get_info(
    struct symmcoll_symm_pool *pool, struct symmcoll_symm_pool_info *info);

/* Releases the freed allocations of a pool.  Local; for device memory it waits
 * as symmcoll_symm_free() does.  Errors: INVALID; TIMEOUT, DEVICE (some
 * allocations are still in use, and remain). */
SYMMCOLL_API
symmcoll_status_t symmcoll_symm_pool_trim(struct symmcoll_symm_pool *pool);

/* Releases a pool; NULL is valid.  Allocations that have not been freed remain,
 * as those of symmcoll_symm_alloc().  Errors: INVALID (the default pool); those
 * of symmcoll_symm_pool_trim(), after which the pool still exists. */
SYMMCOLL_API
symmcoll_status_t symmcoll_symm_pool_free(struct symmcoll_symm_pool *pool);

/* ---- handles ---- */

/*
 * Joins the allocations of all members of a group.  Collective, once for each
 * allocation and group, in the order of the group's other operations; later
 * calls are local and return the same handle for the same address.  An
 * allocation may be joined in several groups.
 *
 * data    an address in an allocation, at the same offset on all ranks
 * call    timeout; NULL for the default
 * handle  out: on the memory from data on; release with
 *         symmcoll_symm_release(), as often as it was returned
 *
 * Every rank passes memory of the same size, with a signal pad of the same
 * size: all in host memory, or each on its device of the group.  Errors, on all
 * ranks: MISMATCH (sizes, offsets or kinds of memory differ: the detail has
 * each rank's), NOT_SYMMETRIC (the address is in no allocation: the detail
 * names the rank), NO_MEMORY, SYSTEM, INVALID (the pad is too small for the
 * size of the group; another device than the group's), UNSUPPORTED (ranks on
 * several machines), and those of collectives that fail the group.
 * Source: torch.distributed._symmetric_memory.rendezvous.
 * Manual: symmcoll_symm_rendezvous(3).
 */
SYMMCOLL_CHECKED
symmcoll_status_t symmcoll_symm_rendezvous(struct symmcoll_group *group,
    void *data, const struct symmcoll_call *call,
    struct symmcoll_symm **handle);

/*
 * Finds the handle for an address whose allocation has been joined in the
 * group.  handle (out) is borrowed: valid until the allocation is freed.
 * Errors: INVALID (before the rendezvous), NOT_SYMMETRIC.
 * Source: torch._C._distributed_c10d._SymmetricMemory.get_symmetric_memory.
 */
SYMMCOLL_CHECKED
symmcoll_status_t symmcoll_symm_get(struct symmcoll_group *group,
    const void *data, struct symmcoll_symm **handle);

/*
 * Releases a handle; NULL is valid.  Until then this rank can access the memory
 * of all members, also if the allocation has been freed or the group released,
 * but not after symmcoll_finalize().  A handle may be released after finalize.
 *
 * The call does not wait, except for the last handle on device memory that has
 * been freed: then it waits as symmcoll_symm_free() does.  Memory that is still
 * in use after that is released by a later release, rendezvous or finalize.
 */
SYMMCOLL_API
void symmcoll_symm_release(struct symmcoll_symm *handle);

/* The properties of a handle.  Initialise it with SYMMCOLL_SYMM_INFO_INIT. */
struct symmcoll_symm_info {
    size_t size;                  /* sizeof(struct symmcoll_symm_info) */
    struct symmcoll_group *group; /* borrowed; NULL if it has been released */
    int rank;                     /* this rank's number in the group */
    int nranks;
    size_t nbytes;         /* of each rank's buffer, from data on */
    size_t offset;         /* bytes from the allocation's start to data */
    size_t pad;            /* bytes of each rank's signal pad */
    int channels;          /* number of signal channels: 0 to channels - 1 */
    void *const *buffers;  /* each rank's buffer, at its address in this rank;
                              borrowed from the handle, as are the pads */
    uint32_t *const *pads; /* each rank's signal pad */
    enum symmcoll_device device; /* of all ranks' memory */
    int device_index;            /* of this rank's memory */

    /* For kernels of the program; NULL in host memory. */
    void *multicast; /* of the buffers: multimem stores write to every rank,
                        multimem loads return the sum; NULL
                        without multicast, or with cuda.multicast = off */
    void *const *device_starts;   /* in device memory: each rank's allocation,
                                     where its buffer is at offset */
    uint32_t *const *device_pads; /* in device memory: each rank's signal pad */
};
#define SYMMCOLL_SYMM_INFO_INIT                                                \
    {                                                                          \
        sizeof(struct symmcoll_symm_info), NULL, 0, 0, 0, 0, 0, 0, NULL, NULL, \
            SYMMCOLL_HOST, 0, NULL, NULL, NULL                                 \
    }

/* Fills in the properties of a handle.  Errors: INVALID. */
SYMMCOLL_CHECKED
symmcoll_status_t symmcoll_symm_get_info(
    const struct symmcoll_symm *handle, struct symmcoll_symm_info *info);

/*
 * Returns the address, in this rank, of nbytes of a rank's buffer.
 *
 * rank    of the group; may be this rank
 * offset  in bytes, from the handle's address on
 * buffer  out: valid as long as the handle
 *
 * Errors: INVALID (past the end of the buffer).
 * Source: torch._C._distributed_c10d._SymmetricMemory.get_buffer.
 */
SYMMCOLL_CHECKED
symmcoll_status_t symmcoll_symm_buffer(struct symmcoll_symm *handle, int rank,
    size_t offset, size_t nbytes, void **buffer);

/* Sets data, device and strides of a contiguous tensor in a rank's buffer.
 * Reads its type, dimensions and lengths; offset is in elements.  Otherwise as
 * symmcoll_symm_buffer(). */
SYMMCOLL_CHECKED
symmcoll_status_t symmcoll_symm_tensor(struct symmcoll_symm *handle, int rank,
    int64_t offset, struct symmcoll_tensor *tensor);

/*
 * Returns the address, in this rank, of count words of a rank's signal pad,
 * from word `offset` on.  Slot nranks * channel + source holds the signals of
 * that rank on that channel: 1 from a put to its wait, else 0.  A program may
 * use words for itself, and resets them to 0.  Errors: INVALID (past the end of
 * the pad).
 * Source: torch._C._distributed_c10d._SymmetricMemory.get_signal_pad.
 */
SYMMCOLL_CHECKED
symmcoll_status_t symmcoll_symm_pad(struct symmcoll_symm *handle, int rank,
    size_t offset, size_t count, uint32_t **pad);

/* ---- signals ---- */

/*
 * Puts a signal for a rank: its slot for this rank changes from 0 to 1.  Waits
 * until the previous signal has been taken.  Release order, see above.
 *
 * channel  0 to channels - 1, see struct symmcoll_symm_info.  Channels are
 *          independent.  One thread of a rank at a time puts to a rank on a
 *          channel.  In host memory, all groups that an allocation is joined in
 *          share its pad, and use channels with different words.  On a device
 *          each group has its own pads, zeroed when it joins the allocation
 * timeout  seconds; negative: the group's; 0: does not block
 *
 * Errors: INVALID, TIMEOUT (the detail names both ranks and the channel; in
 * host memory the group remains usable), PEER (the rank has died, finalized or
 * released the group), and those of a group that has failed.
 * Source: torch._C._distributed_c10d._SymmetricMemory.put_signal, whose timeout
 * is in milliseconds and ends the device's work.
 * Manual: symmcoll_symm_put_signal(3).
 */
SYMMCOLL_CHECKED
symmcoll_status_t symmcoll_symm_put_signal(
    struct symmcoll_symm *handle, int dst, int channel, double timeout);

/*
 * Waits for the signal of a rank and takes it: this rank's slot for it changes
 * from 1 to 0.  Acquire order.  One thread of a rank at a time waits for a rank
 * on a channel.  A signal that has been put is taken even if its source has
 * died or left.  Otherwise as symmcoll_symm_put_signal().
 * Source: torch._C._distributed_c10d._SymmetricMemory.wait_signal.
 */
SYMMCOLL_CHECKED
symmcoll_status_t symmcoll_symm_wait_signal(
    struct symmcoll_symm *handle, int src, int channel, double timeout);

/*
 * Waits until all ranks of the handle have arrived at a barrier on this
 * channel; acquire and release order.  Uses no slot of the signal pads.  One
 * thread of a rank at a time is in a barrier of a channel.  After TIMEOUT this
 * rank counts as arrived; its next call on this channel waits for the same
 * barrier.
 * Source: torch._C._distributed_c10d._SymmetricMemory.barrier.
 */
SYMMCOLL_CHECKED
symmcoll_status_t symmcoll_symm_barrier(
    struct symmcoll_symm *handle, int channel, double timeout);

/* ---- workspaces ---- */

/*
 * Returns a handle on the group's workspace, of at least nbytes.  Collective:
 * every rank passes the same nbytes.  If the workspace is smaller, or in the
 * wrong memory, it is replaced by a new one, zeroed; handles on the former one
 * keep that.  The group's operations use it in place, and the group frees it.
 * It is in the memory of the group's device after the group's first operation
 * there, else in host memory.
 *
 * handle  out: release with symmcoll_symm_release(), as often as it was
 *         returned
 *
 * Errors: MISMATCH (the detail has each rank's nbytes), and those of
 * symmcoll_symm_alloc() and symmcoll_symm_rendezvous().
 * Source: torch.distributed._symmetric_memory.get_symm_mem_workspace.
 */
SYMMCOLL_CHECKED
symmcoll_status_t symmcoll_symm_workspace(struct symmcoll_group *group,
    size_t nbytes, const struct symmcoll_call *call,
    struct symmcoll_symm **handle);

SYMMCOLL_END_DECLS

#endif
