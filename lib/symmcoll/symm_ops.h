/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Operations on symmetric memory: one-sided access, all-reduce and its parts,
 * reductions of blocks.  symm_exchange.h has what moves elements only.
 * Manual: symmcoll_symm_one_shot_all_reduce(3), symmcoll_symm_put_data(3).
 *
 * Every function takes a handle (symm_mem.h) and offsets in bytes from its
 * address on, the same on all ranks; counts and strides are in elements.
 *
 * All but the one-sided ones are collectives of the handle's group: all ranks
 * call them in the same order, with one sequence number each and an entry in the
 * flight recorder.  They block: a rank returns when no other one reads or writes
 * its buffer any more.  Results are bitwise those of the plain collectives.
 *
 * On memory of a device they are enqueued as those are, on the stream of the call
 * or of the group, which may be being captured: a rank returns when all have
 * called it.  What is found later fails the group.  With the setting cuda.multimem
 * sums of floats there may have other last bits.
 *
 * out, in   of this rank alone, in the memory that the handle is for, the host's
 *           or that device's; may be part of its buffer, apart from what the
 *           operation uses there.  What is reduced on a device is on a multiple
 *           of an element's bytes (of a complex number's half)
 * dtype, op as of the plain collectives
 * call      timeout, label, stream; NULL for the defaults
 *
 * Errors of all: INVALID (of what is wrong on this rank, before anything has
 * happened: expected and found), UNSUPPORTED (op not defined for dtype), MISMATCH
 * (ranks pass different arguments: names them), after which the group is usable;
 * TIMEOUT, PEER, CANCELED and ABORTED as of collectives.  After an error the
 * contents of what the operation writes are undefined; and after one of the last
 * four a rank that is late, or was stopped, may still finish what it has begun in
 * the buffers of others: use another allocation from then on.
 */
#ifndef SYMMCOLL_SYMM_OPS_H
#define SYMMCOLL_SYMM_OPS_H

#include <symmcoll/symm_mem.h>

SYMMCOLL_BEGIN_DECLS

/* ---- one-sided ---- */

/*
 * Copy to and from the buffer of a rank, which calls nothing; it may be this one.
 * Nothing is ordered by that: see symm_mem.h, and the two functions after these.
 * Errors: INVALID (a rank or bytes that are not there: expected and found).
 * Source: torch.ops.symm_mem.nvshmem_put, nvshmem_get, nccl_put, nccl_get.
 */
SYMMCOLL_CHECKED
symmcoll_status_t symmcoll_symm_put_data(struct symmcoll_symm *handle, int peer,
    size_t offset, const void *in, size_t nbytes);

SYMMCOLL_CHECKED
symmcoll_status_t symmcoll_symm_get_data(struct symmcoll_symm *handle, int peer,
    size_t offset, void *out, size_t nbytes);

/*
 * The same, and then symmcoll_symm_put_signal(): the peer finds the bytes when
 * its symmcoll_symm_wait_signal() has returned (release and acquire).  It copies
 * before it waits for an earlier signal on the channel to be taken: a peer that
 * has not taken that finds new bytes there, also after TIMEOUT; so puts in turn
 * to several places.
 * timeout  seconds that it waits for that; negative: the group's
 * Errors: those of both.
 * Source: torch.ops.symm_mem.nvshmem_put_with_signal, nccl_put_with_signal.
 */
SYMMCOLL_CHECKED
symmcoll_status_t symmcoll_symm_put_with_signal(struct symmcoll_symm *handle,
    int peer, size_t offset, const void *in, size_t nbytes, int channel,
    double timeout);

/*
 * Store 32-bit words in a rank's buffer, each at once and in release order: who
 * reads one in acquire order finds what this rank has written before it.
 * offset  a multiple of 4
 * Errors: INVALID.
 * Source: torch.ops.symm_mem.stream_write_value32_, memset32_.
 */
SYMMCOLL_CHECKED
symmcoll_status_t symmcoll_symm_write_value32(
    struct symmcoll_symm *handle, int peer, size_t offset, uint32_t value);

SYMMCOLL_CHECKED
symmcoll_status_t symmcoll_symm_memset32(struct symmcoll_symm *handle, int peer,
    size_t offset, uint32_t value, size_t count);

/*
 * Wait until a word of this rank's buffer, which `peer` writes by one of the two
 * above, has a value; acquire order.
 * timeout  seconds; negative: the group's; 0: does not block
 * Errors: INVALID; TIMEOUT, of which the group does not fail; PEER.
 * Source: cuStreamWaitValue32.
 */
SYMMCOLL_CHECKED
symmcoll_status_t symmcoll_symm_wait_value32(struct symmcoll_symm *handle,
    int peer, size_t offset, uint32_t value, double timeout);

/*
 * All ranks' views of a tensor in this rank's buffer: the same shape and strides
 * in the buffer of each.  Local.
 * views  out: as many as there are ranks, each with its size set
 * Errors: INVALID (the tensor is not within the buffer).
 * Source: torch.ops.symm_mem.get_remote_tensors.
 */
SYMMCOLL_CHECKED
symmcoll_status_t symmcoll_symm_get_remote_tensors(struct symmcoll_symm *handle,
    const struct symmcoll_tensor *tensor, struct symmcoll_tensor *views);

/* ---- all_reduce ---- */

/*
 * Reduce count elements of all buffers.
 *
 * one_shot_all_reduce       each rank reads all buffers, which remain as they
 *                           are, and reduces into out
 * one_shot_all_reduce_copy  first copies in to its buffer, in host memory also
 *                           where the operation fails; in and out may be equal
 * one_shot_reduce           the root alone does; elsewhere out may be NULL
 * two_shot_all_reduce       each rank reduces a part and writes it into all
 *                           buffers: in place; and then to out, unless it is NULL
 *
 * The ranks add up in their order, so these are also multimem_all_reduce_ (two
 * shots), multimem_one_shot_all_reduce and multimem_one_shot_reduce_out, where a
 * switch would add in an order of its own.
 * Source: torch.ops.symm_mem, the functions of these names.
 */
SYMMCOLL_CHECKED
symmcoll_status_t symmcoll_symm_one_shot_all_reduce(
    struct symmcoll_symm *handle, size_t offset, void *out, size_t count,
    enum symmcoll_dtype dtype, symmcoll_op_t op,
    const struct symmcoll_call *call);

SYMMCOLL_CHECKED
symmcoll_status_t symmcoll_symm_one_shot_all_reduce_copy(
    struct symmcoll_symm *handle, size_t offset, void *out, const void *in,
    size_t count, enum symmcoll_dtype dtype, symmcoll_op_t op,
    const struct symmcoll_call *call);

SYMMCOLL_CHECKED
symmcoll_status_t symmcoll_symm_one_shot_reduce(struct symmcoll_symm *handle,
    size_t offset, void *out, size_t count, enum symmcoll_dtype dtype,
    symmcoll_op_t op, int root, const struct symmcoll_call *call);

SYMMCOLL_CHECKED
symmcoll_status_t symmcoll_symm_two_shot_all_reduce(
    struct symmcoll_symm *handle, size_t offset, void *out, size_t count,
    enum symmcoll_dtype dtype, symmcoll_op_t op,
    const struct symmcoll_call *call);

/*
 * An all_reduce of buf, by way of the buffers of a handle of at least as many
 * bytes, that is done for some calls only: SYMMCOLL_BFLOAT16 and SYMMCOLL_SUM, at
 * most 10 MiB and 8 ranks; in one shot up to 256 KiB, else in two, where a
 * switch adds up by a limit of its own (symmcoll.conf(5)).  Any other call returns
 * SYMMCOLL_SKIPPED on all ranks and does nothing: that one is for
 * symmcoll_all_reduce().
 *
 * symmcoll_symm_intra_node_count() is how many were done with the handle.
 * Source: c10d::intra_node_comm::IntraNodeComm.
 */
SYMMCOLL_CHECKED
symmcoll_status_t symmcoll_symm_intra_node_all_reduce(
    struct symmcoll_symm *handle, void *buf, size_t count,
    enum symmcoll_dtype dtype, symmcoll_op_t op,
    const struct symmcoll_call *call);

SYMMCOLL_API
uint64_t symmcoll_symm_intra_node_count(const struct symmcoll_symm *handle);

/* ---- reduce_scatter and all_gather ---- */

/*
 * Reduce a matrix of rows * columns elements of all buffers; each rank receives
 * its part: rows / size rows, or where split_columns is not 0 columns / size
 * columns of each row, one after another in out.  The divided one is a multiple
 * of the number of ranks.
 * Source: torch.ops.symm_mem.reduce_scatter_out (split_last_dim).
 */
SYMMCOLL_CHECKED
symmcoll_status_t symmcoll_symm_reduce_scatter(struct symmcoll_symm *handle,
    size_t offset, void *out, size_t rows, size_t columns, int split_columns,
    enum symmcoll_dtype dtype, symmcoll_op_t op,
    const struct symmcoll_call *call);

/*
 * Each rank writes count elements of its own into all buffers, in the order of
 * ranks.  In place: in is at the address where this rank's part belongs.  Memory
 * of devices that has a multicast address is written by that.
 * Source: torch.ops.symm_mem.multimem_all_gather_out.
 */
SYMMCOLL_CHECKED
symmcoll_status_t symmcoll_symm_all_gather(struct symmcoll_symm *handle,
    size_t offset, const void *in, size_t count, enum symmcoll_dtype dtype,
    const struct symmcoll_call *call);

/*
 * The same where ranks begin at different places, so that not all use the memory
 * of one of them at a time.  On devices copies read the memory of others, and no
 * kernel: they leave the multiprocessors to other kernels.
 *
 * low_contention_all_gather      count elements are in each buffer; out has room
 *                                for those of all
 * low_contention_reduce_scatter  size * count are, of which each rank receives
 *                                count; out has room for these
 *
 * Source: torch.ops.symm_mem._low_contention_all_gather,
 * _low_contention_reduce_scatter.
 */
SYMMCOLL_CHECKED
symmcoll_status_t symmcoll_symm_low_contention_all_gather(
    struct symmcoll_symm *handle, size_t offset, void *out, size_t count,
    enum symmcoll_dtype dtype, const struct symmcoll_call *call);

SYMMCOLL_CHECKED
symmcoll_status_t symmcoll_symm_low_contention_reduce_scatter(
    struct symmcoll_symm *handle, size_t offset, void *out, size_t count,
    enum symmcoll_dtype dtype, symmcoll_op_t op,
    const struct symmcoll_call *call);

/* ---- blocks ---- */

#define SYMMCOLL_SYMM_BLOCKS_MAX 4096 /* of one operation */

/*
 * Reduce tiles of rows * columns elements, each to one rank.
 *
 * offset,   bytes, multiples of an element's: where a tile begins
 * offsets
 * stride    elements from one row of a tile to the next, in the buffers
 * root,     the rank that receives the tile; of several tiles each has another
 * roots     one.  Elsewhere out may be NULL
 * out       rows with out_stride elements from one to the next
 * count     tiles; 0 is valid
 *
 * Source: torch.ops.symm_mem.tile_reduce, multi_root_tile_reduce.
 */
SYMMCOLL_CHECKED
symmcoll_status_t symmcoll_symm_tile_reduce(struct symmcoll_symm *handle,
    size_t offset, void *out, size_t out_stride, size_t rows, size_t columns,
    size_t stride, enum symmcoll_dtype dtype, symmcoll_op_t op, int root,
    const struct symmcoll_call *call);

SYMMCOLL_CHECKED
symmcoll_status_t symmcoll_symm_multi_root_tile_reduce(
    struct symmcoll_symm *handle, const size_t *offsets, const int *roots,
    size_t count, void *out, size_t out_stride, size_t rows, size_t columns,
    size_t stride, enum symmcoll_dtype dtype, symmcoll_op_t op,
    const struct symmcoll_call *call);

/*
 * Divide a matrix of rows * columns elements into blocks of rows (dim 0) or
 * columns (dim 1) and reduce each to one rank.
 *
 * stride  elements from one row to the next
 * ends    the row or column before which each of count blocks ends, ascending;
 *         a block may be empty, and what is after the last one is left out
 * ranks   who receives each; NULL: rank 0 the first, rank 1 the next, and so on
 *         in turn
 * outs    as many as this rank receives, in the order of blocks, each with its
 *         rows one after another
 *
 * Source: torch.ops.symm_mem.nccl_reduce_scatter_offset, whose blocks are equal;
 * reduce_scatter_columns.
 */
SYMMCOLL_CHECKED
symmcoll_status_t symmcoll_symm_reduce_scatter_offset(
    struct symmcoll_symm *handle, size_t offset, void *const *outs, size_t rows,
    size_t columns, size_t stride, int dim, const size_t *ends,
    const int *ranks, size_t count, enum symmcoll_dtype dtype, symmcoll_op_t op,
    const struct symmcoll_call *call);

SYMMCOLL_END_DECLS

#endif
