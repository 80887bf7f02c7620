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

/* cblas_dgemm(), like symc_sgemm_fn for cblas_sgemm(). */
typedef void (*symc_dgemm_fn)(int order, int trans_a, int trans_b, int m, int n,
    int k, double alpha, const double *a, int lda, const double *b, int ldb,
    double beta, double *c, int ldc);

struct symc_blas {
    symc_sgemm_fn sgemm; /* both NULL: the plain kernel */
    symc_dgemm_fn dgemm;
};

/*
 * Loads the library that a setting names. "": the one found by configure, if it
 * is installed; "none": the plain kernel; else "LIBRARY" or "LIBRARY:KERNELS",
 * with kernels as OPENBLAS_CORETYPE names them. It stays loaded.
 *
 * Errors: CONFIG (a library that cannot be loaded, or has no CBLAS).
 */
symmcoll_status_t symc_blas_load(struct symc_blas *blas, const char *setting);

/*
 * Loads the library that the ranks of a world have agreed on: the choice of the
 * first rank that calls this; if there is none, that of the setting "". It
 * stays loaded.
 *
 * agreed  in memory that the ranks share: 0 until one has chosen
 *
 * Errors: CONFIG (this rank cannot load another rank's choice).
 */
symmcoll_status_t symc_blas_load_agreed(struct symc_blas *blas,
    _Atomic uint32_t *agreed, const struct symc_log *log);

/* ---- scratch memory ---- */

/* Memory that grows, and is kept between calls. */
struct symc_scratch {
    void *at;
    size_t nbytes;
};

/* Returns nbytes aligned to a cache line; former contents are lost. NULL: no
 * memory. */
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

/* State of products; one thread uses it at a time. */
struct symc_matmul {
    struct symc_blas blas;
    /* operands packed in an order that BLAS takes */
    struct symc_scratch packed[2];
    struct symc_scratch panels[3]; /* floats of a, b and c */
};

void symc_matmul_free(struct symc_matmul *matmul);

/* Returns whether matrices of a type can be multiplied. */
bool symc_matmul_has(enum symmcoll_dtype dtype);

/* Returns the type in which products of a type are added. */
enum symmcoll_dtype symc_matmul_sum_dtype(enum symmcoll_dtype dtype);

/*
 * Computes c = a @ b, or with `add` c += a @ b.
 *
 * a and b have one type. c has that type or the one in which products are
 * added; with `add`, the latter. c has a col_stride of 1, and overlaps neither
 * a nor b.
 *
 * Errors: NO_MEMORY.
 */
symmcoll_status_t symc_matmul(struct symc_matmul *matmul,
    const struct symc_matrix *a, const struct symc_matrix *b,
    const struct symc_matrix *c, bool add);

/* Scaling of a product: element (i, j) is (sum * rows[i] * cols[j] + bias[j]) *
 * result. */
struct symc_scaling {
    const float *rows;
    int64_t row_step; /* 0: one factor for all; or 1 */
    const float *cols;
    int64_t col_step;  /* as row_step */
    const float *bias; /* NULL: none */
    float result;
    /* Exponents that scale the elements before the product, in the order of
     * symc_panel_scale_rows(): of the rows of a, and of the columns of b. NULL:
     * none. */
    const uint8_t *a_blocks, *b_blocks;
};

/* Returns whether matrices of a type can be multiplied with scaling: 8-bit
 * floats with a sign. */
bool symc_matmul_has_scaled(enum symmcoll_dtype dtype);

/*
 * Computes c = a @ b, scaled. a and b have types of symc_matmul_has_scaled(). c
 * has one of these or float32, float16 or bfloat16, a col_stride of 1, and
 * overlaps neither a nor b. Sums are rounded once, after they have been scaled.
 *
 * Errors: NO_MEMORY.
 */
symmcoll_status_t symc_matmul_scaled(struct symc_matmul *matmul,
    const struct symc_matrix *a, const struct symc_matrix *b,
    const struct symc_scaling *scaling, const struct symc_matrix *c);

/* ---- panel.c: conversions between floats and narrower types ---- */

/* Converts a part of a matrix to contiguous rows of floats. */
void symc_panel_widen(const struct symc_matrix *from, int64_t row, int64_t col,
    int64_t rows, int64_t cols, float *to);

/* Rounds floats to a type: float16, bfloat16, or 8-bit floats with a sign;
 * copies them for float32. */
void symc_panel_round(
    enum symmcoll_dtype dtype, const float *from, void *to, size_t count);

#define SYMC_BLOCK 32 /* elements along the depth that share a scale */
/* rows of a tile of scales; it has 4 blocks per row */
#define SYMC_BLOCK_ROWS 128

/* Returns the bytes of the scales of a number of rows. */
int64_t symc_panel_blocks_nbytes(int64_t rows, int64_t depth);

/*
 * Multiplies each element of rows of floats by the float8_e8m0fnu of its block.
 * Scales are stored in tiles of 128 rows by 4 blocks; the tiles of the same
 * rows are consecutive. In a tile of 512 bytes the scale of row r and block b
 * is at r % 32 * 16 + r / 32 * 4 + b.
 *
 * scales  the scales of all rows; row is the first row of the panel
 * panel   rows of `depth` floats; in the second function `depth` rows of
 *         floats, each of which belongs to a column of b
 */
void symc_panel_scale_rows(const uint8_t *scales, int64_t row, int64_t rows,
    int64_t depth, float *panel);
void symc_panel_scale_columns(const uint8_t *scales, int64_t col, int64_t cols,
    int64_t depth, float *panel);

/* Scales float32 sums; the first one belongs to the given row and column. */
void symc_panel_scale(const struct symc_scaling *scaling, int64_t row,
    int64_t col, const struct symc_matrix *c);

#endif
