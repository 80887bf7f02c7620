/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * NCCL: libnccl.so.2, opened when it is first needed and never linked with.  What
 * it passes and returns is declared here, as its binary interface has it from
 * 2.22 on, so that this is built without its header, and without CUDA's.
 *
 * Loading is once in a process: the copy that the process has already, so that
 * the caller's communicators and the library's are of one, else the one that
 * cuda.nccl names.  It is never unloaded.
 */
#ifndef SYMC_CUDA_NCCL_NCCL_H
#define SYMC_CUDA_NCCL_NCCL_H

#include "base/base.h"
#include "cuda/nccl/nccl_functions.h"

#include <limits.h>

#define SYMC_NCCL_LIBRARY "libnccl.so.2"
#define SYMC_NCCL_KNOWN SYMC_NCCL_CODE(2, 28, 9) /* what is declared here */

/* ---- what NCCL declares ---- */

struct CUstream_st;
struct symc_nccl_comm;
struct symc_nccl_window;

struct symc_nccl_id {
    char bytes[128];
};

enum symc_nccl_result {
    SYMC_NCCL_SUCCESS = 0,
    SYMC_NCCL_CUDA_ERROR = 1,
    SYMC_NCCL_SYSTEM_ERROR = 2,
    SYMC_NCCL_INTERNAL_ERROR = 3,
    SYMC_NCCL_INVALID_ARGUMENT = 4,
    SYMC_NCCL_INVALID_USAGE = 5,
    SYMC_NCCL_REMOTE_ERROR = 6,
    SYMC_NCCL_IN_PROGRESS = 7
};

/* A reduction; those that are created have larger numbers. */
enum symc_nccl_op {
    SYMC_NCCL_SUM = 0,
    SYMC_NCCL_PROD = 1,
    SYMC_NCCL_MAX = 2,
    SYMC_NCCL_MIN = 3,
    SYMC_NCCL_AVG = 4,
    SYMC_NCCL_OP_MOST = INT_MAX
};

enum symc_nccl_type {
    SYMC_NCCL_INT8 = 0,
    SYMC_NCCL_UINT8 = 1,
    SYMC_NCCL_INT32 = 2,
    SYMC_NCCL_UINT32 = 3,
    SYMC_NCCL_INT64 = 4,
    SYMC_NCCL_UINT64 = 5,
    SYMC_NCCL_FLOAT16 = 6,
    SYMC_NCCL_FLOAT32 = 7,
    SYMC_NCCL_FLOAT64 = 8,
    SYMC_NCCL_BFLOAT16 = 9
};

/* Where a factor is: on the device, or on the host and read in the call. */
enum symc_nccl_residence {
    SYMC_NCCL_ON_DEVICE = 0,
    SYMC_NCCL_ON_HOST = 1
};

enum {
    SYMC_NCCL_UNDEFINED = INT_MIN,     /* a number of a config: the default */
    SYMC_NCCL_WINDOW_SYMMETRIC = 1,    /* a flag of a window */
    SYMC_NCCL_WINDOW_ALIGNMENT = 4096, /* of its address, in bytes */
    SYMC_NCCL_NO_COLOR = -1,           /* a rank that a split leaves out */
    SYMC_NCCL_SHRINK_ABORT = 1,        /* a flag: stop what runs first */
    SYMC_NCCL_EFFICIENCY = 1,          /* policies of a config */
    SYMC_NCCL_ZERO = 2,
    SYMC_NCCL_CONFIG_MAGIC = (int)0xcafebeef,
    SYMC_NCCL_SIMULATED_MAGIC = 0x74685283
};

/* Of a communicator.  NCCL reads size bytes of it, or what it knows where that is
 * less. */
struct symc_nccl_config {
    size_t size;
    uint32_t magic;
    uint32_t version;
    int blocking; /* 0: no call waits for other ranks */
    int cga_cluster_size;
    int min_ctas;
    int max_ctas;
    const char *net_name;
    int split_share;
    int traffic_class; /* up to here since 2.22 */
    const char *comm_name;
    int collnet_enable;
    int cta_policy;
    int shrink_share;
    int nvls_ctas; /* up to here since 2.27 */
    int channels_per_net_peer;
    int nvlink_centric_sched; /* since 2.28 */
};

/* What a group of calls would cost. */
struct symc_nccl_simulated {
    size_t size;
    uint32_t magic;
    uint32_t version;
    float estimated_us;
};

/* ---- the library ---- */

/* As core->fail: keep the detail of an error, return the status. */
typedef symmcoll_status_t (*symc_nccl_fail_fn)(
    symmcoll_status_t status, const char *format, ...) SYMC_PRINTF(2, 3);

#define RESULT enum symc_nccl_result
#define COMM struct symc_nccl_comm *
#define ID struct symc_nccl_id
#define CONFIG struct symc_nccl_config
#define SIMULATED struct symc_nccl_simulated
#define DATATYPE enum symc_nccl_type
#define OP enum symc_nccl_op
#define RESIDENCE enum symc_nccl_residence
#define WINDOW struct symc_nccl_window *
#define STREAM struct CUstream_st *
#define MEMBER(member, name, since, type, args) type(*member) args;

/* Functions of NCCL: ncclCommAbort is comm_abort.  See nccl_functions.h. */
struct symc_nccl {
    int version;      /* the library's, 22809 for 2.28.9 */
    const char *path; /* its file */

    SYMC_NCCL_NEEDED(MEMBER)
    SYMC_NCCL_OPTIONAL(MEMBER)
};

#undef RESULT
#undef COMM
#undef ID
#undef CONFIG
#undef SIMULATED
#undef DATATYPE
#undef OP
#undef RESIDENCE
#undef WINDOW
#undef STREAM
#undef MEMBER

/*
 * The table, static; the first call that succeeds opens the library and fills
 * it.  Any thread may call it.
 * path  of the library, as the setting cuda.nccl has it; "": there is to be none.
 *       Not looked at where the process has NCCL already
 * fail  NULL if nobody wants the detail
 * Errors: UNSUPPORTED, with the reason: no library and what the loader said, one
 * that is too old, a function that it lacks.
 */
symmcoll_status_t symc_nccl_load(
    symc_nccl_fail_fn fail, const char *path, const struct symc_nccl **nccl);

/* A variable of NCCL's, as it will find it. */
struct symc_nccl_variable {
    char value[32];      /* as far as it fits */
    char path[PATH_MAX]; /* of the file that has it; "": the environment */
    int line;            /* of it there */
};

/*
 * Whether there is one (out): in the environment, or else in a file of which NCCL adds
 * to the environment what that lacks, when it is first used.
 *
 * get  as symc_variable_get()
 */
bool symc_nccl_find_variable(const struct symc_nccl *nccl,
    const char *(*get)(const char *name), const char *name,
    struct symc_nccl_variable *found);

/* Where it was found, for messages: "PATH:LINE: ", or nothing; into a buffer of
 * SYMC_NCCL_PLACE. */
#define SYMC_NCCL_PLACE (PATH_MAX + 16)
const char *symc_nccl_format_place(
    const struct symc_nccl_variable *found, char *buffer);

/*
 * Whether NCCL's own variables leave its communicators as the library makes them:
 * NCCL_COMM_BLOCKING has NCCL take no notice of a config that says that no call
 * blocks, and a call that blocks can be neither timed out nor aborted.
 *
 * fail  NULL if nobody wants the detail
 * get   as symc_variable_get()
 * Errors: CONFIG.
 */
symmcoll_status_t symc_nccl_check_variables(symc_nccl_fail_fn fail,
    const struct symc_nccl *nccl, const char *(*get)(const char *name));

/* Whether this NCCL tells whether a thread is in a group of calls, which it notes as a
 * warning where its variable NCCL_DEBUG has it write those; and where it does so, whether
 * the calling thread is in one. */
bool symc_nccl_tells_groups(const struct symc_nccl *nccl);
bool symc_nccl_is_grouped(const struct symc_nccl *nccl);

/* What NCCL has said last of an error, other than of such a question; empty: nothing.
 * Into a buffer of SYMC_NCCL_TEXT. */
#define SYMC_NCCL_TEXT 1024
const char *symc_nccl_last_error(
    const struct symc_nccl *nccl, struct symc_nccl_comm *comm, char *buffer);

/* A function that a library may lack. */
struct symc_nccl_function {
    const char *name;
    int since; /* the version that has it */
    bool found;
};

/* Which these are, one by one; false after the last. */
bool symc_nccl_optional(const struct symc_nccl *nccl, int index,
    struct symc_nccl_function *function);

/* "2.28.9"; into a buffer of 32. */
const char *symc_nccl_format_version(int version, char *buffer);

/* Initialise a config with NCCL's defaults, as large and of such a version as
 * both the library and this file know it. */
void symc_nccl_config_init(
    const struct symc_nccl *nccl, struct symc_nccl_config *config);

#endif
