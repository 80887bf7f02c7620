/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A product in host memory. BLAS multiplies operands that it can take as they
 * are; others are packed first. Narrow types are multiplied in panels of
 * floats.
 */
#include "fused/matmul.h"

#include "base/floating.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

#define ROWS 128 /* rows of a panel of floats */
#define COLS 512
#define STEPS 64 /* of the plain kernel: rows of b that stay in the cache */

/* values of CBLAS's enumerations */
enum {
    ROW_MAJOR = 101,
    NO_TRANS = 111,
    TRANS = 112
};

void *symc_scratch_take(struct symc_scratch *scratch, size_t nbytes)
{
    size_t rounded;

    if (scratch->nbytes >= nbytes && scratch->at != NULL)
        return scratch->at;
    free(scratch->at);
    *scratch = (struct symc_scratch){.at = NULL};
    if (symc_add(nbytes, 4095, &rounded))
        scratch->at = aligned_alloc(4096, (rounded / 4096 + 1) * 4096);
    if (scratch->at == NULL) {
        symc_fail(
            SYMMCOLL_ERR_NO_MEMORY, "matmul: %zu bytes requested", nbytes);
        return NULL;
    }
    scratch->nbytes = nbytes;
    return scratch->at;
}

void symc_scratch_free(struct symc_scratch *scratch)
{
    free(scratch->at);
    *scratch = (struct symc_scratch){.at = NULL};
}

void symc_matmul_free(struct symc_matmul *matmul)
{
    for (int i = 0; i < 2; i++)
        symc_scratch_free(&matmul->packed[i]);
    for (int i = 0; i < 3; i++)
        symc_scratch_free(&matmul->panels[i]);
}

bool symc_matmul_has(enum symmcoll_dtype dtype)
{
    return dtype == SYMMCOLL_FLOAT32 || dtype == SYMMCOLL_FLOAT64 ||
           dtype == SYMMCOLL_FLOAT16 || dtype == SYMMCOLL_BFLOAT16;
}

bool symc_matmul_has_scaled(enum symmcoll_dtype dtype)
{
    return dtype == SYMMCOLL_FLOAT8_E4M3FN || dtype == SYMMCOLL_FLOAT8_E5M2 ||
           dtype == SYMMCOLL_FLOAT8_E4M3FNUZ ||
           dtype == SYMMCOLL_FLOAT8_E5M2FNUZ;
}

enum symmcoll_dtype symc_matmul_sum_dtype(enum symmcoll_dtype dtype)
{
    return dtype == SYMMCOLL_FLOAT64 ? dtype : SYMMCOLL_FLOAT32;
}

/* ---- order of operands ---- */

static int64_t most(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

/* Returns whether rows are contiguous and do not overlap; distance (out):
 * between rows. */
static bool is_row_major(const struct symc_matrix *m, int64_t *distance)
{
    *distance = m->rows > 1 ? m->row_stride : most(m->cols, 1);
    return (m->cols <= 1 || m->col_stride == 1) &&
           *distance >= most(m->cols, 1);
}

static struct symc_matrix transposed(const struct symc_matrix *m)
{
    return (struct symc_matrix){
        m->data, m->dtype, m->cols, m->rows, m->col_stride, m->row_stride};
}

/* An operand as BLAS takes it. */
struct operand {
    const void *data;
    int64_t distance;
    int trans;
};

/* Packs a matrix to contiguous rows. */
static void *pack(struct symc_scratch *scratch, const struct symc_matrix *m)
{
    size_t elem = symmcoll_dtype_size(m->dtype);
    char *at = symc_scratch_take(
             scratch, (size_t)m->rows * (size_t)m->cols * elem),
         *to = at;

    for (int64_t i = 0; at != NULL && i < m->rows; i++) {
        const char *from =
            (const char *)m->data + i * m->row_stride * (int64_t)elem;

        for (int64_t j = 0; j < m->cols; j++) {
            memcpy(to, from, elem);
            to += elem;
            from += m->col_stride * (int64_t)elem;
        }
    }
    return at;
}

/* Makes an operand from a matrix: as it is, transposed if allowed, or
 * packed. */
static bool prepare(struct symc_scratch *scratch, const struct symc_matrix *m,
    bool transposes, struct operand *operand)
{
    struct symc_matrix other = transposed(m);

    operand->trans = NO_TRANS;
    operand->data = m->data;
    if (is_row_major(m, &operand->distance))
        return true;
    if (transposes && is_row_major(&other, &operand->distance)) {
        operand->trans = TRANS;
        return true;
    }
    operand->distance = most(m->cols, 1);
    operand->data = pack(scratch, m);
    return operand->data != NULL;
}

/* ---- without BLAS ---- */

/* Computes c += a @ b for a number of rows of b that stay in the cache; b has
 * contiguous rows. */
#define DEFINE_PLAIN(name, type)                                              \
    static void name(const struct symc_matrix *a, const struct operand *b,    \
        const struct symc_matrix *c, bool add)                                \
    {                                                                         \
        const type *ad = a->data, *bd = b->data;                              \
        type *cd = c->data;                                                   \
                                                                              \
        for (int64_t i = 0; !add && i < c->rows; i++)                         \
            memset(cd + i * c->row_stride, 0, (size_t)c->cols * sizeof(*cd)); \
        for (int64_t first = 0; first < a->cols; first += STEPS) {            \
            int64_t end = first + STEPS < a->cols ? first + STEPS : a->cols;  \
                                                                              \
            for (int64_t i = 0; i < c->rows; i++) {                           \
                type *row = cd + i * c->row_stride;                           \
                                                                              \
                for (int64_t k = first; k < end; k++) {                       \
                    type factor = ad[i * a->row_stride + k * a->col_stride];  \
                    const type *from = bd + k * b->distance;                  \
                                                                              \
                    for (int64_t j = 0; j < c->cols; j++)                     \
                        row[j] += factor * from[j];                           \
                }                                                             \
            }                                                                 \
        }                                                                     \
    }
DEFINE_PLAIN(multiply_floats, float)
DEFINE_PLAIN(multiply_doubles, double)

static symmcoll_status_t multiply_plain(struct symc_matmul *matmul,
    const struct symc_matrix *a, const struct symc_matrix *b,
    const struct symc_matrix *c, bool add)
{
    struct operand operand;

    if (!prepare(&matmul->packed[1], b, false, &operand))
        return SYMMCOLL_ERR_NO_MEMORY;
    if (a->dtype == SYMMCOLL_FLOAT64)
        multiply_doubles(a, &operand, c, add);
    else
        multiply_floats(a, &operand, c, add);
    return SYMMCOLL_OK;
}

/* ---- with BLAS ---- */

/* Returns whether BLAS's int can hold a number. */
static bool fits(int64_t number)
{
    return number <= INT_MAX;
}

/* Multiplies matrices of floats or doubles; no dimension is 0. */
static symmcoll_status_t multiply(struct symc_matmul *matmul,
    const struct symc_matrix *a, const struct symc_matrix *b,
    const struct symc_matrix *c, bool add)
{
    int64_t distance = c->rows > 1 ? c->row_stride : most(c->cols, 1);
    struct operand left, right;

    if (matmul->blas.sgemm == NULL || !fits(c->rows) || !fits(c->cols) ||
        !fits(a->cols) || !fits(distance))
        return multiply_plain(matmul, a, b, c, add);
    if (!prepare(&matmul->packed[0], a, true, &left) ||
        !prepare(&matmul->packed[1], b, true, &right))
        return SYMMCOLL_ERR_NO_MEMORY;
    if (!fits(left.distance) || !fits(right.distance))
        return multiply_plain(matmul, a, b, c, add);
    if (a->dtype == SYMMCOLL_FLOAT64)
        matmul->blas.dgemm(ROW_MAJOR, left.trans, right.trans, (int)c->rows,
            (int)c->cols, (int)a->cols, 1, left.data, (int)left.distance,
            right.data, (int)right.distance, add, c->data, (int)distance);
    else
        matmul->blas.sgemm(ROW_MAJOR, left.trans, right.trans, (int)c->rows,
            (int)c->cols, (int)a->cols, 1, left.data, (int)left.distance,
            right.data, (int)right.distance, add ? 1 : 0, c->data,
            (int)distance);
    return SYMMCOLL_OK;
}

/* ---- narrow types ---- */

static int64_t least(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/* Returns a part of c: in place if c has floats, else in a panel. */
static struct symc_matrix part_of(const struct symc_matrix *c, int64_t row,
    int64_t col, int64_t rows, int64_t cols, float *panel)
{
    struct symc_matrix part = {panel, SYMMCOLL_FLOAT32, rows, cols, cols, 1};

    if (c->dtype == SYMMCOLL_FLOAT32) {
        part.data = (float *)c->data + row * c->row_stride + col;
        part.row_stride = c->row_stride;
    }
    return part;
}

/* Sets a result to zero. */
static void clear(const struct symc_matrix *c)
{
    size_t elem = symmcoll_dtype_size(c->dtype);

    for (int64_t i = 0; i < c->rows; i++)
        memset((char *)c->data + (size_t)(i * c->row_stride) * elem, 0,
            (size_t)c->cols * elem);
}

/* Allocates panels for parts of the operands and of the result. With strides of
 * 0 the depth can exceed what memory holds, so its product may overflow. */
static bool take_panels(
    struct symc_matmul *matmul, size_t depth, float *panels[3])
{
    size_t nbytes[3] = {0, 0, ROWS * COLS * sizeof(float)};

    if (!symc_multiply(depth, ROWS * sizeof(float), &nbytes[0]) ||
        !symc_multiply(depth, COLS * sizeof(float), &nbytes[1])) {
        symc_fail(SYMMCOLL_ERR_NO_MEMORY,
            "matmul: expected rows that memory has room for, found %zu "
            "elements",
            depth);
        return false;
    }
    for (int i = 0; i < 3; i++) {
        panels[i] = symc_scratch_take(&matmul->panels[i], nbytes[i]);
        if (panels[i] == NULL)
            return false;
    }
    return true;
}

/* Multiplies matrices of narrow types. scaling NULL: none. */
static symmcoll_status_t multiply_narrow(struct symc_matmul *matmul,
    const struct symc_matrix *a, const struct symc_matrix *b,
    const struct symc_scaling *scaling, const struct symc_matrix *c, bool add)
{
    size_t elem = symmcoll_dtype_size(c->dtype);
    size_t depth = (size_t)a->cols;
    float *panels[3];
    symmcoll_status_t status = SYMMCOLL_OK;

    if (!take_panels(matmul, depth, panels))
        return SYMMCOLL_ERR_NO_MEMORY;
    for (int64_t col = 0; col < c->cols; col += COLS) {
        int64_t cols = least(COLS, c->cols - col);
        struct symc_matrix right = {
            panels[1], SYMMCOLL_FLOAT32, a->cols, cols, cols, 1};

        symc_panel_widen(b, 0, col, a->cols, cols, panels[1]);
        if (scaling != NULL && scaling->b_blocks != NULL)
            symc_panel_scale_columns(
                scaling->b_blocks, col, cols, a->cols, panels[1]);
        for (int64_t row = 0; row < c->rows && status == SYMMCOLL_OK;
             row += ROWS) {
            int64_t rows = least(ROWS, c->rows - row);
            struct symc_matrix left = {
                panels[0], SYMMCOLL_FLOAT32, rows, a->cols, a->cols, 1};
            struct symc_matrix part =
                part_of(c, row, col, rows, cols, panels[2]);

            symc_panel_widen(a, row, 0, rows, a->cols, panels[0]);
            if (scaling != NULL && scaling->a_blocks != NULL)
                symc_panel_scale_rows(
                    scaling->a_blocks, row, rows, a->cols, panels[0]);
            if (depth > 0)
                status = multiply(matmul, &left, &right, &part, add);
            else
                clear(&part);
            if (scaling != NULL)
                symc_panel_scale(scaling, row, col, &part);
            for (int64_t i = 0; part.data == panels[2] && i < rows; i++)
                symc_panel_round(c->dtype, panels[2] + i * cols,
                    (char *)c->data +
                        (size_t)((row + i) * c->row_stride + col) * elem,
                    (size_t)cols);
        }
    }
    return status;
}

/* Multiplies in the current floating-point mode. */
static symmcoll_status_t multiply_any(struct symc_matmul *matmul,
    const struct symc_matrix *a, const struct symc_matrix *b,
    const struct symc_matrix *c, bool add)
{
    if (c->rows == 0 || c->cols == 0 || (a->cols == 0 && add))
        return SYMMCOLL_OK;
    if (a->cols == 0) {
        clear(c);
        return SYMMCOLL_OK;
    }
    if (a->dtype == SYMMCOLL_FLOAT32 || a->dtype == SYMMCOLL_FLOAT64)
        return multiply(matmul, a, b, c, add);
    return multiply_narrow(matmul, a, b, NULL, c, add);
}

symmcoll_status_t symc_matmul(struct symc_matmul *matmul,
    const struct symc_matrix *a, const struct symc_matrix *b,
    const struct symc_matrix *c, bool add)
{
    uint64_t mode = symc_floating_set_default();
    symmcoll_status_t status = multiply_any(matmul, a, b, c, add);

    symc_floating_restore(mode);
    return status;
}

symmcoll_status_t symc_matmul_scaled(struct symc_matmul *matmul,
    const struct symc_matrix *a, const struct symc_matrix *b,
    const struct symc_scaling *scaling, const struct symc_matrix *c)
{
    symmcoll_status_t status;
    uint64_t mode;

    if (c->rows == 0 || c->cols == 0)
        return SYMMCOLL_OK;
    mode = symc_floating_set_default();
    status = multiply_narrow(matmul, a, b, scaling, c, false);
    symc_floating_restore(mode);
    return status;
}
