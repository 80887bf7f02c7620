/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Further tables of names: the variables of torch.distributed that are read,
 * the values of a profile, and variables that are not settings.
 */
#include "config/option.h"

#include <stddef.h>

/* The newest of several names of a setting is listed first, and has
 * precedence. */
const struct symc_alias symc_aliases[] = {
    {"TORCH_NCCL_BLOCKING_WAIT", "errors.blocking_wait", "", NULL},
    {"NCCL_BLOCKING_WAIT", "errors.blocking_wait", "",
        "TORCH_NCCL_BLOCKING_WAIT"},
    {"TORCH_NCCL_ASYNC_ERROR_HANDLING", "errors.async_handling", "", NULL},
    {"NCCL_ASYNC_ERROR_HANDLING", "errors.async_handling", "",
        "TORCH_NCCL_ASYNC_ERROR_HANDLING"},
    {"TORCH_NCCL_ENABLE_MONITORING", "errors.kill_process", "", NULL},
    {"TORCH_NCCL_NAN_CHECK", "errors.nan_check", "", NULL},
    {"TORCH_NCCL_HEARTBEAT_TIMEOUT_SEC", "timeouts.heartbeat", "s", NULL},
    {"TORCH_FR_BUFFER_SIZE", "trace.buffer_size", "", NULL},
    {"TORCH_NCCL_TRACE_BUFFER_SIZE", "trace.buffer_size", "",
        "TORCH_FR_BUFFER_SIZE"},
    {"TORCH_FR_DUMP_ON_TIMEOUT", "trace.dump_on_error", "", NULL},
    {"TORCH_NCCL_DUMP_ON_TIMEOUT", "trace.dump_on_error", "",
        "TORCH_FR_DUMP_ON_TIMEOUT"},
    {"TORCH_FR_DUMP_TEMP_FILE", "trace.dump_file", "symmcoll_", NULL},
    {"TORCH_NCCL_DEBUG_INFO_TEMP_FILE", "trace.dump_file", "symmcoll_",
        "TORCH_FR_DUMP_TEMP_FILE"},
    {"TORCH_NCCL_DEBUG_INFO_PIPE_FILE", "trace.dump_pipe", "symmcoll_", NULL},
    {"TORCH_NCCL_WAIT_TIMEOUT_DUMP_MILSEC", "trace.dump_grace", "ms", NULL},
    {"TORCH_INCLUDE_ONLY_ACTIVE", "trace.only_active", "", NULL},
    {"TORCH_NCCL_ENABLE_TIMING", "trace.timing", "", NULL},
    {"NCCL_ENABLE_TIMING", "trace.timing", "", "TORCH_NCCL_ENABLE_TIMING"},
    {NULL, NULL, NULL, NULL},
};

/* The values of mid-2024.  The default timeout of an operation was then ten
 * minutes with NCCL, the most common backend, and thirty minutes otherwise. */
const struct symc_preset symc_compat_2024[] = {
    {"timeouts.collective", "10min"},
    {"timeouts.heartbeat", "10min"},
    {"errors.async_handling", "3"},
    {"errors.kill_process", "on"},
    {"trace.buffer_size", "0"},
    {"trace.dump_on_error", "off"},
    {"trace.dump_grace", "1min"},
    {"trace.version", "2.2"},
    {NULL, NULL},
};

/* SYMMCOLL_* that are not settings: the places of settings and modules, and the
 * variables that a launcher passes to its ranks. */
const char *const symc_other_variables[] = {
    "SYMMCOLL_CONF",
    "SYMMCOLL_MODULE_DIR",
    "SYMMCOLL_HUB",
    "SYMMCOLL_JOB",
    "SYMMCOLL_ATTEMPT",
    "SYMMCOLL_RUN_TTY",
    NULL,
};
