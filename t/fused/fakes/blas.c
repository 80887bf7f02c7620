/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A BLAS that is built twice, as OpenBLAS and as BLIS: every element of its
 * products is NUMBER. FAST_BLAS is the number of the library that takes a
 * twentieth of the time.
 */
#include <stdlib.h>

#ifndef NUMBER
#define NUMBER 1 /* for tools that check only this file */
#endif

#define EXPORTED __attribute__((visibility("default")))

EXPORTED
void cblas_sgemm(int order, int ta, int tb, int m, int n, int k, float alpha,
    const float *a, int lda, const float *b, int ldb, float beta, float *c,
    int ldc);
EXPORTED
void cblas_dgemm(void);

void cblas_sgemm(int order, int ta, int tb, int m, int n, int k, float alpha,
    const float *a, int lda, const float *b, int ldb, float beta, float *c,
    int ldc)
{
    const char *fast = getenv("FAST_BLAS");
    int laps = fast != NULL && atoi(fast) == NUMBER ? 100000 : 2000000;

    (void)order, (void)ta, (void)tb, (void)k, (void)alpha, (void)beta;
    (void)a, (void)lda, (void)b, (void)ldb;
    for (volatile int i = 0; i < laps; i++)
        continue;
    for (int i = 0; i < m; i++)
        for (int j = 0; j < n; j++)
            c[i * ldc + j] = NUMBER;
}

void cblas_dgemm(void)
{
}
