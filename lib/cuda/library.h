/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A library that is opened when it is first wanted, never linked with and never
 * unloaded: NCCL, cuBLASLt.  Its functions fill a table of who uses it.
 */
#ifndef SYMC_CUDA_LIBRARY_H
#define SYMC_CUDA_LIBRARY_H

#include "base/base.h"

#include <symmcoll/types.h>

struct symc_library {
    const char *name;    /* as the process may have it already */
    const char *title;   /* in messages */
    const char *setting; /* which names another one */
    char reason[SYMC_DETAIL_MAX];
};

/* Keep why it is refused; returns UNSUPPORTED. */
symmcoll_status_t symc_library_refuse(
    struct symc_library *library, const char *format, ...) SYMC_PRINTF(2, 3);

/* The copy that the process has, else the one at path; NULL: refused. */
void *symc_library_open(struct symc_library *library, const char *path);

/* Its file; static. */
const char *symc_library_path(const struct symc_library *library, void *handle);

/* A function, into a pointer to such a one; false where there is none. */
bool symc_library_find(void *handle, const char *name, void *function);

#endif
