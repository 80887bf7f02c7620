/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Settings from the environment: our own variables, whose names follow the
 * keys, and torch.distributed's variables with the same meaning.  load.c passes
 * the environment as a list.
 */
#include "config/option.h"

#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ORIGIN_MAX 128 /* bytes of "environment NAME" */

static const char prefix[] = "SYMMCOLL_";
/* Reserved for programs: no setting begins with "user.". */
static const char program_prefix[] = "SYMMCOLL_USER_";

static const char *find_variable(char *const *environment, const char *name)
{
    size_t length = strlen(name);

    for (; *environment != NULL; environment++)
        if (strncmp(*environment, name, length) == 0 &&
            (*environment)[length] == '=')
            return *environment + length + 1;
    return NULL;
}

static symmcoll_status_t set_from(struct symc_load *load, int index,
    const char *name, const char *value, enum symc_level level)
{
    char origin[ORIGIN_MAX];

    snprintf(origin, sizeof origin, "environment %s", name);
    return symc_value_set(load->config, index, value, level, origin);
}

static int find_option(const char *variable)
{
    char own[SYMC_KEY_MAX];

    for (int i = 0; symc_options[i].key != NULL; i++)
        if (strcmp(symc_option_variable(&symc_options[i], own), variable) == 0)
            return i;
    return -1;
}

/* Returns whether a variable is known without being a setting: a launcher's, a
 * module's or the program's own. */
static bool is_other_variable(const char *name)
{
    if (strncmp(name, program_prefix, sizeof(program_prefix) - 1) == 0)
        return true;
    for (int i = 0; symc_other_variables[i] != NULL; i++)
        if (strcmp(symc_other_variables[i], name) == 0)
            return true;
    return false;
}

static void warn_unknown(const struct symc_load *load, const char *name)
{
    char nearest[SYMC_KEY_MAX];

    if (symc_nearest_variable(name, nearest) != NULL)
        symc_warnf(load, "environment %s: unknown variable: did you mean %s?",
            name, nearest);
    else
        symc_warnf(load, "environment %s: unknown variable", name);
}

symmcoll_status_t symc_environment_read(
    struct symc_load *load, char *const *environment)
{
    symmcoll_status_t status = SYMMCOLL_OK;

    for (; *environment != NULL && status == SYMMCOLL_OK; environment++) {
        const char *equals = strchr(*environment, '=');
        char name[SYMC_KEY_MAX];

        if (equals == NULL ||
            strncmp(*environment, prefix, sizeof prefix - 1) != 0)
            continue;
        snprintf(name, sizeof name, "%.*s", (int)(equals - *environment),
            *environment);
        int index = find_option(name);
        /* If a name occurs twice the first one is used, as in getenv(). */
        if (index < 0 && !is_other_variable(name))
            warn_unknown(load, name);
        else if (index >= 0 &&
                 load->config->values[index].level < SYMC_LEVEL_ENVIRONMENT)
            status =
                set_from(load, index, name, equals + 1, SYMC_LEVEL_ENVIRONMENT);
    }
    return status;
}

/* ---- aliases ---- */

/* Sets an option from the value of an alias. */
static symmcoll_status_t set_alias(struct symc_load *load,
    const struct symc_alias *alias, int index, const char *value)
{
    const struct symc_option *option = &symc_options[index];
    size_t length;

    /* The unit is in the variable's name, so its value must not have one. */
    if (option->type == SYMC_OPTION_TIME &&
        (*value == '\0' || value[strspn(value, "0123456789")] != '\0'))
        return symc_fail(SYMMCOLL_ERR_CONFIG,
            "environment %s: expected a whole number of %s, found \"%.40s\"",
            alias->name, alias->suffix, value);

    if (!symc_add(strlen(value), strlen(alias->suffix) + 1, &length))
        return symc_fail(
            SYMMCOLL_ERR_NO_MEMORY, "environment %s: too long", alias->name);
    char *text = symc_alloc(length, 1);
    if (text == NULL)
        return SYMMCOLL_ERR_NO_MEMORY;
    snprintf(text, length, "%s%s", value, alias->suffix);
    symmcoll_status_t status =
        set_from(load, index, alias->name, text, SYMC_LEVEL_ALIAS);
    free(text);
    return status;
}

symmcoll_status_t symc_aliases_read(
    struct symc_load *load, char *const *environment)
{
    for (const struct symc_alias *alias = symc_aliases; alias->name != NULL;
         alias++) {
        const char *value = find_variable(environment, alias->name);
        int index = symc_option_find(alias->key);
        char own[SYMC_KEY_MAX];

        if (value == NULL ||
            load->config->values[index].level >= SYMC_LEVEL_ALIAS)
            continue;
        if (alias->instead != NULL)
            symc_warnf(load, "environment %s: deprecated: use %s, or %s",
                alias->name, alias->instead,
                symc_option_variable(&symc_options[index], own));
        symmcoll_status_t status = set_alias(load, alias, index, value);
        if (status != SYMMCOLL_OK)
            return status;
    }
    return SYMMCOLL_OK;
}

/* ---- libtorch ---- */

/* The loader passes its list under the lock that it holds to change the list,
 * which ThreadSanitizer does not detect. */
#define LOCKED_BY_LOADER __attribute__((no_sanitize("thread")))

LOCKED_BY_LOADER static bool begins_with(const char *text, const char *wanted)
{
    while (*wanted != '\0' && *text == *wanted) {
        text++;
        wanted++;
    }
    return *wanted == '\0';
}

LOCKED_BY_LOADER bool symc_is_torch(const char *path)
{
    const char *name = path;

    for (const char *c = path; *c != '\0'; c++)
        name = *c == '/' ? c + 1 : name;
    return begins_with(name, "libtorch.so") || begins_with(name, "libtorch_");
}

LOCKED_BY_LOADER static int look_at_object(
    struct dl_phdr_info *info, size_t nbytes, void *arg)
{
    bool *loaded = arg;

    (void)nbytes;
    *loaded = info->dlpi_name != NULL && symc_is_torch(info->dlpi_name);
    return *loaded; /* not 0 ends the search */
}

bool symc_torch_loaded(void)
{
    bool loaded = false;

    dl_iterate_phdr(look_at_object, &loaded);
    return loaded;
}
