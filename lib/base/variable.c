/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Reads the environment for all of lib/.  A program with the rights of another
 * user or group, or with raised capabilities, must not let its caller choose
 * where to write or which process to trust, so in it no variable counts as set.
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
