/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Access to settings by key, for modules that must not depend on the struct of
 * all values.
 */
#include "config/option.h"

#include <string.h>

int symc_option_find(const char *key)
{
    for (int i = 0; symc_options[i].key != NULL; i++)
        if (strcmp(symc_options[i].key, key) == 0)
            return i;
    return -1;
}

/* Returns the field of a setting of the given type, or NULL. */
static const void *find_field(const struct symc_config *config, const char *key,
    enum symc_option_type type)
{
    int index = symc_option_find(key);

    if (index < 0 || symc_options[index].type != type)
        return NULL;
    return (const char *)config + symc_options[index].offset;
}

bool symc_config_get_bool(const struct symc_config *config, const char *key)
{
    const bool *value = find_field(config, key, SYMC_OPTION_BOOL);

    return value != NULL && *value;
}

int64_t symc_config_get_int(const struct symc_config *config, const char *key)
{
    const int64_t *value = find_field(config, key, SYMC_OPTION_INT);

    if (value == NULL)
        value = find_field(config, key, SYMC_OPTION_CHOICE);
    return value != NULL ? *value : 0;
}

size_t symc_config_get_size(const struct symc_config *config, const char *key)
{
    const size_t *value = find_field(config, key, SYMC_OPTION_SIZE);

    return value != NULL ? *value : 0;
}

int64_t symc_config_get_time(const struct symc_config *config, const char *key)
{
    const int64_t *value = find_field(config, key, SYMC_OPTION_TIME);

    return value != NULL ? *value : 0;
}

const char *symc_config_get_text(
    const struct symc_config *config, const char *key)
{
    char *const *value = find_field(config, key, SYMC_OPTION_TEXT);

    return value != NULL && *value != NULL ? *value : "";
}
