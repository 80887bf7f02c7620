/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The choice among the BLAS libraries that are installed, by measurement: OpenBLAS
 * takes kernels of 2004 on a CPU that is newer than itself, and distributions
 * choose a library without regard to the CPU.  examples/train_charlm is built with
 * these two files, too; they use libc alone.
 */
#ifndef SYMC_FUSED_BLAS_CHOICE_H
#define SYMC_FUSED_BLAS_CHOICE_H

#include <stdbool.h>
#include <stddef.h>

/* Values of CBLAS's enumerations, which are integers. */
#define SYMC_BLAS_ROW_MAJOR 101
#define SYMC_BLAS_NO_TRANS 111
#define SYMC_BLAS_TRANS 112

typedef void (*symc_sgemm_fn)(int order, int trans_a, int trans_b, int m, int n,
    int k, float alpha, const float *a, int lda, const float *b, int ldb,
    float beta, float *c, int ldc);

/* A library, and the kernels that it has to use. */
struct symc_blas_candidate {
    /* path or name for dlopen(); NULL: the program's own BLAS */
    const char *library;
    const char *core; /* value of OPENBLAS_CORETYPE; NULL: unchanged */
};

#define SYMC_BLAS_TRIALS_MAX 16

/* The result of loading and measuring a candidate. */
struct symc_blas_trial {
    int candidate;
    char name[96];     /* as symc_blas_name() has it */
    double rate;       /* 1e9 operations per second; 0: not measured */
    char rejected[64]; /* reason why there is no rate; "": there is one */
};

struct symc_blas_choice {
    int candidate;      /* a number for symc_blas_candidate(); -1: none found */
    const char *reason; /* static; "measured", or why nothing was measured */
    int ntrials; /* trials of installed candidates, in the order of measuring */
    struct symc_blas_trial trials[SYMC_BLAS_TRIALS_MAX];
};

/* Returns a candidate. A number means the same in every process with this build
 * of the library; an invalid one means the program's own BLAS. */
struct symc_blas_candidate symc_blas_candidate(int number);

/* Parses "LIBRARY" or "LIBRARY:KERNELS"; the strings of the candidate are in
 * `memory`. Returns false if that is too small. */
bool symc_blas_parse(const char *text, char *memory, size_t nbytes,
    struct symc_blas_candidate *candidate);

/*
 * Chooses the BLAS of this process:
 *   its own, if cblas_sgemm is among the program's symbols or a candidate has been
 *   loaded before; else OpenBLAS, if core is not NULL; else the installed
 *   candidate that multiplies fastest with one thread.
 *
 * core  the value of OPENBLAS_CORETYPE, which the user has set; NULL: it is not set
 *
 * Each candidate is loaded and measured in a child process of its own, so that one
 * that crashes or does not return is only rejected.  A child takes some 10 ms, at
 * most 0.3 s of processor time and 2 s in all; no child is started after 6 s.
 */
void symc_blas_choose(struct symc_blas_choice *choice, const char *core);

/* Loads a candidate for good. Other threads that read the environment during
 * the call may see the candidate's OPENBLAS_CORETYPE. Returns a handle for
 * dlsym(), or NULL. */
void *symc_blas_open(const struct symc_blas_candidate *candidate);

/* Writes the name that a library reports, such as "OpenBLAS 0.3.21, kernels for
 * Zen", or the name of its file if it reports none. */
void symc_blas_name(void *library, char *name, size_t nbytes);

/* Writes the candidates that were measured and not chosen, with their rates or
 * the reasons of their rejection: "BLIS 0.9.0 (80.1); OpenBLAS 0.3.21, kernels
 * for Prescott (30.2)". */
void symc_blas_describe_rejected(
    const struct symc_blas_choice *choice, char *text, size_t nbytes);

#endif
