/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * How much memory there is for this process: what the machine has left, and what
 * the limits of its control group leave, of either version.  Of what a group
 * uses, the kernel takes the cache of files back when it needs it.
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

#define LOCK_NS (10 * SYMC_NS_PER_S) /* a rank that has it may be stopped */

#define FOLDER_MAX 256 /* bytes of the folder of a control group */

/* What a version of control groups calls it. */
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

/* What is looked for in a file, line by line: no more of it is kept, for this
 * may run where RLIMIT_AS leaves no room for the stack to grow. */
struct search {
    const char *names[2]; /* at the start of lines; NULL: none */
    size_t sum;           /* of the numbers after them */
    bool found;
};

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

/* Searches a file of a folder; returns whether a number was found. */
static bool read_numbers(
    const char *folder, const char *name, struct search *search)
{
    char path[FOLDER_MAX + 32];

    snprintf(path, sizeof(path), "%s/%s", folder, name);
    symc_proc_each_line(path, take_number, search);
    return search->found;
}

/* What is left in one group; SIZE_MAX: it has no limit. */
static size_t left_in(const char *folder, const struct version *version)
{
    struct search limit = {.names = {""}}, used = {.names = {""}};
    struct search cache = {.names = {version->caches[0], version->caches[1]}};

    if (!read_numbers(folder, version->limit, &limit))
        return SIZE_MAX; /* "max", or no such group */
    if (limit.sum >= SIZE_MAX / 4)
        return SIZE_MAX; /* how version 1 says so */
    if (!read_numbers(folder, version->used, &used))
        return SIZE_MAX;
    (void)read_numbers(folder, "memory.stat", &cache);
    used.sum = used.sum > cache.sum ? used.sum - cache.sum : 0;
    return limit.sum > used.sum ? limit.sum - used.sum : 0;
}

/* Whether a name is in a list with commas, which ends at a colon; an empty one is
 * in an empty list alone. */
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

/* Takes the path from the line of the version.  A line is
 * "number:controllers:path"; those of version 1 that are mounted together have
 * one line. */
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

/* The least of a group and those that it is in; tightest (out, or NULL): the folder
 * of the one that has it. */
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
        /* Without the last name; in the end without the slash. */
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
