/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The table of a group's symmetric memory, from addresses to allocations, with
 * which operations recognise buffers that every member maps.
 *
 * A table belongs to a group.  INVARIANT: entries are added and removed under
 * the group's ticket while no operation is under way, so a thread that runs,
 * issues or advances an operation reads the table without a lock.
 */
#ifndef SYMC_SEGMENT_SHARED_H
#define SYMC_SEGMENT_SHARED_H

#include "base/base.h"

#include <stdatomic.h>

struct symc_joined; /* backend/backend.h */

enum symc_shared_state {
    SYMC_SHARED_LIVE,
    SYMC_SHARED_FREED, /* freed by this rank: not found any more */
    SYMC_SHARED_GONE   /* and left by it: its addresses are invalid */
};

/* One allocation, with a part on each member. */
struct symc_shared {
    uint64_t number; /* equal on all members, from 1; not reused in this
                        group */
    char *const *at; /* each member's part, as this rank maps it */
    size_t nbytes;   /* of each part, equal on all members */
    struct symc_joined *joined; /* device memory; NULL: host memory */
    _Atomic uint32_t state;     /* enum symc_shared_state */
};

/* The table; all zeros except rank: empty. */
struct symc_shared_table {
    int rank;     /* this rank's member number */
    size_t count; /* of entries */
    size_t room;
    struct symc_shared **list;     /* by address on this rank; entries do not
                                      overlap */
    struct symc_shared **numbered; /* the same entries by number */
    uint64_t last;                 /* last number assigned */
};

static inline bool symc_shared_is_live(const struct symc_shared *shared)
{
    return atomic_load_explicit(&shared->state, memory_order_relaxed) ==
           SYMC_SHARED_LIVE;
}

/*
 * Finds the allocation of which this rank's part contains all of these bytes,
 * and sets offset from the start of the part.  Returns NULL if there is none.
 * An empty table costs one load.
 */
static inline const struct symc_shared *symc_shared_find(
    const struct symc_shared_table *table, const void *address, size_t nbytes,
    size_t *offset)
{
    size_t low = 0, high = table->count;
    const struct symc_shared *found;
    size_t at;

    if (__builtin_expect(high == 0, 1))
        return NULL;
    while (low < high) {
        size_t middle = low + (high - low) / 2;

        if ((uintptr_t)table->list[middle]->at[table->rank] <=
            (uintptr_t)address)
            low = middle + 1;
        else
            high = middle;
    }
    if (low == 0)
        return NULL;
    found = table->list[low - 1];
    at = (uintptr_t)address - (uintptr_t)found->at[table->rank];
    if (at > found->nbytes || nbytes > found->nbytes - at ||
        !symc_shared_is_live(found))
        return NULL;
    *offset = at;
    return found;
}

/* Finds an allocation by number.  Returns NULL if there is none or this rank
 * has freed it. */
static inline const struct symc_shared *symc_shared_by_number(
    const struct symc_shared_table *table, uint64_t number)
{
    size_t low = 0, high = table->count;

    while (low < high) {
        size_t middle = low + (high - low) / 2;

        if (table->numbered[middle]->number < number)
            low = middle + 1;
        else
            high = middle;
    }
    return low < table->count && table->numbered[low]->number == number &&
                   symc_shared_is_live(table->numbered[low])
               ? table->numbered[low]
               : NULL;
}

/* Removes the entries that are gone and makes room for one more.  No entry may
 * become gone during the call.  Errors: NO_MEMORY. */
symmcoll_status_t symc_shared_prepare(struct symc_shared_table *table);

/* Adds an entry and assigns the next number.  The table must have room. */
void symc_shared_add(
    struct symc_shared_table *table, struct symc_shared *shared);

void symc_shared_free(struct symc_shared_table *table);

#endif
