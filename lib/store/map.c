/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A map of keys and values over the C library's balanced tree.
 */
#include "store/map.h"

#include <search.h>
#include <stdlib.h>
#include <string.h>

struct pair {
    const char *key; /* first, so that a lookup needs no copy of the text */
    struct symc_bytes value;
    char text[];
};

static int compare_pairs(const void *a, const void *b)
{
    return strcmp(((const struct pair *)a)->key, ((const struct pair *)b)->key);
}

static void free_pair(void *node)
{
    struct pair *pair = node;

    free(pair->value.data);
    free(pair);
}

static struct pair *find_pair(const struct symc_map *map, const char *key)
{
    const struct pair wanted = {.key = key};
    struct pair **node = tfind(&wanted, &map->root, compare_pairs);

    return node != NULL ? *node : NULL;
}

const struct symc_bytes *symc_map_find(
    const struct symc_map *map, const char *key)
{
    const struct pair *pair = find_pair(map, key);

    return pair != NULL ? &pair->value : NULL;
}

symmcoll_status_t symc_map_put(
    struct symc_map *map, const char *key, struct symc_bytes value)
{
    struct pair *pair = find_pair(map, key);
    size_t length = strlen(key) + 1;

    if (pair != NULL) {
        free(pair->value.data);
        pair->value = value;
        return SYMMCOLL_OK;
    }
    pair = symc_alloc(1, sizeof *pair + length);
    if (pair == NULL)
        goto free_value;
    memcpy(pair->text, key, length);
    pair->key = pair->text;
    pair->value = value;
    if (tsearch(pair, &map->root, compare_pairs) == NULL) {
        symc_fail(SYMMCOLL_ERR_NO_MEMORY, "store: no memory for one more key");
        goto free_pair;
    }
    map->count++;
    return SYMMCOLL_OK;

free_pair:
    free(pair);
free_value:
    free(value.data);
    return SYMMCOLL_ERR_NO_MEMORY;
}

void symc_map_remove(struct symc_map *map, const char *key)
{
    struct pair *pair = find_pair(map, key);

    if (pair == NULL)
        return;
    tdelete(pair, &map->root, compare_pairs);
    map->count--;
    free_pair(pair);
}

void symc_map_clear(struct symc_map *map)
{
    tdestroy(map->root, free_pair);
    map->root = NULL;
    map->count = 0;
}
