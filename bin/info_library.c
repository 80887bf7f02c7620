/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The library: its build options, backends, and the host backend's algorithms
 * by operation and size.
 */
#include "info.h"

#include "backend/module.h"
#include "base/dtype.h"
#include "base/reduce.h"
#include "config/config.h"
#include "host/select.h"
#include "registry/registry.h"
#include "rendezvous/rendezvous.h"

#include <symmcoll.h>

#include <dirent.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define NBYTES_MAX ((size_t)1 << 40)

/* An optional part of the build. */
struct build {
    const char *name;
    bool with;
    const char *use;
};

#ifdef HAVE_LIBCONFIG
#define WITH_LIBCONFIG true
#else
#define WITH_LIBCONFIG false
#endif
#ifdef HAVE_HWLOC
#define WITH_HWLOC true
#else
#define WITH_HWLOC false
#endif
#ifdef HAVE_CBLAS
#define WITH_CBLAS true
#else
#define WITH_CBLAS false
#endif

static const struct build builds[] = {
    {"libconfig", WITH_LIBCONFIG, "settings files"},
    {"hwloc", WITH_HWLOC, "the topology below"},
    {"cblas", WITH_CBLAS, "products of matrices, loaded by the first"},
};

#if defined(__has_feature)
#define HAS_FEATURE(name) __has_feature(name)
#else
#define HAS_FEATURE(name) 0
#endif

static const char *sanitizer(void)
{
#if defined(__SANITIZE_ADDRESS__) || HAS_FEATURE(address_sanitizer)
    return "address";
#elif defined(__SANITIZE_THREAD__) || HAS_FEATURE(thread_sanitizer)
    return "thread";
#else
    return NULL;
#endif
}

void info_add_library(
    struct info_out *out, const struct symc_config *config, const char *wrong)
{
    struct info_table table;
    char node[256];
    int rank = -1, size = -1, local_rank = -1;
    const char *launcher = NULL;

    info_object_begin(&table, "library");
    info_text(&table, "version");
    info_text(&table, symmcoll_version());
    info_text(&table, "simd");
    info_text(&table, symc_simd_name());
    for (size_t i = 0; i < sizeof(builds) / sizeof(*builds); i++) {
        info_text(&table, builds[i].name);
        info_flag(&table, builds[i].with);
        info_note(&table, builds[i].use);
    }
    info_text(&table, "sanitizer");
    info_text(&table, sanitizer());
    symc_rendezvous_detect(&rank, &size, &local_rank, &launcher);
    info_text(&table, "launcher");
    info_text(&table, launcher);
    info_text(&table, "node");
    if (symc_rendezvous_node(config, node, sizeof(node)) == SYMMCOLL_OK)
        info_text(&table, node);
    else
        info_none(&table);
    info_text(&table, "settings_error");
    info_text(&table, wrong);
    info_note(&table, wrong != NULL ? "the built-in settings are shown" : NULL);
    info_table_end(&table, out);
}

/* ---- backends ---- */

static bool is_installed(const char *name)
{
    char path[PATH_MAX];

    snprintf(
        path, sizeof(path), "%s/symmcoll_%s.so", symc_module_folder(), name);
    return access(path, F_OK) == 0;
}

/* Adds a module that is not installed, which is not an error. */
static void add_absent(struct info_table *table, const char *name)
{
    info_text(table, name);
    info_text(table, "module");
    info_flag(table, false);
    info_text(table, "not installed; optional");
}

static void add_module(struct info_table *table, const char *name)
{
    const struct symc_backend *backend = NULL;
    bool loaded = symc_module_load(name, &backend) == SYMMCOLL_OK;

    info_text(table, name);
    info_text(table, "module");
    info_flag(table, loaded);
    info_text(table, loaded ? NULL : symmcoll_last_error());
}

/* Modules that always have a row. */
static const char *const expected[] = {"cuda"};

static bool is_expected(const char *name)
{
    for (size_t i = 0; i < sizeof(expected) / sizeof(*expected); i++)
        if (strcmp(name, expected[i]) == 0)
            return true;
    return false;
}

/* Adds other modules in the folder. */
static void add_other_modules(struct info_table *table)
{
    struct dirent **entries;
    int count = scandir(symc_module_folder(), &entries, NULL, alphasort);

    for (int i = 0; i < count; i++) {
        char name[256];

        if (symc_module_name(entries[i]->d_name, name, sizeof(name)) &&
            !is_expected(name))
            add_module(table, name);
        free(entries[i]);
    }
    if (count >= 0)
        free(entries);
}

static const char *const backends_columns[] = {
    "name", "kind", "available", "reason", NULL};

void info_add_backends(struct info_out *out)
{
    const struct symc_backend *const *at = symc_registry_builtin();
    struct info_table table;

    info_table_begin(&table, "backends", backends_columns);
    for (; *at != NULL; at++) {
        info_text(&table, (*at)->name);
        info_text(&table, "built-in");
        info_flag(&table, true);
        info_none(&table);
    }
    for (size_t i = 0; i < sizeof(expected) / sizeof(*expected); i++)
        if (is_installed(expected[i]))
            add_module(&table, expected[i]);
        else
            add_absent(&table, expected[i]);
    add_other_modules(&table);
    info_table_end(&table, out);

    info_object_begin(&table, "modules");
    info_text(&table, "folder");
    info_text(&table, symc_module_folder());
    info_table_end(&table, out);
}

/* ---- algorithms ---- */

/* The parameters of a choice. */
struct question {
    const struct symc_host_settings *settings;
    bool threads;
    bool symmetric;
    enum symc_kind kind;
};

/* Returns the algorithm for an operation with blocks of nbytes. */
static const struct symc_algorithm *choose(
    const struct question *question, size_t nbytes)
{
    struct symc_op op = {
        .kind = question->kind,
        .dtype = SYMMCOLL_UINT8,
        .op = SYMMCOLL_SUM,
        .count = nbytes,
        .elem = 1,
    };

    return symc_host_select(question->settings, question->threads,
        question->symmetric, INFO_RANKS, &op);
}

/* Returns the largest size from nbytes on with the same algorithm: doubles the
 * step, then halves it. */
static size_t find_end(const struct question *question, size_t nbytes)
{
    const struct symc_algorithm *same = choose(question, nbytes);
    size_t step = 1;

    while (nbytes < NBYTES_MAX && choose(question, nbytes + step) == same) {
        nbytes += step;
        step *= 2;
    }
    for (; step > 0; step /= 2)
        if (nbytes < NBYTES_MAX && choose(question, nbytes + step) == same)
            nbytes += step;
    return nbytes;
}

/* Adds the algorithms of an operation by size; for symmetric buffers only the
 * sizes that differ from private ones. */
static void add_choices(
    struct info_table *table, const struct question *question)
{
    struct question private = *question;
    bool moves = symc_kinds[question->kind].in_parts != SYMC_NO_PART;
    size_t from = moves ? 1 : 0;

    while (from < NBYTES_MAX) {
        const struct symc_algorithm *algorithm = choose(question, from);
        size_t end = moves ? find_end(question, from) : NBYTES_MAX;

        private.symmetric = false;
        if (question->symmetric && algorithm == choose(&private, from)) {
            from = end + 1;
            continue;
        }
        info_text(table, symc_kind_name(question->kind));
        info_text(table, question->threads ? "threads" : "processes");
        info_text(table, question->symmetric ? "symmetric" : "private");
        info_number(table, (long long)from);
        if (end >= NBYTES_MAX)
            info_none(table);
        else
            info_number(table, (long long)end);
        info_text(table, algorithm->name);
        info_text(table, algorithm->help);
        from = end + 1;
    }
}

static const char *const algorithms_columns[] = {"operation", "ranks_are",
    "buffers", "from_bytes", "to_bytes", "algorithm", "description", NULL};

void info_add_algorithms(struct info_out *out, const struct symc_config *config)
{
    struct symc_settings settings = symc_registry_settings(config);
    struct symc_host_settings host = symc_host_settings_get(&settings);
    struct info_table table;

    info_table_begin(&table, "algorithms", algorithms_columns);
    for (int kind = 1; kind < SYMC_KIND_COUNT; kind++) {
        struct question question = {
            .settings = &host, .kind = (enum symc_kind)kind};

        if (symc_kinds[kind].counter != SYMC_COUNT_COLLECTIVE)
            continue;
        for (int i = 0; i < 4; i++) {
            question.threads = i / 2 == 1;
            question.symmetric = i % 2 == 1;
            add_choices(&table, &question);
        }
    }
    info_table_end(&table, out);
}
