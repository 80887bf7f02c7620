/* SPDX-License-Identifier: BSD-3-Clause */
/* Helpers for tests with ranks that find the stand-in for NCCL. */
#ifndef T_NCCL_NAMED_H
#define T_NCCL_NAMED_H

#include "t/nccl/fake_nccl.h"

#include <dlfcn.h>
#include <limits.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

/* Sets the library's settings to the NCCL of a folder, before the ranks
 * start. */
static inline void name_nccl_of(const char *folder)
{
    const char *build = getenv("T_BUILDDIR");
    char path[PATH_MAX];

    snprintf(path, sizeof(path), "%s/%s/.libs/libnccl.so.2",
        build != NULL ? build : ".", folder);
    setenv("SYMMCOLL_CUDA_NCCL", path, 1);
}

static inline void name_nccl(void)
{
    name_nccl_of("t/nccl");
}

/* Returns the stand-in's settings in a rank; loads it if the library has not
 * yet. */
static inline struct fake_nccl *find_nccl(void)
{
    void *library = dlopen(getenv("SYMMCOLL_CUDA_NCCL"), RTLD_NOW);

    return library != NULL ? dlsym(library, "fake_nccl") : NULL;
}

/* Returns the number of groups of calls in this process. */
static inline int enqueued(void)
{
    const struct fake_nccl *fake = find_nccl();

    return fake != NULL ? atomic_load(&fake->enqueued) : 0;
}

/* Registered in a rank: ends its process with status 3 if a communicator
 * remains. */
static inline void check_nccl(void)
{
    const struct fake_nccl *fake = find_nccl();

    if (fake == NULL || fake->live != 0)
        _Exit(3);
}

#endif
