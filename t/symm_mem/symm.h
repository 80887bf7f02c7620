/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What the tests of symmetric memory share.
 */
#ifndef T_SYMM_MEM_SYMM_H
#define T_SYMM_MEM_SYMM_H

#include "t/group/groups.h"
#include "t/ranks.h"
#include "t/tap.h"

#include <symmcoll.h>

#include <stdbool.h>
#include <string.h>

#define LENGTH(array) (sizeof(array) / sizeof((array)[0]))

/* Whether a call has succeeded; says why not. */
static inline bool went_well(
    symmcoll_status_t status, const char *call, int line)
{
    if (status != SYMMCOLL_OK)
        diag("line %d: %s: %s: %s", line, call, symmcoll_status_name(status),
            symmcoll_last_error());
    return status == SYMMCOLL_OK;
}

#define OK(call) went_well(call, #call, __LINE__)

/* Whether a condition holds; says where not. */
static inline bool holds(bool condition, const char *text, int line)
{
    if (!condition)
        diag("line %d: expected %s", line, text);
    return condition;
}

#define HOLDS(condition) holds(condition, #condition, __LINE__)

/* Allocate and join. */
static inline bool join(struct symmcoll_group *group, size_t nbytes,
    void **data, struct symmcoll_symm **handle)
{
    return OK(symmcoll_symm_alloc(
               symmcoll_group_world(group), nbytes, NULL, data)) &&
           OK(symmcoll_symm_rendezvous(group, *data, NULL, handle));
}

/* Release both. */
static inline bool part(
    struct symmcoll_group *group, void *data, struct symmcoll_symm *handle)
{
    symmcoll_symm_release(handle);
    return OK(symmcoll_symm_free(symmcoll_group_world(group), data));
}

#endif
