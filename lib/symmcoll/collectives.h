/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Collectives: every rank of the group calls the same one, in the same order,
 * with the same count, dtype, op and root.
 *
 * Common arguments:
 *
 * group  borrowed; must outlive the work
 * out    receives the result; the library's until the operation has ended
 * in     this rank's elements; the library's until the operation has ended.
 *        out and in are equal or placed as each function says (in place), or do
 *        not overlap
 * count  elements, not bytes; 0 is valid and still synchronises the ranks
 * call   timeout, stream, label; NULL for the defaults
 * work   out: release with symmcoll_work_free(); NULL makes the call block
 *
 * Ranks that pass different arguments all get MISMATCH: the detail names the
 * ranks and their arguments, no buffer is changed, and the group remains
 * usable.
 *
 * Common errors: INVALID and UNSUPPORTED (op not defined for dtype): the call
 * had no effect; MISMATCH, NO_MEMORY, CONFIG (settings differ between ranks),
 * SYSTEM (no thread for a work): the group remains usable; TIMEOUT (the detail
 * names the late ranks), PEER (the detail names the ranks that died or
 * finalized) and CANCELED: the group fails; ABORTED: the group had failed
 * before.
 *
 * Results are bitwise the same on every rank and in every run: elements are
 * added in the order of ranks, in host memory within blocks of host.reduce_run
 * ranks (default: 16), then the blocks.  float16 and bfloat16 are added in
 * float32 and rounded once.  With cuda.nccl_sums (default: off), NCCL chooses
 * the order of large floating-point sums on devices.
 */
#ifndef SYMMCOLL_COLLECTIVES_H
#define SYMMCOLL_COLLECTIVES_H

#include <symmcoll/types.h>

SYMMCOLL_BEGIN_DECLS

struct symmcoll_group;
struct symmcoll_work;

/*
 * Reduces count elements over all ranks; each rank receives the whole result.
 * out and in hold count elements.
 * Source: torch.distributed.all_reduce.      Manual: symmcoll_all_reduce(3).
 */
SYMMCOLL_CHECKED
symmcoll_status_t symmcoll_all_reduce(struct symmcoll_group *group, void *out,
    const void *in, size_t count, enum symmcoll_dtype dtype, symmcoll_op_t op,
    const struct symmcoll_call *call, struct symmcoll_work **work);

/*
 * Reduces count elements over all ranks; the root receives the result.
 * out and in hold count elements.
 * root  the group's number of the receiving rank; elsewhere out is not changed
 *       and may be NULL
 * Source: torch.distributed.reduce.          Manual: symmcoll_reduce(3).
 */
SYMMCOLL_CHECKED
symmcoll_status_t symmcoll_reduce(struct symmcoll_group *group, void *out,
    const void *in, size_t count, enum symmcoll_dtype dtype, symmcoll_op_t op,
    int root, const struct symmcoll_call *call, struct symmcoll_work **work);

/*
 * Reduces size * count elements over all ranks, where size is the number of
 * ranks; rank r receives count of them, from element r * count on.
 * out holds count elements, in size * count; in place: out is
 * in + rank * count.
 * Source: torch.distributed.reduce_scatter_tensor.
 * Manual: symmcoll_reduce_scatter(3).
 */
SYMMCOLL_CHECKED
symmcoll_status_t symmcoll_reduce_scatter(struct symmcoll_group *group,
    void *out, const void *in, size_t count, enum symmcoll_dtype dtype,
    symmcoll_op_t op, const struct symmcoll_call *call,
    struct symmcoll_work **work);

/*
 * Collects the elements of all ranks, in the order of ranks, on every rank.
 * in holds count elements, out size * count; in place: in is
 * out + rank * count.
 * Source: torch.distributed.all_gather_into_tensor.
 * Manual: symmcoll_all_gather(3).
 */
SYMMCOLL_CHECKED
symmcoll_status_t symmcoll_all_gather(struct symmcoll_group *group, void *out,
    const void *in, size_t count, enum symmcoll_dtype dtype,
    const struct symmcoll_call *call, struct symmcoll_work **work);

/*
 * Collects the elements of all ranks, in the order of ranks, at the root.
 * root  the receiving rank; elsewhere out is not changed and may be NULL
 * in holds count elements, the root's out size * count; in place: the root's in
 * is out + rank * count.
 * Source: torch.distributed.gather.          Manual: symmcoll_gather(3).
 */
SYMMCOLL_CHECKED
symmcoll_status_t symmcoll_gather(struct symmcoll_group *group, void *out,
    const void *in, size_t count, enum symmcoll_dtype dtype, int root,
    const struct symmcoll_call *call, struct symmcoll_work **work);

/*
 * Copies the root's buffer to every rank.
 * buf  count elements: read at the root, written elsewhere
 * Source: torch.distributed.broadcast.       Manual: symmcoll_broadcast(3).
 */
SYMMCOLL_CHECKED
symmcoll_status_t symmcoll_broadcast(struct symmcoll_group *group, void *buf,
    size_t count, enum symmcoll_dtype dtype, int root,
    const struct symmcoll_call *call, struct symmcoll_work **work);

/*
 * Distributes the root's elements: rank r receives count of them, from element
 * r * count on.
 * root  the sending rank; elsewhere in is not read and may be NULL
 * out holds count elements, the root's in size * count; in place: the root's
 * out is in + rank * count.
 * Source: torch.distributed.scatter.         Manual: symmcoll_scatter(3).
 */
SYMMCOLL_CHECKED
symmcoll_status_t symmcoll_scatter(struct symmcoll_group *group, void *out,
    const void *in, size_t count, enum symmcoll_dtype dtype, int root,
    const struct symmcoll_call *call, struct symmcoll_work **work);

/*
 * Sends count elements from each rank to every rank: those for rank r are at
 * element r * count of in, those from rank r at element r * count of out.  out
 * and in hold size * count elements and do not overlap: there is no in-place
 * form.
 * Source: torch.distributed.all_to_all_single, without splits.
 * Manual: symmcoll_all_to_all(3).
 */
SYMMCOLL_CHECKED
symmcoll_status_t symmcoll_all_to_all(struct symmcoll_group *group, void *out,
    const void *in, size_t count, enum symmcoll_dtype dtype,
    const struct symmcoll_call *call, struct symmcoll_work **work);

/*
 * Sends parts of different sizes from each rank to every rank: in_splits[r]
 * elements go to rank r, out_splits[r] come from it, each part after that of
 * the preceding rank.
 * out_count   elements of out and of in, which do not overlap
 * in_count
 * out_splits  one number for each rank of the group, with that sum; 0 is valid;
 * in_splits   NULL: equal parts.  Read only during the call: a work has copies
 * in_splits[j] of rank i equals out_splits[i] of rank j.  Otherwise all ranks
 * get MISMATCH with a detail that names both ranks and both numbers, and no
 * buffer is changed.
 * Source: torch.distributed.all_to_all_single.
 * Manual: symmcoll_all_to_all(3).
 */
SYMMCOLL_CHECKED
symmcoll_status_t symmcoll_all_to_all_v(struct symmcoll_group *group, void *out,
    size_t out_count, const size_t *out_splits, const void *in, size_t in_count,
    const size_t *in_splits, enum symmcoll_dtype dtype,
    const struct symmcoll_call *call, struct symmcoll_work **work);

/*
 * Variants with a list of buffers, one for each rank of the group, in place of
 * one buffer that holds all parts.  The lists and the arrays of counts are read
 * only during the call: a work has copies.  Buffers do not overlap, except in
 * place as below.
 *
 * all_to_all_list      ins[r] has in_counts[r] elements for rank r, and outs[r]
 *                      room for out_counts[r] from rank r
 * all_gather_list      outs[r] has room for out_counts[r] elements, the count
 *                      that rank r passes; NULL: this rank's count for each.
 *                      In place: in is outs[rank]
 * reduce_scatter_list  ins[r] has in_counts[r] elements, the count that rank r
 *                      passes and receives reduced; NULL: this rank's count for
 *                      each.  In place: out is ins[rank]
 * gather_list          as symmcoll_gather(), also if other ranks call that:
 *                      outs at the root, each of count elements, NULL
 *                      elsewhere.  In place: in is outs[root]
 * scatter_list         as symmcoll_scatter(), also if other ranks call that:
 *                      ins at the root, NULL elsewhere.  In place: out is
 *                      ins[root]
 *
 * If the counts of two ranks for one part differ, all ranks get MISMATCH with
 * a detail that names both ranks and both numbers.
 *
 * Source: torch.distributed.all_to_all, all_gather, reduce_scatter, gather,
 * scatter.
 * Manual: symmcoll_all_to_all_list(3).
 */
SYMMCOLL_CHECKED
symmcoll_status_t symmcoll_all_to_all_list(struct symmcoll_group *group,
    void *const *outs, const size_t *out_counts, const void *const *ins,
    const size_t *in_counts, enum symmcoll_dtype dtype,
    const struct symmcoll_call *call, struct symmcoll_work **work);

SYMMCOLL_CHECKED
symmcoll_status_t symmcoll_all_gather_list(struct symmcoll_group *group,
    void *const *outs, const size_t *out_counts, const void *in, size_t count,
    enum symmcoll_dtype dtype, const struct symmcoll_call *call,
    struct symmcoll_work **work);

SYMMCOLL_CHECKED
symmcoll_status_t symmcoll_reduce_scatter_list(struct symmcoll_group *group,
    void *out, size_t count, const void *const *ins, const size_t *in_counts,
    enum symmcoll_dtype dtype, symmcoll_op_t op,
    const struct symmcoll_call *call, struct symmcoll_work **work);

SYMMCOLL_CHECKED
symmcoll_status_t symmcoll_gather_list(struct symmcoll_group *group,
    void *const *outs, const void *in, size_t count, enum symmcoll_dtype dtype,
    int root, const struct symmcoll_call *call, struct symmcoll_work **work);

SYMMCOLL_CHECKED
symmcoll_status_t symmcoll_scatter_list(struct symmcoll_group *group, void *out,
    const void *const *ins, size_t count, enum symmcoll_dtype dtype, int root,
    const struct symmcoll_call *call, struct symmcoll_work **work);

/*
 * Copies many buffers of the root to every rank in few broadcasts, and blocks
 * until all have arrived.  Buffers of one element type are packed in their
 * order, type by type; two broadcasts are in flight.
 *
 * bufs           n buffers: read at the root, written elsewhere
 * counts         elements of each buffer; 0 is valid
 * dtypes         element type of each buffer; types may be mixed
 * buffer_nbytes  limit, in bytes, on a packed buffer.  A larger buffer, or one
 *                in device memory, is broadcast alone.  The call allocates
 *                twice the size of the largest packed buffer
 *
 * All ranks pass the same n, counts, dtypes, buffer_nbytes and root.  Each
 * broadcast is an operation of the group, with a sequence number.  If one
 * fails, the earlier ones have been received.
 *
 * Errors: those of symmcoll_broadcast(); NO_MEMORY.
 * Source: torch.distributed._broadcast_coalesced.
 * Manual: symmcoll_broadcast_coalesced(3).
 */
SYMMCOLL_CHECKED
symmcoll_status_t symmcoll_broadcast_coalesced(struct symmcoll_group *group,
    void *const *bufs, const size_t *counts, const enum symmcoll_dtype *dtypes,
    size_t n, size_t buffer_nbytes, int root, const struct symmcoll_call *call);

/*
 * Returns when every rank has called it.
 * Source: torch.distributed.barrier.         Manual: symmcoll_barrier(3).
 */
SYMMCOLL_CHECKED
symmcoll_status_t symmcoll_barrier(struct symmcoll_group *group,
    const struct symmcoll_call *call, struct symmcoll_work **work);

/*
 * Sets the CUDA device of the group on this rank, then runs symmcoll_barrier().
 * All operations of a group on device memory use one device on each rank: the
 * one that the first of them, or this call, names.
 *
 * device_ids  n device numbers, 0 or 1; may differ between ranks
 *
 * Errors: those of symmcoll_barrier(); before this rank has entered the
 * barrier: INVALID (more than one device; no such device; the group is on
 * another one), UNSUPPORTED (no driver, no module).
 * Source: torch.distributed.barrier(device_ids).
 */
SYMMCOLL_CHECKED
symmcoll_status_t symmcoll_barrier_devices(struct symmcoll_group *group,
    const int *device_ids, size_t n, const struct symmcoll_call *call,
    struct symmcoll_work **work);

/*
 * Run an operation on several buffers, with one sequence number and one entry
 * in the flight recorder.  The results are bitwise those of an operation on
 * each buffer; small buffers travel as one message.
 *
 * outs,   n buffers each, of counts[i] elements, or size * counts[i] as in the
 * ins     operation on one buffer, and in place as there.  The output of one
 *         buffer does not overlap any other buffer
 * counts  elements of each buffer, the same on all ranks; some may be 0
 * n       at least 1, at most 32767
 *
 * The arrays are read only during the call: a work has copies of them, a
 * blocking call copies nothing.  All buffers that have elements are in host
 * memory, or all on one device, which processes one after the other.
 * Source: torch.distributed.all_reduce_coalesced,
 * all_gather_into_tensor_coalesced, reduce_scatter_tensor_coalesced.
 * Manual: symmcoll_all_reduce_coalesced(3).
 */
SYMMCOLL_CHECKED
symmcoll_status_t symmcoll_all_reduce_coalesced(struct symmcoll_group *group,
    void *const *outs, const void *const *ins, const size_t *counts, size_t n,
    enum symmcoll_dtype dtype, symmcoll_op_t op,
    const struct symmcoll_call *call, struct symmcoll_work **work);

SYMMCOLL_CHECKED
symmcoll_status_t symmcoll_all_gather_coalesced(struct symmcoll_group *group,
    void *const *outs, const void *const *ins, const size_t *counts, size_t n,
    enum symmcoll_dtype dtype, const struct symmcoll_call *call,
    struct symmcoll_work **work);

SYMMCOLL_CHECKED
symmcoll_status_t symmcoll_reduce_scatter_coalesced(
    struct symmcoll_group *group, void *const *outs, const void *const *ins,
    const size_t *counts, size_t n, enum symmcoll_dtype dtype, symmcoll_op_t op,
    const struct symmcoll_call *call, struct symmcoll_work **work);

/*
 * Opens a region.  The calling thread's collectives on the group are checked
 * and kept until symmcoll_coalesce_end(), which runs them as one operation on
 * several buffers.  All are symmcoll_all_reduce(), or all
 * symmcoll_all_gather(), or all symmcoll_reduce_scatter(), of one dtype, op,
 * factor and kind of memory, with call and work NULL; other collectives of this
 * thread on the group are INVALID.  Sends, receives, calls of other threads and
 * calls on other groups run as outside a region.  A group has at most one
 * region at a time.  A region that is open when its group is released ends
 * without an operation.
 * Errors: INVALID (a region is open), NO_MEMORY.
 * Source: torch.distributed._coalescing_manager.
 * Manual: symmcoll_coalesce_begin(3).
 */
SYMMCOLL_CHECKED
symmcoll_status_t symmcoll_coalesce_begin(struct symmcoll_group *group);

/*
 * Closes the calling thread's region, whatever the status, and runs the kept
 * calls.
 * work  out, as for any operation; NULL makes the call block.  An empty region
 *       has no operation and no sequence number: NULL is stored
 * Errors: INVALID (this thread has no region), and those of the operation.
 */
SYMMCOLL_CHECKED
symmcoll_status_t symmcoll_coalesce_end(struct symmcoll_group *group,
    const struct symmcoll_call *call, struct symmcoll_work **work);

/* Flags of symmcoll_monitored_barrier(). */
enum symmcoll_monitored_flags {
    SYMMCOLL_MONITORED_WAIT_ALL = 1 /* after a death, wait on for the others */
};

/*
 * A barrier that names the missing ranks, on every rank, when its timeout
 * expires, and leaves the group usable: TIMEOUT, also on a rank that arrives
 * later.  It blocks.
 *
 * flags    of enum symmcoll_monitored_flags.  Without
 *          SYMMCOLL_MONITORED_WAIT_ALL the death of a member ends the barrier
 *          at once, with PEER.  With it, the other ranks wait until all live
 *          ranks have arrived or the timeout expires, and the detail of PEER
 *          names all missing ranks and how the dead ones died
 * call     timeout, label; NULL for the defaults
 * missing  out, if the status is TIMEOUT or PEER: the group's numbers of the
 *          missing ranks; room for the group's size; or NULL
 * count    out: the number of missing ranks, 0 with any other status; or NULL
 *
 * PEER fails the group, as in every operation.  With WAIT_ALL the barrier can
 * be called again in a group that a death has failed, if all live ranks call
 * it.
 * Source: torch.distributed.monitored_barrier.
 * Manual: symmcoll_monitored_barrier(3).
 */
SYMMCOLL_CHECKED
symmcoll_status_t symmcoll_monitored_barrier(struct symmcoll_group *group,
    uint32_t flags, const struct symmcoll_call *call, int *missing, int *count);

SYMMCOLL_END_DECLS

#endif
