/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The internals of functional calls: one way for all of them (perform.c), which
 * asks what is particular to each, and the results that are pending (result.c).
 */
#ifndef SYMC_FUNCTIONAL_FUNCTIONAL_H
#define SYMC_FUNCTIONAL_FUNCTIONAL_H

#include "base/tensor.h"
#include "group/group.h"
#include "group/site.h"

#include <symmcoll/functional.h>

/* ---- strided.c ---- */

/* A tensor of which one dimension may have been cut in two. */
#define SYMC_F_DIMS (SYMMCOLL_MAX_DIMS + 1)

/* Where elements are, in the order in which they are to be; strides in
 * elements. */
struct symc_f_view {
    int ndim;
    int64_t shape[SYMC_F_DIMS];
    int64_t strides[SYMC_F_DIMS];
};

/* All elements, in row-major order. */
struct symc_f_view symc_f_view_of(const struct symmcoll_tensor *tensor);

/* Cut a dimension into parts, and have these first: what a rank sends to the
 * first part's rank, then to the second's. */
struct symc_f_view symc_f_view_cut(
    const struct symc_f_view *view, int dim, int parts);

/* Of parts one after the other, each of that shape and contiguous: all elements
 * in the order of the parts along a dimension. */
struct symc_f_view symc_f_view_join(
    const struct symmcoll_tensor *part, int dim, int parts);

/* Whether elements are where they are to be, so that no copy is needed. */
bool symc_f_view_is_contiguous(const struct symc_f_view *view);

/* Copy all elements from where they are to contiguous memory. */
void symc_f_view_copy(
    const struct symc_f_view *view, const void *from, void *to, size_t elem);

/* Read a tensor of the array of a caller and check it.  Errors: INVALID,
 * UNSUPPORTED (also, but for any: memory of a device). */
symmcoll_status_t symc_f_tensor_read_any(const char *where,
    const struct symmcoll_tensor *tensors, int index,
    struct symmcoll_tensor *copy, size_t *count);
symmcoll_status_t symc_f_tensor_read(const char *where,
    const struct symmcoll_tensor *tensors, int index,
    struct symmcoll_tensor *copy, size_t *count);

/* Row-major strides for the shape. */
void symc_f_make_contiguous(struct symmcoll_tensor *tensor);

/* ---- place.c ---- */

_Static_assert((int)SYMC_F_DIMS <= (int)SYMC_STRIDED_DIMS, "a view is copied");

/* All elements of a view become contiguous, in memory of a site. */
symmcoll_status_t symc_f_copy(const struct symc_site *site,
    const struct symc_f_view *view, const void *from, void *to, size_t elem);

/* ---- perform.c ---- */

struct symc_f_spec;
struct symc_f_ends;

/* One tensor of a call. */
struct symc_f_step {
    struct symmcoll_tensor in, out;
    size_t in_count, out_count; /* elements */
    size_t elem;
    int index;  /* in the call's lists */
    bool taken; /* the result's memory is the caller's */
    struct symc_site *site;

    const void *from; /* what the operation reads, */
    void *to;         /* what it writes, */
    size_t count;     /* and the elements that it counts */
    void *temp;       /* of the library, until the operation has ended */
    size_t *counts;   /* the same, of the host */
    struct symc_f_view
        after;    /* then: from temp to the result; ndim 0: nothing */
    bool pending; /* the result is listed as such */
};

struct symc_f_operation;

/* What a call is, and what is particular to its kind. */
struct symc_f_spec {
    const char *name; /* "f_all_reduce" */
    enum symc_kind kind;
    struct symmcoll_group *group;
    const struct symmcoll_call *call;
    symmcoll_op_t op;
    int root;
    const int *dims;                      /* one for each tensor; NULL: none */
    const size_t *out_splits, *in_splits; /* rows; NULL: equal parts */
    const int *dst_of; /* the ranks' destinations; NULL: none */

    bool ungrouped; /* a shape alone needs no group */
    bool strict;    /* the input has to be contiguous */
    bool sums;      /* ready() calls symc_site_add() */
    bool from_root; /* the others' inputs are shapes, and may have no data */
    const struct symc_f_ends
        *ends; /* of a way back that has no shape of its own; NULL */
    /* Set the shape of the result, which begins as the input's. */
    symmcoll_status_t (*shape)(
        const struct symc_f_spec *spec, struct symc_f_step *step);
    /* Say what the operation takes, and copy what is in another order.  No
     * operation of the call has started. */
    symmcoll_status_t (*ready)(
        const struct symc_f_spec *spec, struct symc_f_step *step);
    /* Start the operation on one tensor. */
    symmcoll_status_t (*start)(const struct symc_f_spec *spec,
        const struct symc_f_step *step, struct symmcoll_work **work);
    /* Start one on several of one type; NULL: the call has one tensor. */
    symmcoll_status_t (*start_several)(
        const struct symc_f_spec *spec, struct symc_f_operation *operation);
};

/* Check all, start all, and return the results; adjoint may be NULL. */
symmcoll_status_t symc_f_perform(const struct symc_f_spec *spec,
    const struct symmcoll_tensor *in, int n, struct symmcoll_tensor *out,
    struct symmcoll_adjoint **adjoint);

int symc_f_dim(const struct symc_f_spec *spec, const struct symc_f_step *step);

/* Whether a call has a root that is a rank. */
symmcoll_status_t symc_f_check_root(
    const struct symc_f_spec *spec, struct symc_f_step *step);

/* Of a tensor on a device: that, and the stream of the call, which is also out.
 * Errors: those of symc_site_open(), INVALID (the call's options). */
symmcoll_status_t symc_f_find_site(
    const struct symc_f_spec *spec, struct symc_f_step *step, void **stream);

/* Make a result as long as all ranks' tensors, or a rank's part, along the
 * dimension of the call, which is checked. */
symmcoll_status_t symc_f_join_shape(
    const struct symc_f_spec *spec, struct symc_f_step *step);
symmcoll_status_t symc_f_cut_shape(
    const struct symc_f_spec *spec, struct symc_f_step *step);

/* Whether a call has a dimension that its tensor has. */
symmcoll_status_t symc_f_check_dim(
    const struct symc_f_spec *spec, const struct symc_f_step *step);

/* ---- reducing.c, moving.c, rooted.c, exchanging.c: what each adds ---- */

struct symc_f_spec symc_f_all_reduce_spec(void);
struct symc_f_spec symc_f_reduce_scatter_spec(void);
struct symc_f_spec symc_f_broadcast_spec(void);
struct symc_f_spec symc_f_all_gather_spec(void);
struct symc_f_spec symc_f_all_to_all_spec(void);
struct symc_f_spec symc_f_permute_spec(void);
struct symc_f_spec symc_f_gather_spec(void);
struct symc_f_spec symc_f_scatter_spec(void);

/* Say what an all_gather takes; parts that are not one after the other in the
 * result are collected in temporary memory. */
symmcoll_status_t symc_f_ready_all_gather(
    const struct symc_f_spec *spec, struct symc_f_step *step);

/* ---- result.c ---- */

/* What is to be done for one tensor when its operation has ended. */
struct symc_f_result {
    struct symc_f_result *next;
    struct symc_f_operation *operation;
    void *data; /* of the result */
    struct symc_site *site;
    void *temp;
    size_t *counts;
    struct symc_f_view after;
    size_t elem;
    int holders;    /* the table, and threads that wait */
    bool finishing; /* a thread copies */
    bool finished;
};

/* One operation on n tensors of one type, and what it reads until it has ended. */
struct symc_f_operation {
    struct symmcoll_work *work;
    const char *name;
    enum symmcoll_dtype dtype;
    size_t n;
    void **outs;
    const void **ins;
    size_t *counts;
    size_t holders; /* results that are not released */
    bool told;      /* a wait has returned its error */
    struct symc_f_result results[];
};

/* Room for n tensors, before the operation starts; NULL without memory. */
struct symc_f_operation *symc_f_operation_create(
    struct symmcoll_world *world, const char *name, size_t n);

/* Add a tensor. */
void symc_f_operation_add(
    struct symc_f_operation *operation, const struct symc_f_step *step);

/* It has started: its results are pending from now on, and it, its work and
 * temporary memory are theirs. */
void symc_f_operation_list(
    struct symmcoll_world *world, struct symc_f_operation *operation);

/* Wait for what is pending in a buffer; a result on a device without a timeout in
 * the order of its stream. */
symmcoll_status_t symc_f_result_wait(
    struct symmcoll_world *world, const void *data, double timeout);

/* The same for what comes later on that stream. */
symmcoll_status_t symc_f_result_await(
    struct symmcoll_world *world, const void *data, void *stream);

/* Whether something is, after a wait that has failed. */
bool symc_f_result_is_pending(struct symmcoll_world *world, const void *data);

/* ---- owned.c ---- */

/* Memory of a device that is a result: keep where it is until it is freed, or the
 * world ends.  Errors: NO_MEMORY. */
symmcoll_status_t symc_f_own(
    struct symmcoll_world *world, void *data, struct symc_site *site);

/* Free it, if it is one; later, while its stream is being captured. */
void symc_f_disown(struct symmcoll_world *world, void *data);

/* It is no result, and the device may write there: free it when the world ends, if what
 * its stream has now has ended by then.  The stream is not used any more. */
void symc_f_leave(struct symmcoll_world *world, void *data);

/* ---- recording.c ---- */

/* Record what was called, and a wait for what was pending, where the world
 * records. */
void symc_f_record_calls(
    const struct symc_f_spec *spec, const struct symc_f_step *steps, int n);
void symc_f_record_wait(struct symmcoll_world *world, const void *data);

/* ---- token.c ---- */

/* A tensor's shape on both ends of the forward call. */
struct symc_f_ends {
    struct symmcoll_tensor in, out; /* without data */
};

struct symmcoll_adjoint {
    const char *name;
    enum symc_kind kind;
    struct symmcoll_group *group;
    symmcoll_op_t op;
    int root;
    int n;
    int *dims;      /* of each; NULL: none */
    size_t *splits; /* of the way back: what is received, what is sent; NULL:
                       equal parts */
    int *dst_of;    /* of the way back; NULL: none */
    struct symc_f_ends ends[];
};

/* What runs back, but for the options of a call.  Errors: UNSUPPORTED. */
symmcoll_status_t symc_f_adjoint_spec(
    const struct symmcoll_adjoint *adjoint, struct symc_f_spec *spec);

/* Keep what the way back needs.  Errors: NO_MEMORY. */
symmcoll_status_t symc_f_adjoint_create(const struct symc_f_spec *spec,
    const struct symc_f_step *steps, int n, struct symmcoll_adjoint **adjoint);

#endif
