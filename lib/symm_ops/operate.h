/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Operations of all members on the buffers of a handle: the common part. Each
 * is an operation of the handle's group, with a sequence number, a timeout and
 * an entry in the flight recorder, like any collective. Between its two
 * synchronisations each rank reads and writes all buffers in place (struct
 * symc_mover). On device memory the copies and kernels are enqueued.
 */
#ifndef SYMC_SYMM_OPS_OPERATE_H
#define SYMC_SYMM_OPS_OPERATE_H

#include "backend/one_rank.h"
#include "base/moving.h"
#include "run/call.h"
#include "symm_mem/symm_mem.h"

#define SYMC_SYMM_WORDS 3

struct symc_symm_call;

/* Description of one kind of operation. */
struct symc_symm_does {
    enum symc_kind kind;
    /* Names of the words of a call that all ranks have to pass alike; NULL: not
     * compared. */
    const char *words[SYMC_SYMM_WORDS];
    /* Checks what else has to agree, after the words; every rank returns the
     * same. passed[r] is the handle and the words of rank r. May be NULL. */
    symmcoll_status_t (*verify)(const struct symc_symm_call *call,
        const struct symc_moving *moving, const uint64_t *const *passed);
    void (*move)(
        const struct symc_symm_call *call, const struct symc_moving *moving);
    /* Device memory: describes the kernel that replaces move(); NULL: there is
     * none. */
    void (*describe)(const struct symc_symm_call *call,
        const struct symc_op *op, struct symc_launch *launch);
};

struct symc_symm_call {
    struct symc_mover mover; /* first */
    const struct symc_symm_does *does;
    struct symmcoll_symm *handle;
    uint64_t words[SYMC_SYMM_WORDS]; /* visible to all ranks */
    size_t elem; /* bytes of an element; set by symc_symm_begin() and
                  * symc_symm_run() */
    void *out;   /* this rank's alone, as is in */
    const void *in;
    const void *more; /* arguments of the operation */
};

/* Returns the address of an offset in a member's buffer. */
static inline char *symc_symm_at(
    const struct symc_symm_call *call, int rank, size_t offset)
{
    return call->handle->at[rank] + offset;
}

/* Returns the i-th member after this rank. If each rank follows this order,
 * they access different members' memory at a time. */
static inline int symc_symm_next(const struct symc_moving *moving, int i)
{
    return (moving->rank + i) % moving->size;
}

/* Checks the handle and the element type of a call. Errors: INVALID. */
symmcoll_status_t symc_symm_begin(
    struct symc_symm_call *call, enum symmcoll_dtype dtype);

/* Checks the alignment of a reduction's input and of out. */
symmcoll_status_t symc_symm_check_reduced(const struct symmcoll_symm *handle,
    const char *where, size_t offset, const void *out,
    enum symmcoll_dtype dtype);

/*
 * Checks the arguments that all operations have, and runs the operation.
 *
 * op     SUM if nothing is reduced
 * count  elements, which all ranks pass alike
 * root   of kinds that have one, else 0
 *
 * Errors: INVALID, UNSUPPORTED, MISMATCH, and those of collectives.
 */
symmcoll_status_t symc_symm_run(struct symc_symm_call *call,
    enum symmcoll_dtype dtype, symmcoll_op_t op, size_t count, int root,
    const struct symmcoll_call *options);

/* ---- moving bytes; another rank can stop it between two chunks ---- */

/* Reduces rows of all buffers into out; rows->at is an offset in the
 * buffers. */
void symc_symm_reduce(const struct symc_symm_call *call,
    const struct symc_moving *moving, const struct symc_rows *rows, void *out);

/* Copy nbytes: symc_symm_pull() as one of several parts that this rank reads,
 * symc_symm_push() to other ranks or as a whole. They differ in the size from
 * which non-temporal stores are used. */
void symc_symm_pull(const struct symc_moving *moving, int rank, void *out,
    const void *in, size_t nbytes);
void symc_symm_push(const struct symc_moving *moving, int rank, void *out,
    const void *in, size_t nbytes);

/* Copies rows of a matrix like symc_symm_pull(). */
void symc_symm_pull_rows(const struct symc_moving *moving, int rank,
    const struct symc_strided *copy);

/* Returns part r of count elements as [lo, hi); parts begin on cache lines. */
void symc_symm_part(
    size_t count, size_t elem, int size, int r, size_t *lo, size_t *hi);

/* ---- checks of arguments, before anything changes; where names the call
 * ---- */

/* Checks an element type; elem (out): its bytes. */
symmcoll_status_t symc_symm_check_dtype(
    const char *where, enum symmcoll_dtype dtype, size_t *elem);

/* Checks that count elements from offset on lie within a buffer of the handle.
 * what names them in messages: "in". nbytes (out): their bytes; may be NULL. */
symmcoll_status_t symc_symm_check_elements(const struct symmcoll_symm *handle,
    const char *where, const char *what, size_t offset, size_t count,
    size_t elem, size_t *nbytes);

/* Checks that count times each bytes can be a buffer of the caller, which may
 * be larger than the handle's. nbytes (out): the product. */
symmcoll_status_t symc_symm_check_size(const char *where, const char *what,
    size_t count, size_t each, size_t *nbytes);

/* Checks that a buffer is aligned to its elements if it is in device memory. */
symmcoll_status_t symc_symm_check_aligned(const struct symmcoll_symm *handle,
    const char *where, const char *what, const void *at,
    enum symmcoll_dtype dtype);

/* Checks that a buffer of the caller is not NULL, is in the memory of the
 * handle's buffers, and does not overlap the bytes of this rank's buffer that
 * other ranks access during the operation. */
symmcoll_status_t symc_symm_check_apart(const struct symmcoll_symm *handle,
    const char *where, const char *what, const void *buffer, size_t nbytes,
    size_t offset, size_t length);

/* Enqueues the wait of symmcoll_symm_wait_value32() on a stream of the
 * caller. */
symmcoll_status_t symc_symm_enqueue_wait(struct symmcoll_symm *handle, int peer,
    size_t offset, uint32_t value, double timeout, void *stream);

#endif
