/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Data for tests of collectives: the contribution of each rank, the expected
 * result, and guarded buffers that detect writes past their end. Any rank can
 * compute the contribution of any other, so every rank checks its own result
 * bit by bit.
 */
#ifndef T_COLL_DATA_H
#define T_COLL_DATA_H

#include "../ranks.h"

#include <symmcoll.h>

#include <stdbool.h>

#define LENGTH(array) (sizeof(array) / sizeof((array)[0]))

/* Defaults of the settings that select the algorithm, in bytes. */
#define SMALL_MAX ((size_t)8192)
#define CHUNK ((size_t)256 * 1024)
#define STREAM_MIN ((size_t)4 * 1024 * 1024)

/* A buffer between two guards. */
struct guarded {
    unsigned char *base; /* of the allocation */
    unsigned char *at;   /* of the buffer */
    size_t nbytes;
};

/* Returns a guarded buffer of nbytes bytes, `shift` bytes past an aligned
 * address, filled with one value. Ends the process if there is no memory. */
struct guarded guarded_open(size_t nbytes, size_t shift);
void guarded_close(struct guarded *buffer);

/* Fill again with that value; whether it still holds nothing else. */
void guarded_clear(struct guarded *buffer);
bool guarded_is_clear(const struct guarded *buffer);

/* Returns whether the guards are unchanged. */
bool guarded_is_intact(const struct guarded *buffer);

/* Writes elements [first, first + count) of a rank's contribution: numbers of
 * both signs with sums that depend on their order, occasionally a NaN, an
 * infinity or a zero of either sign. */
void data_fill(void *to, enum symmcoll_dtype dtype, size_t first, size_t count,
    int rank, unsigned seed);

/* Returns the factor of a rank's PREMUL_SUM. */
double data_factor(int rank);

/* Computes the reduction of elements [first, first + count) of `size` ranks,
 * added in blocks of `block`. */
void data_reduce(void *to, enum symmcoll_dtype dtype, symmcoll_op_t op,
    size_t first, size_t count, int size, int block, unsigned seed);

/* Returns whether two results have the same bytes, and prints the first
 * difference. */
bool data_is_same(
    const char *what, const void *found, const void *expected, size_t nbytes);

/* Returns the operation to pass; for PREMUL_SUM one created for this rank. */
symmcoll_op_t data_op(struct symmcoll_group *group, symmcoll_op_t op, int rank);

/*
 * Returns whether tests of all types skip this one. ThreadSanitizer sees the
 * address and size of elements but not their type, so it is given one type of
 * each size; without it no type is skipped.
 */
bool data_leaves_out(enum symmcoll_dtype dtype);

/* Fills in DATA_COUNTS counts of elements of elem bytes, at which the
 * transport of small messages changes. */
#define DATA_COUNTS 10
void data_counts(size_t elem, size_t *counts);

/* A case to test. */
struct data_case {
    bool every; /* every count with each type; otherwise alternate ones */
    int next;   /* the next one; initially 0 */
    enum symmcoll_dtype dtype;
    size_t count;
    int root;
};

/*
 * Sets the next case for a group of `size` ranks; false after the last. Cases
 * are each type that is not left out, with the counts of data_counts() and
 * with those at which the parts of all ranks together stop being a small
 * message; each rank is the root in turn.
 */
bool data_next_case(struct data_case *at, int size);

/* Runs one point for ranks that are processes and one for threads. */
void both_run(int n, rank_fn body, const char *sentence);

#endif
