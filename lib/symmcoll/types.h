/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Types that every other header uses: status codes, element types, reduce
 * operations, the options of one call.  Numbers here are ABI: never renumbered,
 * never reused.
 *
 * Timeouts are seconds in a double, by one rule: negative stands for a setting
 * (each function names it), 0 does not block, INFINITY never expires; NaN is
 * INVALID.
 *
 * A struct that begins with its size may come from a program built with an
 * older or a newer header.  Members beyond the given size have their defaults;
 * members that this library does not have must be zero (else INVALID).  A
 * struct that the library fills in keeps its size, and is filled up to that
 * size.
 */
#ifndef SYMMCOLL_TYPES_H
#define SYMMCOLL_TYPES_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
#define SYMMCOLL_BEGIN_DECLS extern "C" {
#define SYMMCOLL_END_DECLS }
#else
#define SYMMCOLL_BEGIN_DECLS
#define SYMMCOLL_END_DECLS
#endif

#if defined(__GNUC__)
#define SYMMCOLL_API __attribute__((visibility("default")))
#define SYMMCOLL_CHECKED \
    SYMMCOLL_API         \
    __attribute__((warn_unused_result))
#else
#define SYMMCOLL_API
#define SYMMCOLL_CHECKED
#endif

SYMMCOLL_BEGIN_DECLS

/* 0 is success, negative is an error, positive is neither.  -9 is not
 * assigned. */
typedef int32_t symmcoll_status_t;
enum symmcoll_status {
    SYMMCOLL_OK = 0,
    SYMMCOLL_IN_PROGRESS = 1, /* not finished yet */
    SYMMCOLL_SKIPPED = 2,     /* not done, and not because of an error */
    SYMMCOLL_NOT_MEMBER = 3,  /* this rank is not in the group: nothing
                                 was done */

    SYMMCOLL_ERR_INVALID = -1,       /* an argument or the state is wrong */
    SYMMCOLL_ERR_UNSUPPORTED = -2,   /* correct, but not available here */
    SYMMCOLL_ERR_MISMATCH = -3,      /* ranks passed different arguments */
    SYMMCOLL_ERR_TIMEOUT = -4,       /* a deadline passed */
    SYMMCOLL_ERR_PEER = -5,          /* another rank died or finalized */
    SYMMCOLL_ERR_CANCELED = -6,      /* the group was aborted while it ran */
    SYMMCOLL_ERR_ABORTED = -7,       /* the group had failed before the call */
    SYMMCOLL_ERR_NOT_SYMMETRIC = -8, /* the memory is not symmetric */
    SYMMCOLL_ERR_NO_MEMORY = -10,    /* no memory, or a limit on it */
    SYMMCOLL_ERR_SYSTEM = -11,       /* a system call failed */
    SYMMCOLL_ERR_DEVICE = -12,       /* a device or its driver failed */
    SYMMCOLL_ERR_CONFIG = -13,       /* a setting is wrong */
    SYMMCOLL_ERR_INTERNAL = -14      /* a defect of the library */
};

/* Element types.  Source: torch.dtype. */
enum symmcoll_dtype {
    SYMMCOLL_UINT8 = 0,
    SYMMCOLL_INT8 = 1,
    SYMMCOLL_INT16 = 2,
    SYMMCOLL_INT32 = 3,
    SYMMCOLL_INT64 = 4,
    SYMMCOLL_FLOAT16 = 5,
    SYMMCOLL_BFLOAT16 = 6,
    SYMMCOLL_FLOAT32 = 7,
    SYMMCOLL_FLOAT64 = 8,
    SYMMCOLL_BOOL = 9,
    SYMMCOLL_COMPLEX64 = 10,
    SYMMCOLL_COMPLEX128 = 11,
    SYMMCOLL_FLOAT8_E4M3FN = 12,
    SYMMCOLL_FLOAT8_E5M2 = 13,
    SYMMCOLL_FLOAT8_E4M3FNUZ = 14,
    SYMMCOLL_FLOAT8_E5M2FNUZ = 15,
    SYMMCOLL_FLOAT8_E8M0FNU = 16,
    SYMMCOLL_UINT16 = 17,
    SYMMCOLL_UINT32 = 18,
    SYMMCOLL_UINT64 = 19,
    SYMMCOLL_DTYPE_COUNT = 20
};

/*
 * Reduce operations, and the element types that each is defined for:
 *
 *   SUM, AVG            integers (wrap around; AVG rounds towards zero),
 *                       floats, complex; SUM of bool is logical or, AVG of
 *                       bool is refused
 *   PRODUCT, MIN, MAX   integers, floats (a NaN wins), bool as uint8
 *   BAND, BOR, BXOR     integers and bool
 *   PREMUL_SUM          floats and complex; see symmcoll_op_create_premul()
 *
 * No operation is defined for the eight-bit floats: UNSUPPORTED.
 * Source: torch.distributed.ReduceOp.
 */
typedef int32_t symmcoll_op_t;
enum symmcoll_op {
    SYMMCOLL_SUM = 0,
    SYMMCOLL_AVG = 1,
    SYMMCOLL_PRODUCT = 2,
    SYMMCOLL_MIN = 3,
    SYMMCOLL_MAX = 4,
    SYMMCOLL_BAND = 5,
    SYMMCOLL_BOR = 6,
    SYMMCOLL_BXOR = 7,
    SYMMCOLL_PREMUL_SUM = 8,
    SYMMCOLL_OP_COUNT = 9
};

/*
 * The kinds of operations that take a sequence number, as reported by
 * symmcoll_group_notify().  Later releases may add kinds; numbers are never
 * reused.
 */
enum symmcoll_kind {
    SYMMCOLL_KIND_BARRIER = 1,
    SYMMCOLL_KIND_ALL_REDUCE = 2,
    SYMMCOLL_KIND_REDUCE = 3,
    SYMMCOLL_KIND_REDUCE_SCATTER = 4,
    SYMMCOLL_KIND_ALL_GATHER = 5,
    SYMMCOLL_KIND_GATHER = 6,
    SYMMCOLL_KIND_BROADCAST = 7,
    SYMMCOLL_KIND_SEND = 8,
    SYMMCOLL_KIND_RECV = 9,
    SYMMCOLL_KIND_SCATTER = 12,
    SYMMCOLL_KIND_ALL_TO_ALL = 13,
    SYMMCOLL_KIND_MONITORED_BARRIER = 14,
    SYMMCOLL_KIND_ALL_TO_ALL_V = 15,
    SYMMCOLL_KIND_ALL_TO_ALL_LIST = 16,
    SYMMCOLL_KIND_ALL_GATHER_LIST = 17,
    SYMMCOLL_KIND_REDUCE_SCATTER_LIST = 18,
    SYMMCOLL_KIND_ALL_REDUCE_COALESCED = 19,
    SYMMCOLL_KIND_ALL_GATHER_COALESCED = 20,
    SYMMCOLL_KIND_REDUCE_SCATTER_COALESCED = 21,
    SYMMCOLL_KIND_SYMM_ONE_SHOT_ALL_REDUCE = 32,
    SYMMCOLL_KIND_SYMM_TWO_SHOT_ALL_REDUCE = 33,
    SYMMCOLL_KIND_SYMM_ONE_SHOT_REDUCE = 34,
    SYMMCOLL_KIND_SYMM_REDUCE_SCATTER = 35,
    SYMMCOLL_KIND_SYMM_ALL_GATHER = 36,
    SYMMCOLL_KIND_SYMM_TILE_REDUCE = 37,
    SYMMCOLL_KIND_SYMM_REDUCE_SCATTER_OFFSET = 38,
    SYMMCOLL_KIND_SYMM_ALL_TO_ALL_V = 39,
    SYMMCOLL_KIND_SYMM_ALL_TO_ALL_V_BACK = 40,
    SYMMCOLL_KIND_SYMM_PLAN_CREATE = 41,
    SYMMCOLL_KIND_SYMM_PLAN_RUN = 42,
    SYMMCOLL_KIND_SYMM_PUSH_ROWS = 43,
    SYMMCOLL_KIND_SYMM_BROADCAST = 44,
    SYMMCOLL_KIND_SYMM_ALL_TO_ALL = 45,
    SYMMCOLL_KIND_SYMM_ALL_GATHER_OFFSET = 46,
    SYMMCOLL_KIND_SYMM_PERMUTE = 47,
    SYMMCOLL_KIND_SYMM_RESHARD = 48,
    SYMMCOLL_KIND_SYMM_INTRA_NODE_ALL_REDUCE = 56,
    SYMMCOLL_KIND_SYMM_MULTI_ROOT_TILE_REDUCE = 57,
    SYMMCOLL_KIND_SYMM_LOW_CONTENTION_REDUCE_SCATTER = 58,
    SYMMCOLL_KIND_SYMM_LOW_CONTENTION_ALL_GATHER = 59,
    SYMMCOLL_KIND_SYMM_ONE_SHOT_ALL_REDUCE_COPY = 60,
    SYMMCOLL_KIND_FUSED_ALL_GATHER_MATMUL = 61,
    SYMMCOLL_KIND_FUSED_MATMUL_REDUCE_SCATTER = 62
};

/*
 * The options of one call.  A function that takes a pointer to this struct
 * accepts NULL for the defaults.  Initialise it with SYMMCOLL_CALL_INIT and set
 * the members that differ.
 */
struct symmcoll_call {
    size_t size;       /* sizeof(struct symmcoll_call) */
    double timeout;    /* seconds that the operation may wait for other ranks
                          before it fails the group, counted from its first
                          wait; negative: the group's timeout; 0: the others
                          must have arrived already.  On device memory a second
                          period of this length starts on the device */
    void *stream;      /* for device memory only: a CUstream or cudaStream_t;
                          NULL: the stream of symmcoll_group_set_stream(); not
                          used by an operation without elements */
    const char *label; /* shown in traces and messages; copied, 31 bytes kept */
    uint32_t flags;    /* no flags are defined: 0 */
    /* Out, set when the call returns: the sequence number, in its group, of the
     * operation that the call started, also if the operation failed; with a
     * work, the value of symmcoll_work_sequence().  0: no operation was started.
     * If the call started several operations: the number of the last one.  Not
     * written if the arguments are refused.  NULL: not wanted. */
    uint64_t *sequence;
};
#define SYMMCOLL_CALL_INIT                                      \
    {                                                           \
        sizeof(struct symmcoll_call), -1.0, NULL, NULL, 0, NULL \
    }

/* Returns the size of one element in bytes; 0 for an unknown type. */
SYMMCOLL_API
size_t symmcoll_dtype_size(enum symmcoll_dtype dtype);

/* Returns the name of a type as traces show it, such as "float32"; NULL for an
 * unknown type.  Static. */
SYMMCOLL_API
const char *symmcoll_dtype_name(enum symmcoll_dtype dtype);

/* Returns the name of an operation, such as "sum"; NULL for an unknown one.
 * Static. */
SYMMCOLL_API
const char *symmcoll_op_name(symmcoll_op_t op);

/*
 * Parses the name of an operation, in any letter case: "sum", "avg", "product",
 * "min", "max", "band", "bor", "bxor".  Errors: INVALID.
 */
SYMMCOLL_CHECKED
symmcoll_status_t symmcoll_op_parse(const char *text, symmcoll_op_t *op);

/* Parses the name of an element type, in any letter case; the names are those
 * of symmcoll_dtype_name().  Errors: INVALID. */
SYMMCOLL_CHECKED
symmcoll_status_t symmcoll_dtype_parse(
    const char *text, enum symmcoll_dtype *dtype);

SYMMCOLL_END_DECLS

#endif
