/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Data for tests of collectives: what each rank contributes, what must come
 * out, and guarded buffers that show who wrote past their end.  Any rank can
 * work out any other's contribution, so every rank checks its own result, to
 * the bit.
 */
#ifndef T_COLL_DATA_H
#define T_COLL_DATA_H

#include "../ranks.h"

#include <symmcoll.h>

#include <stdbool.h>

#define LENGTH(array) (sizeof(array) / sizeof((array)[0]))

/* Settings' defaults that divide the algorithms, in bytes. */
#define SMALL_MAX ((size_t)8192)
#define CHUNK ((size_t)256 * 1024)
#define STREAM_MIN ((size_t)4 * 1024 * 1024)

/* A buffer between two guards. */
struct guarded {
    unsigned char *base; /* of the allocation */
    unsigned char *at;   /* of the buffer */
    size_t nbytes;
};

/* A guarded buffer of so many bytes, shift bytes beyond an aligned address,
 * filled with one value; ends the process where there is no memory. */
struct guarded guarded_open(size_t nbytes, size_t shift);
void guarded_close(struct guarded *buffer);

/* Fill again with that value; whether it still holds nothing else. */
void guarded_clear(struct guarded *buffer);
bool guarded_is_clear(const struct guarded *buffer);

/* Whether the guards are as they were. */
bool guarded_is_intact(const struct guarded *buffer);

/* Elements [first, first + count) of rank's contribution: numbers of both signs
 * whose sums depend on their order, now and then a NaN, an infinity or a zero
 * of either sign. */
void data_fill(void *to, enum symmcoll_dtype dtype, size_t first, size_t count,
    int rank, unsigned seed);

/* The factor of a rank's PREMUL_SUM. */
double data_factor(int rank);

/* The reduction of elements [first, first + count) of size ranks, added in
 * blocks of `block`. */
void data_reduce(void *to, enum symmcoll_dtype dtype, symmcoll_op_t op,
    size_t first, size_t count, int size, int block, unsigned seed);

/* Whether two results are the same bytes; says where they are not. */
bool data_is_same(
    const char *what, const void *found, const void *expected, size_t nbytes);

/* The operation's number to pass: for PREMUL_SUM one made for this rank. */
symmcoll_op_t data_op(struct symmcoll_group *group, symmcoll_op_t op, int rank);

/*
 * Whether tests of all types leave this one out.  ThreadSanitizer sees where
 * elements are and how large, not what they are, so that it has one type of each
 * size; otherwise none is left out.
 */
bool data_leaves_out(enum symmcoll_dtype dtype);

/* Counts of elements of elem bytes at which something changes in the way small
 * messages travel: an array of DATA_COUNTS. */
#define DATA_COUNTS 10
void data_counts(size_t elem, size_t *counts);

/* A call to be tried. */
struct data_case {
    bool every; /* count with each type; else every other one, in turn */
    int next;   /* which one is the next, begins as 0 */
    enum symmcoll_dtype dtype;
    size_t count;
    int root;
};

/*
 * The next case for a group of size ranks, false after the last: each type that is
 * not left out with counts of data_counts(), and with those at which the parts of
 * all ranks together are no small message any more; each rank is the root in turn.
 */
bool data_next_case(struct data_case *at, int size);

/* One point for ranks that are processes, one for threads. */
void both_run(int n, rank_fn body, const char *sentence);

#endif
