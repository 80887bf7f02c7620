/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Operations of all members of a handle on its buffers: what all of them share.
 * Each is an operation of the handle's group, with a sequence number, a timeout
 * and an entry in the flight recorder, as any collective; between the two
 * synchronisations of it each rank reads and writes all buffers where they lie
 * (struct symc_mover).  On memory of a device what moves them is enqueued.
 */
#ifndef SYMC_SYMM_OPS_OPERATE_H
#define SYMC_SYMM_OPS_OPERATE_H

#include "backend/one_rank.h"
#include "base/moving.h"
#include "group/call.h"
#include "symm_mem/symm_mem.h"

#define SYMC_SYMM_WORDS 3

struct symc_symm_call;

/* What is particular to one of them. */
struct symc_symm_does {
    enum symc_kind kind;
    const char *words[SYMC_SYMM_WORDS]; /* what the words of a call are, where
                                           all ranks pass the same; else NULL */
    /* After that: what else all ranks have to find alike.  passed[r] is the handle
     * and the words of rank r.  May be NULL. */
    symmcoll_status_t (*verify)(const struct symc_symm_call *call,
        const struct symc_moving *moving, const uint64_t *const *passed);
    void (*move)(
        const struct symc_symm_call *call, const struct symc_moving *moving);
    /* Of a device: what it has kernels for, in place of move(); or NULL. */
    void (*describe)(const struct symc_symm_call *call,
        const struct symc_op *op, struct symc_launch *launch);
};

struct symc_symm_call {
    struct symc_mover mover; /* first */
    const struct symc_symm_does *does;
    struct symmcoll_symm *handle;
    uint64_t words[SYMC_SYMM_WORDS]; /* what all others see */
    size_t elem;                     /* bytes; set by symc_symm_run() */
    void *out;                       /* of this rank alone, as in */
    const void *in;
    const void *more; /* the operation's own */
};

/* Where bytes of a member's buffer are. */
static inline char *symc_symm_at(
    const struct symc_symm_call *call, int rank, size_t offset)
{
    return call->handle->at[rank] + offset;
}

/* The i-th member after this rank: so that not all read or write the same one's
 * memory at a time. */
static inline int symc_symm_next(const struct symc_moving *moving, int i)
{
    return (moving->rank + i) % moving->size;
}

/*
 * Check what all calls pass, and run.
 *
 * op     SUM where nothing is reduced
 * count  elements, which all ranks pass alike
 * root   of kinds that have one, else 0
 *
 * Errors: INVALID, UNSUPPORTED, MISMATCH, and those of collectives.
 */
symmcoll_status_t symc_symm_run(struct symc_symm_call *call,
    enum symmcoll_dtype dtype, symmcoll_op_t op, size_t count, int root,
    const struct symmcoll_call *options);

/* ---- moving, by which other ranks can stop this one between two chunks ---- */

/* Reduce rows of all buffers into out; rows->at is a byte of these. */
void symc_symm_reduce(const struct symc_symm_call *call,
    const struct symc_moving *moving, const struct symc_rows *rows, void *out);

/* Copy a part of a rank's buffer, of which others are copied, too; and to a
 * rank's buffer, or the whole of one. */
void symc_symm_pull(const struct symc_moving *moving, int rank, void *out,
    const void *in, size_t nbytes);
void symc_symm_push(const struct symc_moving *moving, int rank, void *out,
    const void *in, size_t nbytes);

/* The same as the first, of the rows of a matrix. */
void symc_symm_pull_rows(const struct symc_moving *moving, int rank,
    const struct symc_strided *copy);

/* Part r of count elements, in pieces that begin on cache lines: [lo, hi). */
void symc_symm_part(
    size_t count, size_t elem, int size, int r, size_t *lo, size_t *hi);

/* ---- checks of arguments, before anything changes; where is the call ---- */

/* An element type; elem (out): its bytes. */
symmcoll_status_t symc_symm_check_dtype(
    const char *where, enum symmcoll_dtype dtype, size_t *elem);

/* That so many elements from a byte on are within a buffer of the handle; what
 * they are, for messages: "in".  nbytes (out): how many bytes; NULL. */
symmcoll_status_t symc_symm_check_elements(const struct symmcoll_symm *handle,
    const char *where, const char *what, size_t offset, size_t count,
    size_t elem, size_t *nbytes);

/* That so many pieces can be a buffer of the caller's, which need not be of the
 * handle's size.  nbytes (out): of all. */
symmcoll_status_t symc_symm_check_size(const char *where, const char *what,
    size_t count, size_t each, size_t *nbytes);

/* That what is reduced begins where an element can, which a device needs. */
symmcoll_status_t symc_symm_check_aligned(const struct symmcoll_symm *handle,
    const char *where, const char *what, const void *at,
    enum symmcoll_dtype dtype);

/* That a buffer of the caller's is there, in the memory of the handle's buffers,
 * and apart from bytes of this rank's that others read or write meanwhile. */
symmcoll_status_t symc_symm_check_apart(const struct symmcoll_symm *handle,
    const char *where, const char *what, const void *buffer, size_t nbytes,
    size_t offset, size_t length);

/* The wait of symmcoll_symm_wait_value32() on a caller's stream. */
symmcoll_status_t symc_symm_enqueue_wait(struct symmcoll_symm *handle, int peer,
    size_t offset, uint32_t value, double timeout, void *stream);

#endif
