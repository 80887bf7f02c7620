/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The memory available to this process: the least of what is left on the
 * machine and under the limits of its control groups, version 1 or 2.  The page
 * cache of files that a group is charged for counts as available, because the
 * kernel reclaims it on demand.
 */
#include "segment/memory.h"

#include "base/descriptor.h"
#include "base/proc.h"

#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <time.h>
#include <unistd.h>

/* bounded: the rank that holds it may be stopped */
#define LOCK_NS (10 * SYMC_NS_PER_S)

#define FOLDER_MAX 256 /* bytes of a control group's path */

/* The names that one version of control groups uses. */
struct version {
    const char *controller; /* in its line of /proc/self/cgroup */
    const char *base;
    const char *limit, *used;
    const char *caches[2]; /* in memory.stat */
};

static const struct version versions[] = {
    {"", "/sys/fs/cgroup", "memory.max", "memory.current",
        {"inactive_file ", "active_file "}},
    {"memory", "/sys/fs/cgroup/memory", "memory.limit_in_bytes",
        "memory.usage_in_bytes",
        {"total_inactive_file ", "total_active_file "}},
};

/* A search of a file, line by line.  No more than one line is kept, because
 * this may run where RLIMIT_AS leaves no room for the stack to grow. */
struct search {
    const char *names[2]; /* at the start of lines; NULL: none */
    size_t sum;           /* of the numbers that follow the names */
    bool found;
};

/* Adds the number in a line to a search, if one of its names begins the
 * line.  Returns true, to continue. */
static bool take_number(const char *line, void *arg)
{
    struct search *search = arg;

    for (int i = 0; i < 2 && search->names[i] != NULL; i++) {
        size_t length = strlen(search->names[i]);

        if (strncmp(line, search->names[i], length) != 0)
            continue;
        line += length + strspn(line + length, " ");
        if (*line < '0' || *line > '9')
            return true; /* "max" */
        search->sum += strtoul(line, NULL, 10);
        search->found = true;
        return true;
    }
    return true;
}

/* Searches a file of a folder.  Returns whether a number was found. */
static bool read_numbers(
    const char *folder, const char *name, struct search *search)
{
    char path[FOLDER_MAX + 32];

    snprintf(path, sizeof(path), "%s/%s", folder, name);
    symc_proc_each_line(path, take_number, search);
    return search->found;
}

/* Returns what is left in one group, or SIZE_MAX if it has no limit. */
static size_t left_in(const char *folder, const struct version *version)
{
    struct search limit = {.names = {""}}, used = {.names = {""}};
    struct search cache = {.names = {version->caches[0], version->caches[1]}};

    if (!read_numbers(folder, version->limit, &limit))
        return SIZE_MAX; /* "max", or no such group */
    if (limit.sum >= SIZE_MAX / 4)
        return SIZE_MAX; /* no limit, in version 1 */
    if (!read_numbers(folder, version->used, &used))
        return SIZE_MAX;
    (void)read_numbers(folder, "memory.stat", &cache);
    used.sum = used.sum > cache.sum ? used.sum - cache.sum : 0;
    return limit.sum > used.sum ? limit.sum - used.sum : 0;
}

/* Returns whether a name is in a comma-separated list that ends at a colon.  An
 * empty name is in an empty list only. */
static bool is_listed(const char *list, const char *name)
{
    size_t length;

    for (;; list += length + 1) {
        length = strcspn(list, ",:");
        if (length == strlen(name) && strncmp(list, name, length) == 0)
            return true;
        if (list[length] != ',')
            return false;
    }
}

/* The folder of this process's group. */
struct place {
    const struct version *version;
    char folder[FOLDER_MAX];
    bool found;
};

/* Takes the path from the line of the version: "number:controllers:path".
 * Controllers of version 1 that are mounted together share a line. */
static bool take_place(const char *line, void *arg)
{
    struct place *place = arg;
    const char *list = strchr(line, ':');
    const char *path = list != NULL ? strchr(list + 1, ':') : NULL;

    if (path == NULL || !is_listed(list + 1, place->version->controller))
        return true;
    snprintf(place->folder, sizeof(place->folder), "%s%s", place->version->base,
        path + 1);
    place->found = true;
    return false;
}

/* Returns the least that a group or one of its ancestors has left. tightest
 * (out, may be NULL): the folder of that group. */
static size_t left_up_to(const struct version *version, char *tightest)
{
    struct place place = {.version = version};
    size_t least = SIZE_MAX, base = strlen(version->base), length, left;

    symc_proc_each_line("/proc/self/cgroup", take_place, &place);
    if (!place.found)
        return SIZE_MAX;
    length = strlen(place.folder);
    while (length >= base) {
        place.folder[length] = '\0';
        left = left_in(place.folder, version);
        if (left < least && tightest != NULL)
            memcpy(tightest, place.folder, length + 1);
        least = left < least ? left : least;
        /* Removes the last component; at the end, the slash. */
        do
            length--;
        while (length > base && place.folder[length] != '/');
    }
    return least;
}

size_t symc_memory_available(bool *group)
{
    struct search machine = {.names = {"MemAvailable:"}};
    size_t least = SIZE_MAX;

    symc_proc_each_line("/proc/meminfo", take_number, &machine);
    if (machine.found)
        least = machine.sum * 1024;
    *group = false;
    for (size_t i = 0; i < sizeof(versions) / sizeof(versions[0]); i++) {
        size_t left = left_up_to(&versions[i], NULL);

        if (left < least) {
            *group = true;
            least = left;
        }
    }
    return least;
}

/* Opens the folder of the group that leaves the least, of either version. */
static int open_tightest(void)
{
    char folder[FOLDER_MAX] = "", found[FOLDER_MAX];
    size_t least = SIZE_MAX;

    for (size_t i = 0; i < sizeof(versions) / sizeof(versions[0]); i++) {
        size_t left = left_up_to(&versions[i], found);

        if (left < least) {
            least = left;
            memcpy(folder, found, sizeof(folder));
        }
    }
    return symc_descriptor_raise(
        open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC));
}

int symc_memory_lock(void)
{
    const struct timespec pause = {.tv_nsec = 1000000};
    int64_t until = symc_now_ns() + LOCK_NS;
    int fd = open_tightest();

    while (fd >= 0 && flock(fd, LOCK_EX | LOCK_NB) != 0) {
        if ((errno != EWOULDBLOCK && errno != EINTR) ||
            symc_now_ns() >= until) {
            close(fd);
            return -1;
        }
        nanosleep(&pause, NULL);
    }
    return fd;
}
