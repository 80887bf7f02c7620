/* SPDX-License-Identifier: BSD-3-Clause */
/* Handles, descriptors, layouts and preferences of the stand-in for cuBLASLt,
 * and its heuristic. */
#include "t/blas/objects.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

FAKE_API struct fake_cublaslt fake_cublaslt;

void fake_lt_die(const char *why)
{
    fprintf(stderr, "the stand-in for cuBLASLt: %s\n", why);
    abort();
}

/* ---- objects ---- */

static void *make(enum object_kind kind, size_t nbytes)
{
    struct object *made = calloc(1, nbytes);

    if (made == NULL)
        abort();
    made->kind = kind;
    fake_cublaslt.live++;
    return made;
}

void fake_lt_check(const void *object, enum object_kind kind)
{
    const struct object *found = object;

    if (found == NULL || found->kind != kind)
        fake_lt_die("a call with what is not of its kind, or was destroyed");
}

static enum symc_lt_status destroy(void *object, enum object_kind kind)
{
    fake_lt_check(object, kind);
    ((struct object *)object)->kind = OBJECT_NONE;
    fake_cublaslt.live--;
    free(object);
    return SYMC_LT_SUCCESS;
}

FAKE_API const char *cublasLtGetStatusName(enum symc_lt_status status)
{
    switch (status) {
    case SYMC_LT_ALLOC_FAILED:
        return "CUBLAS_STATUS_ALLOC_FAILED";
    case SYMC_LT_NOT_SUPPORTED:
        return "CUBLAS_STATUS_NOT_SUPPORTED";
    case SYMC_LT_INVALID_VALUE:
        return "CUBLAS_STATUS_INVALID_VALUE";
    default:
        return "CUBLAS_STATUS_INTERNAL_ERROR";
    }
}

FAKE_API enum symc_lt_status cublasLtCreate(struct symc_lt_context **handle)
{
    if (fake_cublaslt.create_status != 0)
        return (enum symc_lt_status)fake_cublaslt.create_status;
    *handle = make(OBJECT_HANDLE, sizeof(struct object));
    return SYMC_LT_SUCCESS;
}

FAKE_API enum symc_lt_status cublasLtDestroy(struct symc_lt_context *handle)
{
    return destroy(handle, OBJECT_HANDLE);
}

FAKE_API enum symc_lt_status cublasLtMatmulDescCreate(
    struct symc_lt_desc **desc, enum symc_lt_compute compute,
    enum symc_lt_type scale)
{
    *desc = make(OBJECT_DESC, sizeof(**desc));
    (*desc)->compute = compute;
    if ((compute == SYMC_LT_COMPUTE_64F) != (scale == SYMC_LT_F64))
        return SYMC_LT_INVALID_VALUE;
    return SYMC_LT_SUCCESS;
}

FAKE_API enum symc_lt_status cublasLtMatmulDescDestroy(
    struct symc_lt_desc *desc)
{
    return destroy(desc, OBJECT_DESC);
}

FAKE_API enum symc_lt_status cublasLtMatmulDescSetAttribute(
    struct symc_lt_desc *desc, enum symc_lt_desc_attribute attribute,
    const void *value, size_t nbytes)
{
    const struct {
        enum symc_lt_desc_attribute attribute;
        void *at;
        size_t nbytes;
    } members[] = {{SYMC_LT_DESC_TRANS_A, &desc->trans_a, 4},
        {SYMC_LT_DESC_TRANS_B, &desc->trans_b, 4},
        {SYMC_LT_DESC_SM_COUNT_TARGET, &desc->sms, 4},
        {SYMC_LT_DESC_A_SCALE, &desc->a_scale, sizeof(void *)},
        {SYMC_LT_DESC_B_SCALE, &desc->b_scale, sizeof(void *)},
        {SYMC_LT_DESC_FAST_ACCUM, &desc->fast, 1},
        {SYMC_LT_DESC_A_SCALE_MODE, &desc->a_mode, 4},
        {SYMC_LT_DESC_B_SCALE_MODE, &desc->b_mode, 4}};

    fake_lt_check(desc, OBJECT_DESC);
    for (size_t i = 0; i < sizeof(members) / sizeof(members[0]); i++) {
        if (members[i].attribute == attribute && members[i].nbytes == nbytes) {
            memcpy(members[i].at, value, nbytes);
            return SYMC_LT_SUCCESS;
        }
    }
    return SYMC_LT_INVALID_VALUE;
}

FAKE_API enum symc_lt_status cublasLtMatrixLayoutCreate(
    struct symc_lt_layout **layout, enum symc_lt_type type, uint64_t rows,
    uint64_t cols, int64_t distance)
{
    *layout = make(OBJECT_LAYOUT, sizeof(**layout));
    (*layout)->type = type;
    (*layout)->rows = (int64_t)rows;
    (*layout)->cols = (int64_t)cols;
    (*layout)->distance = distance;
    return SYMC_LT_SUCCESS;
}

FAKE_API enum symc_lt_status cublasLtMatrixLayoutDestroy(
    struct symc_lt_layout *layout)
{
    return destroy(layout, OBJECT_LAYOUT);
}

FAKE_API enum symc_lt_status cublasLtMatmulPreferenceCreate(
    struct symc_lt_preference **preference)
{
    *preference = make(OBJECT_PREFERENCE, sizeof(**preference));
    return SYMC_LT_SUCCESS;
}

FAKE_API enum symc_lt_status cublasLtMatmulPreferenceDestroy(
    struct symc_lt_preference *preference)
{
    return destroy(preference, OBJECT_PREFERENCE);
}

FAKE_API enum symc_lt_status cublasLtMatmulPreferenceSetAttribute(
    struct symc_lt_preference *preference,
    enum symc_lt_preference_attribute attribute, const void *value,
    size_t nbytes)
{
    int at = (int)attribute - (int)SYMC_LT_PREFERENCE_ALIGNMENT_A;

    fake_lt_check(preference, OBJECT_PREFERENCE);
    if (attribute == SYMC_LT_PREFERENCE_WORKSPACE &&
        nbytes == sizeof(preference->workspace))
        memcpy(&preference->workspace, value, nbytes);
    else if (attribute == SYMC_LT_PREFERENCE_REDUCTIONS &&
             nbytes == sizeof(preference->reductions))
        memcpy(&preference->reductions, value, nbytes);
    else if (at >= 0 && at < 4 && nbytes == sizeof(uint32_t))
        memcpy(&preference->alignments[at], value, nbytes);
    else
        return SYMC_LT_INVALID_VALUE;
    return SYMC_LT_SUCCESS;
}

/* ---- the heuristic ---- */

uint64_t fake_lt_scales(const struct symc_lt_desc *desc)
{
    return (uint64_t)(desc->a_scale != NULL) |
           (uint64_t)(desc->b_scale != NULL) << 1 |
           (uint64_t)desc->a_mode << 8 | (uint64_t)desc->b_mode << 16;
}

static bool is_eighth(const struct symc_lt_layout *layout)
{
    return layout->type == SYMC_LT_E4M3 || layout->type == SYMC_LT_E5M2;
}

/* Checks 8-bit floats: a transposed and b not, in lines of 16 bytes; not both
 * E5M2. */
static bool multiplies_eighths(const struct symc_lt_desc *desc,
    const struct symc_lt_layout *a, const struct symc_lt_layout *b,
    const struct symc_lt_preference *preference)
{
    return is_eighth(b) && desc->trans_a == 1 && desc->trans_b == 0 &&
           a->distance % 16 == 0 && b->distance % 16 == 0 &&
           a->rows % 16 == 0 && a->cols % 16 == 0 &&
           preference->alignments[0] % 16 == 0 &&
           preference->alignments[1] % 16 == 0 &&
           preference->alignments[2] % 16 == 0 &&
           preference->alignments[3] % 16 == 0 &&
           (a->type != SYMC_LT_E5M2 || b->type != SYMC_LT_E5M2);
}

static bool has_types(const struct symc_lt_desc *desc,
    const struct symc_lt_layout *a, const struct symc_lt_layout *b,
    const struct symc_lt_layout *d)
{
    bool is_double = desc->compute == SYMC_LT_COMPUTE_64F;

    if (is_eighth(a))
        return d->type != SYMC_LT_F64 && !is_double;
    if ((a->type == SYMC_LT_F64) != is_double || a->type != b->type)
        return false;
    return d->type == a->type || (d->type == SYMC_LT_F32 && !is_double);
}

static bool has_shapes(const struct symc_lt_desc *desc,
    const struct symc_lt_layout *a, const struct symc_lt_layout *b,
    const struct symc_lt_layout *d)
{
    int64_t m = desc->trans_a ? a->cols : a->rows;
    int64_t k = desc->trans_a ? a->rows : a->cols;
    int64_t n = desc->trans_b ? b->rows : b->cols;

    return k == (desc->trans_b ? b->cols : b->rows) && m == d->rows &&
           n == d->cols && m > 0 && n > 0 && k > 0 && a->distance >= a->rows &&
           b->distance >= b->rows && d->distance >= d->rows;
}

FAKE_API enum symc_lt_status cublasLtMatmulAlgoGetHeuristic(
    struct symc_lt_context *handle, struct symc_lt_desc *desc,
    struct symc_lt_layout *a, struct symc_lt_layout *b,
    struct symc_lt_layout *c, struct symc_lt_layout *d,
    struct symc_lt_preference *preference, int wanted,
    struct symc_lt_result *results, int *found)
{
    fake_lt_check(handle, OBJECT_HANDLE);
    fake_lt_check(desc, OBJECT_DESC);
    fake_lt_check(preference, OBJECT_PREFERENCE);
    for (int i = 0; i < 4; i++)
        fake_cublaslt.alignments[i] = preference->alignments[i];
    *found = 0;
    if (preference->reductions != SYMC_LT_REDUCTION_COMPUTE_TYPE)
        fake_lt_die("parts of a sum may be added up in the result");
    if ((desc->a_mode == SYMC_LT_SCALE_OUTER && desc->a_scale == NULL) ||
        (desc->b_mode == SYMC_LT_SCALE_OUTER && desc->b_scale == NULL))
        return SYMC_LT_INVALID_VALUE;
    if (fake_cublaslt.heuristic_status != 0)
        return (enum symc_lt_status)fake_cublaslt.heuristic_status;
    if (wanted < 1 || c != d || !has_shapes(desc, a, b, d))
        return SYMC_LT_INVALID_VALUE;
    if (!has_types(desc, a, b, d) ||
        (is_eighth(a) && !multiplies_eighths(desc, a, b, preference)) ||
        preference->workspace < fake_cublaslt.workspace)
        return SYMC_LT_NOT_SUPPORTED;
    *found = !fake_cublaslt.none;
    results[0] = (struct symc_lt_result){
        .algo = {{ALGO_MAGIC, (uint64_t)d->rows, (uint64_t)d->cols,
            (uint64_t)(desc->trans_a ? a->rows : a->cols),
            (uint64_t)preference->alignments[0],
            (uint64_t)preference->alignments[1],
            (uint64_t)preference->alignments[3], fake_lt_scales(desc)}},
        .workspace = fake_cublaslt.workspace};
    return SYMC_LT_SUCCESS;
}
