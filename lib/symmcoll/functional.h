/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Collectives on tensors, out of place: the input is not touched, the result is
 * a tensor of its own, and it is pending until it is waited for.
 *
 * What all of them share:
 *
 * group    borrowed.  NULL where all tensors are shapes without memory and no
 *          rank is counted: all_reduce, broadcast
 * in       this rank's tensor, of any strides where nothing else is said;
 *          its memory is the library's until the result has been waited for
 * call     timeout, label; NULL for the defaults
 * out      out: the result, contiguous in row-major order.  Begins as
 *          SYMMCOLL_TENSOR_INIT, and the library allocates its memory, which is
 *          released with symmcoll_f_free(); or with memory of the caller, of the
 *          result's shape and type and contiguous, into which the result goes,
 *          and which may be that of in where both have the same shape
 * adjoint  out: what symmcoll_adjoint_run() takes, released with
 *          symmcoll_adjoint_free(); NULL: the result takes no gradient
 *
 * A result is pending: symmcoll_f_wait() comes before its first use, except in
 * functions of this header, which wait for a pending input themselves.
 *
 * A tensor of SYMMCOLL_CUDA has its result in memory of the same device, in the
 * order of the call's stream: symmcoll_f_wait() without a timeout has that wait.
 *
 * A tensor whose device is SYMMCOLL_META has a shape and no memory: the result
 * is one, too, and nothing is communicated.
 *
 * Errors of all: INVALID (also a shape that does not fit; names the dimension),
 * UNSUPPORTED (no driver; what a device does not serve), NO_MEMORY, and those of the collective, from the
 * call or from the wait.  Source: torch.distributed._functional_collectives.
 * Manual: symmcoll_f_all_reduce(3).
 */
#ifndef SYMMCOLL_FUNCTIONAL_H
#define SYMMCOLL_FUNCTIONAL_H

#include <symmcoll/tensor.h>
#include <symmcoll/types.h>

SYMMCOLL_BEGIN_DECLS

struct symmcoll_adjoint;
struct symmcoll_group;
struct symmcoll_world;

/* Reduce over all ranks; out has the shape of in. */
SYMMCOLL_CHECKED
symmcoll_status_t symmcoll_f_all_reduce(struct symmcoll_group *group,
    const struct symmcoll_tensor *in, symmcoll_op_t op,
    const struct symmcoll_call *call, struct symmcoll_tensor *out,
    struct symmcoll_adjoint **adjoint);

/* The elements of the group's rank root; out has the shape of in, which all ranks
 * pass.  in is read at the root only: elsewhere its data may be NULL. */
SYMMCOLL_CHECKED
symmcoll_status_t symmcoll_f_broadcast(struct symmcoll_group *group,
    const struct symmcoll_tensor *in, int root,
    const struct symmcoll_call *call, struct symmcoll_tensor *out,
    struct symmcoll_adjoint **adjoint);

/*
 * Put the ranks' tensors, which are contiguous, one after the other along a
 * dimension, from 0.  out is in's shape with dimension dim times the number of
 * ranks.  With elements before dim they are copied once more when the result is
 * waited for, and take their memory twice until then.
 */
SYMMCOLL_CHECKED
symmcoll_status_t symmcoll_f_all_gather(struct symmcoll_group *group,
    const struct symmcoll_tensor *in, int dim, const struct symmcoll_call *call,
    struct symmcoll_tensor *out, struct symmcoll_adjoint **adjoint);

/*
 * Reduce over all ranks and cut the result along a dimension, from 0, into as
 * many parts as there are ranks; out is this rank's.  dim's length is a multiple
 * of the number of ranks.  With elements before dim, or another order of
 * strides, in is copied once more by the call.
 */
SYMMCOLL_CHECKED
symmcoll_status_t symmcoll_f_reduce_scatter(struct symmcoll_group *group,
    const struct symmcoll_tensor *in, symmcoll_op_t op, int dim,
    const struct symmcoll_call *call, struct symmcoll_tensor *out,
    struct symmcoll_adjoint **adjoint);

/*
 * At the group's rank root, put the ranks' tensors, which are contiguous, one
 * after the other along a dimension, as all_gather does.  Elsewhere out has no
 * elements: the same shape with dimension dim 0.
 */
SYMMCOLL_CHECKED
symmcoll_status_t symmcoll_f_gather(struct symmcoll_group *group,
    const struct symmcoll_tensor *in, int dim, int root,
    const struct symmcoll_call *call, struct symmcoll_tensor *out,
    struct symmcoll_adjoint **adjoint);

/*
 * Cut the tensor of the group's rank root along a dimension into as many parts
 * as there are ranks; out is this rank's.  All ranks pass the shape of the whole,
 * in which dim's length is a multiple of the number of ranks.  in is read at the
 * root only: elsewhere its data may be NULL.
 */
SYMMCOLL_CHECKED
symmcoll_status_t symmcoll_f_scatter(struct symmcoll_group *group,
    const struct symmcoll_tensor *in, int dim, int root,
    const struct symmcoll_call *call, struct symmcoll_tensor *out,
    struct symmcoll_adjoint **adjoint);

/*
 * Send rows, along dimension 0, to each rank and receive rows from each, in the
 * order of ranks.  in is contiguous.
 *
 * in_splits   rows for each rank, which sum to dimension 0
 * out_splits  rows from each rank; out's dimension 0 is their sum.  Both NULL:
 *             equal parts
 */
SYMMCOLL_CHECKED
symmcoll_status_t symmcoll_f_all_to_all(struct symmcoll_group *group,
    const struct symmcoll_tensor *in, const size_t *out_splits,
    const size_t *in_splits, const struct symmcoll_call *call,
    struct symmcoll_tensor *out, struct symmcoll_adjoint **adjoint);

/*
 * Send each rank's tensor, which is contiguous, to another rank or to itself.
 * dst_of  of each of the group's ranks the rank that receives its tensor: a
 *         permutation, the same on all ranks
 */
SYMMCOLL_CHECKED
symmcoll_status_t symmcoll_f_permute(struct symmcoll_group *group,
    const struct symmcoll_tensor *in, const int *dst_of,
    const struct symmcoll_call *call, struct symmcoll_tensor *out,
    struct symmcoll_adjoint **adjoint);

/*
 * all_reduce, all_gather and reduce_scatter of n tensors: one operation of the
 * group for each element type, in the order in which in has them.
 *
 * in, out  n tensors each, all of the size of the first one.  What a tensor
 *          receives does not overlap any other tensor
 * dims     n of them
 *
 * All ranks pass as many tensors, in the same order.  All arguments are checked
 * before anything is communicated.
 */
SYMMCOLL_CHECKED
symmcoll_status_t symmcoll_f_all_reduce_coalesced(struct symmcoll_group *group,
    const struct symmcoll_tensor *in, int n, symmcoll_op_t op,
    const struct symmcoll_call *call, struct symmcoll_tensor *out,
    struct symmcoll_adjoint **adjoint);
SYMMCOLL_CHECKED
symmcoll_status_t symmcoll_f_all_gather_coalesced(struct symmcoll_group *group,
    const struct symmcoll_tensor *in, int n, const int *dims,
    const struct symmcoll_call *call, struct symmcoll_tensor *out,
    struct symmcoll_adjoint **adjoint);
SYMMCOLL_CHECKED
symmcoll_status_t symmcoll_f_reduce_scatter_coalesced(
    struct symmcoll_group *group, const struct symmcoll_tensor *in, int n,
    symmcoll_op_t op, const int *dims, const struct symmcoll_call *call,
    struct symmcoll_tensor *out, struct symmcoll_adjoint **adjoint);

/*
 * Wait until a result is complete, and return the status of its operations.
 *
 * timeout  seconds, as of symmcoll_work_wait(); where the wait expires the result
 *          remains pending
 *
 * A tensor that is not pending is left as it is: OK.
 * Source: torch.distributed._functional_collectives.wait_tensor.
 */
SYMMCOLL_CHECKED
symmcoll_status_t symmcoll_f_wait(struct symmcoll_world *world,
    const struct symmcoll_tensor *tensor, double timeout);

/* Release the memory of a result that the library has allocated, which is waited
 * for, and set its data to NULL.  world is NULL after symmcoll_finalize(). */
SYMMCOLL_API
void symmcoll_f_free(
    struct symmcoll_world *world, struct symmcoll_tensor *tensor);

/*
 * Compute the gradient of the inputs from that of the results, on the group of
 * the forward call; every rank calls it.
 *
 * grads  as many tensors as the forward call had, of its results' shapes and
 *        type, of any strides
 * outs   out: gradients of the inputs' shapes, which are results like any other
 *
 *   all_reduce sum, avg       all_reduce of the same operation
 *   broadcast                 reduce sum to the root, zeros elsewhere
 *   all_gather                reduce_scatter sum along the same dimension
 *   reduce_scatter sum, avg   all_gather along the same dimension, of avg
 *                             divided by the number of ranks
 *   gather                    scatter from the root, along the same dimension
 *   scatter                   gather to the root, zeros elsewhere
 *   all_to_all                all_to_all with the splits exchanged
 *   permute                   the inverse permutation
 *
 * Every one is linear with real factors, so gradients of complex tensors are not
 * conjugated, whichever convention the caller has.  Other operations than those
 * are UNSUPPORTED, here and not in the forward call.
 */
SYMMCOLL_CHECKED
symmcoll_status_t symmcoll_adjoint_run(const struct symmcoll_adjoint *adjoint,
    const struct symmcoll_tensor *grads, const struct symmcoll_call *call,
    struct symmcoll_tensor *outs);

/* Release what a call has returned; NULL is fine. */
SYMMCOLL_API
void symmcoll_adjoint_free(struct symmcoll_adjoint *adjoint);

/* One functional call of a recording: what was called, and no data. */
struct symmcoll_f_record {
    size_t size;               /* sizeof(struct symmcoll_f_record) */
    char name[24];             /* "f_all_reduce", "f_wait", "adjoint_run" */
    char group[144];           /* its name; "" of a wait */
    enum symmcoll_dtype dtype; /* of the input */
    symmcoll_op_t op;          /* SUM where nothing is reduced */
    int root;                  /* 0 where there is none */
    int dim;                   /* -1 where there is none */
    int from; /* the record of the call, or wait, whose result is the input, or
                 is waited for; -1: none of them */
    int in_ndim, out_ndim;
    int64_t in_shape[SYMMCOLL_MAX_DIMS];
    int64_t out_shape[SYMMCOLL_MAX_DIMS];
};
#define SYMMCOLL_F_RECORD_INIT                                               \
    {                                                                        \
        sizeof(struct symmcoll_f_record), {0}, {0}, SYMMCOLL_UINT8, 0, 0, 0, \
            0, 0, 0, {0},                                                    \
        {                                                                    \
            0                                                                \
        }                                                                    \
    }

/*
 * Record the world's functional calls from now on, which run as ever: each
 * tensor of a call, and each wait for a result that is pending.  Calls without a
 * group are not recorded.
 *
 * records  count of them, each begun as SYMMCOLL_F_RECORD_INIT; the library's
 *          until the recording ends
 *
 * A recording that has begun before ends.  Errors: INVALID, NO_MEMORY.
 * Source: torch.fx.experimental.proxy_tensor.make_fx.
 */
SYMMCOLL_CHECKED
symmcoll_status_t symmcoll_f_record_begin(
    struct symmcoll_world *world, struct symmcoll_f_record *records, int count);

/* End it.  count (out) is how many calls and waits there were, of which as many
 * as there was room for are recorded.  Errors: INVALID. */
SYMMCOLL_CHECKED
symmcoll_status_t symmcoll_f_record_end(
    struct symmcoll_world *world, int *count);

SYMMCOLL_END_DECLS

#endif
