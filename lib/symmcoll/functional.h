/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Out-of-place collectives on tensors: the input is not changed, and the result
 * is a new tensor, which is pending until symmcoll_f_wait().
 *
 * Common arguments:
 *
 * group    borrowed.  For all_reduce and broadcast it may be NULL, if all
 *          tensors are shapes without memory
 * in       this rank's tensor, of any strides unless the function says
 *          otherwise; its memory is the library's until the result has been
 *          waited for
 * call     timeout, stream, label; NULL for the defaults
 * out      out: the result, contiguous in row-major order.  If it is
 *          initialised with SYMMCOLL_TENSOR_INIT, the library allocates its
 *          memory, which symmcoll_f_free() releases.  Or it describes memory of
 *          the caller, contiguous and of the result's shape and type; that may
 *          be the memory of in, if both have the same shape
 * adjoint  out: a token for symmcoll_adjoint_run(), released with
 *          symmcoll_adjoint_free(); NULL: no gradient is wanted
 *
 * Call symmcoll_f_wait() before the first use of a result.  The functions of
 * this header wait for a pending input themselves.
 *
 * The result of a SYMMCOLL_CUDA tensor is in memory of the same device, in the
 * order of the call's stream: symmcoll_f_wait() without a timeout makes that
 * stream wait.
 *
 * A SYMMCOLL_META tensor has a shape and no memory: so has its result, and
 * nothing is communicated.
 *
 * Common errors: INVALID (also a shape that does not fit: the detail names the
 * dimension), UNSUPPORTED (no driver; not available on devices), NO_MEMORY, and
 * those of the collective, from the call or from the wait.
 * Source: torch.distributed._functional_collectives.
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

/* Reduces the tensors of all ranks; out has the shape of in. */
SYMMCOLL_CHECKED
symmcoll_status_t symmcoll_f_all_reduce(struct symmcoll_group *group,
    const struct symmcoll_tensor *in, symmcoll_op_t op,
    const struct symmcoll_call *call, struct symmcoll_tensor *out,
    struct symmcoll_adjoint **adjoint);

/* Copies the tensor of the group's rank root to every rank.  All ranks pass its
 * shape, which out has too.  in is read only at the root: elsewhere its data
 * may be NULL. */
SYMMCOLL_CHECKED
symmcoll_status_t symmcoll_f_broadcast(struct symmcoll_group *group,
    const struct symmcoll_tensor *in, int root,
    const struct symmcoll_call *call, struct symmcoll_tensor *out,
    struct symmcoll_adjoint **adjoint);

/*
 * Concatenates the ranks' contiguous tensors along a dimension, counted from 0.
 * out has in's shape with dimension dim multiplied by the number of ranks.  If
 * there are elements before dim, the result is copied once more when it is
 * waited for, and needs twice its memory until then.
 */
SYMMCOLL_CHECKED
symmcoll_status_t symmcoll_f_all_gather(struct symmcoll_group *group,
    const struct symmcoll_tensor *in, int dim, const struct symmcoll_call *call,
    struct symmcoll_tensor *out, struct symmcoll_adjoint **adjoint);

/*
 * Reduces over all ranks and divides the result along a dimension, counted from
 * 0, into one part for each rank; out is this rank's part.  dim's length is a
 * multiple of the number of ranks.  If there are elements before dim, or in is
 * not in row-major order, the call copies in once more.
 */
SYMMCOLL_CHECKED
symmcoll_status_t symmcoll_f_reduce_scatter(struct symmcoll_group *group,
    const struct symmcoll_tensor *in, symmcoll_op_t op, int dim,
    const struct symmcoll_call *call, struct symmcoll_tensor *out,
    struct symmcoll_adjoint **adjoint);

/*
 * Concatenates the ranks' contiguous tensors along a dimension, at the group's
 * rank root.  out is that of symmcoll_f_all_gather() there; elsewhere it has no
 * elements, with dimension dim 0.
 */
SYMMCOLL_CHECKED
symmcoll_status_t symmcoll_f_gather(struct symmcoll_group *group,
    const struct symmcoll_tensor *in, int dim, int root,
    const struct symmcoll_call *call, struct symmcoll_tensor *out,
    struct symmcoll_adjoint **adjoint);

/*
 * Divides the tensor of the group's rank root along a dimension into one part
 * for each rank; out is this rank's part.  All ranks pass the shape of the
 * whole, in which dim's length is a multiple of the number of ranks.  in is
 * read only at the root: elsewhere its data may be NULL.
 */
SYMMCOLL_CHECKED
symmcoll_status_t symmcoll_f_scatter(struct symmcoll_group *group,
    const struct symmcoll_tensor *in, int dim, int root,
    const struct symmcoll_call *call, struct symmcoll_tensor *out,
    struct symmcoll_adjoint **adjoint);

/*
 * Sends rows, along dimension 0, to each rank and receives rows from each, in
 * the order of ranks.  in is contiguous.
 *
 * in_splits   number of rows for each rank; the sum is in's dimension 0
 * out_splits  number of rows from each rank; the sum is out's dimension 0.
 *             Both NULL: equal parts
 */
SYMMCOLL_CHECKED
symmcoll_status_t symmcoll_f_all_to_all(struct symmcoll_group *group,
    const struct symmcoll_tensor *in, const size_t *out_splits,
    const size_t *in_splits, const struct symmcoll_call *call,
    struct symmcoll_tensor *out, struct symmcoll_adjoint **adjoint);

/*
 * Sends each rank's contiguous tensor to another rank or to itself.
 * dst_of  for each rank of the group, the rank that receives its tensor: a
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
 * in, out  n tensors each, all of the size of the first one.  The result of one
 *          tensor does not overlap any other tensor
 * dims     n dimensions
 *
 * All ranks pass the same number of tensors, in the same order.  All arguments
 * are checked before anything is communicated.
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
 * Waits until a result is complete, and returns the status of its operations.
 *
 * timeout  seconds, as for symmcoll_work_wait(); if the wait expires, the
 *          result remains pending
 *
 * Returns OK for a tensor that is not pending.
 * Source: torch.distributed._functional_collectives.wait_tensor.
 */
SYMMCOLL_CHECKED
symmcoll_status_t symmcoll_f_wait(struct symmcoll_world *world,
    const struct symmcoll_tensor *tensor, double timeout);

/* Releases the memory of a result that the library allocated, and sets its data
 * to NULL.  Waits for a pending result.  world is NULL after
 * symmcoll_finalize(). */
SYMMCOLL_API
void symmcoll_f_free(
    struct symmcoll_world *world, struct symmcoll_tensor *tensor);

/*
 * Computes the gradients of the inputs from those of the results, on the group
 * of the forward call; every rank calls it.
 *
 * grads  as many tensors as the forward call had, of the shapes and types of
 *        its results, of any strides
 * outs   out: gradients of the inputs' shapes, which are results like any other
 *
 *   all_reduce sum, avg       all_reduce of the same operation
 *   broadcast                 reduce sum to the root, zeros elsewhere
 *   all_gather                reduce_scatter sum along the same dimension
 *   reduce_scatter sum, avg   all_gather along the same dimension; for avg,
 *                             divided by the number of ranks
 *   gather                    scatter from the root, along the same dimension
 *   scatter                   gather to the root, zeros elsewhere
 *   all_to_all                all_to_all with the splits exchanged
 *   permute                   the inverse permutation
 *
 * All of these are linear with real factors, so gradients of complex tensors
 * are not conjugated, in either convention.  Other reduce operations have no
 * gradient: this call returns UNSUPPORTED, the forward call does not.
 */
SYMMCOLL_CHECKED
symmcoll_status_t symmcoll_adjoint_run(const struct symmcoll_adjoint *adjoint,
    const struct symmcoll_tensor *grads, const struct symmcoll_call *call,
    struct symmcoll_tensor *outs);

/* Releases the token of a forward call; NULL is valid. */
SYMMCOLL_API
void symmcoll_adjoint_free(struct symmcoll_adjoint *adjoint);

/* One functional call in a recording: its arguments, without data. */
struct symmcoll_f_record {
    size_t size;               /* sizeof(struct symmcoll_f_record) */
    char name[24];             /* "f_all_reduce", "f_wait", "adjoint_run" */
    char group[144];           /* the group's name; "" for a wait */
    enum symmcoll_dtype dtype; /* of the input */
    symmcoll_op_t op;          /* SUM if nothing is reduced */
    int root;                  /* 0 if there is none */
    int dim;                   /* -1 if there is none */
    int from; /* index of the record that produced the input, or the result that
                 is waited for; -1: none */
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
 * Starts to record the world's functional calls, which run as usual: one record
 * for each tensor of a call, and for each wait for a pending result.  Calls
 * without a group are not recorded.
 *
 * records  count records, each initialised with SYMMCOLL_F_RECORD_INIT; the
 *          library's until the recording ends
 *
 * A recording that is in progress ends.  Errors: INVALID, NO_MEMORY.
 * Source: torch.fx.experimental.proxy_tensor.make_fx.
 */
SYMMCOLL_CHECKED
symmcoll_status_t symmcoll_f_record_begin(
    struct symmcoll_world *world, struct symmcoll_f_record *records, int count);

/* Ends a recording.  count (out) is the number of calls and waits, which may
 * exceed the number of records.  Errors: INVALID. */
SYMMCOLL_CHECKED
symmcoll_status_t symmcoll_f_record_end(
    struct symmcoll_world *world, int *count);

SYMMCOLL_END_DECLS

#endif
