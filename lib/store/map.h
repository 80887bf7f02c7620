/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Keys and values in this process: the table of a hash store, the cache of a
 * file store.  The caller holds a lock.
 */
#ifndef SYMC_STORE_MAP_H
#define SYMC_STORE_MAP_H

#include "store/ops.h"

struct symc_slot;

struct symc_map {
    void *root;               /* of the C library's tree, tsearch(3) */
    struct symc_slot *recent; /* found last; NULL */
    struct symc_slot **all;   /* count of them, in no order */
    size_t count, room;
    size_t swept;   /* the index below which symc_map_sweep() goes on */
    size_t nbytes;  /* of all keys and values, and of what they are kept in */
    uint64_t clock; /* counts changes */
};

/* What a key holds, borrowed until the next change. */
struct symc_item symc_map_look(struct symc_map *map, const char *key);

/* Its value; NULL: there is none. */
const struct symc_bytes *symc_map_find(struct symc_map *map, const char *key);

/* Whether there is a value or a queue. */
bool symc_map_has(struct symc_map *map, const char *key);

/* Make a change; its value is taken, also on failure.  Errors: NO_MEMORY. */
symmcoll_status_t symc_map_apply(
    struct symc_map *map, const char *key, struct symc_change *change);

/* Store a value over an older one; it is taken, also on failure.
 * Errors: NO_MEMORY. */
symmcoll_status_t symc_map_put(
    struct symc_map *map, const char *key, struct symc_bytes value);

/* Store a value of each of n keys, or of none; they are taken, also on failure.
 * Errors: NO_MEMORY. */
symmcoll_status_t symc_map_put_all(struct symc_map *map,
    const struct symc_pair *pairs, const struct symc_bytes *values, size_t n);

/* As symc_map_put(), after the values of a queue, which is made where the key is absent
 * and replaces a value. */
symmcoll_status_t symc_map_push(
    struct symc_map *map, const char *key, struct symc_bytes value);

/* Drop a queue's first value; false where there is none. */
bool symc_map_pop(struct symc_map *map, const char *key);

/* Put the keys that begin with a prefix into a list.  Errors: NO_MEMORY. */
symmcoll_status_t symc_map_list(
    const struct symc_map *map, const char *prefix, struct symc_names *names);

/* When a key was changed last, by the map's clock; 0 where it is absent. */
uint64_t symc_map_version(struct symc_map *map, const char *key);

/* Have a key go at a time; SYMC_NEVER: not at all, as after each put.  False
 * where it is absent. */
bool symc_map_expire(struct symc_map *map, const char *key, int64_t at_ns);

/* When it goes; 0 where it is absent. */
int64_t symc_map_expires(struct symc_map *map, const char *key);

/*
 * Returns the key at an index below the map's count, borrowed until the next
 * change, and when it goes.  A walk from the highest index to 0 meets every key
 * that is there all the time, also if keys are added and removed between two of
 * its steps: a removal moves the key with the highest index only, and a new key
 * gets a higher one.  It may meet a key twice.
 */
const char *symc_map_key(
    const struct symc_map *map, size_t index, int64_t *expires_ns);

/* Removes the keys that should have gone among the next ones, of which it looks
 * at so many at most; begins again after the last one. */
void symc_map_sweep(struct symc_map *map, int64_t now_ns, size_t most);

void symc_map_remove(struct symc_map *map, const char *key);
void symc_map_clear(struct symc_map *map);

#endif
