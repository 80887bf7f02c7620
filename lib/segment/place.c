/* SPDX-License-Identifier: BSD-3-Clause */
/* The table of addresses: sorted, with a binary search. */
#include "segment/place.h"

#include <stdlib.h>
#include <string.h>

symmcoll_status_t symc_places_grow(struct symc_places *places, size_t more)
{
    size_t room = places->count + more;
    struct symc_place *grown;

    if (room <= places->room)
        return SYMMCOLL_OK;
    if (room < 2 * places->room)
        room = 2 * places->room;
    grown = realloc(places->list, room * sizeof(*grown));
    if (grown == NULL)
        return symc_fail(SYMMCOLL_ERR_NO_MEMORY,
            "segment: a table of %zu addresses requested", room);
    places->list = grown;
    places->room = room;
    return SYMMCOLL_OK;
}

/* Returns the number of places that begin at or before an address. */
static size_t count_before(
    const struct symc_places *places, const char *address)
{
    size_t low = 0, high = places->count;

    while (low < high) {
        size_t middle = low + (high - low) / 2;

        if ((uintptr_t)places->list[middle].begin <= (uintptr_t)address)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

void symc_places_add(struct symc_places *places, const struct symc_place *place)
{
    size_t at = count_before(places, place->begin);
    struct symc_place *entry = &places->list[at];

    memmove(entry + 1, entry, (places->count - at) * sizeof(*entry));
    *entry = *place;
    places->count++;
}

void symc_places_remove(
    struct symc_places *places, const struct symc_segment *segment)
{
    size_t kept = 0;

    for (size_t i = 0; i < places->count; i++) {
        if (places->list[i].segment != segment)
            places->list[kept++] = places->list[i];
    }
    places->count = kept;
}

const struct symc_place *symc_places_find(
    const struct symc_places *places, const void *address, size_t nbytes)
{
    size_t count = count_before(places, address);
    const struct symc_place *found;
    size_t offset;

    if (count == 0)
        return NULL;
    found = &places->list[count - 1];
    offset = (uintptr_t)address - (uintptr_t)found->begin;
    return offset < found->nbytes && nbytes <= found->nbytes - offset ? found
                                                                      : NULL;
}

void symc_places_free(struct symc_places *places)
{
    free(places->list);
    *places = (struct symc_places){0};
}
