/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The kernels for operations on device memory, as described by the CUDA module.
 * This needs neither a driver nor a device.
 */
#include "info.h"

#include "backend/backend.h"
#include "backend/module.h"
#include "base/kind.h"
#include "config/config.h"
#include "registry/registry.h"

#include <symmcoll.h>

#include <limits.h>
#include <string.h>
#include <unistd.h>

#define NBYTES_MAX ((size_t)1 << 40)
#define ROWS_MAX 8 /* per operation */
#define MORE 3     /* ranks that stand for any number above two */

struct question {
    const struct symc_backend *backend;
    const struct symc_settings *settings;
    enum symc_kind kind;
    int size;
};

struct row {
    size_t from, to;
    struct symc_algorithm_name algorithm;
};

static struct symc_algorithm_name choose(
    const struct question *question, size_t nbytes)
{
    struct symc_op op = {.kind = question->kind,
        .dtype = SYMMCOLL_FLOAT32, /* the most common type */
        .op = SYMMCOLL_SUM,
        .count = nbytes,
        .elem = 1};

    return question->backend->device->describe(
        question->settings, question->size, &symc_kinds[question->kind], &op);
}

static bool is_alike(
    const struct question *question, size_t nbytes, const char *name)
{
    return strcmp(choose(question, nbytes).name, name) == 0;
}

/* Returns the largest size from nbytes on with the same kernel: doubles the
 * step, then halves it. */
static size_t find_end(
    const struct question *question, size_t nbytes, const char *name)
{
    size_t step = 1;

    while (nbytes < NBYTES_MAX && is_alike(question, nbytes + step, name)) {
        nbytes += step;
        step *= 2;
    }
    for (; step > 0; step /= 2)
        if (nbytes < NBYTES_MAX && is_alike(question, nbytes + step, name))
            nbytes += step;
    return nbytes;
}

static int find_rows(const struct question *question, struct row *rows)
{
    bool moves = symc_kinds[question->kind].in_parts != SYMC_NO_PART;
    size_t from = moves ? 1 : 0;
    int count = 0;

    while (from < NBYTES_MAX && count < ROWS_MAX) {
        struct row *row = &rows[count++];

        row->from = from;
        row->algorithm = choose(question, from);
        row->to =
            moves ? find_end(question, from, row->algorithm.name) : NBYTES_MAX;
        from = row->to + 1;
    }
    return count;
}

static void add_rows(struct info_table *table, enum symc_kind kind,
    const char *ranks, const struct row *rows, int count)
{
    for (int i = 0; i < count; i++) {
        info_text(table, symc_kind_name(kind));
        info_text(table, ranks);
        info_number(table, (long long)rows[i].from);
        if (rows[i].to >= NBYTES_MAX)
            info_none(table);
        else
            info_number(table, (long long)rows[i].to);
        info_text(table, rows[i].algorithm.name);
        info_text(table, rows[i].algorithm.help);
    }
}

static bool are_alike(const struct row *a, const struct row *b, int count)
{
    for (int i = 0; i < count; i++)
        if (a[i].to != b[i].to ||
            strcmp(a[i].algorithm.name, b[i].algorithm.name) != 0)
            return false;
    return true;
}

/* Adds the rows of an operation; for two ranks and more separately if they
 * differ. */
static void add_kind(struct info_table *table, struct question *question)
{
    struct row two[ROWS_MAX], more[ROWS_MAX];
    int ntwo, nmore;

    question->size = INFO_RANKS;
    ntwo = find_rows(question, two);
    question->size = MORE;
    nmore = find_rows(question, more);
    if (ntwo == nmore && are_alike(two, more, ntwo)) {
        add_rows(table, question->kind, "any", two, ntwo);
        return;
    }
    add_rows(table, question->kind, "2", two, ntwo);
    add_rows(table, question->kind, "others", more, nmore);
}

/* Loads the module.  Returns NULL, with the reason (out), if it is missing. */
static const struct symc_backend *find_module(const char **reason)
{
    const struct symc_backend *backend = NULL;
    char path[PATH_MAX];

    *reason = NULL;
    snprintf(path, sizeof(path), "%s/symmcoll_cuda.so", symc_module_folder());
    if (access(path, F_OK) != 0)
        *reason = "cuda module not installed";
    else if (symc_module_load("cuda", &backend) != SYMMCOLL_OK)
        *reason = symmcoll_last_error();
    else if (backend->device == NULL || backend->device->describe == NULL)
        *reason = "cuda module does not tell";
    return *reason == NULL ? backend : NULL;
}

/* Adds the settings in effect, with or without the module. */
static void add_settings(struct info_out *out,
    const struct symc_settings *settings, const char *reason)
{
    static const char *const sizes[] = {"cuda.packets_max", "cuda.one_shot_max",
        "cuda.one_shot_max_two", "cuda.nccl_min", "cuda.staging"};
    const struct symc_config *config = settings->config;
    struct info_table table;

    info_object_begin(&table, "device_settings");
    info_text(&table, "missing");
    info_text(&table, reason);
    for (size_t i = 0; i < sizeof(sizes) / sizeof(*sizes); i++) {
        info_text(&table, sizes[i]);
        info_number(&table, (long long)settings->get_size(config, sizes[i]));
    }
    info_note(&table, "larger operations go through it in pieces");
    info_text(&table, "cuda.blocks");
    info_number(&table, settings->get_int(config, "cuda.blocks"));
    info_note(&table, "of a kernel, at most");
    info_text(&table, "cuda.groups");
    info_number(&table, settings->get_int(config, "cuda.groups"));
    info_note(&table, "at once on a device");
    info_text(&table, "cuda.share_device");
    info_flag(&table, settings->get_bool(config, "cuda.share_device"));
    info_table_end(&table, out);
}

static const char *const columns[] = {"operation", "ranks", "from_bytes",
    "to_bytes", "algorithm", "description", NULL};

void info_add_device_algorithms(
    struct info_out *out, const struct symc_config *config)
{
    struct symc_settings settings = symc_registry_settings(config);
    struct question question = {.settings = &settings};
    struct info_table table;
    const char *reason;

    question.backend = find_module(&reason);
    add_settings(out, &settings, reason);
    info_table_begin(&table, "device_algorithms", columns);
    for (int kind = 1; kind < SYMC_KIND_COUNT && reason == NULL; kind++) {
        const struct symc_kind_info *info = &symc_kinds[kind];

        question.kind = (enum symc_kind)kind;
        if ((info->traits & SYMC_MOVES) == 0 &&
            question.backend->device->serves(info))
            add_kind(&table, &question);
    }
    info_table_end(&table, out);
}
