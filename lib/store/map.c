/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A map of keys to values and queues over the C library's balanced tree, with
 * an array of all keys for walks that are continued later.
 */
#include "store/map.h"

#include <search.h>
#include <stdlib.h>
#include <string.h>

/* The C library's overhead for a slot with a value, and for a queued value:
 * nodes of its tree, and heads of allocations. */
#define BESIDE_SLOT 96
#define BESIDE_QUEUED 48

struct symc_slot {
    const char *key; /* first, so that a lookup needs no copy of the text */
    size_t index;    /* in the map's array */
    struct symc_bytes value; /* if the queue is empty */
    struct symc_queue queue;
    uint64_t version;
    int64_t expires_ns;
    char text[];
};

static int compare_slots(const void *a, const void *b)
{
    return strcmp(
        ((const struct symc_slot *)a)->key, ((const struct symc_slot *)b)->key);
}

/* Removes a queue's first value.  Returns the bytes that are released. */
static size_t drop_first(struct symc_queue *queue)
{
    struct symc_queued *first = queue->first;
    size_t nbytes = first->value.nbytes + sizeof(*first) + BESIDE_QUEUED;

    queue->first = first->next;
    queue->length--;
    free(first->value.data);
    free(first);
    return nbytes;
}

static size_t clear_slot(struct symc_slot *slot)
{
    size_t nbytes = slot->value.nbytes;

    free(slot->value.data);
    slot->value = (struct symc_bytes){NULL, 0};
    while (slot->queue.length > 0)
        nbytes += drop_first(&slot->queue);
    return nbytes;
}

/* Records a change of a key: its bytes and its version. */
static void note_change(
    struct symc_map *map, struct symc_slot *slot, size_t more)
{
    map->nbytes += more;
    slot->version = ++map->clock;
}

static void free_slot(void *node)
{
    clear_slot(node);
    free(node);
}

/* Remembers the last slot found, because one command looks up its key several
 * times. */
static struct symc_slot *find_slot(struct symc_map *map, const char *key)
{
    const struct symc_slot wanted = {.key = key};
    struct symc_slot **node;

    if (map->recent != NULL && strcmp(map->recent->key, key) == 0)
        return map->recent;
    node = tfind(&wanted, &map->root, compare_slots);
    if (node != NULL)
        map->recent = *node;
    return node != NULL ? *node : NULL;
}

struct symc_item symc_map_look(struct symc_map *map, const char *key)
{
    const struct symc_slot *slot = find_slot(map, key);
    struct symc_item item = {NULL, NULL};

    if (slot != NULL && slot->queue.length > 0)
        item.queue = &slot->queue;
    else if (slot != NULL)
        item.value = &slot->value;
    return item;
}

const struct symc_bytes *symc_map_find(struct symc_map *map, const char *key)
{
    return symc_map_look(map, key).value;
}

bool symc_map_has(struct symc_map *map, const char *key)
{
    return find_slot(map, key) != NULL;
}

static size_t measure_slot(const struct symc_slot *slot)
{
    return sizeof(*slot) + strlen(slot->text) + 1 + BESIDE_SLOT;
}

/* Makes room for one more slot in the array. */
static symmcoll_status_t grow(struct symc_map *map)
{
    size_t room = 2 * map->room + 16;
    struct symc_slot **all;

    if (map->count < map->room)
        return SYMMCOLL_OK;
    all = realloc(map->all, room * sizeof(struct symc_slot *));
    if (all == NULL)
        return symc_fail(
            SYMMCOLL_ERR_NO_MEMORY, "store: no memory for one more key");
    map->all = all;
    map->room = room;
    return SYMMCOLL_OK;
}

/* Returns the slot of a key, creating it if needed; NULL without memory. */
static struct symc_slot *take_slot(struct symc_map *map, const char *key)
{
    struct symc_slot *slot = find_slot(map, key);
    size_t length = strlen(key) + 1;

    if (slot != NULL)
        return slot;
    if (grow(map) != SYMMCOLL_OK)
        return NULL;
    slot = symc_alloc(1, sizeof(*slot) + length);
    if (slot == NULL)
        return NULL;
    memcpy(slot->text, key, length);
    slot->key = slot->text;
    if (tsearch(slot, &map->root, compare_slots) == NULL) {
        symc_fail(SYMMCOLL_ERR_NO_MEMORY, "store: no memory for one more key");
        free(slot);
        return NULL;
    }
    slot->expires_ns = SYMC_NEVER;
    slot->index = map->count;
    map->all[map->count++] = slot;
    map->nbytes += measure_slot(slot);
    return slot;
}

symmcoll_status_t symc_map_put(
    struct symc_map *map, const char *key, struct symc_bytes value)
{
    struct symc_slot *slot = take_slot(map, key);

    if (slot == NULL) {
        free(value.data);
        return SYMMCOLL_ERR_NO_MEMORY;
    }
    map->nbytes -= clear_slot(slot);
    slot->value = value;
    slot->expires_ns = SYMC_NEVER;
    note_change(map, slot, value.nbytes);
    return SYMMCOLL_OK;
}

symmcoll_status_t symc_map_push(
    struct symc_map *map, const char *key, struct symc_bytes value)
{
    struct symc_queued *queued = symc_alloc(1, sizeof(*queued));
    struct symc_slot *slot = queued != NULL ? take_slot(map, key) : NULL;
    struct symc_queue *queue;

    if (slot == NULL) {
        free(queued);
        free(value.data);
        return SYMMCOLL_ERR_NO_MEMORY;
    }
    if (slot->queue.length == 0)
        map->nbytes -= clear_slot(slot);
    queued->value = value;
    queue = &slot->queue;
    if (queue->length++ == 0)
        queue->first = queued;
    else
        queue->last->next = queued;
    queue->last = queued;
    note_change(map, slot, value.nbytes + sizeof(*queued) + BESIDE_QUEUED);
    return SYMMCOLL_OK;
}

bool symc_map_pop(struct symc_map *map, const char *key)
{
    struct symc_slot *slot = find_slot(map, key);

    if (slot == NULL || slot->queue.length == 0)
        return false;
    map->nbytes -= drop_first(&slot->queue);
    note_change(map, slot, 0);
    if (slot->queue.length == 0)
        symc_map_remove(map, key);
    return true;
}

symmcoll_status_t symc_map_apply(
    struct symc_map *map, const char *key, struct symc_change *change)
{
    switch (change->what) {
    case SYMC_KEEP:
        break;
    case SYMC_PUT:
        return symc_map_put(map, key, change->value);
    case SYMC_PUSH:
        return symc_map_push(map, key, change->value);
    case SYMC_POP:
        symc_map_pop(map, key);
        break;
    case SYMC_REMOVE:
        symc_map_remove(map, key);
        break;
    }
    return SYMMCOLL_OK;
}

/* ---- all keys ---- */

symmcoll_status_t symc_map_list(
    const struct symc_map *map, const char *prefix, struct symc_names *names)
{
    size_t length = strlen(prefix);
    symmcoll_status_t status = SYMMCOLL_OK;

    for (size_t i = 0; i < map->count && status == SYMMCOLL_OK; i++)
        if (strncmp(map->all[i]->key, prefix, length) == 0)
            status = symc_names_add(names, map->all[i]->key);
    return status;
}

const char *symc_map_key(
    const struct symc_map *map, size_t index, int64_t *expires_ns)
{
    *expires_ns = map->all[index]->expires_ns;
    return map->all[index]->key;
}

/* Removes a slot; the last one in the array takes its index. */
static void remove_slot(struct symc_map *map, struct symc_slot *slot)
{
    struct symc_slot *last = map->all[--map->count];

    last->index = slot->index;
    map->all[last->index] = last;
    map->recent = NULL;
    tdelete(slot, &map->root, compare_slots);
    map->nbytes -= measure_slot(slot) + clear_slot(slot);
    map->clock++;
    free_slot(slot);
}

void symc_map_remove(struct symc_map *map, const char *key)
{
    struct symc_slot *slot = find_slot(map, key);

    if (slot != NULL)
        remove_slot(map, slot);
}

/* Removes the key's slot if it is empty: then this call created it. */
static void remove_empty(struct symc_map *map, const char *key)
{
    struct symc_slot *slot = find_slot(map, key);

    if (slot != NULL && slot->value.data == NULL && slot->queue.length == 0)
        remove_slot(map, slot);
}

symmcoll_status_t symc_map_put_all(struct symc_map *map,
    const struct symc_pair *pairs, const struct symc_bytes *values, size_t n)
{
    symmcoll_status_t status = SYMMCOLL_OK;
    size_t found = 0;

    while (found < n && take_slot(map, pairs[found].key) != NULL)
        found++;
    if (found == n) {
        for (size_t i = 0; i < n && status == SYMMCOLL_OK; i++)
            status = symc_map_put(map, pairs[i].key, values[i]);
        return status;
    }
    for (size_t i = 0; i < found; i++)
        remove_empty(map, pairs[i].key);
    for (size_t i = 0; i < n; i++)
        free(values[i].data);
    return SYMMCOLL_ERR_NO_MEMORY;
}

/* ---- versions and expiry ---- */

uint64_t symc_map_version(struct symc_map *map, const char *key)
{
    const struct symc_slot *slot = find_slot(map, key);

    return slot != NULL ? slot->version : 0;
}

bool symc_map_expire(struct symc_map *map, const char *key, int64_t at_ns)
{
    struct symc_slot *slot = find_slot(map, key);

    if (slot != NULL)
        slot->expires_ns = at_ns;
    return slot != NULL;
}

int64_t symc_map_expires(struct symc_map *map, const char *key)
{
    const struct symc_slot *slot = find_slot(map, key);

    return slot != NULL ? slot->expires_ns : 0;
}

void symc_map_sweep(struct symc_map *map, int64_t now_ns, size_t most)
{
    if (map->swept == 0 || map->swept > map->count)
        map->swept = map->count;
    for (; map->swept > 0 && most > 0; most--) {
        struct symc_slot *slot = map->all[--map->swept];

        if (slot->expires_ns <= now_ns)
            remove_slot(map, slot);
    }
}

void symc_map_clear(struct symc_map *map)
{
    tdestroy(map->root, free_slot);
    free(map->all);
    map->root = NULL;
    map->recent = NULL;
    map->all = NULL;
    map->count = map->room = map->swept = 0;
    map->nbytes = 0;
}
