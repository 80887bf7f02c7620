/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Internal to this directory: the definition of a setting (the table is in
 * options.c), the conversion of text to values (value.c), and the sources that
 * load.c reads in turn.
 */
#ifndef SYMC_CONFIG_OPTION_H
#define SYMC_CONFIG_OPTION_H

#include "config/config.h"

#define SYMC_KEY_MAX 64       /* bytes of a key or variable, zero included */
#define SYMC_EXPECTED_MAX 128 /* bytes of symc_option_expected() */

/* A setting's type, which determines how text is parsed and formatted. */
enum symc_option_type {
    SYMC_OPTION_BOOL,  /* bool */
    SYMC_OPTION_INT,   /* int64_t */
    SYMC_OPTION_SIZE,  /* size_t; "inf" is SIZE_MAX */
    SYMC_OPTION_TIME,  /* int64_t of nanoseconds; "inf" is SYMC_NEVER */
    SYMC_OPTION_TEXT,  /* char *, owned by symc_config.values */
    SYMC_OPTION_CHOICE /* int64_t, the index of the word in the range */
};

/* One setting. */
struct symc_option {
    const char *key; /* "host.chunk"; environment: SYMMCOLL_HOST_CHUNK */
    size_t offset;   /* of the field in struct symc_config */
    enum symc_option_type type;
    const char *dflt;
    const char *range; /* numbers: "LOW HIGH"; text, choice: the allowed words;
                          NULL: no limit */
    const char *truth; /* choice: its words for off and on, for which all words
                          of a bool are accepted; NULL: they are not */
    const char *help;
};

/* A variable of torch.distributed that sets one of our settings. */
struct symc_alias {
    const char *name;
    const char *key;
    const char *suffix;  /* appended to its value: its unit, or the mark that
                            distinguishes our dumps; or "" */
    const char *instead; /* the variable that replaced it, or NULL */
};

/* A value that a profile changes. */
struct symc_preset {
    const char *key;
    const char *value;
};

/* The tables; each ends with an entry whose first member is NULL. */
extern const struct symc_option symc_options[];
extern const struct symc_alias symc_aliases[];
extern const struct symc_preset symc_compat_2024[];
extern const char *const symc_other_variables[];

/* The source of a value; a later one wins. */
enum symc_level {
    SYMC_LEVEL_BUILT_IN,
    SYMC_LEVEL_PROFILE,
    SYMC_LEVEL_FILE,
    SYMC_LEVEL_ALIAS,
    SYMC_LEVEL_ENVIRONMENT
};

/* A value as text, in addition to the typed field. */
struct symc_value {
    char *text;   /* canonical: "256KiB" */
    char *origin; /* "built-in", "FILE:LINE", ... */
    enum symc_level level;
};

/* The arguments of a load in progress. */
struct symc_load {
    struct symc_config *config;
    symmcoll_warning_fn warn;
    void *arg;
};

/* ---- options.c ---- */

/* Returns the number of settings. */
int symc_option_count(void);

/* Returns the index of a key in symc_options, or -1. */
int symc_option_find(const char *key);

/* Formats the environment variable of an option into a buffer of
 * SYMC_KEY_MAX. */
const char *symc_option_variable(
    const struct symc_option *option, char *buffer);

/* ---- nearest.c ---- */

/* Returns the least number of insertions, deletions, replacements and swaps of
 * neighbouring letters that turn one name into the other, ignoring case. */
int symc_edit_distance(const char *a, const char *b);

/* Return the key, or the variable, most similar to name, in a buffer of
 * SYMC_KEY_MAX; NULL if none is similar. */
const char *symc_nearest_key(const char *name, char *buffer);
const char *symc_nearest_variable(const char *name, char *buffer);

/* ---- warn.c ---- */

/* Calls the warning callback with one line. */
void symc_warnf(const struct symc_load *load, const char *format, ...)
    SYMC_PRINTF(2, 3);

/* ---- value.c ---- */

/* Formats the values that an option accepts, as "a size from 4KiB to 1MiB",
 * into a buffer of SYMC_EXPECTED_MAX. */
const char *symc_option_expected(
    const struct symc_option *option, char *buffer);

/* Copies a value for display: a URL without its password. */
void symc_value_mask(const char *text, char *buffer, size_t nbytes);

/*
 * Sets option number `index` from text, unless a higher level has set it; the
 * text is checked in either case.  Errors: CONFIG, NO_MEMORY.
 */
symmcoll_status_t symc_value_set(struct symc_config *config, int index,
    const char *text, enum symc_level level, const char *origin);

/* ---- file.c ---- */

/* The treatment of a file that does not exist or cannot be opened. */
enum symc_file_need {
    SYMC_FILE_NEEDED,    /* both are errors */
    SYMC_FILE_OPTIONAL,  /* it may be absent */
    SYMC_FILE_IF_ALLOWED /* likewise; a warning if it may not be read */
};

/* Reads one file, or nothing if path is NULL; without libconfig, warns that it
 * is not read.  Errors: CONFIG, NO_MEMORY, SYSTEM. */
symmcoll_status_t symc_file_read(
    struct symc_load *load, const char *path, enum symc_file_need need);

/* Reads each *.conf of a folder, in byte order of the names; nothing if path is
 * NULL. */
symmcoll_status_t symc_folder_read(struct symc_load *load, const char *path);

/* ---- scan.c ---- */

/*
 * Checks a file's text for what libconfig would misread without an error: zero
 * bytes, which end its text, unterminated comments and strings, integers out of
 * its range, includes.  Errors: CONFIG.
 */
symmcoll_status_t symc_scan_text(
    const char *path, const char *text, size_t nbytes);

/* ---- environment.c ---- */

/* Sets options from SYMMCOLL_* variables, and warns of unknown ones. */
symmcoll_status_t symc_environment_read(
    struct symc_load *load, char *const *environment);

/* Sets options from aliases, unless a SYMMCOLL_* variable sets them. */
symmcoll_status_t symc_aliases_read(
    struct symc_load *load, char *const *environment);

/* Returns whether the path of a loaded object is one of libtorch's. */
bool symc_is_torch(const char *path);

/* Returns whether libtorch is loaded in this process. */
bool symc_torch_loaded(void);

/* ---- load.c ---- */

/* The sources to read; NULL in a member: none. */
struct symc_sources {
    const char *system; /* a file */
    const char *folder; /* of further files */
    const char *user;   /* a file */
    const char *named;  /* a file, which must exist */
    char *const *environment;
    bool torch_loaded;
};

/* Reads these sources.  Errors: as symc_config_load(). */
symmcoll_status_t symc_config_read(const struct symc_sources *sources,
    struct symc_config **config, symmcoll_warning_fn warn, void *arg);

#endif
