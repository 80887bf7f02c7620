/* SPDX-License-Identifier: BSD-3-Clause */
/* The table of a group's symmetric memory: adding and removing entries. */
#include "segment/shared.h"

#include <stdlib.h>
#include <string.h>

/* Removes the entries that are gone from one of the two lists.  Returns how
 * many remain. */
static size_t compact(struct symc_shared **list, size_t count)
{
    size_t kept = 0;

    for (size_t i = 0; i < count; i++) {
        if (atomic_load(&list[i]->state) != SYMC_SHARED_GONE)
            list[kept++] = list[i];
    }
    return kept;
}

static bool grow(struct symc_shared ***list, size_t room)
{
    struct symc_shared **grown = realloc(*list, room * sizeof(*grown));

    if (grown != NULL)
        *list = grown;
    return grown != NULL;
}

symmcoll_status_t symc_shared_prepare(struct symc_shared_table *table)
{
    size_t room = table->room == 0 ? 8 : 2 * table->room;

    (void)compact(table->list, table->count);
    table->count = compact(table->numbered, table->count);
    if (table->count < table->room)
        return SYMMCOLL_OK;
    if (!grow(&table->list, room) || !grow(&table->numbered, room))
        return symc_fail(SYMMCOLL_ERR_NO_MEMORY,
            "symmetric memory: a table of %zu addresses requested", room);
    table->room = room;
    return SYMMCOLL_OK;
}

void symc_shared_add(
    struct symc_shared_table *table, struct symc_shared *shared)
{
    size_t at = table->count;

    shared->number = ++table->last;
    table->numbered[table->count] = shared;
    while (at > 0 && (uintptr_t)table->list[at - 1]->at[table->rank] >
                         (uintptr_t)shared->at[table->rank]) {
        table->list[at] = table->list[at - 1];
        at--;
    }
    table->list[at] = shared;
    table->count++;
}

void symc_shared_free(struct symc_shared_table *table)
{
    free(table->list);
    free(table->numbered);
    *table = (struct symc_shared_table){0};
}
