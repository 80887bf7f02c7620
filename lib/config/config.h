/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The settings: one typed table (options.c) drives the file, the environment,
 * the listing and the manual page.  They are read once, when a world is made.
 */
#ifndef SYMC_CONFIG_CONFIG_H
#define SYMC_CONFIG_CONFIG_H

#include "base/base.h"

#include <symmcoll/config.h>

#include <stddef.h>

/* How `errors.async_handling` acts on a failed operation.  0, which would leave
 * a rank alone with a dead peer, is as 2. */
enum symc_async_handling {
    SYMC_ASYNC_NONE = 0,
    SYMC_ASYNC_TEAR_DOWN = 1, /* end the process when all works have ended */
    SYMC_ASYNC_CLEAN_UP = 2,
    SYMC_ASYNC_SKIP_CLEAN_UP = 3 /* end it at once */
};

/* How `errors.aliases` decides about variables of torch.distributed. */
enum symc_alias_use {
    SYMC_ALIASES_AUTO,
    SYMC_ALIASES_ON,
    SYMC_ALIASES_OFF
};

/* What follows where an operation is to send what is not a number
 * (`errors.nan_check`). */
enum symc_nan_check {
    SYMC_NAN_CHECK_OFF, /* nobody looks */
    SYMC_NAN_CHECK_WARN,
    SYMC_NAN_CHECK_ERROR
};

/* How NCCL uses multiprocessors (`cuda.nccl_cta_policy`). */
enum symc_nccl_policy {
    SYMC_NCCL_POLICY_AUTO,
    SYMC_NCCL_POLICY_EFFICIENCY,
    SYMC_NCCL_POLICY_ZERO
};

/* Whether memory of devices has an address of all ranks (`cuda.multicast`). */
enum symc_multicast_use {
    SYMC_MULTICAST_AUTO,
    SYMC_MULTICAST_OFF
};

/* Which values apply below all files (`profile`). */
enum symc_profile {
    SYMC_PROFILE_DEFAULT,
    SYMC_PROFILE_COMPAT_2024
};

/* What dumps of the flight recorder are (`trace.format`). */
enum symc_trace_form {
    SYMC_TRACE_FORM_JSON,
    SYMC_TRACE_FORM_PICKLE
};

/* The values in effect.  Times are nanoseconds, SYMC_NEVER for "inf"; sizes are
 * bytes. */
struct symc_config {
    int64_t profile; /* enum symc_profile */
    char *backends;  /* names, separated by commas; "": all there are */

    /* timeouts */
    int64_t timeouts_init;       /* init: the rendezvous of the ranks */
    int64_t timeouts_collective; /* one operation */
    int64_t timeouts_finalize;   /* queued work at the end */
    int64_t timeouts_heartbeat;  /* a monitor without progress */

    /* errors */
    int64_t errors_async_handling; /* enum symc_async_handling */
    bool errors_blocking_wait;     /* an expired wait fails the group (W5) */
    bool errors_kill_process; /* end by SIGABRT when the monitor is stuck */
    int64_t errors_aliases;   /* enum symc_alias_use */
    int64_t errors_nan_check; /* enum symc_nan_check */

    /* trace */
    int64_t trace_buffer_size; /* entries; 0: no recorder */
    char *trace_dump_file;     /* prefix of the dump's path; "": the default */
    char *trace_dump_pipe;     /* prefix of a FIFO's path; "": none */
    bool trace_dump_on_error;
    int64_t trace_dump_grace; /* a failing call waits so long for the dump */
    bool trace_only_active;   /* automatic dumps hold only unfinished entries */
    int64_t trace_nccl_ras;   /* a dump waits so long for NCCL; 0: never */
    bool trace_timing;        /* of operations on devices, by these */
    int64_t trace_format;     /* enum symc_trace_form */
    char *trace_backend_name; /* before the operation's name, "nccl" */
    char *trace_version;      /* "2.10" or "2.2" */

    /* host */
    int64_t host_spin;       /* polling before sleeping, a core for each rank */
    int64_t host_polls;      /* polls before yielding, otherwise */
    int64_t host_yield;      /* yielding before sleeping */
    int64_t host_watch;      /* how often the monitor looks at its peers */
    size_t host_small_max;   /* bytes sent beside the header */
    size_t host_chunk;       /* bytes of one staging slot */
    size_t host_staging;     /* bytes of a rank, for all groups */
    size_t host_stream_min;  /* non-temporal stores from this size on */
    int64_t host_reduce_run; /* ranks in one reduction block */
    char *host_node;         /* name of this machine; "": found */
    bool host_direct;        /* threads read each other's buffers */
    bool host_symmetric;     /* symmetric buffers are used where they lie */

    /* cuda: operations on devices */
    size_t cuda_staging;          /* bytes on each rank's device, for a group */
    bool cuda_share_device;       /* ranks may use one device */
    size_t cuda_packets_max;      /* bytes: packets up to that, */
    size_t cuda_one_shot_max;     /* one shot up to that, else two */
    size_t cuda_one_shot_max_two; /* the same of two ranks */
    int64_t cuda_blocks;          /* of a kernel, at most */
    int64_t cuda_groups;          /* whose kernels fit on a device at once */
    int64_t cuda_share;           /* the place of its word */
    int64_t cuda_multicast;       /* enum symc_multicast_use */
    int64_t cuda_multicast_blocks;     /* of a kernel that uses it, at most */
    bool cuda_multimem;                /* a switch may add up */
    size_t cuda_multimem_one_shot_max; /* bytes: in one shot, else in two */
    bool cuda_copy_engine;             /* it copies what is moved */
    size_t cuda_message_chunk;         /* bytes; messages go in such pieces */
    char *cuda_cublaslt;               /* cuBLASLt's library; "": none */
    size_t cuda_nccl_min;              /* bytes: by NCCL from there on */
    bool cuda_nccl_sums;               /* sums of floats, too */
    bool cuda_nccl_shared;             /* where ranks share a device, too */
    bool cuda_nccl_windows;            /* symmetric memory is registered */
    bool cuda_nccl_split;              /* from the group's they are made of */
    bool cuda_nccl_shrink;             /* of what is left of a group */
    int64_t cuda_nccl_min_ctas;        /* blocks of its kernels; 0: NCCL's */
    int64_t cuda_nccl_max_ctas;        /* the same, at most */
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

    /* ddp */
    char *fused_blas; /* library with CBLAS; "": found, "none": none */
    size_t fused_device_memory; /* bytes of a group's, of each rank */
    int64_t fused_device_rows;  /* of a part, from which on it is one product */
    bool fused_round_parts;     /* what goes between devices */
    bool fused_tf32;            /* on devices */
    size_t ddp_bucket_cap;
    size_t ddp_first_bucket_cap;

    /* symm_mem */
    size_t symm_mem_pad;       /* bytes of a signal pad */
    size_t symm_mem_memfd_min; /* allocations of so many have a memfd */
    bool symm_mem_huge_pages;

    /* log */
    int64_t log_level;    /* enum symc_log_level */
    int64_t log_progress; /* init: before the first line on who is missing */

    /* The same as text, each with its origin. */
    struct symc_value *values;
};

/*
 * Read everything, lowest first: built-in, the profile,
 * sysconfdir/symmcoll.conf and its .d, the user's file, $SYMMCOLL_CONF,
 * aliases, SYMMCOLL_*.
 *
 * config   out: release with symc_config_free()
 * warn     gets a line for each warning; may be NULL
 *
 * Errors: CONFIG (origin, expected and found), NO_MEMORY, SYSTEM.
 */
symmcoll_status_t symc_config_load(
    struct symc_config **config, symmcoll_warning_fn warn, void *arg);
void symc_config_free(struct symc_config *config);

/* One value by its key, "host.chunk"; 0 or "" where there is no such setting of
 * that type.  A word is its place in the range. */
bool symc_config_get_bool(const struct symc_config *config, const char *key);
int64_t symc_config_get_int(const struct symc_config *config, const char *key);
size_t symc_config_get_size(const struct symc_config *config, const char *key);
int64_t symc_config_get_time(const struct symc_config *config, const char *key);
const char *symc_config_get_text(
    const struct symc_config *config, const char *key);

#endif
