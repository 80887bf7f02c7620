/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Settings from files, and from the folder of further files.  The text is read
 * here, scanned (scan.c) and passed to libconfig as a string, never as a file,
 * so that a folder, a device or an endless file is an error reported here.
 */
#include "base/descriptor.h"
#include "config/option.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#ifdef HAVE_LIBCONFIG
#include <libconfig.h>
#endif
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define FILE_NBYTES_MAX (1024 * 1024)
#define ORIGIN_MAX (PATH_MAX + 16) /* bytes of "FILE:LINE" */

#ifdef HAVE_LIBCONFIG

/* ---- libconfig's values as text ---- */

/* A file parsed by libconfig. */
struct source {
    struct symc_load *load;
    const char *path;
};

static const char *name_kind(const config_setting_t *setting)
{
    switch (config_setting_type(setting)) {
    case CONFIG_TYPE_GROUP:
        return "a group";
    case CONFIG_TYPE_ARRAY:
    case CONFIG_TYPE_LIST:
        return "a list";
    case CONFIG_TYPE_BOOL:
        return "true or false";
    case CONFIG_TYPE_STRING:
        return "text in quotes";
    default:
        return "a number without quotes";
    }
}

/* Formats a float as digits, without printf()'s %f, which uses the locale's
 * decimal point.  Times have no meaning beyond nine places.  A value that is
 * not a number of seconds becomes text that is not a number either. */
static void format_float(double value, char *buffer, size_t nbytes)
{
    double magnitude = value < 0 ? -value : value;

    if (!(magnitude < 1e15)) {
        snprintf(buffer, nbytes, "%g", value);
        return;
    }
    int64_t whole = (int64_t)magnitude;
    int64_t nanos = (int64_t)((magnitude - (double)whole) * 1e9 + 0.5);
    whole += nanos / SYMC_NS_PER_S;
    nanos %= SYMC_NS_PER_S;
    int length = snprintf(buffer, nbytes, "%s%" PRId64 ".%09" PRId64,
        value < 0 ? "-" : "", whole, nanos);
    while (buffer[length - 1] == '0')
        buffer[--length] = '\0';
    if (buffer[length - 1] == '.')
        buffer[--length] = '\0';
}

/* Returns the text of a scalar in the form that the option expects, possibly in
 * the buffer; NULL if the option does not accept its type. */
static const char *format_scalar(const config_setting_t *setting,
    enum symc_option_type type, char *buffer, size_t nbytes)
{
    bool takes_numbers = type == SYMC_OPTION_INT || type == SYMC_OPTION_SIZE ||
                         type == SYMC_OPTION_TIME;

    switch (config_setting_type(setting)) {
    case CONFIG_TYPE_STRING:
        return config_setting_get_string(setting);
    case CONFIG_TYPE_BOOL:
        if (type != SYMC_OPTION_BOOL)
            return NULL;
        return config_setting_get_bool(setting) ? "true" : "false";
    case CONFIG_TYPE_INT:
    case CONFIG_TYPE_INT64:
        if (!takes_numbers && type != SYMC_OPTION_BOOL)
            return NULL;
        snprintf(buffer, nbytes, "%lld", config_setting_get_int64(setting));
        return buffer;
    case CONFIG_TYPE_FLOAT:
        if (!takes_numbers)
            return NULL;
        format_float(config_setting_get_float(setting), buffer, nbytes);
        return buffer;
    default:
        return NULL;
    }
}

static symmcoll_status_t set_option(
    const struct source *source, const config_setting_t *setting, int index)
{
    const struct symc_option *option = &symc_options[index];
    char number[SYMC_KEY_MAX];
    char expected[SYMC_EXPECTED_MAX];
    char origin[ORIGIN_MAX];

    snprintf(origin, sizeof origin, "%s:%u", source->path,
        config_setting_source_line(setting));
    const char *text =
        format_scalar(setting, option->type, number, sizeof number);
    if (text == NULL)
        return symc_fail(SYMMCOLL_ERR_CONFIG, "%s: %s: expected %s, found %s",
            origin, option->key, symc_option_expected(option, expected),
            name_kind(setting));
    return symc_value_set(
        source->load->config, index, text, SYMC_LEVEL_FILE, origin);
}

static void warn_unknown(const struct source *source,
    const config_setting_t *setting, const char *key)
{
    char nearest[SYMC_KEY_MAX];
    unsigned int line = config_setting_source_line(setting);

    if (symc_nearest_key(key, nearest) != NULL)
        symc_warnf(source->load, "%s:%u: unknown key %s: did you mean %s?",
            source->path, line, key, nearest);
    else
        symc_warnf(
            source->load, "%s:%u: unknown key %s", source->path, line, key);
}

/* Returns whether keys begin with this word and a dot. */
static bool is_group(const char *word)
{
    size_t length = strlen(word);

    for (int i = 0; symc_options[i].key != NULL; i++)
        if (strncmp(symc_options[i].key, word, length) == 0 &&
            symc_options[i].key[length] == '.')
            return true;
    return false;
}

/* Sets the options of a group.  Keys have at most one dot, so a group within a
 * group is unknown in any case. */
static symmcoll_status_t set_group(const struct source *source,
    const config_setting_t *group, const char *prefix)
{
    symmcoll_status_t status = SYMMCOLL_OK;
    int length = config_setting_length(group);

    for (int i = 0; i < length && status == SYMMCOLL_OK; i++) {
        config_setting_t *setting =
            config_setting_get_elem(group, (unsigned int)i);
        char key[SYMC_KEY_MAX];

        snprintf(key, sizeof key, "%s%s%s", prefix, *prefix != '\0' ? "." : "",
            config_setting_name(setting));
        int index = symc_option_find(key);
        if (index >= 0)
            status = set_option(source, setting, index);
        else if (config_setting_is_group(setting) && *prefix == '\0')
            status = set_group(source, setting, key);
        else if (is_group(key))
            status = symc_fail(SYMMCOLL_ERR_CONFIG,
                "%s:%u: %s: expected a group, found %s", source->path,
                config_setting_source_line(setting), key, name_kind(setting));
        else
            warn_unknown(source, setting, key);
    }
    return status;
}

/* Reports libconfig's syntax error.  A key with a dot, as it is written
 * everywhere else, is a syntax error in a file. */
static symmcoll_status_t refuse_syntax(
    const char *path, const char *text, int line, const char *problem)
{
    char group[SYMC_KEY_MAX], name[SYMC_KEY_MAX];

    for (int i = 1; i < line && text != NULL; i++) {
        text = strchr(text, '\n');
        text += text != NULL;
    }
    if (text != NULL &&
        sscanf(text, " %63[a-z_].%63[a-z0-9_]", group, name) == 2)
        return symc_fail(SYMMCOLL_ERR_CONFIG,
            "%s:%d: expected a group, \"%s: { %s = ...; };\", found %s.%s",
            path, line, group, name, group, name);
    return symc_fail(SYMMCOLL_ERR_CONFIG, "%s:%d: %s", path, line, problem);
}

static symmcoll_status_t set_text(
    struct symc_load *load, const char *path, const char *text, size_t nbytes)
{
    struct source source = {load, path};
    config_t parsed;
    symmcoll_status_t status = symc_scan_text(path, text, nbytes);

    if (status != SYMMCOLL_OK)
        return status;
    config_init(&parsed);
    if (config_read_string(&parsed, text) == CONFIG_TRUE)
        status = set_group(&source, config_root_setting(&parsed), "");
    else
        status = refuse_syntax(
            path, text, config_error_line(&parsed), config_error_text(&parsed));
    config_destroy(&parsed);
    return status;
}

#endif /* HAVE_LIBCONFIG */

/* ---- files ---- */

static const char *name_file_type(mode_t mode)
{
    if (S_ISDIR(mode))
        return "a directory";
    if (S_ISFIFO(mode))
        return "a pipe";
    return S_ISSOCK(mode) ? "a socket" : "a device";
}

static symmcoll_status_t refuse_length(const char *path, intmax_t nbytes)
{
    return symc_fail(SYMMCOLL_ERR_CONFIG,
        "%s: expected at most %d bytes, found %jd or more", path,
        FILE_NBYTES_MAX, nbytes);
}

/* Reads an open file into zero-terminated memory, *text, to be released with
 * free(). */
static symmcoll_status_t read_whole(
    int fd, const char *path, char **text, size_t *nbytes)
{
    struct stat info;

    if (fstat(fd, &info) != 0)
        return symc_fail_errno(SYMMCOLL_ERR_SYSTEM, errno, "%s", path);
    if (!S_ISREG(info.st_mode))
        return symc_fail(SYMMCOLL_ERR_SYSTEM,
            "%s: expected a regular file, found %s", path,
            name_file_type(info.st_mode));
    if (info.st_size > FILE_NBYTES_MAX)
        return refuse_length(path, (intmax_t)info.st_size);

    /* A file may grow during the read, and files of /proc have no size: the
     * limit is applied to the bytes read, not only to st_size. */
    char *buffer = symc_alloc(FILE_NBYTES_MAX + 2, 1);
    if (buffer == NULL)
        return SYMMCOLL_ERR_NO_MEMORY;
    size_t used = 0;
    ssize_t got = 1;
    while (got != 0 && used <= FILE_NBYTES_MAX) {
        got = read(fd, buffer + used, FILE_NBYTES_MAX + 1 - used);
        if (got < 0 && errno != EINTR)
            break;
        used += got > 0 ? (size_t)got : 0;
    }
    symmcoll_status_t status = SYMMCOLL_OK;
    if (got < 0)
        status = symc_fail_errno(SYMMCOLL_ERR_SYSTEM, errno, "%s", path);
    else if (used > FILE_NBYTES_MAX)
        status = refuse_length(path, (intmax_t)used);
    if (status != SYMMCOLL_OK) {
        free(buffer);
        return status;
    }
    if (used > 0 && buffer[used - 1] != '\n')
        buffer[used] = '\n'; /* libconfig needs a newline after a comment */
    *text = buffer;
    *nbytes = used;
    return SYMMCOLL_OK;
}

/* Reports that a file could not be opened, with the limit on descriptors if
 * that is the cause. */
static symmcoll_status_t fail_open(
    int error, const char *path, const char *what)
{
    char where[PATH_MAX + 32];

    snprintf(where, sizeof(where), "%s: %s", path, what);
    return symc_fail_descriptor(error, where);
}

/* Opens a file. *fd is -1 if it does not exist or may not be read, and `need`
 * allows that. */
static symmcoll_status_t open_file(
    struct symc_load *load, const char *path, enum symc_file_need need, int *fd)
{
    *fd = -1;
    if (path == NULL)
        return SYMMCOLL_OK;
    /* O_NONBLOCK: open() must not wait for the other end of a pipe. */
    *fd = symc_descriptor_raise(
        open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
    if (*fd >= 0)
        return SYMMCOLL_OK;

    int error = errno;
    if (need != SYMC_FILE_NEEDED && (error == ENOENT || error == ENOTDIR))
        return SYMMCOLL_OK;
    if (need == SYMC_FILE_IF_ALLOWED && error == EACCES) {
        symc_warnf(load, "%s: not read: %s", path, strerror(error));
        return SYMMCOLL_OK;
    }
    return fail_open(error, path, "cannot be opened");
}

symmcoll_status_t symc_file_read(
    struct symc_load *load, const char *path, enum symc_file_need need)
{
    int fd;
    char *text = NULL;
    size_t nbytes = 0;
    symmcoll_status_t status = open_file(load, path, need, &fd);

    if (status != SYMMCOLL_OK || fd < 0)
        return status;
    status = read_whole(fd, path, &text, &nbytes);
    if (status != SYMMCOLL_OK)
        goto close_fd;
#ifdef HAVE_LIBCONFIG
    status = set_text(load, path, text, nbytes);
#else
    symc_warnf(
        load, "%s: not read: the library was built without libconfig", path);
#endif
    free(text);
close_fd:
    close(fd);
    return status;
}

/* ---- the folder ---- */

static int is_settings_file(const struct dirent *entry)
{
    static const char ending[] = ".conf";
    size_t length = strlen(entry->d_name);
    size_t ending_length = sizeof ending - 1;

    return entry->d_name[0] != '.' && length > ending_length &&
           strcmp(entry->d_name + length - ending_length, ending) == 0;
}

/* Compares bytes; alphasort() depends on the locale, which may differ between
 * ranks. */
static int compare_names(const struct dirent **a, const struct dirent **b)
{
    return strcmp((*a)->d_name, (*b)->d_name);
}

symmcoll_status_t symc_folder_read(struct symc_load *load, const char *path)
{
    struct dirent **entries;
    int count;
    symmcoll_status_t status = SYMMCOLL_OK;

    if (path == NULL)
        return SYMMCOLL_OK;
    count = scandir(path, &entries, is_settings_file, compare_names);
    if (count < 0 && (errno == ENOENT || errno == ENOTDIR))
        return SYMMCOLL_OK;
    if (count < 0)
        return fail_open(errno, path, "cannot be listed");
    for (int i = 0; i < count; i++) {
        char file[PATH_MAX];

        snprintf(file, sizeof file, "%s/%s", path, entries[i]->d_name);
        if (status == SYMMCOLL_OK)
            status = symc_file_read(load, file, SYMC_FILE_NEEDED);
        free(entries[i]);
    }
    free(entries);
    return status;
}
