/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Collectives: every rank of the group calls the same one, in the same order,
 * with the same count, dtype, op and root.
 *
 * What all of them share:
 *
 * group  borrowed; must outlive the work
 * out    receives the result; the library's until the operation has ended
 * in     this rank's elements; likewise.  out and in are equal or placed as
 *        each function says (in place), or do not overlap
 * count  elements, not bytes; 0 is valid and still synchronises the ranks
 * call   timeout, label; NULL for the defaults
 * work   out: release with symmcoll_work_free(); NULL makes the call block
 *
 * If the ranks pass different arguments all of them get MISMATCH,
 * symmcoll_last_error() names the ranks and what they passed, no buffer is
 * touched and the group remains usable.
 *
 * Errors of all: INVALID and UNSUPPORTED (op not defined for dtype), where the
 * call has had no effect; MISMATCH, NO_MEMORY, CONFIG (settings of ranks
 * differ), SYSTEM (no thread for a work), after which the group is usable;
 * TIMEOUT (names the ranks that were late), PEER (names those that died or have
 * finalized) and CANCELED, which fail the group; ABORTED in a group that had
 * failed before.
 *
 * Results are bitwise the same on every rank and in every run: elements are
 * added in the order of ranks within blocks of host.reduce_run ranks (16 by
 * default), then the blocks in their order.  Half and bfloat16 are added in
 * float and rounded once.
 */
#ifndef SYMMCOLL_COLLECTIVES_H
#define SYMMCOLL_COLLECTIVES_H

#include <symmcoll/types.h>

SYMMCOLL_BEGIN_DECLS

struct symmcoll_group;
struct symmcoll_work;

/*
 * Reduce count elements over all ranks; each receives the whole result.
 * out and in hold count elements.
 * Source: torch.distributed.all_reduce.      Manual: symmcoll_all_reduce(3).
 */
SYMMCOLL_CHECKED
symmcoll_status_t symmcoll_all_reduce(struct symmcoll_group *group, void *out,
    const void *in, size_t count, enum symmcoll_dtype dtype, symmcoll_op_t op,
    const struct symmcoll_call *call, struct symmcoll_work **work);

/*
 * Reduce count elements over all ranks; one rank receives the result.
 * out and in hold count elements.
 * root  the group's number of the rank that receives; elsewhere out is not
 *       touched and may be NULL
 * Source: torch.distributed.reduce.          Manual: symmcoll_reduce(3).
 */
SYMMCOLL_CHECKED
symmcoll_status_t symmcoll_reduce(struct symmcoll_group *group, void *out,
    const void *in, size_t count, enum symmcoll_dtype dtype, symmcoll_op_t op,
    int root, const struct symmcoll_call *call, struct symmcoll_work **work);

/*
 * Reduce size * count elements over all ranks, where size is the number of
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
 * Collect the elements of all ranks, in the order of ranks, on every rank.
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
 * Collect the elements of all ranks, in the order of ranks, on one rank.
 * root  the rank that receives; elsewhere out is not touched and may be NULL
 * in holds count elements, the root's out size * count; in place: the root's in
 * is out + rank * count.
 * Source: torch.distributed.gather.          Manual: symmcoll_gather(3).
 */
SYMMCOLL_CHECKED
symmcoll_status_t symmcoll_gather(struct symmcoll_group *group, void *out,
    const void *in, size_t count, enum symmcoll_dtype dtype, int root,
    const struct symmcoll_call *call, struct symmcoll_work **work);

/*
 * Copy the root's buffer to every rank.
 * buf  count elements: read at the root, written elsewhere
 * Source: torch.distributed.broadcast.       Manual: symmcoll_broadcast(3).
 */
SYMMCOLL_CHECKED
symmcoll_status_t symmcoll_broadcast(struct symmcoll_group *group, void *buf,
    size_t count, enum symmcoll_dtype dtype, int root,
    const struct symmcoll_call *call, struct symmcoll_work **work);

/*
 * Each rank receives its part of one rank's elements: rank r receives count of
 * them, from element r * count on.
 * root  the rank that has them; elsewhere in is not read and may be NULL
 * out holds count elements, the root's in size * count; in place: the root's
 * out is in + rank * count.
 * Source: torch.distributed.scatter.         Manual: symmcoll_scatter(3).
 */
SYMMCOLL_CHECKED
symmcoll_status_t symmcoll_scatter(struct symmcoll_group *group, void *out,
    const void *in, size_t count, enum symmcoll_dtype dtype, int root,
    const struct symmcoll_call *call, struct symmcoll_work **work);

/*
 * Each rank sends count elements to every rank, those for rank r from element
 * r * count of in on, and receives those of rank r from element r * count of
 * out on.
 * out and in hold size * count elements and do not overlap: there is no form in
 * place.
 * Source: torch.distributed.all_to_all_single, without splits.
 * Manual: symmcoll_all_to_all(3).
 */
SYMMCOLL_CHECKED
symmcoll_status_t symmcoll_all_to_all(struct symmcoll_group *group, void *out,
    const void *in, size_t count, enum symmcoll_dtype dtype,
    const struct symmcoll_call *call, struct symmcoll_work **work);

/*
 * The same with parts of any size: each rank sends in_splits[r] elements to rank
 * r and receives out_splits[r] from it, each part after that of the rank before
 * it.
 * out_count   elements of out and of in, which do not overlap
 * in_count
 * out_splits  as many as the group has ranks, with that sum; 0 is valid; NULL:
 * in_splits   equal parts.  Read during the call alone: a work has copies
 * What rank i sends to rank j is what rank j expects of rank i.  Where it is not
 * all ranks get MISMATCH, which names both ranks and both numbers, and no buffer
 * is touched.
 * Source: torch.distributed.all_to_all_single.
 * Manual: symmcoll_all_to_all(3).
 */
SYMMCOLL_CHECKED
symmcoll_status_t symmcoll_all_to_all_v(struct symmcoll_group *group, void *out,
    size_t out_count, const size_t *out_splits, const void *in, size_t in_count,
    const size_t *in_splits, enum symmcoll_dtype dtype,
    const struct symmcoll_call *call, struct symmcoll_work **work);

/*
 * Forms with a list of buffers, one for each rank of the group, in place of one
 * buffer with all parts.  The lists and the arrays of counts are read during the
 * call alone: a work has copies.  Buffers do not overlap, but for the forms in
 * place that are named.
 *
 * all_to_all_list      ins[r] has in_counts[r] elements for rank r, and outs[r]
 *                      room for out_counts[r] of rank r
 * all_gather_list      outs[r] has room for out_counts[r] elements of rank r,
 *                      which passes as many as its count; NULL: as many as this
 *                      rank's.  In place: in is outs[rank]
 * reduce_scatter_list  ins[r] has in_counts[r] elements for rank r, which
 *                      receives their reduction, as many as its count; NULL: as
 *                      many as this rank's.  In place: out is ins[rank]
 * gather_list          as symmcoll_gather(), with which it can be mixed: outs at
 *                      the root, each of count elements, and NULL elsewhere.  In
 *                      place: in is outs[root]
 * scatter_list         as symmcoll_scatter(), likewise: ins at the root, NULL
 *                      elsewhere.  In place: out is ins[root]
 *
 * Where two ranks do not agree on the count of what one has for the other all
 * ranks get MISMATCH, which names both and both numbers.
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
 * Copy many buffers of the root to every rank in few broadcasts, and block until
 * all are there: buffers of one element type are packed into one, in their
 * order, type by type, and two broadcasts are in flight.
 *
 * bufs           n buffers: read at the root, written elsewhere
 * counts         elements of each; 0 is valid
 * dtypes         of each; they may be mixed
 * buffer_nbytes  of one packed buffer, at most; a buffer that is larger is
 *                broadcast alone.  Twice as much memory is used
 *
 * All ranks pass the same n, counts, dtypes, buffer_nbytes and root.  Each
 * broadcast is an operation of the group, with a sequence number.  If one fails
 * those before it have been received.
 *
 * Errors: as of symmcoll_broadcast(); NO_MEMORY.
 * Source: torch.distributed._broadcast_coalesced.
 * Manual: symmcoll_broadcast_coalesced(3).
 */
SYMMCOLL_CHECKED
symmcoll_status_t symmcoll_broadcast_coalesced(struct symmcoll_group *group,
    void *const *bufs, const size_t *counts, const enum symmcoll_dtype *dtypes,
    size_t n, size_t buffer_nbytes, int root, const struct symmcoll_call *call);

/*
 * Return when every rank has called it.
 * Source: torch.distributed.barrier.         Manual: symmcoll_barrier(3).
 */
SYMMCOLL_CHECKED
symmcoll_status_t symmcoll_barrier(struct symmcoll_group *group,
    const struct symmcoll_call *call, struct symmcoll_work **work);

/*
 * The same, after saying on which CUDA device the group is on this rank: all its
 * operations on device memory are on one, that of the first which says or passes
 * one.
 *
 * device_ids  n of them, 0 or 1: this rank's; may differ between ranks
 *
 * Errors: as of symmcoll_barrier(); INVALID (more than one device; no such
 * device; the group is on another one), UNSUPPORTED (no driver, no module): this
 * rank has not entered the barrier then.
 * Source: torch.distributed.barrier(device_ids).
 */
SYMMCOLL_CHECKED
symmcoll_status_t symmcoll_barrier_devices(struct symmcoll_group *group,
    const int *device_ids, size_t n, const struct symmcoll_call *call,
    struct symmcoll_work **work);

/*
 * Several buffers in one operation, which has one sequence number and one entry
 * in the flight recorder: the results are bitwise those of an operation on each
 * buffer, and small buffers travel as one message.
 *
 * outs,   n buffers each, of counts[i] elements, or size * counts[i] as in the
 * ins     operation on one buffer, and in place as there.  What a buffer
 *         receives does not overlap any other buffer.
 * counts  elements of each buffer, the same on all ranks; some may be 0
 * n       at least 1, at most 32767
 *
 * The arrays are read during the call alone: a work has copies of them, a blocking
 * call copies nothing.  All buffers with an element are in one memory: the host's, or one
 * device's, where they are done one after the other.
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
 * A region: what the calling thread calls on the group until
 * symmcoll_coalesce_end() is checked and kept, and runs there as one operation
 * on several buffers.  All are symmcoll_all_reduce(), or all
 * symmcoll_all_gather() or symmcoll_reduce_scatter(), of one dtype, op, factor
 * and memory, with call and work NULL; other collectives of this thread on the group
 * are INVALID.  Sends, receives and calls of other threads and on other groups
 * run as outside.  A group has one region at a time.  One that is open when its
 * group is released ends without an operation.
 * Errors: INVALID (one is open), NO_MEMORY.
 * Source: torch.distributed._coalescing_manager.
 * Manual: symmcoll_coalesce_begin(3).
 */
SYMMCOLL_CHECKED
symmcoll_status_t symmcoll_coalesce_begin(struct symmcoll_group *group);

/*
 * End the calling thread's region, whatever the status, and run what it has
 * kept.
 * work  out: as of any operation; NULL makes the call block.  Of an empty
 *       region, which has no operation and no sequence number, it is NULL
 * Errors: INVALID (no region of this thread), those of the operation.
 */
SYMMCOLL_CHECKED
symmcoll_status_t symmcoll_coalesce_end(struct symmcoll_group *group,
    const struct symmcoll_call *call, struct symmcoll_work **work);

/* Flags of symmcoll_monitored_barrier(). */
enum symmcoll_monitored_flags {
    SYMMCOLL_MONITORED_WAIT_ALL = 1 /* after a death wait on for the others */
};

/*
 * A barrier that names all ranks that have not come when call's timeout is
 * over, on every rank, and after which the group is usable: TIMEOUT, also for a
 * rank that comes later.  It blocks.
 *
 * flags    of enum symmcoll_monitored_flags.  Without SYMMCOLL_MONITORED_WAIT_ALL
 *          a member's death ends it at once, with PEER; with it the others wait
 *          until all that live have come, or their time is over, and PEER's
 *          detail names all who are missing, and says of the dead how they died
 * call     timeout, label; NULL for the defaults
 * missing  out, where the status is TIMEOUT or PEER: the group's numbers of the
 *          ranks that did not come; room for the group's size; or NULL
 * count    out: how many they are; 0 with any other status; or NULL
 *
 * PEER fails the group, as in every operation.  With WAIT_ALL it can be called
 * again in a group that a death has failed, if all that live call it.
 * Source: torch.distributed.monitored_barrier.
 * Manual: symmcoll_monitored_barrier(3).
 */
SYMMCOLL_CHECKED
symmcoll_status_t symmcoll_monitored_barrier(struct symmcoll_group *group,
    uint32_t flags, const struct symmcoll_call *call, int *missing, int *count);

SYMMCOLL_END_DECLS

#endif
