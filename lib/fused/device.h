/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Fused operations on matrices in memory of devices: what a group keeps for them,
 * and what both of them share.  Their arguments are compared and their memory is
 * made by rounds of the host, as those of the host's; then one operation of the
 * group enqueues copies, barriers and products (struct symc_mover), and the call
 * returns.
 *
 * INVARIANT: where an operation has ended on a rank, no other rank reads or writes
 * this rank's memory before that begins the next one.
 */
#ifndef SYMC_FUSED_DEVICE_H
#define SYMC_FUSED_DEVICE_H

#include "base/moving.h"
#include "fused/fused.h"

#define SYMC_FUSED_ALIGN \
    ((size_t)SYMC_PRODUCT_ALIGNMENT) /* of parts of memory */

/* Where the tensors of a call are. */
struct symc_fused_on {
    int index; /* of the device */
    void *stream;
    const void *memory; /* of a tensor of the call's */
    struct symc_site *site;
    struct symmcoll_call words; /* the call's options for rounds of the host */
    bool captured;
    bool checked; /* by the group's device, which has not changed since */
};

/*
 * Begin: a device, which the group is on or is to be on, and what multiplies there.
 * on (out): to be ended, whatever is returned.  Errors: INVALID (the stream, another
 * device than the group's), UNSUPPORTED (no cuBLASLt), those of the driver.
 */
symmcoll_status_t symc_fused_on_begin(struct symc_fused *fused,
    enum symc_kind kind, const struct symc_fused_call *begun,
    const struct symmcoll_tensor *a, struct symc_fused_on *on);
void symc_fused_on_end(struct symc_fused_on *on);

/* ---- device_state.c: what a group keeps from call to call ---- */

struct symc_fused_plan;

/* Which products of a call: of one rank's part each, or of all. */
enum symc_fused_form {
    SYMC_FUSED_WHOLE,
    SYMC_FUSED_PARTS,
    SYMC_FUSED_FORMS
};

struct symc_fused_device {
    const struct symc_compute_ops *ops;
    int index; /* of the device */
    void *compute;
    struct symc_site *site;        /* of any stream there */
    struct symc_fused_plan *plans; /* the latest one first */
    struct symc_fused_memory memory;
    /* Plans of the call in hand have not been tried, where ranks are threads. */
    bool cold[SYMC_FUSED_FORMS];
    bool captured; /* a graph may use the memory */
    /* Memory before that, which a graph may use: as long as the group is there. */
    struct symmcoll_symm **kept;
    size_t nkept;
    bool dropped; /* memory before that may not have been released */
};

/* Have it: fused->device, where a stream and some memory on it are.  Errors:
 * UNSUPPORTED (no cuBLASLt), NO_MEMORY, those of the driver. */
symmcoll_status_t symc_fused_device_open(struct symc_fused *fused,
    const char *name, int index, void *stream, const void *memory);

/* A site there (out) for one call, of that stream.  Errors: those of
 * symc_site_open(). */
symmcoll_status_t symc_fused_device_site(struct symc_fused *fused,
    const char *name, int index, void *stream, const void *memory,
    struct symc_site **site);

/* Have other memory from now on.  The former is released when what runs has ended, in
 * a later call; or kept, where a graph may use it. */
void symc_fused_device_replace(
    struct symc_fused_device *device, struct symc_fused_memory memory);

/* Release its memory; and all, where operations that were given up have ended, for
 * which it waits until then: what they use remains. */
void symc_fused_device_shrink(struct symc_fused *fused);
void symc_fused_device_end(struct symc_fused *fused, int64_t until_ns);

/* ---- memory ---- */

/* Parts of a rank's memory, one after the other.  What others use begins. */
struct symc_fused_room {
    size_t nbytes; /* so far */
    bool overflow; /* more than can be counted */
};

/* Where the next part is. */
size_t symc_fused_room_add(
    struct symc_fused_room *room, size_t count, size_t elem);

/*
 * Tell the others that this rank can go on with so much memory, or why it cannot,
 * and have the memory.  in_parts (in, out): as this rank wants; as all do.
 * Errors: this rank's status, with its detail, and those of symc_fused_confirm().
 */
symmcoll_status_t symc_fused_device_agree(struct symc_fused *fused,
    const struct symc_fused_args *args, struct symc_fused_on *on,
    const struct symc_fused_room *room, symmcoll_status_t status,
    bool *in_parts);

/* A byte of a rank's memory, once all have agreed. */
char *symc_fused_device_at(
    const struct symc_fused *fused, int rank, size_t offset);

/* ---- products ---- */

/* A matrix of a tensor of 2 dimensions, or false: its elements have to be packed
 * first, by rows. */
bool symc_fused_device_matrix(
    const struct symmcoll_tensor *tensor, struct symc_product_matrix *matrix);
/* One by rows, which begin one after the other at multiples of `step` bytes. */
struct symc_product_matrix symc_fused_device_rows(
    enum symmcoll_dtype dtype, int64_t rows, int64_t cols, size_t step);

/* Bytes that a product may use beside its matrices. */
#define SYMC_FUSED_WORKSPACE ((size_t)32 << 20)

/* In device_state.c: a plan (out), which is kept, and raise a workspace to what it
 * needs; none for a product without elements, or without depth.  Errors: those of plan() of struct
 * symc_compute_ops. */
symmcoll_status_t symc_fused_device_plan(struct symc_fused *fused,
    const char *name, enum symc_fused_form form, struct symc_product *product,
    void **plan, size_t *workspace);

/* Try the plans of the call in hand that have not been.  Errors: those of load() of
 * struct symc_compute_ops. */
symmcoll_status_t symc_fused_device_load(
    struct symc_fused *fused, enum symc_fused_form form);

/* ---- the operation ---- */

/* What is enqueued; the rest of `op` is of the call. */
symmcoll_status_t symc_fused_device_run(struct symc_fused *fused,
    const struct symc_fused_call *begun, const struct symc_fused_on *on,
    const struct symc_op *op, struct symc_mover *mover);

#endif
