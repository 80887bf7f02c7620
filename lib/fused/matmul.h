/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Products of matrices in host memory, by CBLAS or by a plain kernel.
 */
#ifndef SYMC_FUSED_MATMUL_H
#define SYMC_FUSED_MATMUL_H

#include "base/base.h"
#include "fused/blas_choice.h"

#include <symmcoll/types.h>

#include <stdatomic.h>

/* ---- blas.c ---- */

/* cblas_dgemm(), as symc_sgemm_fn is cblas_sgemm(). */
typedef void (*symc_dgemm_fn)(int order, int trans_a, int trans_b, int m, int n,
    int k, double alpha, const double *a, int lda, const double *b, int ldb,
    double beta, double *c, int ldc);

struct symc_blas {
    symc_sgemm_fn sgemm; /* both NULL: the plain kernel */
    symc_dgemm_fn dgemm;
};

/*
 * Load the library that a setting names: "" the one that configure has found, if
 * it is there; "none": the plain kernel; else "LIBRARY" or "LIBRARY:KERNELS", those
 * that OPENBLAS_CORETYPE names.  It remains loaded.
 *
 * Errors: CONFIG (a library that cannot be loaded, or has no CBLAS).
 */
symmcoll_status_t symc_blas_load(struct symc_blas *blas, const char *setting);

/*
 * Load the library that the ranks of a world have agreed on, which is the choice of
 * the first of them that calls this; if there is none, that of the setting "".  It
 * remains loaded.
 *
 * agreed  in memory that the ranks share: 0 until one has chosen
 *
 * Errors: CONFIG (this rank cannot load what another has chosen).
 */
symmcoll_status_t symc_blas_load_agreed(struct symc_blas *blas,
    _Atomic uint32_t *agreed, const struct symc_log *log);

/* ---- scratch memory ---- */

/* Memory that grows, and is kept from call to call. */
struct symc_scratch {
    void *at;
    size_t nbytes;
};

/* So many bytes, aligned to a line, whose contents are lost; NULL: NO_MEMORY. */
void *symc_scratch_take(struct symc_scratch *scratch, size_t nbytes);
void symc_scratch_free(struct symc_scratch *scratch);

/* ---- matmul.c ---- */

/* Element (i, j) is at data + i * row_stride + j * col_stride elements. */
struct symc_matrix {
    void *data;
    enum symmcoll_dtype dtype;
    int64_t rows, cols;
    int64_t row_stride, col_stride;
};

/* What multiplies; one thread uses it at a time. */
struct symc_matmul {
    struct symc_blas blas;
    struct symc_scratch packed[2]; /* operands in an order that BLAS knows */
    struct symc_scratch panels[3]; /* of a, b and c, as float */
};

void symc_matmul_free(struct symc_matmul *matmul);

/* Whether matrices of a type can be multiplied. */
bool symc_matmul_has(enum symmcoll_dtype dtype);

/* The type in which products of a type are added. */
enum symmcoll_dtype symc_matmul_sum_dtype(enum symmcoll_dtype dtype);

/*
 * c = a @ b, or where `add` is set c += a @ b.
 *
 * a and b are of one type, c of that or of the one in which products are added;
 * with `add` of the latter.  c has a col_stride of 1, and overlaps neither.
 *
 * Errors: NO_MEMORY.
 */
symmcoll_status_t symc_matmul(struct symc_matmul *matmul,
    const struct symc_matrix *a, const struct symc_matrix *b,
    const struct symc_matrix *c, bool add);

/* What a product is multiplied by and what is added to it: element (i, j) is
 * (sum * rows[i] * cols[j] + bias[j]) * result. */
struct symc_scaling {
    const float *rows;
    int64_t row_step; /* 0: one factor for all; or 1 */
    const float *cols;
    int64_t col_step;  /* likewise */
    const float *bias; /* NULL: none */
    float result;
    /* Exponents that elements are scaled by before they are multiplied, in the
     * order of symc_panel_scale_rows(): of the rows of a, and of the columns of b.
     * NULL: none. */
    const uint8_t *a_blocks, *b_blocks;
};

/* Whether matrices of a type can be multiplied so: 8-bit floats with a sign. */
bool symc_matmul_has_scaled(enum symmcoll_dtype dtype);

/*
 * c = a @ b, scaled.  a and b are of types of symc_matmul_has_scaled(), c of
 * one of them, float32, float16 or bfloat16, with a col_stride of 1, and
 * overlaps neither.  Sums are rounded once, when they have been scaled.
 *
 * Errors: NO_MEMORY.
 */
symmcoll_status_t symc_matmul_scaled(struct symc_matmul *matmul,
    const struct symc_matrix *a, const struct symc_matrix *b,
    const struct symc_scaling *scaling, const struct symc_matrix *c);

/* ---- panel.c: floats from and to narrower types ---- */

/* A part of a matrix as contiguous rows of floats. */
void symc_panel_widen(const struct symc_matrix *from, int64_t row, int64_t col,
    int64_t rows, int64_t cols, float *to);

/* Round floats to a type: float16, bfloat16, 8-bit floats with a sign, or copy
 * them: float32. */
void symc_panel_round(
    enum symmcoll_dtype dtype, const float *from, void *to, size_t count);

#define SYMC_BLOCK 32       /* elements along the depth that share a scale */
#define SYMC_BLOCK_ROWS 128 /* and 4 blocks: a tile of scales */

/* How many blocks the scales of a row, or of a column, are for, those that fill the
 * last tile included; and of how many bytes the scales of so many are. */
int64_t symc_panel_blocks(int64_t depth);
int64_t symc_panel_blocks_nbytes(int64_t rows, int64_t depth);

/*
 * Multiply each element of rows of floats by the float8_e8m0fnu of its block.
 * Scales are in tiles of 128 rows by 4 blocks, those of the same rows one after the
 * other: the scale of row r and block b of a tile is byte r % 32 * 16 + r / 32 * 4 +
 * b of its 512.
 *
 * scales  those of the first row there is; row is that of the panel
 * panel   rows of `depth` floats, or, in the second function, `depth` rows of
 *         floats, each of which belongs to a column of b
 */
void symc_panel_scale_rows(const uint8_t *scales, int64_t row, int64_t rows,
    int64_t depth, float *panel);
void symc_panel_scale_columns(const uint8_t *scales, int64_t col, int64_t cols,
    int64_t depth, float *panel);

/* Scale sums of float32, of which the first is that of a row and a column. */
void symc_panel_scale(const struct symc_scaling *scaling, int64_t row,
    int64_t col, const struct symc_matrix *c);

#endif
