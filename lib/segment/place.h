/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The table that maps an address to its segment and the rank that owns the
 * part.  Private to this module.
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

/* A table of places; all zeros: empty. */
struct symc_places {
    struct symc_place *list; /* sorted by address; none overlap */
    size_t count;
    size_t room;
};

/* Makes room for `more` further places.  Errors: NO_MEMORY. */
symmcoll_status_t symc_places_grow(struct symc_places *places, size_t more);

/* Adds a place.  The table must have room. */
void symc_places_add(
    struct symc_places *places, const struct symc_place *place);

/* Removes all places of a segment. */
void symc_places_remove(
    struct symc_places *places, const struct symc_segment *segment);

/* Returns the place that contains all of these bytes, or NULL. */
const struct symc_place *symc_places_find(
    const struct symc_places *places, const void *address, size_t nbytes);

void symc_places_free(struct symc_places *places);

#endif
