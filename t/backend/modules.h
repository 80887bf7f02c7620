/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Helpers for tests of the fake module: its place in a separate folder, so
 * that it is used only on request; its memory; and one operation on it.
 */
#ifndef T_BACKEND_MODULES_H
#define T_BACKEND_MODULES_H

#include "../ranks.h"
#include "../tap.h"
#include "fake_module.h"

#include <symmcoll.h>

#include <dlfcn.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define F32 SYMMCOLL_FLOAT32
#define SUM SYMMCOLL_SUM
#define ROOM 4096 /* floats of a rank in the fake memory, with threads */

static inline void use_modules_of_tests(void)
{
    const char *build = getenv("T_BUILDDIR");
    char folder[PATH_MAX];

    snprintf(folder, sizeof(folder), "%s/t/backend/.libs",
        build != NULL ? build : ".");
    setenv("SYMMCOLL_MODULE_DIR", folder, 1);
}

/* Returns the control struct of the module that init has loaded. */
static inline struct fake_control *control(void)
{
    char path[PATH_MAX];
    void *module;

    snprintf(path, sizeof(path), "%s/symmcoll_fake_module.so",
        getenv("SYMMCOLL_MODULE_DIR"));
    module = dlopen(path, RTLD_NOW | RTLD_NOLOAD);
    return module != NULL ? dlsym(module, "fake_control") : NULL;
}

/* Returns a rank's part of the fake memory, zeroed. */
static inline float *device(int rank)
{
    float *at = (float *)(void *)control()->memory + (size_t)rank * ROOM;

    memset(at, 0, ROOM * sizeof(float));
    return at;
}

static inline int say(int right, const char *what)
{
    if (!right)
        diag("%s: %s", what, symmcoll_last_error());
    return right;
}

static inline bool ended(
    symmcoll_status_t found, symmcoll_status_t expected, const char *text)
{
    if (found == expected && strstr(symmcoll_last_error(), text) != NULL)
        return true;
    diag("expected %s and '%s', found %s: %s", symmcoll_status_name(expected),
        text, symmcoll_status_name(found), symmcoll_last_error());
    return false;
}

static inline symmcoll_status_t sum_host(struct symmcoll_group *group, int rank)
{
    float one = (float)rank + 1, all = 0;
    int size = symmcoll_group_size(group);
    symmcoll_status_t status =
        symmcoll_all_reduce(group, &all, &one, 1, F32, SUM, NULL, NULL);

    return status == SYMMCOLL_OK && all != (float)(size * (size + 1) / 2)
               ? SYMMCOLL_ERR_INTERNAL
               : status;
}

static inline symmcoll_status_t sum_device(struct symmcoll_group *group,
    float *at, int rank, struct symmcoll_work **work)
{
    at[0] = (float)rank + 1;
    at[1] = 0;
    return symmcoll_all_reduce(group, at + 1, at, 1, F32, SUM, NULL, work);
}

static inline float expected_sum(const struct symmcoll_group *group)
{
    int size = symmcoll_group_size(group);

    return (float)(size * (size + 1) / 2);
}

/* Runs a body on processes and on threads. */
static inline void on_both(int n, rank_fn body, const char *what)
{
    ok(ranks_run(n, body), "%s, %d processes", what, n);
    ok(threads_run(n, body), "%s, %d threads", what, n);
}

#endif
