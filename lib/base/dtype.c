/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Tables of element types and reduce operations: names, sizes, and the
 * operations defined for each type (t/SEMANTICS, T1 to T8, T18, T20).
 */
#include "base/dtype.h"

#include "base/base.h"

#include <string.h>
#include <strings.h>

#define OP(name) (1u << SYMMCOLL_##name)

#define BITWISE_OPS (OP(BAND) | OP(BOR) | OP(BXOR))
#define ORDER_OPS (OP(PRODUCT) | OP(MIN) | OP(MAX))
#define INTEGER_OPS (OP(SUM) | OP(AVG) | ORDER_OPS | BITWISE_OPS)
#define FLOAT_OPS (OP(SUM) | OP(AVG) | ORDER_OPS | OP(PREMUL_SUM))
#define COMPLEX_OPS (OP(SUM) | OP(AVG) | OP(PREMUL_SUM))
#define BOOL_OPS (OP(SUM) | ORDER_OPS | BITWISE_OPS)
#define NO_OPS 0

static const struct symc_dtype dtypes[SYMMCOLL_DTYPE_COUNT] = {
    [SYMMCOLL_UINT8] = {"uint8", "Byte", 1, INTEGER_OPS},
    [SYMMCOLL_INT8] = {"int8", "Char", 1, INTEGER_OPS},
    [SYMMCOLL_INT16] = {"int16", "Short", 2, INTEGER_OPS},
    [SYMMCOLL_INT32] = {"int32", "Int", 4, INTEGER_OPS},
    [SYMMCOLL_INT64] = {"int64", "Long", 8, INTEGER_OPS},
    [SYMMCOLL_FLOAT16] = {"float16", "Half", 2, FLOAT_OPS},
    [SYMMCOLL_BFLOAT16] = {"bfloat16", "BFloat16", 2, FLOAT_OPS},
    [SYMMCOLL_FLOAT32] = {"float32", "Float", 4, FLOAT_OPS},
    [SYMMCOLL_FLOAT64] = {"float64", "Double", 8, FLOAT_OPS},
    [SYMMCOLL_BOOL] = {"bool", "Bool", 1, BOOL_OPS},
    [SYMMCOLL_COMPLEX64] = {"complex64", "ComplexFloat", 8, COMPLEX_OPS},
    [SYMMCOLL_COMPLEX128] = {"complex128", "ComplexDouble", 16, COMPLEX_OPS},
    [SYMMCOLL_FLOAT8_E4M3FN] = {"float8_e4m3fn", "Float8_e4m3fn", 1, NO_OPS},
    [SYMMCOLL_FLOAT8_E5M2] = {"float8_e5m2", "Float8_e5m2", 1, NO_OPS},
    [SYMMCOLL_FLOAT8_E4M3FNUZ] = {"float8_e4m3fnuz", "Float8_e4m3fnuz", 1,
        NO_OPS},
    [SYMMCOLL_FLOAT8_E5M2FNUZ] = {"float8_e5m2fnuz", "Float8_e5m2fnuz", 1,
        NO_OPS},
    [SYMMCOLL_FLOAT8_E8M0FNU] = {"float8_e8m0fnu", "Float8_e8m0fnu", 1, NO_OPS},
    [SYMMCOLL_UINT16] = {"uint16", "UInt16", 2, INTEGER_OPS},
    [SYMMCOLL_UINT32] = {"uint32", "UInt32", 4, INTEGER_OPS},
    [SYMMCOLL_UINT64] = {"uint64", "UInt64", 8, INTEGER_OPS},
};

static const char *const op_names[SYMMCOLL_OP_COUNT] = {
    [SYMMCOLL_SUM] = "sum",
    [SYMMCOLL_AVG] = "avg",
    [SYMMCOLL_PRODUCT] = "product",
    [SYMMCOLL_MIN] = "min",
    [SYMMCOLL_MAX] = "max",
    [SYMMCOLL_BAND] = "band",
    [SYMMCOLL_BOR] = "bor",
    [SYMMCOLL_BXOR] = "bxor",
    [SYMMCOLL_PREMUL_SUM] = "premul_sum",
};

const struct symc_dtype *symc_dtype_find(enum symmcoll_dtype dtype)
{
    /* Unsigned, because the caller may pass any bits as the enumeration. */
    unsigned int number = (unsigned int)dtype;

    return number < SYMMCOLL_DTYPE_COUNT ? &dtypes[number] : NULL;
}

size_t symmcoll_dtype_size(enum symmcoll_dtype dtype)
{
    const struct symc_dtype *found = symc_dtype_find(dtype);

    return found != NULL ? found->size : 0;
}

const char *symmcoll_dtype_name(enum symmcoll_dtype dtype)
{
    const struct symc_dtype *found = symc_dtype_find(dtype);

    return found != NULL ? found->name : NULL;
}

const char *symmcoll_op_name(symmcoll_op_t op)
{
    return op >= 0 && op < SYMMCOLL_OP_COUNT ? op_names[op] : NULL;
}

symmcoll_status_t symmcoll_op_parse(const char *text, symmcoll_op_t *op)
{
    if (text == NULL || op == NULL)
        return symc_fail(SYMMCOLL_ERR_INVALID,
            "op_parse: %s: expected a pointer, found NULL",
            text == NULL ? "text" : "op");
    /* PREMUL_SUM needs a factor, which a name does not have. */
    for (symmcoll_op_t i = 0; i < SYMMCOLL_PREMUL_SUM; i++) {
        if (strcasecmp(text, op_names[i]) == 0) {
            *op = i;
            return SYMMCOLL_OK;
        }
    }
    if (strcasecmp(text, op_names[SYMMCOLL_PREMUL_SUM]) == 0)
        return symc_fail(SYMMCOLL_ERR_INVALID,
            "op_parse: premul_sum needs a factor: expected an operation made "
            "by symmcoll_op_create_premul(), found its name");
    return symc_fail(SYMMCOLL_ERR_INVALID,
        "op_parse: expected sum, avg, product, min, max, band, bor or bxor, "
        "found \"%s\"",
        text);
}

symmcoll_status_t symmcoll_dtype_parse(
    const char *text, enum symmcoll_dtype *dtype)
{
    if (text == NULL || dtype == NULL)
        return symc_fail(SYMMCOLL_ERR_INVALID,
            "dtype_parse: %s: expected a pointer, found NULL",
            text == NULL ? "text" : "dtype");
    for (int i = 0; i < SYMMCOLL_DTYPE_COUNT; i++) {
        if (strcasecmp(text, dtypes[i].name) == 0) {
            *dtype = (enum symmcoll_dtype)i;
            return SYMMCOLL_OK;
        }
    }
    return symc_fail(SYMMCOLL_ERR_INVALID,
        "dtype_parse: expected a type such as float32, bfloat16 or int64, "
        "found \"%s\"",
        text);
}
