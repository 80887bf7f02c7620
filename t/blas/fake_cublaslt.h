/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The interface of a test to the stand-in for cuBLASLt: settings and counters.
 * The stand-in multiplies matrices in memory of the fake driver, in the order
 * of its streams. It is stricter than cuBLASLt: it ends the process if a
 * destroyed object is used, or if the matrices differ from those passed to the
 * heuristic.
 */
#ifndef T_BLAS_FAKE_CUBLASLT_H
#define T_BLAS_FAKE_CUBLASLT_H

#include <stddef.h>

#define FAKE_CUBLASLT_RESULTS 64

/* The struct that libcublasLt.so.13 exports under the name "fake_cublaslt";
 * zero selects the behaviour of cuBLASLt. */
struct fake_cublaslt {
    /* Statuses that these calls return; not 0: an error. */
    _Atomic int create_status, heuristic_status, matmul_status;
    _Atomic int none;         /* 1: the heuristic finds no algorithm */
    _Atomic size_t workspace; /* bytes that each product needs */
    _Atomic int live;         /* handles, descriptors, layouts, preferences */
    _Atomic int products;     /* that were enqueued */
    /* The addresses of the latest results, by their number from 0. */
    _Atomic(const void *) results[FAKE_CUBLASLT_RESULTS];
    _Atomic int sms;                    /* the latest one's SM_COUNT_TARGET */
    _Atomic int compute;                /* its type of computation */
    _Atomic unsigned int alignments[4]; /* as passed to the heuristic */
};

#endif
