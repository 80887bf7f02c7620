/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * How much memory there is for this process: what the machine has left, and what
 * the limits of its control group leave, of either version.  Of what a group
 * uses, the kernel takes the cache of files back when it needs it.
 */
#include "segment/memory.h"

#include "base/proc.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* What a version of control groups calls it. */
struct version {
    const char *controller; /* in its line of /proc/self/cgroup */
    const char *base;
    const char *limit, *used;
    const char *caches[2]; /* in memory.stat */
};

static const struct version versions[] = {
    {"", "/sys/fs/cgroup", "memory.max", "memory.current",
        {"\ninactive_file ", "\nactive_file "}},
    {"memory", "/sys/fs/cgroup/memory", "memory.limit_in_bytes",
        "memory.usage_in_bytes",
        {"\ntotal_inactive_file ", "\ntotal_active_file "}},
};

static size_t find_number(const char *text, const char *name)
{
    const char *at = strstr(text, name);

    return at != NULL ? strtoul(at + strlen(name), NULL, 10) : 0;
}

static size_t read_file(
    const char *folder, const char *name, char *text, size_t nbytes)
{
    char path[512];

    snprintf(path, sizeof(path), "%s/%s", folder, name);
    text[0] = '\n'; /* so that the first line begins as all do */
    return symc_proc_read(path, text + 1, nbytes - 1);
}

/* What is left in one group; SIZE_MAX: it has no limit. */
static size_t left_in(const char *folder, const struct version *version)
{
    char text[8192];
    size_t limit, used, cache = 0;

    if (read_file(folder, version->limit, text, sizeof(text)) == 0 ||
        text[1] < '0' || text[1] > '9')
        return SIZE_MAX; /* "max", or no such group */
    limit = find_number(text, "\n");
    if (limit >= SIZE_MAX / 4)
        return SIZE_MAX; /* how version 1 says so */
    if (read_file(folder, version->used, text, sizeof(text)) == 0)
        return SIZE_MAX;
    used = find_number(text, "\n");
    if (read_file(folder, "memory.stat", text, sizeof(text)) > 0)
        cache = find_number(text, version->caches[0]) +
                find_number(text, version->caches[1]);
    used = used > cache ? used - cache : 0;
    return limit > used ? limit - used : 0;
}

/* Whether a name is in a list with commas, which ends at a colon; an empty one is
 * in an empty list alone. */
static bool is_listed(const char *list, const char *name)
{
    size_t length;

    for (;; list += length + 1) {
        length = strcspn(list, ",:\n");
        if (length == strlen(name) && strncmp(list, name, length) == 0)
            return true;
        if (list[length] != ',')
            return false;
    }
}

/* Where the path of a version's group begins, NULL: it has none.  A line is
 * "number:controllers:path"; those of version 1 that are mounted together have
 * one line. */
static const char *find_path(const char *groups, const struct version *version)
{
    for (const char *line = groups; *line != '\0';
         line += strcspn(line, "\n"), line += *line == '\n' ? 1 : 0) {
        const char *list = line + strcspn(line, ":\n");

        if (*list != ':' || !is_listed(++list, version->controller))
            continue;
        list += strcspn(list, ":\n");
        if (*list == ':')
            return list + 1;
    }
    return NULL;
}

/* The least of a group and those that it is in. */
static size_t left_up_to(const char *groups, const struct version *version)
{
    const char *at = find_path(groups, version);
    char folder[256];
    size_t least = SIZE_MAX, base = strlen(version->base), length, left;

    if (at == NULL)
        return SIZE_MAX;
    snprintf(folder, sizeof(folder), "%s%.*s", version->base,
        (int)strcspn(at, "\n"), at);
    length = strlen(folder);
    while (length >= base) {
        folder[length] = '\0';
        left = left_in(folder, version);
        least = left < least ? left : least;
        /* Without the last name; in the end without the slash. */
        do
            length--;
        while (length > base && folder[length] != '/');
    }
    return least;
}

size_t symc_memory_available(bool *group)
{
    char text[4096], groups[4096];
    size_t least = SIZE_MAX;

    symc_proc_read("/proc/meminfo", text, sizeof(text));
    if (strstr(text, "\nMemAvailable:") != NULL)
        least = find_number(text, "\nMemAvailable:") * 1024;
    *group = false;
    symc_proc_read("/proc/self/cgroup", groups, sizeof(groups));
    for (size_t i = 0; i < sizeof(versions) / sizeof(versions[0]); i++) {
        size_t left = left_up_to(groups, &versions[i]);

        if (left < least) {
            *group = true;
            least = left;
        }
    }
    return least;
}
