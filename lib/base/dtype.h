/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Element types and the reduce operations defined for them.
 */
#ifndef SYMC_BASE_DTYPE_H
#define SYMC_BASE_DTYPE_H

#include <symmcoll/types.h>

#include <stdbool.h>

/* One element type. */
struct symc_dtype {
    const char *name;       /* as "float32" */
    const char *trace_name; /* in flight records, as "Float" (T1) */
    uint8_t size;           /* bytes of one element */
    uint16_t ops;           /* bit 1 << op for each defined operation */
};

/* Returns the element type, or NULL for an unknown number. */
const struct symc_dtype *symc_dtype_find(enum symmcoll_dtype dtype);

/* Returns whether op, SYMMCOLL_SUM to PREMUL_SUM, is defined for dtype. */
static inline bool symc_dtype_reduces(
    const struct symc_dtype *dtype, symmcoll_op_t op)
{
    return (dtype->ops >> op & 1) != 0;
}

#endif
