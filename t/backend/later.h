/* SPDX-License-Identifier: BSD-3-Clause */
/* Helpers for tests of a backend of host memory that ends operations later. */
#ifndef T_BACKEND_LATER_H
#define T_BACKEND_LATER_H

#include "modules.h"

#include "group/group.h"

/* Selects the backend, and that of the tests for device memory. */
static inline void use_later_host(void)
{
    const char *build = getenv("T_BUILDDIR");
    char folder[PATH_MAX];

    snprintf(folder, sizeof(folder), "%s/t/backend/later/.libs",
        build != NULL ? build : ".");
    setenv("SYMMCOLL_MODULE_DIR", folder, 1);
    setenv("SYMMCOLL_BACKENDS", "fake_host,fake,fake_module", 1);
}

/* Returns whether a group uses it. */
static inline int is_later(struct symmcoll_group *group)
{
    const char *name = group->runner.slots[SYMC_MEMORY_HOST].backend->name;

    if (strcmp(name, "fake_host") != 0)
        diag("expected backend fake_host, found %s", name);
    return strcmp(name, "fake_host") == 0;
}

#endif
