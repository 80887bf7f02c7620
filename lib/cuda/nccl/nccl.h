/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * NCCL: libnccl.so.2, opened at its first use and never linked with.  Its types are
 * declared here after its binary interface from 2.22 on, so that the library is built
 * without NCCL's header, and without CUDA's.
 *
 * NCCL is loaded once per process: the copy that the process has loaded already, so that
 * the caller's communicators and the library's come from one copy, else the one that
 * cuda.nccl names.  It is never unloaded.
 */
#ifndef SYMC_CUDA_NCCL_NCCL_H
#define SYMC_CUDA_NCCL_NCCL_H

#include "base/base.h"
#include "cuda/nccl/nccl_functions.h"

#include <limits.h>

#define SYMC_NCCL_LIBRARY "libnccl.so.2"
#define SYMC_NCCL_KNOWN SYMC_NCCL_CODE(2, 28, 9) /* as declared here */

/* ---- declarations of NCCL ---- */

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

/* A reduction; reductions that are created have larger numbers. */
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

/* The place of a factor: on the device, or on the host and read in the call. */
enum symc_nccl_residence {
    SYMC_NCCL_ON_DEVICE = 0,
    SYMC_NCCL_ON_HOST = 1
};

enum {
    SYMC_NCCL_UNDEFINED = INT_MIN,     /* in a config: the default */
    SYMC_NCCL_WINDOW_SYMMETRIC = 1,    /* a flag of a window */
    SYMC_NCCL_WINDOW_ALIGNMENT = 4096, /* of its address, in bytes */
    SYMC_NCCL_NO_COLOR = -1,           /* a rank that a split leaves out */
    SYMC_NCCL_SHRINK_ABORT = 1,        /* a flag: abort running work first */
    SYMC_NCCL_EFFICIENCY = 1,          /* policies of a config */
    SYMC_NCCL_ZERO = 2,
    SYMC_NCCL_CONFIG_MAGIC = (int)0xcafebeef,
    SYMC_NCCL_SIMULATED_MAGIC = 0x74685283
};

/* The config of a communicator.  NCCL reads `size` bytes of it, or fewer if its own
 * struct is smaller. */
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
    int traffic_class; /* the last member of 2.22 */
    const char *comm_name;
    int collnet_enable;
    int cta_policy;
    int shrink_share;
    int nvls_ctas; /* the last member of 2.27 */
    int channels_per_net_peer;
    int nvlink_centric_sched; /* the last member of 2.28 */
};

/* The estimated cost of a group of calls. */
struct symc_nccl_simulated {
    size_t size;
    uint32_t magic;
    uint32_t version;
    float estimated_us;
};

/* ---- the library ---- */

/* As core->fail: keeps the detail of an error and returns the status. */
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
 * Returns the table (out), which is static.  The first call that succeeds has opened the
 * library and filled the table.  Any thread may call it.
 * path  of the library, from the setting cuda.nccl; "": NCCL is not to be used.
 *       Ignored if the process has loaded NCCL already
 * fail  may be NULL: then no detail is kept
 * Errors: UNSUPPORTED, with the reason: the loader's error, a library that is too
 * old, a function that it lacks.
 */
symmcoll_status_t symc_nccl_load(
    symc_nccl_fail_fn fail, const char *path, const struct symc_nccl **nccl);

/* A variable of NCCL with the value that NCCL will use. */
struct symc_nccl_variable {
    char value[32];      /* cut to fit */
    char path[PATH_MAX]; /* of the file that sets it; "": the environment */
    int line;            /* in that file */
};

/*
 * Finds a variable (out) in the environment, or else in a file from which NCCL adds
 * missing variables to the environment at its first use.  Returns false if it is not
 * set.
 *
 * get  as symc_variable_get()
 */
bool symc_nccl_find_variable(const struct symc_nccl *nccl,
    const char *(*get)(const char *name), const char *name,
    struct symc_nccl_variable *found);

/* Formats the place of a variable for messages: "PATH:LINE: ", or "" for the environment.
 * Into a buffer of SYMC_NCCL_PLACE. */
#define SYMC_NCCL_PLACE (PATH_MAX + 16)
const char *symc_nccl_format_place(
    const struct symc_nccl_variable *found, char *buffer);

/*
 * Checks that NCCL's own variables do not change the library's communicators: with
 * NCCL_COMM_BLOCKING=1 NCCL ignores that a config asks for calls that do not block, and a
 * call that blocks can be neither timed out nor aborted.
 *
 * fail  may be NULL: then no detail is kept
 * get   as symc_variable_get()
 * Errors: CONFIG.
 */
symmcoll_status_t symc_nccl_check_variables(symc_nccl_fail_fn fail,
    const struct symc_nccl *nccl, const char *(*get)(const char *name));

/* Returns whether this NCCL can be probed for a group of calls around the calling thread.
 * If NCCL_DEBUG enables warnings, each probe writes one. */
bool symc_nccl_detects_groups(const struct symc_nccl *nccl);
/* Probes whether the calling thread is in a group of calls.  Requires that
 * symc_nccl_detects_groups() returned true. */
bool symc_nccl_is_grouped(const struct symc_nccl *nccl);

/* Copies NCCL's text of its latest error, a probe's excepted, into a buffer of
 * SYMC_NCCL_TEXT and returns it; "" if there is none. */
#define SYMC_NCCL_TEXT 1024
const char *symc_nccl_last_error(
    const struct symc_nccl *nccl, struct symc_nccl_comm *comm, char *buffer);

/* A function that a library may lack. */
struct symc_nccl_function {
    const char *name;
    int since; /* the first version that has it */
    bool found;
};

/* Enumerates the optional functions by index; returns false after the last. */
bool symc_nccl_optional(const struct symc_nccl *nccl, int index,
    struct symc_nccl_function *function);

/* Formats "2.28.9" into a buffer of 32 bytes. */
const char *symc_nccl_format_version(int version, char *buffer);

/* Sets a config to NCCL's defaults, with the size and version that both the library and
 * this file know. */
void symc_nccl_config_init(
    const struct symc_nccl *nccl, struct symc_nccl_config *config);

#endif
