/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Warnings about settings, one line each.
 */
#include "config/option.h"

#include <limits.h>
#include <stdio.h>

#define WARNING_MAX (PATH_MAX + 256) /* bytes of a warning */

void symc_warnf(const struct symc_load *load, const char *format, ...)
{
    char line[WARNING_MAX];
    va_list args;

    if (load->warn == NULL)
        return;
    va_start(args, format);
    vsnprintf(line, sizeof line, format, args);
    va_end(args);
    symc_make_printable(line);
    load->warn(line, load->arg);
}
