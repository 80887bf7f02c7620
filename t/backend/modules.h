/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Where the modules are that tests load: beside no others, so that only who
 * asks for them has them.
 */
#ifndef T_BACKEND_MODULES_H
#define T_BACKEND_MODULES_H

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>

static inline void use_modules_of_tests(void)
{
    const char *build = getenv("T_BUILDDIR");
    char folder[PATH_MAX];

    snprintf(folder, sizeof(folder), "%s/t/backend/.libs",
        build != NULL ? build : ".");
    setenv("SYMMCOLL_MODULE_DIR", folder, 1);
}

#endif
