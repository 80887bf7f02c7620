/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Keys and values in this process: the table of a hash store, the cache of a
 * file store.  The caller holds a lock.
 */
#ifndef SYMC_STORE_MAP_H
#define SYMC_STORE_MAP_H

#include "store/ops.h"

struct symc_map {
    void *root; /* of the C library's tree, tsearch(3) */
    size_t count;
};

/* Borrowed until the next change; NULL: not there. */
const struct symc_bytes *symc_map_find(
    const struct symc_map *map, const char *key);

/* Store a value over an older one; it is taken, also on failure.
 * Errors: NO_MEMORY. */
symmcoll_status_t symc_map_put(
    struct symc_map *map, const char *key, struct symc_bytes value);

void symc_map_remove(struct symc_map *map, const char *key);
void symc_map_clear(struct symc_map *map);

#endif
