/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Internals of functional calls: the common sequence of all calls (perform.c)
 * with a description of each kind, and the pending results (result.c).
 */
#ifndef SYMC_FUNCTIONAL_FUNCTIONAL_H
#define SYMC_FUNCTIONAL_FUNCTIONAL_H

#include "base/tensor.h"
#include "group/group.h"
#include "group/site.h"

#include <symmcoll/functional.h>

/* ---- strided.c ---- */

/* Dimensions of a tensor of which one may have been divided in two. */
#define SYMC_F_DIMS (SYMMCOLL_MAX_DIMS + 1)

/* A view: the places of elements in memory, in the order in which they are
 * wanted. Strides count elements. */
struct symc_f_view {
    int ndim;
    int64_t shape[SYMC_F_DIMS];
    int64_t strides[SYMC_F_DIMS];
};

/* Returns a view of all elements, in row-major order. */
struct symc_f_view symc_f_view_of(const struct symmcoll_tensor *tensor);

/* Divides a dimension into parts, which come first: all elements for the first
 * rank, then those for the second. */
struct symc_f_view symc_f_view_cut(
    const struct symc_f_view *view, int dim, int parts);

/* Returns a view of contiguous parts of one shape, stored one after the other,
 * that has all elements in the order of the parts along a dimension. */
struct symc_f_view symc_f_view_join(
    const struct symmcoll_tensor *part, int dim, int parts);

/* Returns whether the elements are contiguous in the order of the view. */
bool symc_f_view_is_contiguous(const struct symc_f_view *view);

/* Copies the elements of a view to contiguous memory. */
void symc_f_view_copy(
    const struct symc_f_view *view, const void *from, void *to, size_t elem);

/* Reads and checks a tensor of an array of the caller, in any memory.
 * Errors: INVALID, UNSUPPORTED. */
symmcoll_status_t symc_f_tensor_read_any(const char *where,
    const struct symmcoll_tensor *tensors, int index,
    struct symmcoll_tensor *copy, size_t *count);
/* Reads and checks a tensor like symc_f_tensor_read_any(); device memory is
 * UNSUPPORTED. */
symmcoll_status_t symc_f_tensor_read(const char *where,
    const struct symmcoll_tensor *tensors, int index,
    struct symmcoll_tensor *copy, size_t *count);

/* Sets row-major strides for the shape. */
void symc_f_make_contiguous(struct symmcoll_tensor *tensor);

/* ---- place.c ---- */

_Static_assert((int)SYMC_F_DIMS <= (int)SYMC_STRIDED_DIMS, "a view is copied");

/* Copies the elements of a view to contiguous memory of a site. */
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
    int index;  /* index in the lists of the call */
    bool taken; /* the memory of the result is the caller's */
    struct symc_site *site;

    const void *from; /* input of the operation */
    void *to;         /* output of the operation */
    size_t count;     /* count argument of the operation */
    void *temp;       /* temporary memory, freed when the operation has ended */
    size_t *counts;   /* temporary counts, in host memory, freed likewise */
    /* copy from temp to the result afterwards; ndim 0: none */
    struct symc_f_view after;
    bool pending; /* the result is in the table of pending results */
};

struct symc_f_operation;

/* A call, and the description of its kind. */
struct symc_f_spec {
    const char *name; /* "f_all_reduce" */
    enum symc_kind kind;
    struct symmcoll_group *group;
    const struct symmcoll_call *call;
    symmcoll_op_t op;
    int root;
    const int *dims;                      /* one per tensor; NULL: none */
    const size_t *out_splits, *in_splits; /* rows; NULL: equal parts */
    const int *dst_of; /* destination of each rank; NULL: none */

    bool ungrouped; /* a call on shapes alone needs no group */
    bool strict;    /* the input has to be contiguous */
    bool sums;      /* ready() calls symc_site_add() */
    /* the inputs of other ranks are shapes, and may have no data */
    bool from_root;
    /* shapes for a backward call, if its result has none of its own; or NULL */
    const struct symc_f_ends *ends;
    /* Sets the shape of the result, which is initially that of the input. */
    symmcoll_status_t (*shape)(
        const struct symc_f_spec *spec, struct symc_f_step *step);
    /* Sets the arguments of the operation, and copies elements that are in
     * another order. Called before any operation of the call starts. */
    symmcoll_status_t (*ready)(
        const struct symc_f_spec *spec, struct symc_f_step *step);
    /* Starts the operation on one tensor. */
    symmcoll_status_t (*start)(const struct symc_f_spec *spec,
        const struct symc_f_step *step, struct symmcoll_work **work);
    /* Starts one operation on several tensors of one type; NULL: the call has
     * one tensor. */
    symmcoll_status_t (*start_several)(
        const struct symc_f_spec *spec, struct symc_f_operation *operation);
};

/* Checks everything, starts all operations and returns the results. adjoint may
 * be NULL. */
symmcoll_status_t symc_f_perform(const struct symc_f_spec *spec,
    const struct symmcoll_tensor *in, int n, struct symmcoll_tensor *out,
    struct symmcoll_adjoint **adjoint);

int symc_f_dim(const struct symc_f_spec *spec, const struct symc_f_step *step);

/* Checks that the root of a call is a rank. */
symmcoll_status_t symc_f_check_root(
    const struct symc_f_spec *spec, struct symc_f_step *step);

/* Opens the site of a tensor on a device, on the stream of the call (out).
 * Errors: those of symc_site_open(), INVALID (the call's options). */
symmcoll_status_t symc_f_find_site(
    const struct symc_f_spec *spec, struct symc_f_step *step, void **stream);

/* Checks the call's dimension, and makes the result as long along it as the
 * tensors of all ranks together. */
symmcoll_status_t symc_f_join_shape(
    const struct symc_f_spec *spec, struct symc_f_step *step);
/* Checks the call's dimension, and makes the result as long along it as one
 * rank's part. */
symmcoll_status_t symc_f_cut_shape(
    const struct symc_f_spec *spec, struct symc_f_step *step);

/* ---- reducing.c, moving.c, rooted.c, exchanging.c: kinds of calls ---- */

struct symc_f_spec symc_f_all_reduce_spec(void);
struct symc_f_spec symc_f_reduce_scatter_spec(void);
struct symc_f_spec symc_f_broadcast_spec(void);
struct symc_f_spec symc_f_all_gather_spec(void);
struct symc_f_spec symc_f_all_to_all_spec(void);
struct symc_f_spec symc_f_permute_spec(void);
struct symc_f_spec symc_f_gather_spec(void);
struct symc_f_spec symc_f_scatter_spec(void);

/* Prepares an all_gather. Parts that are not consecutive in the result are
 * collected in temporary memory. */
symmcoll_status_t symc_f_ready_all_gather(
    const struct symc_f_spec *spec, struct symc_f_step *step);

/* ---- result.c ---- */

/* The result of one tensor, which is completed when its operation has ended. */
struct symc_f_result {
    struct symc_f_result *next;
    struct symc_f_operation *operation;
    void *data; /* memory of the result */
    struct symc_site *site;
    void *temp;
    size_t *counts;
    struct symc_f_view after;
    size_t elem;
    int holders; /* references: the table's, and those of threads that wait */
    bool finishing; /* a thread copies the elements */
    bool finished;
};

/* One operation on n tensors of one type, with the arrays that it reads until
 * it ends. */
struct symc_f_operation {
    struct symmcoll_work *work;
    const char *name;
    enum symmcoll_dtype dtype;
    size_t n;
    void **outs;
    const void **ins;
    size_t *counts;
    size_t holders; /* results that have not been freed */
    bool reported;  /* a wait has returned its error */
    struct symc_f_result results[];
};

/* Allocates an operation for n tensors, before it starts; NULL: no memory. */
struct symc_f_operation *symc_f_operation_create(
    struct symmcoll_world *world, const char *name, size_t n);

/* Adds a tensor. */
void symc_f_operation_add(
    struct symc_f_operation *operation, const struct symc_f_step *step);

/* Lists the results of an operation that has started. From then on they own the
 * operation, its work and its temporary memory. */
void symc_f_operation_list(
    struct symmcoll_world *world, struct symc_f_operation *operation);

/* Waits for the pending results in a buffer. Without a timeout, the stream of a
 * result on a device waits instead of the host. */
symmcoll_status_t symc_f_result_wait(
    struct symmcoll_world *world, const void *data, double timeout);

/* Waits like symc_f_result_wait() for later operations on a stream. */
symmcoll_status_t symc_f_result_await(
    struct symmcoll_world *world, const void *data, void *stream);

/* Returns whether a buffer still has a pending result, after a wait that
 * failed. */
bool symc_f_result_is_pending(struct symmcoll_world *world, const void *data);

/* ---- owned.c ---- */

/* Records the site of a result in device memory, until it is freed or the world
 * ends. Errors: NO_MEMORY. */
symmcoll_status_t symc_f_own(
    struct symmcoll_world *world, void *data, struct symc_site *site);

/* Frees a recorded result; deferred while its stream is being captured. */
void symc_f_disown(struct symmcoll_world *world, void *data);

/* Gives up a result to which a device may still write. It is freed when the
 * world ends, if the operations that its stream has now have ended by then. The
 * stream is not used again. */
void symc_f_leave(struct symmcoll_world *world, void *data);

/* ---- recording.c ---- */

/* Record a call, and a wait for a pending result, if the world records. */
void symc_f_record_calls(
    const struct symc_f_spec *spec, const struct symc_f_step *steps, int n);
void symc_f_record_wait(struct symmcoll_world *world, const void *data);

/* ---- token.c ---- */

/* The shapes of a tensor on both ends of the forward call. */
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
    int *dims; /* one per tensor; NULL: none */
    /* of the backward call: rows received, then rows sent; NULL: equal parts */
    size_t *splits;
    int *dst_of; /* of the backward call; NULL: none */
    struct symc_f_ends ends[];
};

/* Describes the backward call, except the options. Errors: UNSUPPORTED. */
symmcoll_status_t symc_f_adjoint_spec(
    const struct symmcoll_adjoint *adjoint, struct symc_f_spec *spec);

/* Saves what the backward call needs. Errors: NO_MEMORY. */
symmcoll_status_t symc_f_adjoint_create(const struct symc_f_spec *spec,
    const struct symc_f_step *steps, int n, struct symmcoll_adjoint **adjoint);

#endif
