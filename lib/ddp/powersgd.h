/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The state of the PowerSGD hook: for each bucket the errors of the last pass,
 * and the factors of its matrices.
 */
#ifndef SYMC_DDP_POWERSGD_H
#define SYMC_DDP_POWERSGD_H

#include "ddp/reducer.h"

/* A gradient as a matrix in row-major order. */
struct symc_psgd_matrix {
    uint64_t offset; /* of its first element in the bucket */
    uint64_t rows, columns;
    uint64_t rank; /* 0: sent without compression */
    uint64_t p;    /* offset in first of P, or of the elements without
                      compression */
    uint64_t q;    /* offset in q of Q */
};

enum symc_psgd_phase {
    SYMC_PSGD_IDLE,
    SYMC_PSGD_PLAIN, /* an average in flight, without compression */
    SYMC_PSGD_FIRST, /* the sum of first in flight */
    SYMC_PSGD_SECOND /* the sum of q in flight */
};

/* The state of a bucket. */
struct symc_psgd_bucket {
    struct symc_psgd_matrix *matrices;
    struct symc_psgd_matrix
        *spare; /* nmatrices, in the memory of matrices: those
                                       of the pass that begins */
    uint64_t nmatrices;
    float *memory; /* all arrays of floats: */
    float *copy;   /* ncopy: the gradients with the errors of the pass before;
                      between passes, the errors */
    float *first;  /* nfirst: elements without compression, then all P */
    float *q;      /* nq: all Q */
    uint64_t ncopy, nfirst, nq;
    double *sums;   /* one for each element of the largest Q */
    uint16_t *wire; /* first or q in 16 bits; NULL: not needed yet */
    enum symmcoll_dtype wire_dtype;
    enum symc_psgd_phase phase;
    bool has_q; /* q is that of the pass before, the same on all ranks */
};

struct symmcoll_powersgd {
    struct symmcoll_powersgd_args args; /* with defaults filled in */
    struct symc_hook_pass pass;
    uint64_t iteration; /* synchronising passes begun */
    struct symc_psgd_bucket *buckets;
    int nbuckets;
};

/* ---- powersgd.c ---- */

/* Returns the state of a bucket, which is new if there was none; NULL: no
 * memory. */
struct symc_psgd_bucket *symc_psgd_bucket_at(
    struct symmcoll_powersgd *state, int index);

/* Allocates the arrays of a bucket for its numbers of elements, zeros. */
symmcoll_status_t symc_psgd_bucket_alloc(struct symc_psgd_bucket *bucket);
/* Frees the arrays; what remains is the state of a bucket without a pass. */
void symc_psgd_bucket_end(struct symc_psgd_bucket *bucket);

/* ---- powersgd_matrix.c ---- */

/* Makes the columns of a rows x rank matrix orthogonal, in order, and divides
 * each by its norm + epsilon.  A column that depends on those before it becomes
 * zero.  The result has the same bits on all machines. */
void symc_psgd_orthogonalise(
    float *matrix, size_t rows, size_t rank, double epsilon);

/* Draws the columns of a rows x rank matrix that are zero or not finite, from a
 * nearly normal distribution. */
void symc_psgd_draw(float *matrix, size_t rows, size_t rank, uint64_t key);

/* Returns a hash of a number, from which keys of draws are made. */
uint64_t symc_psgd_mix(uint64_t value);

/* Compute P = M Q and Q = factor M^T P, limited to +-limit; sums has room for a
 * Q. */
void symc_psgd_project(float *p, const float *m, const float *q,
    const struct symc_psgd_matrix *matrix, double limit, double *sums);
void symc_psgd_project_back(float *q, const float *m, const float *p,
    const struct symc_psgd_matrix *matrix, double factor, double limit,
    double *sums);

/* Computes row `row` of P Q^T, limited to +-limit. */
void symc_psgd_expand_row(float *out, const float *p, const float *q,
    const struct symc_psgd_matrix *matrix, size_t row, double limit);

#endif
