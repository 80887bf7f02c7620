/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Fused operations on matrices in device memory: the state of a group, and the
 * common part of both operations. The arguments are compared, and memory is
 * allocated, by rounds of the host like those of host memory. Then one
 * operation of the group enqueues copies, barriers and products (struct
 * symc_mover), and the call returns.
 *
 * INVARIANT: when an operation has ended on a rank, no other rank accesses this
 * rank's memory until this rank begins the next one.
 */
#ifndef SYMC_FUSED_DEVICE_H
#define SYMC_FUSED_DEVICE_H

#include "base/moving.h"
#include "fused/fused.h"

/* alignment of the parts of a rank's memory */
#define SYMC_FUSED_ALIGN ((size_t)SYMC_PRODUCT_ALIGNMENT)

/* The device, stream and options of a call. */
struct symc_fused_on {
    int index; /* index of the device */
    void *stream;
    const void *memory; /* a tensor of the call */
    struct symc_site *site;
    /* options of the call, for rounds of the host */
    struct symmcoll_call words;
    bool captured;
    /* the group is on the device, and that has not changed since */
    bool checked;
};

/*
 * Begins a call on a device that the group is on, or is going to be on, and
 * opens its compute library. on (out): the caller ends it, whatever is
 * returned.
 * Errors: INVALID (the stream, another device than the group's), UNSUPPORTED
 * (no cuBLASLt), those of the driver.
 */
symmcoll_status_t symc_fused_on_begin(struct symc_fused *fused,
    enum symc_kind kind, const struct symc_fused_call *begun,
    const struct symmcoll_tensor *a, struct symc_fused_on *on);
void symc_fused_on_end(struct symc_fused_on *on);

/* ---- device_state.c: state that a group keeps between calls ---- */

struct symc_fused_plan;

/* Form of the products of a call: one per rank's part, or one for all. */
enum symc_fused_form {
    SYMC_FUSED_WHOLE,
    SYMC_FUSED_PARTS,
    SYMC_FUSED_FORMS
};

struct symc_fused_device {
    const struct symc_compute_ops *ops;
    int index; /* index of the device */
    void *compute;
    struct symc_site *site;        /* usable with any stream of the device */
    struct symc_fused_plan *plans; /* most recently used first */
    struct symc_fused_memory memory;
    /* Set if the current call has plans that are not loaded; only if ranks are
     * threads. */
    bool cold[SYMC_FUSED_FORMS];
    bool captured; /* a graph may use the current memory */
    /* Former memory that a graph may use; kept as long as the group. */
    struct symmcoll_symm **kept;
    size_t nkept;
    bool dropped; /* former memory may still have to be released */
};

/* Opens fused->device for a device, given a stream and some memory on it.
 * Errors: UNSUPPORTED (no cuBLASLt), NO_MEMORY, those of the driver. */
symmcoll_status_t symc_fused_device_open(struct symc_fused *fused,
    const char *name, int index, void *stream, const void *memory);

/* Opens a site (out) for one call on a stream. Errors: those of
 * symc_site_open(). */
symmcoll_status_t symc_fused_device_site(struct symc_fused *fused,
    const char *name, int index, void *stream, const void *memory,
    struct symc_site **site);

/* Replaces the memory. The former memory is released by a later call, when no
 * operation uses it any more; it is kept if a graph may use it. */
void symc_fused_device_replace(
    struct symc_fused_device *device, struct symc_fused_memory memory);

/* Releases everything, after waiting until a time for aborted operations to
 * end. If some have not ended by then, the resources that they use stay
 * allocated. */
void symc_fused_device_end(struct symc_fused *fused, int64_t until_ns);

/* ---- memory ---- */

/* Layout of a rank's memory: consecutive parts. The parts that others access
 * come first. */
struct symc_fused_room {
    size_t nbytes; /* bytes of the parts added */
    bool overflow; /* the sum does not fit in size_t */
};

/* Adds a part of count elements, and returns its offset. */
size_t symc_fused_room_add(
    struct symc_fused_room *room, size_t count, size_t elem);

/*
 * Publishes how much memory this rank needs, or why it cannot go on, and
 * allocates the memory if all ranks can. in_parts (in, out): the form that this
 * rank wants, and the one that all ranks use.
 * Errors: this rank's status, with its detail, and those of
 * symc_fused_confirm().
 */
symmcoll_status_t symc_fused_device_agree(struct symc_fused *fused,
    const struct symc_fused_args *args, struct symc_fused_on *on,
    const struct symc_fused_room *room, symmcoll_status_t status,
    bool *in_parts);

/* Returns the address of an offset in a rank's memory, after all have
 * agreed. */
char *symc_fused_device_at(
    const struct symc_fused *fused, int rank, size_t offset);

/* ---- products ---- */

/* Describes a tensor of 2 dimensions as a matrix; false: its elements have to
 * be packed by rows first. */
bool symc_fused_device_matrix(
    const struct symmcoll_tensor *tensor, struct symc_product_matrix *matrix);
/* Describes a matrix stored by rows; several of them begin at multiples of
 * `step` bytes. */
struct symc_product_matrix symc_fused_device_rows(
    enum symmcoll_dtype dtype, int64_t rows, int64_t cols, size_t step);

/* Most bytes that a product may use besides its matrices. */
#define SYMC_FUSED_WORKSPACE ((size_t)32 << 20)

/* In device_state.c: finds or makes the plan (out) of a product, which is kept,
 * and raises the workspace to what it needs. NULL for a product without
 * elements or without depth. Errors: those of plan() of struct
 * symc_compute_ops. */
symmcoll_status_t symc_fused_device_plan(struct symc_fused *fused,
    const char *name, enum symc_fused_form form, struct symc_product *product,
    void **plan, size_t *workspace);

/* Loads the plans of the current call that are not loaded yet. Errors: those of
 * load() of struct symc_compute_ops. */
symmcoll_status_t symc_fused_device_load(
    struct symc_fused *fused, enum symc_fused_form form);

/* ---- the operation ---- */

/* Enqueues an operation; the parts of `op` that the call determines are set
 * here. */
symmcoll_status_t symc_fused_device_run(struct symc_fused *fused,
    const struct symc_fused_call *begun, const struct symc_fused_on *on,
    const struct symc_op *op, struct symc_mover *mover);

#endif
