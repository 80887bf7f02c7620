/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Operations on symmetric memory: one-sided access, all_reduce and its parts,
 * reductions of blocks.  Those that only move elements are in symm_exchange.h.
 * Manual: symmcoll_symm_one_shot_all_reduce(3), symmcoll_symm_put_data(3).
 *
 * Every function takes a handle (symm_mem.h) and offsets in bytes from the
 * handle's address on, the same on all ranks; counts and strides are in
 * elements.
 *
 * All except the one-sided operations are collectives of the handle's group:
 * all ranks call them in the same order; each has a sequence number and an
 * entry in the flight recorder.  They block: a call returns when no other rank
 * accesses this rank's buffer any more.  Results are bitwise those of the plain
 * collectives.
 *
 * On device memory they are enqueued like the plain collectives, on the stream
 * of the call or of the group, which may be capturing: a call returns when all
 * ranks have called it, and later errors fail the group.  With the setting
 * cuda.multimem, sums of floats may differ there in the last bits.
 *
 * out, in   of this rank alone, in the kind of memory that the handle is for,
 *           on the same device; may be part of its buffer, but not overlap the
 *           part that the operation uses.  Operands of a reduction on a device
 *           are aligned to the size of an element (of half a complex number)
 * dtype, op as in the plain collectives
 * call      timeout, label, stream; NULL for the defaults
 *
 * Common errors: INVALID (on this rank, before any effect), UNSUPPORTED (op not
 * defined for dtype), MISMATCH (ranks pass different arguments: the detail
 * names them), after which the group is usable; TIMEOUT, PEER, CANCELED and
 * ABORTED as for collectives.  After an error the output is undefined.  After
 * one of the last four, a rank that is late or was stopped may still finish its
 * accesses to the buffers of others: use another allocation from then on.
 */
#ifndef SYMMCOLL_SYMM_OPS_H
#define SYMMCOLL_SYMM_OPS_H

#include <symmcoll/symm_mem.h>

SYMMCOLL_BEGIN_DECLS

/* ---- one-sided ---- */

/*
 * Copy nbytes to or from the buffer of a rank, which makes no call; peer may be
 * this rank.  The copy is not ordered with anything, except by the means of
 * symm_mem.h and by the functions below.  On a device, in and out are apart
 * from the peer's bytes, and are the library's until the stream has executed
 * the copy.
 * Errors: INVALID (no such rank, or bytes outside of the buffer).
 * Source: torch.ops.symm_mem.nvshmem_put, nvshmem_get, nccl_put, nccl_get.
 */
SYMMCOLL_CHECKED
symmcoll_status_t symmcoll_symm_put_data(struct symmcoll_symm *handle, int peer,
    size_t offset, const void *in, size_t nbytes);

SYMMCOLL_CHECKED
symmcoll_status_t symmcoll_symm_get_data(struct symmcoll_symm *handle, int peer,
    size_t offset, void *out, size_t nbytes);

/*
 * Copies nbytes to the buffer of a rank, then calls symmcoll_symm_put_signal():
 * the bytes are visible to the peer after its symmcoll_symm_wait_signal()
 * (release and acquire order).  The copy precedes the wait for an earlier
 * signal on the channel to be taken, also if that wait ends with TIMEOUT: so a
 * peer that has not taken that signal finds new bytes.  Alternate between
 * several places.
 * timeout  seconds to wait for the earlier signal; negative: the group's
 * Errors: those of symmcoll_symm_put_data() and symmcoll_symm_put_signal().
 * Source: torch.ops.symm_mem.nvshmem_put_with_signal, nccl_put_with_signal.
 */
SYMMCOLL_CHECKED
symmcoll_status_t symmcoll_symm_put_with_signal(struct symmcoll_symm *handle,
    int peer, size_t offset, const void *in, size_t nbytes, int channel,
    double timeout);

/*
 * Store 32-bit words in a rank's buffer, each atomically and in release order:
 * a rank that reads one in acquire order sees earlier stores of this rank.  On
 * a device the words of memset32 have no order: a signal or another word after
 * them has.
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
 * Waits until a word of this rank's buffer, which peer stores by one of the two
 * functions above, has a value; acquire order.
 * timeout  seconds; negative: the group's; 0: does not block
 * Errors: INVALID; TIMEOUT (in host memory the group remains usable); PEER.
 * Source: cuStreamWaitValue32.
 */
SYMMCOLL_CHECKED
symmcoll_status_t symmcoll_symm_wait_value32(struct symmcoll_symm *handle,
    int peer, size_t offset, uint32_t value, double timeout);

/*
 * Fills in each rank's view of a tensor in this rank's buffer: a tensor of the
 * same shape and strides at the same offset of that rank's buffer.  Local.
 * views  out: one tensor for each rank, with its size set
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
 * one_shot_all_reduce       each rank reads all buffers, which are not changed,
 *                           and reduces into out
 * one_shot_all_reduce_copy  first copies in to its buffer, in host memory even
 *                           if the operation fails; in and out may be equal
 * one_shot_reduce           only the root reads and reduces; elsewhere out may
 *                           be NULL
 * two_shot_all_reduce       each rank reduces a part and writes it to all
 *                           buffers, in place; then copies the result to out,
 *                           unless it is NULL
 *
 * Elements are added in the order of ranks.  So these are also
 * multimem_all_reduce_ (two shots), multimem_one_shot_all_reduce and
 * multimem_one_shot_reduce_out, in which a switch adds in its own order.
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
 * An all_reduce of buf through the buffers of a handle of at least that size,
 * for SYMMCOLL_BFLOAT16 and SYMMCOLL_SUM, at most 10 MiB and 8 ranks.  One shot
 * up to 256 KiB, else two; with multimem up to cuda.multimem_one_shot_max
 * (symmcoll.conf(5)).  Any other call returns SYMMCOLL_SKIPPED on all ranks
 * without any effect: use symmcoll_all_reduce() then.
 *
 * symmcoll_symm_intra_node_count() returns the number of these operations that
 * the handle has completed.
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
 * Reduces a matrix of rows * columns elements of all buffers; each rank
 * receives its part in out: rows / size rows or, if split_columns is not 0,
 * columns / size columns of each row, without gaps.  The divided length is a
 * multiple of the number of ranks.
 * Source: torch.ops.symm_mem.reduce_scatter_out (split_last_dim).
 */
SYMMCOLL_CHECKED
symmcoll_status_t symmcoll_symm_reduce_scatter(struct symmcoll_symm *handle,
    size_t offset, void *out, size_t rows, size_t columns, int split_columns,
    enum symmcoll_dtype dtype, symmcoll_op_t op,
    const struct symmcoll_call *call);

/*
 * Writes count elements of each rank to all buffers, in the order of ranks.  In
 * place: in is the address of this rank's part in its buffer.  Device memory
 * that has a multicast address is written through it.
 * Source: torch.ops.symm_mem.multimem_all_gather_out.
 */
SYMMCOLL_CHECKED
symmcoll_status_t symmcoll_symm_all_gather(struct symmcoll_symm *handle,
    size_t offset, const void *in, size_t count, enum symmcoll_dtype dtype,
    const struct symmcoll_call *call);

/*
 * all_gather and reduce_scatter in which each rank starts with another rank's
 * memory, so that the ranks do not access one memory at the same time.  On
 * devices the copy engines read the memory of others, which leaves the
 * multiprocessors to other kernels.
 *
 * low_contention_all_gather      each buffer has count elements; out has room
 *                                for those of all ranks
 * low_contention_reduce_scatter  each buffer has size * count elements; each
 *                                rank receives count of them, reduced, in out
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
 * offset,   bytes, multiples of an element's size: the start of each tile
 * offsets
 * stride    elements from one row of a tile to the next, in the buffers
 * root,     the rank that receives a tile; the roots of several tiles differ.
 * roots     Elsewhere out may be NULL
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
 * Divides a matrix of rows * columns elements into blocks of rows (dim 0) or
 * columns (dim 1) and reduces each block to one rank.
 *
 * stride  elements from one row to the next
 * ends    the row or column at which each of count blocks ends (exclusive),
 *         ascending; a block may be empty; elements after the last are left out
 * ranks   the receiving rank of each block; NULL: round robin from rank 0 on
 * outs    one buffer for each block that this rank receives, in the order of
 *         blocks, each without gaps between rows
 *
 * Source: torch.ops.symm_mem.nccl_reduce_scatter_offset, whose blocks are
 * equal; reduce_scatter_columns.
 */
SYMMCOLL_CHECKED
symmcoll_status_t symmcoll_symm_reduce_scatter_offset(
    struct symmcoll_symm *handle, size_t offset, void *const *outs, size_t rows,
    size_t columns, size_t stride, int dim, const size_t *ends,
    const int *ranks, size_t count, enum symmcoll_dtype dtype, symmcoll_op_t op,
    const struct symmcoll_call *call);

SYMMCOLL_END_DECLS

#endif
