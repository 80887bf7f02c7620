/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The environment, which nothing else in lib/ reads.  A program that runs with
 * the rights of another user, another group or raised capabilities must not let
 * its caller choose where to write or whom to trust, so for it no variable is
 * set.
 */
#include "base/base.h"

#include <stdlib.h>
#include <sys/auxv.h>
#include <unistd.h>

bool symc_process_is_privileged(void)
{
    return getauxval(AT_SECURE) != 0;
}

const char *symc_variable_get(const char *name)
{
    return symc_process_is_privileged() ? NULL : getenv(name);
}

char *const *symc_variables_get(void)
{
    return symc_process_is_privileged() ? NULL : environ;
}
