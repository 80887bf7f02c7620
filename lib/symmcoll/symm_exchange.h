/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Operations on symmetric memory that move elements only: exchanges of pieces
 * whose sizes are in symmetric memory, too, and simpler ones.  What symm_ops.h
 * says of all operations holds here.
 * Manual: symmcoll_symm_all_to_all_v(3), symmcoll_symm_broadcast(3).
 */
#ifndef SYMMCOLL_SYMM_EXCHANGE_H
#define SYMMCOLL_SYMM_EXCHANGE_H

#include <symmcoll/symm_mem.h>

SYMMCOLL_BEGIN_DECLS

struct symmcoll_symm_plan;

#define SYMMCOLL_SYMM_EXPERTS_MAX 1024 /* of each rank */

/*
 * What is exchanged: rows, divided into pieces, as many as there are ranks times
 * experts.  All four places are in the handle's buffers, apart from each other,
 * and the same on all ranks; all members but in_offset and out_offset describe
 * one exchange, which a plan can repeat.  Initialise it with
 * SYMMCOLL_SYMM_EXCHANGE_INIT.
 */
struct symmcoll_symm_exchange {
    size_t size;              /* sizeof(struct symmcoll_symm_exchange) */
    size_t in_offset;         /* bytes: the rows that this rank sends */
    size_t out_offset;        /* bytes: those that it receives */
    size_t in_rows;           /* room for so many */
    size_t out_rows;          /* likewise */
    size_t row;               /* elements of a row */
    size_t in_splits_offset;  /* bytes, a multiple of 8: see below */
    size_t out_splits_offset; /* likewise */
    size_t major_align; /* an expert's rows begin on a multiple of so many, and
                           take as many at least; 0: one after another */
    enum symmcoll_dtype dtype;
    int32_t experts; /* of each rank */
};
#define SYMMCOLL_SYMM_EXCHANGE_INIT                                    \
    {                                                                  \
        sizeof(struct symmcoll_symm_exchange), 0, 0, 0, 0, 1, 0, 0, 0, \
            SYMMCOLL_UINT8, 1                                          \
    }

/*
 * Send each piece to the rank of its expert.
 *
 * The splits of in are int64_t, the rows of each piece: those for the experts of
 * rank 0, then those for the experts of rank 1, and so on; the pieces are in that
 * order, one after another.  The result has the pieces for this rank's first
 * expert in the order of the ranks that sent them, then those for its second one.
 * The splits of out are filled in: the rows of each piece of the result, then as
 * many numbers more, the row at which each begins.
 *
 * With one expert of each rank this is all_to_all_vdev.
 * Errors besides: INVALID on all ranks where the splits of any rank are negative,
 * more rows than in_rows or than another one's out_rows: names it.  On a device
 * that is found when it runs: it fails the group, and nothing is moved.
 * UNSUPPORTED on all ranks, there: cuda.staging has no room for the splits of all.
 * Source: torch.ops.symm_mem.all_to_all_vdev, all_to_all_vdev_2d.
 */
SYMMCOLL_CHECKED
symmcoll_status_t symmcoll_symm_all_to_all_v(struct symmcoll_symm *handle,
    const struct symmcoll_symm_exchange *exchange,
    const struct symmcoll_call *call);

/*
 * The way back: the input and its splits are as that leaves its result and the
 * splits of that (sizes, then places); the result is in the order of that one's
 * input, without gaps, and so are its splits, with their places.  major_align is
 * not read.
 * Source: torch.ops.symm_mem.all_to_all_vdev_2d_offset.
 */
SYMMCOLL_CHECKED
symmcoll_status_t symmcoll_symm_all_to_all_v_back(struct symmcoll_symm *handle,
    const struct symmcoll_symm_exchange *exchange,
    const struct symmcoll_call *call);

/*
 * A plan: read and check the splits of all ranks once, and move rows with them as
 * often as wanted.  Collective, as symmcoll_symm_all_to_all_v() but without
 * moving rows.  It keeps the handle, which can be released before.
 *
 * symmcoll_symm_plan_run()    move: as symmcoll_symm_all_to_all_v(), which reads
 *                             the splits; all ranks run the same plan
 * symmcoll_symm_plan_place()  where a piece of this rank's input goes: which rank
 *                             (out), and the first row there (out)
 * symmcoll_symm_plan_free()   NULL is valid; once for each plan, also after the
 *                             group's release or finalize; of a device waits as
 *                             symmcoll_symm_release() of the last handle, and no
 *                             graph that runs the plan is started any more
 *
 * Errors besides: NO_MEMORY; of plan_run INVALID (the group has been released); of
 * plan_place UNSUPPORTED (a plan of a device, whose splits the host does not read:
 * the detail has rank and byte where the row is).
 * Source: torch.ops.symm_mem._make_a2a_exchange_plan, _make_a2a_2d_exchange_plan,
 * _all_to_all_get.
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
 * Write rows, each to a place of its own: row i of in to row rows[i] of what is
 * at out_offset in the buffer of rank ranks[i].
 *
 * out_rows  room for so many in each buffer, the same on all ranks
 * in        count rows of `row` elements; count is this rank's own
 * ranks,    count of each; no two rows of any ranks go to the same place
 * rows
 *
 * Errors besides: INVALID on all ranks where those of any rank are not there.
 * Source: torch.ops.symm_mem._all_to_all_v_2d_index_push.
 */
SYMMCOLL_CHECKED
symmcoll_status_t symmcoll_symm_push_rows(struct symmcoll_symm *handle,
    size_t out_offset, size_t out_rows, const void *in, size_t count,
    size_t row, enum symmcoll_dtype dtype, const int *ranks, const size_t *rows,
    const struct symmcoll_call *call);

/*
 * broadcast         copy count elements of the root's buffer to all others
 * all_to_all        count elements for each rank, in the order of ranks, from
 *                   in_offset; those of each to out_offset, in the same order
 * all_gather_offset each rank writes its elements into all buffers; ends[r] is
 *                   the element before which those of rank r end.  In place: in
 *                   is where this rank's belong
 * permute           each rank r sends count elements at in_offset to rank to[r],
 *                   which receives them at out_offset; to has each rank once
 * reshard           each rank has rows * columns elements of a matrix of which
 *                   one dimension is divided between the ranks: `from`, 0 rows, 1
 *                   columns; out receives as many of the matrix whose other one,
 *                   `to`, is: a multiple of the number of ranks here
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
