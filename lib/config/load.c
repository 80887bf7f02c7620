/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The sources of this process, the order in which they are read, and the public
 * view of the result.
 */
#include "base/cancel.h"
#include "config/option.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FILE_NAME "symmcoll.conf"
#define SHOWN_MAX 1024 /* bytes of a URL for display */

#ifdef HAVE_LIBCONFIG
static const bool can_read_files = true;
#else
static const bool can_read_files = false;
#endif

/* ---- reading ---- */

static symmcoll_status_t create_config(struct symc_config **config)
{
    symmcoll_status_t status = SYMMCOLL_OK;
    struct symc_config *made = symc_alloc(1, sizeof *made);

    if (made == NULL)
        return SYMMCOLL_ERR_NO_MEMORY;
    made->values =
        symc_alloc((size_t)symc_option_count(), sizeof(struct symc_value));
    if (made->values == NULL)
        status = SYMMCOLL_ERR_NO_MEMORY;
    for (int i = 0; i < symc_option_count() && status == SYMMCOLL_OK; i++)
        status = symc_value_set(
            made, i, symc_options[i].dflt, SYMC_LEVEL_BUILT_IN, "built-in");
    if (status != SYMMCOLL_OK) {
        symc_config_free(made);
        return status;
    }
    *config = made;
    return SYMMCOLL_OK;
}

void symc_config_free(struct symc_config *config)
{
    if (config == NULL)
        return;
    for (int i = 0; config->values != NULL && i < symc_option_count(); i++) {
        free(config->values[i].text);
        free(config->values[i].origin);
    }
    free(config->values);
    free(config);
}

static symmcoll_status_t read_files(
    struct symc_load *load, const struct symc_sources *sources)
{
    symmcoll_status_t status =
        symc_file_read(load, sources->system, SYMC_FILE_OPTIONAL);

    if (status != SYMMCOLL_OK)
        return status;
    status = symc_folder_read(load, sources->folder);
    if (status != SYMMCOLL_OK)
        return status;
    status = symc_file_read(load, sources->user, SYMC_FILE_IF_ALLOWED);
    if (status != SYMMCOLL_OK)
        return status;
    return symc_file_read(load, sources->named, SYMC_FILE_NEEDED);
}

/* SYMMCOLL_* variables are read before the aliases, although they have
 * precedence, because one of them determines whether aliases are used. */
static symmcoll_status_t read_variables(
    struct symc_load *load, const struct symc_sources *sources)
{
    symmcoll_status_t status = SYMMCOLL_OK;
    int64_t use;

    if (sources->environment == NULL)
        return SYMMCOLL_OK;
    status = symc_environment_read(load, sources->environment);
    if (status != SYMMCOLL_OK)
        return status;
    use = load->config->errors_aliases;
    if (use == SYMC_ALIASES_OFF ||
        (use == SYMC_ALIASES_AUTO && sources->torch_loaded))
        return SYMMCOLL_OK;
    return symc_aliases_read(load, sources->environment);
}

/* Any source may select a profile and all override it, so it is applied last,
 * without changing a value that a source has set. */
static symmcoll_status_t apply_profile(struct symc_config *config)
{
    symmcoll_status_t status = SYMMCOLL_OK;

    if (config->profile != SYMC_PROFILE_COMPAT_2024)
        return SYMMCOLL_OK;
    for (const struct symc_preset *preset = symc_compat_2024;
         preset->key != NULL && status == SYMMCOLL_OK; preset++)
        status = symc_value_set(config, symc_option_find(preset->key),
            preset->value, SYMC_LEVEL_PROFILE, "profile compat-2024");
    return status;
}

symmcoll_status_t symc_config_read(const struct symc_sources *sources,
    struct symc_config **config, symmcoll_warning_fn warn, void *arg)
{
    struct symc_load load = {NULL, warn, arg};
    symmcoll_status_t status = create_config(&load.config);

    if (status != SYMMCOLL_OK)
        return status;
    status = read_files(&load, sources);
    if (status != SYMMCOLL_OK)
        goto free_config;
    status = read_variables(&load, sources);
    if (status != SYMMCOLL_OK)
        goto free_config;
    status = apply_profile(load.config);
    if (status != SYMMCOLL_OK)
        goto free_config;
    *config = load.config;
    return SYMMCOLL_OK;

free_config:
    symc_config_free(load.config);
    return status;
}

/* Returns the path of the user's file, by the XDG base directory specification,
 * which ignores relative folders.  Returns NULL if there is none. */
static const char *find_user_file(char *buffer, size_t nbytes)
{
    const char *folder = symc_variable_get("XDG_CONFIG_HOME");
    const char *within = "";
    int length;

    if (folder == NULL || folder[0] != '/') {
        folder = symc_variable_get("HOME");
        within = "/.config";
    }
    if (folder == NULL || folder[0] != '/')
        return NULL;
    length = snprintf(buffer, nbytes, "%s%s/" FILE_NAME, folder, within);
    return length > 0 && (size_t)length < nbytes ? buffer : NULL;
}

symmcoll_status_t symc_config_load(
    struct symc_config **config, symmcoll_warning_fn warn, void *arg)
{
    struct symc_sources sources = {.torch_loaded = symc_torch_loaded()};
    const char *named = symc_variable_get("SYMMCOLL_CONF");
    char user[PATH_MAX];

    if (named == NULL || named[0] != '\0') {
        sources.system = SYMC_SYSCONFDIR "/" FILE_NAME;
        sources.folder = SYMC_SYSCONFDIR "/" FILE_NAME ".d";
        sources.user = find_user_file(user, sizeof user);
        sources.named = named;
    }
    sources.environment = symc_variables_get();
    return symc_config_read(&sources, config, warn, arg);
}

/* ---- the public view ---- */

/* Formats all aliases of an option, separated by blanks. */
static void list_aliases(const char *key, char *buffer, size_t nbytes)
{
    size_t used = 0;

    buffer[0] = '\0';
    for (const struct symc_alias *alias = symc_aliases; alias->name != NULL;
         alias++)
        if (strcmp(alias->key, key) == 0 && used < nbytes)
            used += (size_t)snprintf(buffer + used, nbytes - used, "%s%s",
                used > 0 ? " " : "", alias->name);
}

/* Passes one setting to the caller's function. */
static void show(const struct symc_config *config, int index,
    symmcoll_setting_fn fn, void *arg)
{
    const struct symc_option *option = &symc_options[index];
    char expected[SYMC_EXPECTED_MAX];
    char variable[SYMC_KEY_MAX];
    char aliases[4 * SYMC_KEY_MAX];
    char masked[SHOWN_MAX];
    const char *value = config->values[index].text;
    bool url = strstr(value, "://") != NULL;
    struct symmcoll_setting setting = {
        .key = option->key,
        .value = url ? masked : value,
        .origin = config->values[index].origin,
        .help = option->help,
        .dflt = option->dflt,
        .expected = symc_option_expected(option, expected),
        .variable = symc_option_variable(option, variable),
        .aliases = aliases,
    };

    if (url)
        symc_value_mask(value, masked, sizeof masked);
    list_aliases(option->key, aliases, sizeof aliases);
    fn(&setting, arg);
}

static symmcoll_status_t show_each(
    symmcoll_setting_fn fn, symmcoll_warning_fn warn, void *arg)
{
    struct symc_config *config;
    symmcoll_status_t status;

    if (fn == NULL)
        return symc_fail(SYMMCOLL_ERR_INVALID,
            "config_each: expected a function, found NULL");
    status = symc_config_load(&config, warn, arg);
    if (status != SYMMCOLL_OK)
        return status;
    for (int i = 0; i < symc_option_count(); i++)
        show(config, i, fn, arg);
    symc_config_free(config);
    return SYMMCOLL_OK;
}

symmcoll_status_t symmcoll_config_each(
    symmcoll_setting_fn fn, symmcoll_warning_fn warn, void *arg)
{
    int cancel = symc_cancel_disable();
    symmcoll_status_t status = show_each(fn, warn, arg);

    symc_cancel_restore(cancel);
    return status;
}

static symmcoll_status_t refuse_key(const char *key)
{
    char nearest[SYMC_KEY_MAX];

    if (symc_nearest_key(key, nearest) == NULL)
        return symc_fail(
            SYMMCOLL_ERR_INVALID, "config_get: unknown key \"%.64s\"", key);
    return symc_fail(SYMMCOLL_ERR_INVALID,
        "config_get: unknown key \"%.64s\": did you mean %s?", key, nearest);
}

static symmcoll_status_t show_one(const char *key, symmcoll_setting_fn fn,
    symmcoll_warning_fn warn, void *arg)
{
    struct symc_config *config;
    symmcoll_status_t status;
    int index;

    if (key == NULL || fn == NULL)
        return symc_fail(SYMMCOLL_ERR_INVALID,
            "config_get: expected a key and a function, found NULL");
    index = symc_option_find(key);
    if (index < 0)
        return refuse_key(key);
    status = symc_config_load(&config, warn, arg);
    if (status != SYMMCOLL_OK)
        return status;
    show(config, index, fn, arg);
    symc_config_free(config);
    return SYMMCOLL_OK;
}

symmcoll_status_t symmcoll_config_get(const char *key, symmcoll_setting_fn fn,
    symmcoll_warning_fn warn, void *arg)
{
    int cancel = symc_cancel_disable();
    symmcoll_status_t status = show_one(key, fn, warn, arg);

    symc_cancel_restore(cancel);
    return status;
}

static symmcoll_status_t check_file(
    const char *path, symmcoll_warning_fn warn, void *arg)
{
    struct symc_sources sources = {.named = path};
    struct symc_config *config;
    symmcoll_status_t status;

    if (path == NULL)
        return symc_fail(
            SYMMCOLL_ERR_INVALID, "config_check: expected a path, found NULL");
    if (!can_read_files)
        return symc_fail(SYMMCOLL_ERR_UNSUPPORTED,
            "config_check: %s: the library was built without libconfig", path);
    status = symc_config_read(&sources, &config, warn, arg);
    if (status != SYMMCOLL_OK)
        return status;
    symc_config_free(config);
    return SYMMCOLL_OK;
}

symmcoll_status_t symmcoll_config_check(
    const char *path, symmcoll_warning_fn warn, void *arg)
{
    int cancel = symc_cancel_disable();
    symmcoll_status_t status = check_file(path, warn, arg);

    symc_cancel_restore(cancel);
    return status;
}
