/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * cuBLASLt's matrices are stored by columns, for 8-bit floats without exception.  The
 * product is therefore computed as that of the transposed matrices in the opposite order:
 * its columns are the rows of c.  cuBLASLt's a is b here, and its b is a.
 */
#include "cuda/cublaslt/cublaslt_matmul.h"

/* ---- types ---- */

struct type {
    enum symmcoll_dtype dtype;
    enum symc_lt_type type;
    const char *name;
};

static const struct type types[] = {{SYMMCOLL_FLOAT32, SYMC_LT_F32, "float32"},
    {SYMMCOLL_FLOAT64, SYMC_LT_F64, "float64"},
    {SYMMCOLL_FLOAT16, SYMC_LT_F16, "float16"},
    {SYMMCOLL_BFLOAT16, SYMC_LT_BF16, "bfloat16"},
    {SYMMCOLL_FLOAT8_E4M3FN, SYMC_LT_E4M3, "float8_e4m3fn"},
    {SYMMCOLL_FLOAT8_E5M2, SYMC_LT_E5M2, "float8_e5m2"}};

/* Returns the type of cuBLASLt for an element type; NULL if there is none. */
static const struct type *find_type(enum symmcoll_dtype dtype)
{
    for (size_t i = 0; i < sizeof(types) / sizeof(types[0]); i++)
        if (types[i].dtype == dtype)
            return &types[i];
    return NULL;
}

/* ---- errors ---- */

static symmcoll_status_t status_of(enum symc_lt_status found)
{
    switch (found) {
    case SYMC_LT_ALLOC_FAILED:
        return SYMMCOLL_ERR_NO_MEMORY;
    case SYMC_LT_NOT_SUPPORTED:
    case SYMC_LT_ARCH_MISMATCH:
        return SYMMCOLL_ERR_UNSUPPORTED;
    default:
        return SYMMCOLL_ERR_DEVICE;
    }
}

static symmcoll_status_t check(
    const struct symc_lt *lt, enum symc_lt_status found, const char *call)
{
    return found == SYMC_LT_SUCCESS ? SYMMCOLL_OK
                                    : lt->fail(status_of(found), "%s: %s", call,
                                          lt->table->get_status_name(found));
}

/* check() with the operands of the product in the detail. */
static symmcoll_status_t check_product(const struct symc_lt *lt,
    const struct symc_product *product, enum symc_lt_status found,
    const char *call)
{
    const struct symc_product_matrix *a = &product->a, *b = &product->b;

    if (found == SYMC_LT_SUCCESS)
        return SYMMCOLL_OK;
    return lt->fail(status_of(found),
        "%s of %s [%lld, %lld]%s @ %s [%lld, %lld]%s to %s in a workspace of "
        "%zu bytes: %s",
        call, find_type(a->dtype)->name, (long long)a->rows, (long long)a->cols,
        a->by_columns ? " by columns" : "", find_type(b->dtype)->name,
        (long long)b->rows, (long long)b->cols,
        b->by_columns ? " by columns" : "", find_type(product->c.dtype)->name,
        product->workspace, lt->table->get_status_name(found));
}

/* ---- handles ---- */

symmcoll_status_t symc_lt_open(
    struct symc_lt *lt, symc_cublaslt_fail_fn fail, const char *path)
{
    symmcoll_status_t status;

    *lt = (struct symc_lt){.fail = fail};
    status = symc_cublaslt_load(fail, path, &lt->table);
    if (status == SYMMCOLL_OK)
        status = check(lt, lt->table->create(&lt->handle), "cublasLtCreate");
    if (status != SYMMCOLL_OK)
        *lt = (struct symc_lt){.table = NULL};
    return status;
}

void symc_lt_close(struct symc_lt *lt)
{
    if (lt->table != NULL)
        (void)lt->table->destroy(lt->handle);
    *lt = (struct symc_lt){.table = NULL};
}

/* ---- plans ---- */

static symmcoll_status_t make_layout(const struct symc_lt *lt,
    const struct symc_product_matrix *matrix, struct symc_lt_layout **layout)
{
    bool by_columns = matrix->by_columns;
    const struct type *type = find_type(matrix->dtype);

    if (type == NULL)
        return lt->fail(SYMMCOLL_ERR_UNSUPPORTED,
            "cuBLASLt: expected float32, float64, float16, bfloat16, "
            "float8_e4m3fn or float8_e5m2, found element type %d",
            (int)matrix->dtype);
    /* Rows of a matrix stored by rows are columns for cuBLASLt. */
    return check(lt,
        lt->table->matrix_layout_create(layout, type->type,
            (uint64_t)(by_columns ? matrix->rows : matrix->cols),
            (uint64_t)(by_columns ? matrix->cols : matrix->rows),
            matrix->distance),
        "cublasLtMatrixLayoutCreate");
}

/* Sets an attribute of nbytes bytes, unless an earlier call failed (status). */
static void set(const struct symc_lt_plan *plan,
    enum symc_lt_desc_attribute attribute, const void *value, size_t nbytes,
    symmcoll_status_t *status)
{
    if (*status == SYMMCOLL_OK)
        *status = check(plan->lt,
            plan->lt->table->matmul_desc_set_attribute(
                plan->desc, attribute, value, nbytes),
            "cublasLtMatmulDescSetAttribute");
}

static void set_scales(const struct symc_lt_plan *plan, const void *a,
    const void *b, symmcoll_status_t *status)
{
    set(plan, SYMC_LT_DESC_A_SCALE, &b, sizeof(b), status);
    set(plan, SYMC_LT_DESC_B_SCALE, &a, sizeof(a), status);
}

static void set_int(const struct symc_lt_plan *plan,
    enum symc_lt_desc_attribute attribute, int32_t value,
    symmcoll_status_t *status)
{
    set(plan, attribute, &value, sizeof(value), status);
}

static symmcoll_status_t make_desc(struct symc_lt_plan *plan)
{
    const struct symc_product *product = &plan->product;
    bool is_double = product->a.dtype == SYMMCOLL_FLOAT64;
    bool tf32 = product->tf32 && product->a.dtype == SYMMCOLL_FLOAT32;
    const int8_t fast = product->fast;
    /* The heuristic depends on whether there are scales, not on their address. */
    const void *some = (const void *)(uintptr_t)SYMC_PRODUCT_ALIGNMENT;
    symmcoll_status_t status = check(plan->lt,
        plan->lt->table->matmul_desc_create(&plan->desc,
            is_double ? SYMC_LT_COMPUTE_64F
            : tf32    ? SYMC_LT_COMPUTE_TF32
                      : SYMC_LT_COMPUTE_32F,
            is_double ? SYMC_LT_F64 : SYMC_LT_F32),
        "cublasLtMatmulDescCreate");

    set_int(plan, SYMC_LT_DESC_TRANS_A, product->b.by_columns, &status);
    set_int(plan, SYMC_LT_DESC_TRANS_B, product->a.by_columns, &status);
    if (product->sms > 0)
        set_int(plan, SYMC_LT_DESC_SM_COUNT_TARGET, product->sms, &status);
    if (product->outer) {
        set_int(plan, SYMC_LT_DESC_A_SCALE_MODE, SYMC_LT_SCALE_OUTER, &status);
        set_int(plan, SYMC_LT_DESC_B_SCALE_MODE, SYMC_LT_SCALE_OUTER, &status);
    }
    if (product->scaled)
        set_scales(plan, some, some, &status);
    if (product->fast)
        set(plan, SYMC_LT_DESC_FAST_ACCUM, &fast, sizeof(fast), &status);
    return status;
}

static symmcoll_status_t prefer(const struct symc_lt_plan *plan,
    struct symc_lt_preference *preference,
    enum symc_lt_preference_attribute attribute, const void *value,
    size_t nbytes)
{
    return check(plan->lt,
        plan->lt->table->matmul_preference_set_attribute(
            preference, attribute, value, nbytes),
        "cublasLtMatmulPreferenceSetAttribute");
}

static symmcoll_status_t set_preferences(
    const struct symc_lt_plan *plan, struct symc_lt_preference *preference)
{
    const struct symc_product *product = &plan->product;
    const uint32_t alignments[] = {product->b.alignment, product->a.alignment,
        product->c.alignment, product->c.alignment};
    const uint32_t reductions = SYMC_LT_REDUCTION_COMPUTE_TYPE;
    symmcoll_status_t status =
        prefer(plan, preference, SYMC_LT_PREFERENCE_WORKSPACE,
            &product->workspace, sizeof(product->workspace));

    /* Otherwise 16-bit results could be rounded once per part, and parts be added up in
     * c, which may be in another device's memory. */
    if (status == SYMMCOLL_OK)
        status = prefer(plan, preference, SYMC_LT_PREFERENCE_REDUCTIONS,
            &reductions, sizeof(reductions));
    for (int i = 0; i < 4 && status == SYMMCOLL_OK; i++)
        status = prefer(plan, preference,
            (enum symc_lt_preference_attribute)(
                SYMC_LT_PREFERENCE_ALIGNMENT_A + i),
            &alignments[i], sizeof(alignments[i]));
    return status;
}

/* Chooses the algorithm that the heuristic ranks first. */
static symmcoll_status_t choose(struct symc_lt_plan *plan)
{
    const struct symc_cublaslt *table = plan->lt->table;
    struct symc_lt_preference *preference = NULL;
    struct symc_lt_result result = {.state = SYMC_LT_NOT_SUPPORTED};
    enum symc_lt_status found;
    symmcoll_status_t status;
    int count = 0;

    status = check(plan->lt, table->matmul_preference_create(&preference),
        "cublasLtMatmulPreferenceCreate");
    if (status != SYMMCOLL_OK)
        return status;
    status = set_preferences(plan, preference);
    if (status == SYMMCOLL_OK) {
        found = table->matmul_algo_get_heuristic(plan->lt->handle, plan->desc,
            plan->a, plan->b, plan->c, plan->c, preference, 1, &result, &count);
        if (found == SYMC_LT_SUCCESS)
            found = count > 0 ? result.state : SYMC_LT_NOT_SUPPORTED;
        status = check_product(
            plan->lt, &plan->product, found, "cublasLtMatmulAlgoGetHeuristic");
    }
    (void)table->matmul_preference_destroy(preference);
    plan->algo = result.algo;
    plan->workspace = result.workspace;
    return status;
}

symmcoll_status_t symc_lt_plan_make(const struct symc_lt *lt,
    const struct symc_product *product, struct symc_lt_plan *plan)
{
    symmcoll_status_t status;

    *plan = (struct symc_lt_plan){.lt = lt, .product = *product};
    status = make_layout(lt, &product->b, &plan->a);
    if (status != SYMMCOLL_OK)
        goto free_plan;
    status = make_layout(lt, &product->a, &plan->b);
    if (status != SYMMCOLL_OK)
        goto free_plan;
    status = make_layout(lt, &product->c, &plan->c);
    if (status != SYMMCOLL_OK)
        goto free_plan;
    status = make_desc(plan);
    if (status != SYMMCOLL_OK)
        goto free_plan;
    status = choose(plan);
    if (status == SYMMCOLL_OK)
        return SYMMCOLL_OK;

free_plan:
    symc_lt_plan_free(plan);
    return status;
}

void symc_lt_plan_free(struct symc_lt_plan *plan)
{
    struct symc_lt_layout *layouts[] = {plan->a, plan->b, plan->c};

    for (int i = 0; i < 3; i++)
        if (layouts[i] != NULL)
            (void)plan->lt->table->matrix_layout_destroy(layouts[i]);
    if (plan->desc != NULL)
        (void)plan->lt->table->matmul_desc_destroy(plan->desc);
    *plan = (struct symc_lt_plan){.lt = NULL};
}

/* ---- products ---- */

/* A factor, in the type of the sums. */
union factor {
    float single;
    double twice;
};

static union factor factor_of(const struct symc_product *product, double value)
{
    union factor made = {.single = (float)value};

    if (product->a.dtype == SYMMCOLL_FLOAT64)
        made.twice = value;
    return made;
}

symmcoll_status_t symc_lt_matmul(struct symc_lt_plan *plan,
    const struct symc_product_operands *operands, struct CUstream_st *stream)
{
    const struct symc_product *product = &plan->product;
    const union factor alpha = factor_of(product,
                           1.0 / (product->divisor > 0 ? product->divisor : 1)),
                       beta = factor_of(product, product->add ? 1 : 0);
    const void *added =
        product->add && operands->added != NULL ? operands->added : operands->c;
    symmcoll_status_t status = SYMMCOLL_OK;

    if (product->scaled)
        set_scales(plan, operands->a_scale, operands->b_scale, &status);
    if (status != SYMMCOLL_OK)
        return status;
    return check_product(plan->lt, product,
        plan->lt->table->matmul(plan->lt->handle, plan->desc, &alpha,
            operands->b, plan->a, operands->a, plan->b, &beta, added, plan->c,
            operands->c, plan->c, &plan->algo, operands->workspace,
            plan->workspace, stream),
        "cublasLtMatmul");
}
