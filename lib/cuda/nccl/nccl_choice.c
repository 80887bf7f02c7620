/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The choice of operations for NCCL: exchanges with sizes of parts that no single member
 * knows; large operations, if NCCL's results have the same bits as those of kernels; and,
 * if cuda.nccl_sums allows other bits, large sums of floats.  The choice depends only on
 * the operation and on values that all members have agreed on, so all members choose the
 * same.
 */
#include "cuda/device_choice.h"
#include "cuda/nccl/nccl_run.h"

/* ---- reductions ---- */

/* Returns false if NCCL has no such integer type. */
static bool find_integer(enum symmcoll_dtype dtype, enum symc_nccl_type *type)
{
    switch (dtype) {
    case SYMMCOLL_INT8:
        *type = SYMC_NCCL_INT8;
        return true;
    case SYMMCOLL_UINT8:
    case SYMMCOLL_BOOL:
        *type = SYMC_NCCL_UINT8;
        return true;
    case SYMMCOLL_INT32:
        *type = SYMC_NCCL_INT32;
        return true;
    case SYMMCOLL_UINT32:
        *type = SYMC_NCCL_UINT32;
        return true;
    case SYMMCOLL_INT64:
        *type = SYMC_NCCL_INT64;
        return true;
    case SYMMCOLL_UINT64:
        *type = SYMC_NCCL_UINT64;
        return true;
    default:
        return false;
    }
}

/* Finds an operator for integers.  A bool is a number whose sum is the logical or. */
static bool find_exact_op(const struct symc_op *op, enum symc_nccl_op *found)
{
    const bool is_bool = op->dtype == SYMMCOLL_BOOL;

    switch (op->op) {
    case SYMMCOLL_SUM:
        *found = is_bool ? SYMC_NCCL_MAX : SYMC_NCCL_SUM;
        return true;
    case SYMMCOLL_PRODUCT:
        *found = is_bool ? SYMC_NCCL_MIN : SYMC_NCCL_PROD;
        return true;
    case SYMMCOLL_MIN:
        *found = SYMC_NCCL_MIN;
        return true;
    case SYMMCOLL_MAX:
        *found = SYMC_NCCL_MAX;
        return true;
    default:
        return false;
    }
}

/* Finds a float type; a complex number is two floats. */
static bool find_float(
    enum symmcoll_dtype dtype, struct symc_cuda_elements *elements)
{
    uint64_t floats;
    enum symmcoll_dtype type = symc_cuda_reduced_type(dtype, &floats);

    elements->nbytes /= floats;
    switch (type) {
    case SYMMCOLL_FLOAT16:
        elements->type = SYMC_NCCL_FLOAT16;
        return true;
    case SYMMCOLL_BFLOAT16:
        elements->type = SYMC_NCCL_BFLOAT16;
        return true;
    case SYMMCOLL_FLOAT32:
        elements->type = SYMC_NCCL_FLOAT32;
        return true;
    case SYMMCOLL_FLOAT64:
        elements->type = SYMC_NCCL_FLOAT64;
        return true;
    default:
        return false;
    }
}

/* Finds a reduction of floats: only sums, as NCCL's minimum and maximum may lose NaN.
 * NCCL takes a factor in the type of the elements, which would round it to 16 bits. */
static bool find_sum(const struct symc_op *op,
    const struct symc_cuda_elements *elements, enum symc_nccl_op *found)
{
    *found = op->op == SYMMCOLL_AVG ? SYMC_NCCL_AVG : SYMC_NCCL_SUM;
    return op->op == SYMMCOLL_SUM || op->op == SYMMCOLL_AVG ||
           (op->op == SYMMCOLL_PREMUL_SUM && elements->nbytes > 2);
}

static bool find_reduction(const struct symc_cuda_limits *limits,
    const struct symc_op *op, struct symc_cuda_elements *elements)
{
    elements->nbytes = op->elem;
    if (find_integer(op->dtype, &elements->type))
        return find_exact_op(op, &elements->op);
    elements->scaled = op->op == SYMMCOLL_PREMUL_SUM;
    return limits->nccl_sums != 0 && find_float(op->dtype, elements) &&
           find_sum(op, elements, &elements->op);
}

/* ---- operations ---- */

bool symc_cuda_nccl_need(const struct symc_cuda_limits *limits, int size,
    const struct symc_kind_info *info, const struct symc_op *op,
    struct symc_cuda_elements *elements)
{
    uint64_t nbytes;

    *elements = (struct symc_cuda_elements){
        .type = SYMC_NCCL_UINT8, .op = SYMC_NCCL_SUM, .nbytes = 1};
    if (symc_cuda_is_exchange(info))
        return true;
    if ((info->traits & SYMC_MOVES) != 0 || info->in_parts == SYMC_NO_PART ||
        size < 2)
        return false;
    nbytes = symc_cuda_find_part(info, op, size);
    /* Ranks synchronise even if there are no elements; NCCL would not. */
    if (nbytes == 0 || nbytes < limits->nccl_min)
        return false;
    return (info->traits & SYMC_REDUCES) == 0 ||
           find_reduction(limits, op, elements);
}
