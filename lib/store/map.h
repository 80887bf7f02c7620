/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Keys and values in this process: the table of a hash store and of the server,
 * the cache of a file store.  The caller holds a lock.
 */
#ifndef SYMC_STORE_MAP_H
#define SYMC_STORE_MAP_H

#include "store/ops.h"

struct symc_slot;

struct symc_map {
    void *root;               /* of the C library's tree, see tsearch(3) */
    struct symc_slot *recent; /* last one found; or NULL */
    struct symc_slot **all;   /* `count` of them, in no order */
    size_t count, room;
    size_t swept;   /* symc_map_sweep() continues below this index */
    size_t nbytes;  /* of keys and values with their overhead */
    uint64_t clock; /* counts changes */
};

/* Returns the content of a key, borrowed until the next change. */
struct symc_item symc_map_look(struct symc_map *map, const char *key);

/* Returns a key's value, or NULL. */
const struct symc_bytes *symc_map_find(struct symc_map *map, const char *key);

/* Returns whether a key has a value or a queue. */
bool symc_map_has(struct symc_map *map, const char *key);

/* Applies a change; takes its value, also on failure.  Errors: NO_MEMORY. */
symmcoll_status_t symc_map_apply(
    struct symc_map *map, const char *key, struct symc_change *change);

/* Stores a value, replacing an older one; takes it, also on failure.  Errors:
 * NO_MEMORY. */
symmcoll_status_t symc_map_put(
    struct symc_map *map, const char *key, struct symc_bytes value);

/* Stores the values of n keys, all or none; takes them, also on failure.
 * Errors: NO_MEMORY. */
symmcoll_status_t symc_map_put_all(struct symc_map *map,
    const struct symc_pair *pairs, const struct symc_bytes *values, size_t n);

/* Appends a value to a key's queue, which is created if needed and replaces a
 * value.  Takes the value, also on failure.  Errors: NO_MEMORY. */
symmcoll_status_t symc_map_push(
    struct symc_map *map, const char *key, struct symc_bytes value);

/* Removes a queue's first value.  Returns false if there is none. */
bool symc_map_pop(struct symc_map *map, const char *key);

/* Adds the keys that begin with a prefix to a list.  Errors: NO_MEMORY. */
symmcoll_status_t symc_map_list(
    const struct symc_map *map, const char *prefix, struct symc_names *names);

/* Returns the time of a key's last change, by the map's clock; 0 if it is
 * absent. */
uint64_t symc_map_version(struct symc_map *map, const char *key);

/* Sets the time at which a key expires; SYMC_NEVER, as after each put: not at
 * all.  Returns false if it is absent. */
bool symc_map_expire(struct symc_map *map, const char *key, int64_t at_ns);

/* Returns when a key expires; SYMC_NEVER if it does not, 0 if it is absent. */
int64_t symc_map_expires(struct symc_map *map, const char *key);

/*
 * Returns the key at an index below the map's count, borrowed until the next
 * change, and when it expires.  A walk from the highest index down to 0 returns
 * every key that exists all the time, even if keys are added and removed
 * between its steps: a removal moves only the key with the highest index, and a
 * new key gets a higher one.  It may return a key twice.
 */
const char *symc_map_key(
    const struct symc_map *map, size_t index, int64_t *expires_ns);

/* Removes expired keys among the next `most` keys; continues after the last one
 * at the next call, in a circle. */
void symc_map_sweep(struct symc_map *map, int64_t now_ns, size_t most);

void symc_map_remove(struct symc_map *map, const char *key);
void symc_map_clear(struct symc_map *map);

#endif
