/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Dumps key groups by name, but a name can be reused once its group has been
 * freed: only one group of each name is described.
 */
#include "trace/view.h"

#include <stdlib.h>
#include <string.h>

struct named {
    char name[SYMC_TRACE_NAME + 1];
    uint32_t freed;
    unsigned int slot;
};

/* Sorts by name; the group to be described comes first: the live one, else the
 * latest freed. */
static int compare_named(const void *a, const void *b)
{
    const struct named *first = a, *second = b;
    int order = strcmp(first->name, second->name);

    if (order != 0)
        return order;
    if (first->freed == 0 || second->freed == 0)
        return (first->freed > 0) - (second->freed > 0);
    return (first->freed < second->freed) - (first->freed > second->freed);
}

symmcoll_status_t symc_trace_find_shadowed(
    const struct symc_trace_view *view, bool *shadowed)
{
    struct named *all = symc_alloc(SYMC_TRACE_GROUPS, sizeof(*all));
    struct symc_trace_group_copy group;
    size_t count = 0;

    if (all == NULL)
        return SYMMCOLL_ERR_NO_MEMORY;
    memset(shadowed, 0, SYMC_TRACE_GROUPS * sizeof(*shadowed));
    for (unsigned int i = 0; i < view->groups && i < SYMC_TRACE_GROUPS; i++) {
        if (!symc_trace_view_group(view, i, &group))
            continue;
        memcpy(all[count].name, group.name, sizeof(group.name));
        all[count].freed = group.freed;
        all[count++].slot = i;
    }
    qsort(all, count, sizeof(*all), compare_named);
    for (size_t i = 1; i < count; i++)
        shadowed[all[i].slot] = strcmp(all[i].name, all[i - 1].name) == 0;
    free(all);
    return SYMMCOLL_OK;
}
