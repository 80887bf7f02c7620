/* SPDX-License-Identifier: BSD-3-Clause */
/* Tests the tables of element types, operations and collectives. */
#include "../tap.h"

#include "base/base.h"
#include "base/dtype.h"
#include "base/op.h"

#include <string.h>

/* The table of types.h again, with letters: Sum, Avg, Product, mIn, mAx, baNd,
 * bOr, bXor, preMul. */
static const struct {
    enum symmcoll_dtype dtype;
    const char *name;
    size_t size;
    const char *ops;
} expected[] = {
    {SYMMCOLL_UINT8, "uint8", 1, "SAPiaNOX"},
    {SYMMCOLL_INT8, "int8", 1, "SAPiaNOX"},
    {SYMMCOLL_INT16, "int16", 2, "SAPiaNOX"},
    {SYMMCOLL_INT32, "int32", 4, "SAPiaNOX"},
    {SYMMCOLL_INT64, "int64", 8, "SAPiaNOX"},
    {SYMMCOLL_FLOAT16, "float16", 2, "SAPiaM"},
    {SYMMCOLL_BFLOAT16, "bfloat16", 2, "SAPiaM"},
    {SYMMCOLL_FLOAT32, "float32", 4, "SAPiaM"},
    {SYMMCOLL_FLOAT64, "float64", 8, "SAPiaM"},
    {SYMMCOLL_BOOL, "bool", 1, "SPiaNOX"},
    {SYMMCOLL_COMPLEX64, "complex64", 8, "SAM"},
    {SYMMCOLL_COMPLEX128, "complex128", 16, "SAM"},
    {SYMMCOLL_FLOAT8_E4M3FN, "float8_e4m3fn", 1, ""},
    {SYMMCOLL_FLOAT8_E5M2, "float8_e5m2", 1, ""},
    {SYMMCOLL_FLOAT8_E4M3FNUZ, "float8_e4m3fnuz", 1, ""},
    {SYMMCOLL_FLOAT8_E5M2FNUZ, "float8_e5m2fnuz", 1, ""},
    {SYMMCOLL_FLOAT8_E8M0FNU, "float8_e8m0fnu", 1, ""},
    {SYMMCOLL_UINT16, "uint16", 2, "SAPiaNOX"},
    {SYMMCOLL_UINT32, "uint32", 4, "SAPiaNOX"},
    {SYMMCOLL_UINT64, "uint64", 8, "SAPiaNOX"},
};
static const char letters[] = "SAPiaNOXM"; /* in the order of the numbers */

#define NDTYPES ((int)(sizeof(expected) / sizeof(expected[0])))

static int names_and_sizes_fit(void)
{
    for (int i = 0; i < NDTYPES; i++) {
        if (symmcoll_dtype_size(expected[i].dtype) != expected[i].size ||
            strcmp(symmcoll_dtype_name(expected[i].dtype), expected[i].name) !=
                0)
            return 0;
    }
    return NDTYPES == SYMMCOLL_DTYPE_COUNT;
}

static int operations_fit(void)
{
    for (int i = 0; i < NDTYPES; i++) {
        const struct symc_dtype *dtype = symc_dtype_find(expected[i].dtype);

        for (symmcoll_op_t op = 0; op < SYMMCOLL_OP_COUNT; op++) {
            bool wanted = strchr(expected[i].ops, letters[op]) != NULL;

            if (symc_dtype_reduces(dtype, op) != wanted) {
                diag("%s %s", dtype->name, symmcoll_op_name(op));
                return 0;
            }
        }
    }
    return 1;
}

static int trace_names_fit(void)
{
    return strcmp(symc_dtype_find(SYMMCOLL_FLOAT32)->trace_name, "Float") ==
               0 &&
           strcmp(symc_dtype_find(SYMMCOLL_INT64)->trace_name, "Long") == 0 &&
           strcmp(symc_dtype_find(SYMMCOLL_COMPLEX128)->trace_name,
               "ComplexDouble") == 0 &&
           strcmp(symc_dtype_find(SYMMCOLL_BFLOAT16)->trace_name, "BFloat16") ==
               0;
}

static int dtypes_parse_back(void)
{
    enum symmcoll_dtype found;

    for (int i = 0; i < NDTYPES; i++) {
        if (symmcoll_dtype_parse(expected[i].name, &found) != SYMMCOLL_OK ||
            found != expected[i].dtype)
            return 0;
    }
    return symmcoll_dtype_parse("BFloat16", &found) == SYMMCOLL_OK &&
           found == SYMMCOLL_BFLOAT16;
}

static int unknown_dtype_is_refused(void)
{
    enum symmcoll_dtype found = SYMMCOLL_BOOL;

    return symmcoll_dtype_parse("float31", &found) == SYMMCOLL_ERR_INVALID &&
           strstr(symmcoll_last_error(), "float31") != NULL &&
           found == SYMMCOLL_BOOL &&
           symmcoll_dtype_parse(NULL, &found) == SYMMCOLL_ERR_INVALID &&
           symmcoll_dtype_parse("bool", NULL) == SYMMCOLL_ERR_INVALID;
}

static int ops_parse_back(void)
{
    static const char *const names[] = {
        "sum", "avg", "product", "min", "max", "band", "bor", "bxor"};

    for (symmcoll_op_t op = 0; op < SYMMCOLL_PREMUL_SUM; op++) {
        symmcoll_op_t found = -1;

        if (strcmp(symmcoll_op_name(op), names[op]) != 0 ||
            symmcoll_op_parse(names[op], &found) != SYMMCOLL_OK || found != op)
            return 0;
    }
    return 1;
}

static int op_in_any_case(void)
{
    symmcoll_op_t found = -1;

    return symmcoll_op_parse("PrOdUcT", &found) == SYMMCOLL_OK &&
           found == SYMMCOLL_PRODUCT;
}

static int unknown_op_is_refused(void)
{
    symmcoll_op_t found = 77;

    return symmcoll_op_parse("mean", &found) == SYMMCOLL_ERR_INVALID &&
           strstr(symmcoll_last_error(), "\"mean\"") != NULL && found == 77 &&
           symmcoll_op_parse("", &found) == SYMMCOLL_ERR_INVALID &&
           symmcoll_op_parse(NULL, &found) == SYMMCOLL_ERR_INVALID &&
           symmcoll_op_parse("sum", NULL) == SYMMCOLL_ERR_INVALID;
}

static int premul_has_no_name_to_parse(void)
{
    symmcoll_op_t found = 77;

    return symmcoll_op_parse("premul_sum", &found) == SYMMCOLL_ERR_INVALID &&
           strstr(symmcoll_last_error(), "factor") != NULL && found == 77;
}

static int kinds_have_names(void)
{
    for (int a = SYMC_BARRIER; a < SYMC_KIND_COUNT; a++) {
        const char *name = symc_kind_name((enum symc_kind)a);

        if (strcmp(name, "unknown") == 0)
            return 0;
        for (int b = a + 1; b < SYMC_KIND_COUNT; b++) {
            if (strcmp(name, symc_kind_name((enum symc_kind)b)) == 0)
                return 0;
        }
    }
    return strcmp(symc_kind_name(SYMC_ALL_REDUCE), "all_reduce") == 0;
}

int main(void)
{
    plan(13);
    ok(names_and_sizes_fit(), "each type has its name and size");
    ok(operations_fit(), "each type has just the operations of the manual");
    ok(trace_names_fit(), "types have the names that recorders write");
    ok(symmcoll_dtype_size((enum symmcoll_dtype)SYMMCOLL_DTYPE_COUNT) == 0 &&
            symmcoll_dtype_name((enum symmcoll_dtype)1000) == NULL,
        "a number that is no type has neither name nor size");
    ok(dtypes_parse_back(), "each type is found by its name");
    ok(unknown_dtype_is_refused(), "an unknown type is refused and named");
    ok(symmcoll_op_name(-1) == NULL && symmcoll_op_name(9) == NULL &&
            strcmp(symmcoll_op_name(SYMMCOLL_PREMUL_SUM), "premul_sum") == 0,
        "only operations have names");
    ok(ops_parse_back(),
        "each operation is found by its lower-case name (T20)");
    ok(op_in_any_case(), "an operation is found in any letter case (T20)");
    ok(unknown_op_is_refused(),
        "an unknown operation is refused and named (T20)");
    ok(premul_has_no_name_to_parse(), "premul_sum is refused: it has a factor");
    ok(kinds_have_names(), "each collective has its own name");
    ok(strcmp(symc_kind_name((enum symc_kind)99), "unknown") == 0,
        "what is no collective is unknown");
    return done_testing();
}
