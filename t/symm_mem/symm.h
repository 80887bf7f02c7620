/* SPDX-License-Identifier: BSD-3-Clause */
/* Helpers for the tests of symmetric memory. */
#ifndef T_SYMM_MEM_SYMM_H
#define T_SYMM_MEM_SYMM_H

#include "t/group/groups.h"
#include "t/ranks.h"
#include "t/tap.h"

#include <symmcoll.h>

#include <dirent.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define LENGTH(array) (sizeof(array) / sizeof((array)[0]))

/* Returns whether a call succeeded, and prints the error if not. */
static inline bool went_well(
    symmcoll_status_t status, const char *call, int line)
{
    if (status != SYMMCOLL_OK)
        diag("line %d: %s: %s: %s", line, call, symmcoll_status_name(status),
            symmcoll_last_error());
    return status == SYMMCOLL_OK;
}

#define OK(call) went_well(call, #call, __LINE__)

/* Returns whether a condition holds, and prints the line if not. */
static inline bool holds(bool condition, const char *text, int line)
{
    if (!condition)
        diag("line %d: expected %s", line, text);
    return condition;
}

#define HOLDS(condition) holds(condition, #condition, __LINE__)

/* Allocates and joins memory. */
static inline bool join(struct symmcoll_group *group, size_t nbytes,
    void **data, struct symmcoll_symm **handle)
{
    return OK(symmcoll_symm_alloc(
               symmcoll_group_world(group), nbytes, NULL, data)) &&
           OK(symmcoll_symm_rendezvous(group, *data, NULL, handle));
}

/* Releases the handle and the memory. */
static inline bool part(
    struct symmcoll_group *group, void *data, struct symmcoll_symm *handle)
{
    symmcoll_symm_release(handle);
    return OK(symmcoll_symm_free(symmcoll_group_world(group), data));
}

/* Returns how many mappings and descriptors of symmetric memfds this process
 * has. */
static inline int count_memfds(void)
{
    FILE *maps = fopen("/proc/self/maps", "re");
    DIR *dir = opendir("/proc/self/fd");
    struct dirent *entry;
    char line[512];
    int found = maps != NULL && dir != NULL ? 0 : -1;

    while (maps != NULL && fgets(line, sizeof(line), maps) != NULL)
        found += strstr(line, "/memfd:symmcoll:symm") != NULL ? 1 : 0;
    while (dir != NULL && (entry = readdir(dir)) != NULL) {
        char path[300], target[256] = "";

        snprintf(path, sizeof(path), "/proc/self/fd/%.200s", entry->d_name);
        if (readlink(path, target, sizeof(target) - 1) > 0 &&
            strncmp(target, "/memfd:symmcoll:symm", 20) == 0)
            found++;
    }
    if (maps != NULL)
        fclose(maps);
    if (dir != NULL)
        closedir(dir);
    return found;
}

#endif
