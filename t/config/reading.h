/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Helpers for the tests of this directory: a scratch folder, files in it, and
 * readings of chosen sources with their warnings.
 */
#ifndef T_CONFIG_READING_H
#define T_CONFIG_READING_H

#include "config/option.h"

#include <ftw.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* The result of one reading. */
struct reading {
    struct symc_config *config; /* NULL where it failed */
    symmcoll_status_t status;
    const char *detail; /* of the failure */
    int warnings;
    char last_warning[PATH_MAX + 256];
};

static inline void count_warning(const char *line, void *arg)
{
    struct reading *reading = arg;

    reading->warnings++;
    snprintf(reading->last_warning, sizeof reading->last_warning, "%s", line);
}

/* Creates a folder that any user may read. */
static inline char *make_scratch(void)
{
    static char folder[64];

    snprintf(folder, sizeof folder, "/tmp/symmcoll-config-XXXXXX");
    if (mkdtemp(folder) == NULL || chmod(folder, 0755) != 0) {
        perror(folder);
        exit(99);
    }
    return folder;
}

static inline int remove_one(
    const char *path, const struct stat *info, int type, struct FTW *place)
{
    (void)info;
    (void)type;
    (void)place;
    return remove(path);
}

static inline void remove_scratch(const char *folder)
{
    nftw(folder, remove_one, 8, FTW_DEPTH | FTW_PHYS);
}

/* Writes a file in the folder; the path stays in a buffer of PATH_MAX. */
static inline const char *write_file(char *path, const char *folder,
    const char *name, const void *text, size_t nbytes)
{
    snprintf(path, PATH_MAX, "%.2000s/%.255s", folder, name);
    FILE *file = fopen(path, "w");
    if (file == NULL || fwrite(text, 1, nbytes, file) != nbytes ||
        fclose(file) != 0) {
        perror(path);
        exit(99);
    }
    return path;
}

static inline void forget(struct reading *reading)
{
    symc_config_free(reading->config);
    memset(reading, 0, sizeof *reading);
}

/* Reads sources, and discards the previous reading. */
static inline symmcoll_status_t read_sources(
    struct reading *reading, const struct symc_sources *sources)
{
    forget(reading);
    reading->status =
        symc_config_read(sources, &reading->config, count_warning, reading);
    reading->detail = symmcoll_last_error();
    return reading->status;
}

/* Reads only an environment. */
static inline symmcoll_status_t read_environment(
    struct reading *reading, char *const *environment)
{
    struct symc_sources sources = {.environment = environment};

    return read_sources(reading, &sources);
}

/* Checks that a reading failed for a setting, with a detail that contains
 * these words. */
static inline bool failed_with(
    const struct reading *reading, const char *a, const char *b)
{
    bool held = reading->status == SYMMCOLL_ERR_CONFIG &&
                reading->config == NULL && strstr(reading->detail, a) != NULL &&
                strstr(reading->detail, b) != NULL;

    if (!held)
        fprintf(stderr, "# status %d, detail: %s\n", (int)reading->status,
            reading->detail);
    return held;
}

/* Checks that there was one warning, which contains these words. */
static inline bool warned_with(
    const struct reading *reading, const char *a, const char *b)
{
    bool held = reading->warnings == 1 &&
                strstr(reading->last_warning, a) != NULL &&
                strstr(reading->last_warning, b) != NULL;

    if (!held)
        fprintf(stderr, "# %d warnings, last: %s\n", reading->warnings,
            reading->last_warning);
    return held;
}

/* Checks the text and the origin of a setting. */
static inline bool is_set(const struct symc_config *config, const char *key,
    const char *text, const char *origin)
{
    const struct symc_value *value;

    if (config == NULL)
        return false;
    value = &config->values[symc_option_find(key)];
    if (strcmp(value->text, text) == 0 && strcmp(value->origin, origin) == 0)
        return true;
    fprintf(stderr, "# %s is \"%s\" by %s\n", key, value->text, value->origin);
    return false;
}

#endif
