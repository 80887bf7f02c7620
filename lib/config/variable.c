/* SPDX-License-Identifier: BSD-3-Clause */
/* The name of a setting's environment variable. */
#include "config/option.h"

#include <string.h>

const char *symc_option_variable(const struct symc_option *option, char *buffer)
{
    static const char prefix[] = "SYMMCOLL_";
    size_t length = sizeof prefix - 1;

    memcpy(buffer, prefix, length);
    for (const char *c = option->key; *c != '\0'; c++) {
        if (length == SYMC_KEY_MAX - 1)
            break;
        if (*c == '.')
            buffer[length++] = '_';
        else if (*c >= 'a' && *c <= 'z')
            buffer[length++] = (char)(*c - 'a' + 'A');
        else
            buffer[length++] = *c;
    }
    buffer[length] = '\0';
    return buffer;
}
