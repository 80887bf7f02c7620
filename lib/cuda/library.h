/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A library that is opened at its first use, never linked with and never unloaded: NCCL,
 * cuBLASLt.  Its functions fill a table of the module that uses it.
 */
#ifndef SYMC_CUDA_LIBRARY_H
#define SYMC_CUDA_LIBRARY_H

#include "base/base.h"

#include <symmcoll/types.h>

struct symc_library {
    const char *name;    /* under which the process may have loaded it */
    const char *title;   /* in messages */
    const char *setting; /* that names another file */
    char reason[SYMC_DETAIL_MAX];
};

/* Keeps the reason for not using the library; returns UNSUPPORTED. */
symmcoll_status_t symc_library_refuse(
    struct symc_library *library, const char *format, ...) SYMC_PRINTF(2, 3);

/* Returns the copy that the process has loaded, else opens the one at path.  NULL on
 * failure, with the reason kept. */
void *symc_library_open(struct symc_library *library, const char *path);

/* Returns the path of the library's file; static. */
const char *symc_library_path(const struct symc_library *library, void *handle);

/* Stores a function's address in the function pointer at function; returns false if the
 * library lacks it. */
bool symc_library_find(void *handle, const char *name, void *function);

#endif
