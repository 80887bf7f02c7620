/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What a test tells the stand-in for cuBLASLt, and what that counts.  It multiplies
 * matrices in memory of the fake driver, in the order of its streams.  It is
 * stricter than cuBLASLt: it ends the process where what was destroyed is used,
 * or where what is multiplied is not what the heuristic was asked for.
 */
#ifndef T_BLAS_FAKE_CUBLASLT_H
#define T_BLAS_FAKE_CUBLASLT_H

#include <stddef.h>

#define FAKE_CUBLASLT_RESULTS 64

/* What libcublasLt.so.13 has under the name "fake_cublaslt"; zero is what cuBLASLt
 * does. */
struct fake_cublaslt {
    /* Statuses that these calls return: not 0, an error. */
    _Atomic int create_status, heuristic_status, matmul_status;
    _Atomic int none;         /* 1: the heuristic finds no algorithm */
    _Atomic size_t workspace; /* bytes that each product needs */
    _Atomic int live;         /* handles, descriptors, layouts, preferences */
    _Atomic int products;     /* that were enqueued */
    /* Where the results of the latest of them are, by their number from 0. */
    _Atomic(const void *) results[FAKE_CUBLASLT_RESULTS];
    _Atomic int sms;                    /* the latest one's SM_COUNT_TARGET */
    _Atomic int compute;                /* its type of computation */
    _Atomic unsigned int alignments[4]; /* the heuristic was told */
};

#endif
