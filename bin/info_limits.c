/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Limits that may prevent many ranks or large buffers.
 */
#include "info.h"

#include "config/config.h"
#include "registry/registry.h"
#include "segment/arena.h"
#include "segment/memory.h"
#include "world/world.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

struct limit {
    const char *name;
    int resource;
    const char *use;
};

static const struct limit limits[] = {
    {"RLIMIT_NOFILE", RLIMIT_NOFILE,
        "three descriptors for each rank while they join, two then"},
    {"RLIMIT_FSIZE", RLIMIT_FSIZE, "largest arena of shared memory"},
    {"RLIMIT_AS", RLIMIT_AS, "every rank maps the arenas of all"},
    {"RLIMIT_NPROC", RLIMIT_NPROC, "ranks and their threads"},
    {"RLIMIT_CORE", RLIMIT_CORE, "core dumps of ranks that crash"},
};

struct parameter {
    const char *path;
    const char *use;
};

static const struct parameter parameters[] = {
    {"/proc/sys/kernel/pid_max", "processes and threads of the machine"},
    {"/proc/sys/kernel/threads-max", "threads of the machine"},
    {"/proc/sys/fs/nr_open", "largest RLIMIT_NOFILE"},
    {"/proc/sys/vm/max_map_count", "mappings of a process"},
    {"/proc/sys/vm/overcommit_memory", "2: no overcommitment"},
    {"/proc/sys/kernel/core_pattern", "a core dump delays the end of a rank"},
    {"/sys/kernel/mm/transparent_hugepage/shmem_enabled",
        "large pages in shared memory"},
    {"/sys/fs/cgroup/memory.max", "memory of this control group"},
};

static void add_rlimit(struct info_table *table, rlim_t value)
{
    if (value == RLIM_INFINITY)
        info_text(table, "unlimited");
    else
        info_number(table, (long long)value);
}

/* Adds the first line of a file, as a number if it is one; nothing if it cannot
 * be read. */
static void add_file(struct info_table *table, const char *path)
{
    char line[256] = "";
    FILE *file = fopen(path, "re");
    size_t length;

    if (file != NULL) {
        if (fgets(line, sizeof(line), file) == NULL)
            line[0] = '\0';
        fclose(file);
    }
    line[strcspn(line, "\n")] = '\0';
    length = strlen(line);
    if (length == 0)
        info_none(table);
    else if (length < 19 && strspn(line, "0123456789") == length)
        info_number(table, atoll(line));
    else
        info_text(table, line);
}

static const char *const limits_columns[] = {
    "name", "value", "maximum", "use", NULL};

void info_add_limits(struct info_out *out)
{
    struct info_table table;

    info_table_begin(&table, "limits", limits_columns);
    for (size_t i = 0; i < sizeof(limits) / sizeof(*limits); i++) {
        struct rlimit value;

        info_text(&table, limits[i].name);
        if (getrlimit(limits[i].resource, &value) == 0) {
            add_rlimit(&table, value.rlim_cur);
            add_rlimit(&table, value.rlim_max);
        } else {
            info_none(&table);
            info_none(&table);
        }
        info_text(&table, limits[i].use);
    }
    for (size_t i = 0; i < sizeof(parameters) / sizeof(*parameters); i++) {
        info_text(&table, parameters[i].path);
        add_file(&table, parameters[i].path);
        info_none(&table);
        info_text(&table, parameters[i].use);
    }
    info_table_end(&table, out);
}

/* ---- memory ---- */

static void add_bytes(
    struct info_table *table, const char *name, size_t nbytes, const char *use)
{
    info_text(table, name);
    info_number(table, (long long)(nbytes < INT64_MAX ? nbytes : INT64_MAX));
    info_note(table, use);
}

/* Adds the free huge pages, and why symmetric memory uses them or not. */
static void add_huge_pages(
    struct info_table *table, const struct symc_config *config)
{
    size_t count = 0, page = symc_memory_huge_page(&count);

    add_bytes(table, "huge_pages", page * count,
        !config->symm_mem_huge_pages ? "not used: symm_mem.huge_pages is off"
        : page == 0                  ? "not used: the kernel has none"
        : count == 0 ? "not used: none is free, see /proc/sys/vm/nr_hugepages"
                     : "free, for symmetric memory");
}

void info_add_memory(struct info_out *out, const struct symc_config *config)
{
    const struct symc_log silent = {.level = SYMC_LOG_OFF};
    struct symc_registry registry;
    /* Errors of a backend are in the table of backends. */
    const struct symc_backend_layout layout =
        symc_registry_open(&registry, config, &silent) == SYMMCOLL_OK
            ? symc_registry_layout(&registry, config, INFO_RANKS)
            : (struct symc_backend_layout){0};
    size_t block =
        symc_block_nbytes(symc_trace_backed(config->trace_buffer_size));
    size_t part = symc_round_to_page(SYMC_GROUP_CHANNEL + layout.channel);
    struct info_table table;

    info_object_begin(&table, "memory");
    info_text(&table, "ranks");
    info_number(&table, INFO_RANKS);
    info_note(&table, "the bytes are of one of so many");
    add_bytes(&table, "arena",
        symc_arena_choose_nbytes(block + part + layout.staging, INFO_RANKS),
        "address space alone, for what follows");
    add_bytes(&table, "block", block, "in memory from the start");
    add_bytes(&table, "group", part, "of each group; likewise");
    add_bytes(&table, "staging", layout.staging,
        "of each group, at its first large operation");
    add_bytes(&table, "staging_least", layout.staging_least,
        "of each group when the budget is spent");
    add_bytes(&table, "staging_budget", config->host_staging,
        "of all groups: host.staging_budget");
    add_huge_pages(&table, config);
    info_table_end(&table, out);
}
