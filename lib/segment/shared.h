/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The symmetric memory of a group, from addresses to what its members have in
 * common: so that operations recognise buffers that every member maps.
 *
 * A table belongs to a group.  INVARIANT: entries are added and removed under
 * the group's ticket with no operation under way; so whoever runs, issues or
 * advances an operation reads it without a lock.
 */
#ifndef SYMC_SEGMENT_SHARED_H
#define SYMC_SEGMENT_SHARED_H

#include "base/base.h"

#include <stdatomic.h>

struct symc_joined; /* backend/backend.h */

enum symc_shared_state {
    SYMC_SHARED_LIVE,
    SYMC_SHARED_FREED, /* this rank has freed it: operations find it no more */
    SYMC_SHARED_GONE   /* and left it: what it says of addresses is not true */
};

/* One allocation of each member. */
struct symc_shared {
    uint64_t number; /* the same on all members, from 1; never used again in
                        this group */
    char *const *at; /* of each member, as this rank maps it */
    size_t nbytes;   /* of each, the same on all members */
    struct symc_joined *joined; /* of a device; NULL: host memory */
    _Atomic uint32_t state;     /* enum symc_shared_state */
};

/* Zeroed, but for rank: empty. */
struct symc_shared_table {
    int rank;     /* this rank's, among the members */
    size_t count; /* of entries */
    size_t room;
    struct symc_shared **list; /* by where they begin on this rank; no two of
                                  them overlap */
    struct symc_shared **numbered; /* the same by number */
    uint64_t last;                 /* number, so far */
};

static inline bool symc_shared_is_live(const struct symc_shared *shared)
{
    return atomic_load_explicit(&shared->state, memory_order_relaxed) ==
           SYMC_SHARED_LIVE;
}

/*
 * The one that has all of these bytes in this rank's part; NULL where none does.
 * offset (set then) is from the start of the parts on.  A table without entries
 * costs one load.
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

/* The one of that number that this rank has not freed; NULL: there is none. */
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

/* Remove those that are gone, and make room for one more; none may go meanwhile.
 * Errors: NO_MEMORY. */
symmcoll_status_t symc_shared_prepare(struct symc_shared_table *table);

/* Add one, with the next number; there must be room. */
void symc_shared_add(
    struct symc_shared_table *table, struct symc_shared *shared);

void symc_shared_free(struct symc_shared_table *table);

#endif
