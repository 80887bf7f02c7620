/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The settings.  One typed table (options.c) drives the file, the environment,
 * the listing and the manual page.  Settings are read once, when a world is
 * created.
 */
#ifndef SYMC_CONFIG_CONFIG_H
#define SYMC_CONFIG_CONFIG_H

#include "base/base.h"

#include <symmcoll/config.h>

#include <stddef.h>

/* The reactions to a failed operation (`errors.async_handling`). 0, which would
 * leave a rank alone with a dead peer, acts as 2. */
enum symc_async_handling {
    SYMC_ASYNC_NONE = 0,
    SYMC_ASYNC_TEAR_DOWN = 1, /* end the process when all works have ended */
    SYMC_ASYNC_CLEAN_UP = 2,
    SYMC_ASYNC_SKIP_CLEAN_UP = 3 /* end the process at once */
};

/* The use of torch.distributed's variables (`errors.aliases`). */
enum symc_alias_use {
    SYMC_ALIASES_AUTO,
    SYMC_ALIASES_ON,
    SYMC_ALIASES_OFF
};

/* The reactions to NaN in data that an operation sends (`errors.nan_check`). */
enum symc_nan_check {
    SYMC_NAN_CHECK_OFF, /* no check */
    SYMC_NAN_CHECK_WARN,
    SYMC_NAN_CHECK_ERROR
};

/* NCCL's use of multiprocessors (`cuda.nccl_cta_policy`). */
enum symc_nccl_policy {
    SYMC_NCCL_POLICY_AUTO,
    SYMC_NCCL_POLICY_EFFICIENCY,
    SYMC_NCCL_POLICY_ZERO
};

/* The use of multicast addresses for device memory (`cuda.multicast`). */
enum symc_multicast_use {
    SYMC_MULTICAST_AUTO,
    SYMC_MULTICAST_OFF
};

/* The default values, which all files override (`profile`). */
enum symc_profile {
    SYMC_PROFILE_DEFAULT,
    SYMC_PROFILE_COMPAT_2024
};

/* The format of flight recorder dumps (`trace.format`). */
enum symc_trace_form {
    SYMC_TRACE_FORM_JSON,
    SYMC_TRACE_FORM_PICKLE
};

/* The values in effect.  Times are in nanoseconds, SYMC_NEVER for "inf"; sizes
 * are in bytes. */
struct symc_config {
    int64_t profile; /* enum symc_profile */
    char *backends;  /* comma-separated names; "": all available */

    /* timeouts */
    int64_t timeouts_init;       /* init: the rendezvous of the ranks */
    int64_t timeouts_collective; /* one operation */
    int64_t timeouts_finalize;   /* queued operations at the end */
    int64_t timeouts_heartbeat;  /* of a monitor thread without progress */

    /* errors */
    int64_t errors_async_handling; /* enum symc_async_handling */
    bool errors_blocking_wait;     /* an expired wait fails the group (W5) */
    bool errors_kill_process;      /* SIGABRT if the monitor thread is stuck */
    int64_t errors_aliases;        /* enum symc_alias_use */
    int64_t errors_nan_check;      /* enum symc_nan_check */

    /* trace */
    int64_t trace_buffer_size; /* entries; 0: no recorder */
    char *trace_dump_file;     /* prefix of the dump's path; "": the default */
    char *trace_dump_pipe;     /* prefix of a FIFO's path; "": none */
    bool trace_dump_on_error;
    int64_t trace_dump_grace; /* longest wait of a failing call for the dump */
    bool trace_only_active;   /* automatic dumps have only unfinished entries */
    int64_t trace_nccl_ras;   /* longest wait of a dump for NCCL; 0: none */
    bool trace_timing;        /* of operations on devices, by events there */
    int64_t trace_format;     /* enum symc_trace_form */
    char *trace_backend_name; /* prefix of the operation's name, "nccl" */
    char *trace_version;      /* "2.10" or "2.2" */

    /* host */
    int64_t host_spin;       /* polling before sleep, if each rank has a core */
    int64_t host_polls;      /* polls before yielding, otherwise */
    int64_t host_yield;      /* yielding before sleep, otherwise */
    int64_t host_watch;      /* interval of the monitor's checks of its peers */
    size_t host_small_max;   /* bytes sent next to the header line */
    size_t host_chunk;       /* bytes of one staging slot */
    size_t host_staging;     /* bytes of a rank, for all its groups */
    size_t host_stream_min;  /* non-temporal stores from this size on */
    int64_t host_reduce_run; /* ranks in one reduction block */
    char *host_node;         /* name of this machine; "": automatic */
    bool host_direct;        /* threads read each other's buffers */
    bool host_symmetric;     /* symmetric buffers are used in place */

    /* cuda: operations on devices */
    size_t cuda_staging;          /* bytes on each rank's device, per group */
    bool cuda_share_device;       /* several ranks may use one device */
    size_t cuda_packets_max;      /* bytes: largest operation sent in packets */
    size_t cuda_one_shot_max;     /* bytes: largest operation in one shot */
    size_t cuda_one_shot_max_two; /* likewise, for two ranks */
    int64_t cuda_blocks;          /* most blocks of a kernel */
    int64_t cuda_groups;          /* groups that fit on a device together */
    int64_t cuda_share;           /* index of the word in the range */
    int64_t cuda_multicast;       /* enum symc_multicast_use */
    int64_t cuda_multicast_blocks;     /* most blocks of its kernels */
    bool cuda_multimem;                /* switches may compute sums */
    size_t cuda_multimem_one_shot_max; /* bytes: largest such sum in one shot */
    bool cuda_copy_engine;             /* copy engines move the data */
    size_t cuda_message_chunk;         /* bytes of a piece of a message */
    char *cuda_cublaslt;               /* cuBLASLt's library; "": none */
    size_t cuda_nccl_min;              /* bytes: least operation by NCCL */
    bool cuda_nccl_sums;               /* also sums of floats */
    bool cuda_nccl_shared;             /* also if ranks share a device */
    bool cuda_nccl_windows;            /* symmetric memory is registered */
    bool cuda_nccl_split;              /* split with the communicator */
    bool cuda_nccl_shrink;             /* shrunk with the communicator */
    int64_t cuda_nccl_min_ctas;        /* least blocks of a kernel; 0: NCCL's */
    int64_t cuda_nccl_max_ctas;        /* most blocks of a kernel; 0: NCCL's */
    int64_t cuda_nccl_cga;             /* blocks of a cluster; -1: NCCL's */
    int64_t cuda_nccl_cta_policy;      /* enum symc_nccl_policy */
    char *cuda_nccl_net;               /* its network; "": NCCL's choice */
    char *cuda_nccl;                   /* NCCL's library; "": none */

    /* store */
    int64_t store_timeout;
    char *store_url;    /* of a server; "": none */
    bool store_serve;   /* rank 0 serves a store under env:// */
    int64_t store_port; /* 0: MASTER_PORT, plus one under torchrun */
    char *store_password_file;
    char *store_tls_ca;
    char *store_tls_cert;
    char *store_tls_key;

    /* fused and ddp */
    char *fused_blas; /* library with CBLAS; "": the one of the build, "auto":
                         found, "none": none */
    size_t fused_device_memory; /* bytes for a group, on each rank's device */
    int64_t fused_device_rows;  /* least rows of a separate product */
    bool fused_round_parts;     /* partial sums are rounded for the transfer */
    bool fused_tf32;            /* on devices */
    size_t ddp_bucket_cap;
    size_t ddp_first_bucket_cap;

    /* symm_mem */
    size_t symm_mem_pad;       /* bytes of a signal pad */
    size_t symm_mem_memfd_min; /* bytes: least allocation with its own memfd */
    bool symm_mem_huge_pages;

    /* log */
    int64_t log_level;    /* enum symc_log_level */
    int64_t log_progress; /* init: time to the first line on missing ranks */

    /* All values as text, each with its origin. */
    struct symc_value *values;
};

/*
 * Reads all sources, in this order of precedence, lowest first: built-in
 * values, the profile, sysconfdir/symmcoll.conf and its .d, the user's file,
 * $SYMMCOLL_CONF, aliases, SYMMCOLL_*.
 *
 * config   out: release with symc_config_free()
 * warn     called with a line for each warning; may be NULL
 *
 * Errors: CONFIG (origin, expected and found), NO_MEMORY, SYSTEM.
 */
symmcoll_status_t symc_config_load(
    struct symc_config **config, symmcoll_warning_fn warn, void *arg);
void symc_config_free(struct symc_config *config);

/* Return a value by its key, as "host.chunk"; 0 or "" if there is no such
 * setting of that type.  The value of a choice is the index of its word in the
 * range. */
bool symc_config_get_bool(const struct symc_config *config, const char *key);
int64_t symc_config_get_int(const struct symc_config *config, const char *key);
size_t symc_config_get_size(const struct symc_config *config, const char *key);
int64_t symc_config_get_time(const struct symc_config *config, const char *key);
const char *symc_config_get_text(
    const struct symc_config *config, const char *key);

#endif
