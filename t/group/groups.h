/* SPDX-License-Identifier: BSD-3-Clause */
/* Helpers of the tests of groups. */
#ifndef T_GROUP_GROUPS_H
#define T_GROUP_GROUPS_H

#include "t/ranks.h"
#include "t/tap.h"

#include <symmcoll.h>

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

/* Creates a group of some ranks, without other options. */
static inline symmcoll_status_t groups_create(struct symmcoll_group *all,
    const int *ranks, int nranks, struct symmcoll_group **group)
{
    struct symmcoll_group_args args = SYMMCOLL_GROUP_ARGS_INIT;

    args.ranks = ranks;
    args.nranks = nranks;
    return symmcoll_group_create(symmcoll_group_world(all), &args, group);
}

/* Returns whether the call succeeded, and prints the error if not. */
static inline bool made(int rank, symmcoll_status_t status)
{
    if (status != SYMMCOLL_OK)
        diag("rank %d: %s: %s", rank, symmcoll_status_name(status),
            symmcoll_last_error());
    return status == SYMMCOLL_OK;
}

/* Returns the sum of the members' numbers; -1: failed. */
static inline int groups_sum(struct symmcoll_group *group, int number)
{
    int sum = 0;

    return made(number, symmcoll_all_reduce(group, &sum, &number, 1,
                            SYMMCOLL_INT32, SYMMCOLL_SUM, NULL, NULL))
               ? sum
               : -1;
}

/* Returns the full name that a group has in a world; valid until the next call
 * of this thread. */
static inline const char *groups_named(
    const struct symmcoll_group *all, const char *name)
{
    static _Thread_local char text[160];
    const char *whole = symmcoll_group_name(all);
    const char *slash = strrchr(whole, '/');

    snprintf(text, sizeof(text), "%.*s%s",
        slash != NULL ? (int)(slash - whole) + 1 : 0, whole, name);
    return text;
}

/* Checks that a call failed with a status and with a text in its detail;
 * prints the difference if not. */
static inline bool groups_said(int rank, symmcoll_status_t status,
    symmcoll_status_t expected, const char *text)
{
    bool good =
        status == expected && strstr(symmcoll_last_error(), text) != NULL;

    if (!good)
        diag("rank %d: expected %s with \"%s\", found %s: %s", rank,
            symmcoll_status_name(expected), text, symmcoll_status_name(status),
            symmcoll_last_error());
    return good;
}

static inline void groups_both(int n, rank_fn body, const char *sentence)
{
    ok(ranks_run(n, body), "%s (%d processes)", sentence, n);
    ok(threads_run(n, body), "%s (%d threads)", sentence, n);
}

#endif
