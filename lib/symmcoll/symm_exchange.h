/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Operations on symmetric memory that only move elements: exchanges of pieces
 * with sizes in symmetric memory, and simpler ones.  symm_ops.h describes their
 * common arguments and errors.
 * Manual: symmcoll_symm_all_to_all_v(3), symmcoll_symm_broadcast(3).
 */
#ifndef SYMMCOLL_SYMM_EXCHANGE_H
#define SYMMCOLL_SYMM_EXCHANGE_H

#include <symmcoll/symm_mem.h>

SYMMCOLL_BEGIN_DECLS

struct symmcoll_symm_plan;

#define SYMMCOLL_SYMM_EXPERTS_MAX 1024 /* of each rank */

/*
 * An exchange of rows, which are divided into one piece for each expert of each
 * rank.  The four places are in the handle's buffers, do not overlap, and are
 * the same on all ranks.  Initialise it with SYMMCOLL_SYMM_EXCHANGE_INIT.
 */
struct symmcoll_symm_exchange {
    size_t size;              /* sizeof(struct symmcoll_symm_exchange) */
    size_t in_offset;         /* bytes: the rows that this rank sends */
    size_t out_offset;        /* bytes: the rows that it receives */
    size_t in_rows;           /* room for rows at in_offset */
    size_t out_rows;          /* room for rows at out_offset */
    size_t row;               /* elements of a row */
    size_t in_splits_offset;  /* bytes, a multiple of 8: see below */
    size_t out_splits_offset; /* bytes, a multiple of 8: see below */
    size_t major_align; /* each expert's rows begin at a multiple of it and
                           occupy at least as many; 0: without gaps */
    enum symmcoll_dtype dtype;
    int32_t experts; /* of each rank; 1 to SYMMCOLL_SYMM_EXPERTS_MAX */
};
#define SYMMCOLL_SYMM_EXCHANGE_INIT                                    \
    {                                                                  \
        sizeof(struct symmcoll_symm_exchange), 0, 0, 0, 0, 1, 0, 0, 0, \
            SYMMCOLL_UINT8, 1                                          \
    }

/*
 * Sends each piece to the rank of its expert.
 *
 * The splits of in are int64_t, the number of rows of each piece: those for the
 * experts of rank 0, then those for the experts of rank 1, and so on; the
 * pieces are in the same order, without gaps.  The result has the pieces for
 * this rank's first expert in the order of the ranks that sent them, then those
 * for its second one, and so on.  The splits of out are filled in: the number
 * of rows of each piece of the result, then the row at which each begins.
 *
 * With one expert of each rank this is all_to_all_vdev.
 * Errors besides: INVALID on all ranks, if the splits of a rank are negative,
 * or add up to more than in_rows or than a receiver's out_rows: the detail
 * names it.  On a device that is found when the operation runs: it fails the
 * group, and nothing is moved.  UNSUPPORTED on all ranks, on devices: the
 * splits of all do not fit in cuda.staging.
 * Source: torch.ops.symm_mem.all_to_all_vdev, all_to_all_vdev_2d.
 */
SYMMCOLL_CHECKED
symmcoll_status_t symmcoll_symm_all_to_all_v(struct symmcoll_symm *handle,
    const struct symmcoll_symm_exchange *exchange,
    const struct symmcoll_call *call);

/*
 * Reverses symmcoll_symm_all_to_all_v().  Input and splits of in are the result
 * and the splits of out of that call (sizes, then rows).  The result has the
 * order of its input, without gaps; so have the splits of out, with the rows at
 * which pieces begin.  major_align is not read.
 * Source: torch.ops.symm_mem.all_to_all_vdev_2d_offset.
 */
SYMMCOLL_CHECKED
symmcoll_status_t symmcoll_symm_all_to_all_v_back(struct symmcoll_symm *handle,
    const struct symmcoll_symm_exchange *exchange,
    const struct symmcoll_call *call);

/*
 * Creates a plan: reads and checks the splits of all ranks once, for any number
 * of exchanges.  Collective, as symmcoll_symm_all_to_all_v(), but moves no
 * rows.  The plan holds a reference to the handle, which can be released
 * before.
 *
 * symmcoll_symm_plan_run()    moves rows as symmcoll_symm_all_to_all_v() does,
 *                             without reading the splits; all ranks run the
 *                             same plan
 * symmcoll_symm_plan_place()  returns the destination of a piece of this rank's
 *                             input: the rank (out), and the first row there
 *                             (out)
 * symmcoll_symm_plan_free()   releases a plan, also after the group's release
 *                             or finalize; NULL is valid.  On a device it waits
 *                             as symmcoll_symm_release() of the last handle,
 *                             and no graph that runs the plan may be launched
 *                             after it
 *
 * Errors besides: NO_MEMORY; of plan_run: INVALID (the group has been
 * released); of plan_place: UNSUPPORTED (a plan of a device, whose splits the
 * host does not read: the detail has the rank, and the byte at which it stores
 * the row).
 * Source: torch.ops.symm_mem._make_a2a_exchange_plan,
 * _make_a2a_2d_exchange_plan, _all_to_all_get.
 */
SYMMCOLL_CHECKED
symmcoll_status_t symmcoll_symm_plan_create(struct symmcoll_symm *handle,
    const struct symmcoll_symm_exchange *exchange,
    const struct symmcoll_call *call, struct symmcoll_symm_plan **plan);

SYMMCOLL_CHECKED
symmcoll_status_t symmcoll_symm_plan_run(
    struct symmcoll_symm_plan *plan, const struct symmcoll_call *call);

SYMMCOLL_CHECKED
symmcoll_status_t symmcoll_symm_plan_place(
    const struct symmcoll_symm_plan *plan, size_t piece, int *rank,
    size_t *row);

SYMMCOLL_API
void symmcoll_symm_plan_free(struct symmcoll_symm_plan *plan);

/*
 * Writes rows to arbitrary places: row i of in to row rows[i] of the matrix at
 * out_offset in the buffer of rank ranks[i].
 *
 * out_rows  number of rows of that matrix, the same on all ranks
 * in        count rows of `row` elements; count may differ between ranks
 * ranks,    count destinations; no two rows of any ranks go to the same place
 * rows
 *
 * Errors besides: INVALID on all ranks, if a destination of any rank does not
 * exist.
 * Source: torch.ops.symm_mem._all_to_all_v_2d_index_push.
 */
SYMMCOLL_CHECKED
symmcoll_status_t symmcoll_symm_push_rows(struct symmcoll_symm *handle,
    size_t out_offset, size_t out_rows, const void *in, size_t count,
    size_t row, enum symmcoll_dtype dtype, const int *ranks, const size_t *rows,
    const struct symmcoll_call *call);

/*
 * broadcast          copies count elements of the root's buffer to all others
 * all_to_all         sends count elements from in_offset to each rank, in the
 *                    order of ranks, and receives those of each rank at
 *                    out_offset, in the same order
 * all_gather_offset  writes each rank's elements to all buffers; ends[r] is the
 *                    element at which those of rank r end (exclusive).  In
 *                    place: in is the address of this rank's part in its buffer
 * permute            sends count elements at in_offset of each rank r to rank
 *                    to[r], which receives them at out_offset; to is a
 *                    permutation
 * reshard            changes the dimension in which a matrix is divided between
 *                    the ranks: `from`, 0 for rows, 1 for columns, becomes
 *                    `to`, the other one.  Each rank has rows * columns
 *                    elements, and out receives as many; the length of `to`
 *                    here is a multiple of the number of ranks
 *
 * Source: torch.ops.symm_mem.nvshmem_broadcast, nvshmem_all_to_all,
 * nccl_all_to_all_nd (reshard) and the functions of these names.
 */
SYMMCOLL_CHECKED
symmcoll_status_t symmcoll_symm_broadcast(struct symmcoll_symm *handle,
    size_t offset, size_t count, enum symmcoll_dtype dtype, int root,
    const struct symmcoll_call *call);

SYMMCOLL_CHECKED
symmcoll_status_t symmcoll_symm_all_to_all(struct symmcoll_symm *handle,
    size_t in_offset, size_t out_offset, size_t count,
    enum symmcoll_dtype dtype, const struct symmcoll_call *call);

SYMMCOLL_CHECKED
symmcoll_status_t symmcoll_symm_all_gather_offset(struct symmcoll_symm *handle,
    size_t offset, const void *in, const size_t *ends,
    enum symmcoll_dtype dtype, const struct symmcoll_call *call);

SYMMCOLL_CHECKED
symmcoll_status_t symmcoll_symm_permute(struct symmcoll_symm *handle,
    size_t in_offset, size_t out_offset, size_t count,
    enum symmcoll_dtype dtype, const int *to, const struct symmcoll_call *call);

SYMMCOLL_CHECKED
symmcoll_status_t symmcoll_symm_reshard(struct symmcoll_symm *handle,
    size_t offset, void *out, size_t rows, size_t columns, int from, int to,
    enum symmcoll_dtype dtype, const struct symmcoll_call *call);

SYMMCOLL_END_DECLS

#endif
