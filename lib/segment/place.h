/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * From an address to the segment and the rank whose part it is in.  Private to
 * this module.
 */
#ifndef SYMC_SEGMENT_PLACE_H
#define SYMC_SEGMENT_PLACE_H

#include "base/base.h"

struct symc_segment;

/* One member's part of a segment. */
struct symc_place {
    const char *begin;
    size_t nbytes;
    struct symc_segment *segment;
    int rank;
};

/* Zeroed: empty. */
struct symc_places {
    struct symc_place *list; /* sorted by address; none overlap */
    size_t count;
    size_t room;
};

/* Make room for so many more.  Errors: NO_MEMORY. */
symmcoll_status_t symc_places_grow(struct symc_places *places, size_t more);

/* Enter one; there must be room. */
void symc_places_add(
    struct symc_places *places, const struct symc_place *place);

/* Remove all of a segment. */
void symc_places_remove(
    struct symc_places *places, const struct symc_segment *segment);

/* The one that has all of these bytes; NULL where none does. */
const struct symc_place *symc_places_find(
    const struct symc_places *places, const void *address, size_t nbytes);

void symc_places_free(struct symc_places *places);

#endif
