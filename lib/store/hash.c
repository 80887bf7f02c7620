/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The hash store: a table in this process, shared by its handles, for threads
 * and for programs of one rank.
 */
#include "store/hash.h"
#include "store/map.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <time.h>

struct hash {
    pthread_mutex_t lock; /* of the members below */
    pthread_cond_t changed;
    size_t handles;
    bool stopped; /* waits return CANCELED */
    struct symc_map map;
};

static void share_hash(void *table)
{
    struct hash *hash = table;

    pthread_mutex_lock(&hash->lock);
    hash->handles++;
    pthread_mutex_unlock(&hash->lock);
}

static void close_hash(void *table)
{
    struct hash *hash = table;
    bool last;

    pthread_mutex_lock(&hash->lock);
    last = --hash->handles == 0;
    pthread_mutex_unlock(&hash->lock);
    if (!last)
        return;
    symc_map_clear(&hash->map);
    pthread_cond_destroy(&hash->changed);
    pthread_mutex_destroy(&hash->lock);
    free(hash);
}

static symmcoll_status_t edit_hash(
    void *table, const char *key, struct symc_edit *edit, int64_t deadline_ns)
{
    struct hash *hash = table;
    struct symc_change change;
    symmcoll_status_t status;

    (void)deadline_ns; /* the lock is never held for long */
    pthread_mutex_lock(&hash->lock);
    status =
        symc_edit_apply(edit, key, symc_map_look(&hash->map, key), &change);
    if (status == SYMMCOLL_OK && change.what != SYMC_KEEP) {
        status = symc_map_apply(&hash->map, key, &change);
        pthread_cond_broadcast(&hash->changed);
    }
    pthread_mutex_unlock(&hash->lock);
    return status;
}

static symmcoll_status_t find_hash(void *table, const char *key,
    int64_t deadline_ns, bool *found, struct symc_bytes *value)
{
    struct hash *hash = table;
    symmcoll_status_t status;

    (void)deadline_ns;
    pthread_mutex_lock(&hash->lock);
    status = symc_item_copy(key, symc_map_look(&hash->map, key), found, value);
    pthread_mutex_unlock(&hash->lock);
    return status;
}

/* Sleeps until something changes.  Returns false when the deadline has
 * passed. */
static bool sleep_until_change(struct hash *hash, int64_t deadline_ns)
{
    const struct timespec until = {
        .tv_sec = (time_t)(deadline_ns / SYMC_NS_PER_S),
        .tv_nsec = (long)(deadline_ns % SYMC_NS_PER_S),
    };

    if (deadline_ns == SYMC_NEVER)
        return pthread_cond_wait(&hash->changed, &hash->lock) == 0;
    return pthread_cond_timedwait(&hash->changed, &hash->lock, &until) !=
           ETIMEDOUT;
}

static size_t find_missing(
    struct symc_map *map, const char *const *keys, size_t nkeys)
{
    size_t i = 0;

    while (i < nkeys && symc_map_has(map, keys[i]))
        i++;
    return i;
}

static symmcoll_status_t wait_hash(void *table, const char *const *keys,
    size_t nkeys, int64_t until_ns, int64_t deadline_ns, size_t *missing)
{
    struct hash *hash = table;
    bool more = until_ns > symc_now_ns(), stopped;
    char shown[SYMC_KEY_TEXT];

    (void)deadline_ns;
    pthread_mutex_lock(&hash->lock);
    *missing = find_missing(&hash->map, keys, nkeys);
    while (*missing < nkeys && more && !hash->stopped) {
        more = sleep_until_change(hash, until_ns);
        *missing = find_missing(&hash->map, keys, nkeys);
    }
    stopped = hash->stopped && *missing < nkeys;
    pthread_mutex_unlock(&hash->lock);
    if (stopped)
        return symc_fail(SYMMCOLL_ERR_CANCELED,
            "store: a rank that shares it has failed: key \"%s\" does not exist",
            symc_key_text(keys[*missing], shown));
    return SYMMCOLL_OK;
}

/* Gets a key's value if it differs from `before`.  Needs the lock. */
static symmcoll_status_t take_change(struct hash *hash, const char *key,
    const struct symc_bytes *before, struct symc_bytes *now, bool *changed)
{
    static const struct symc_bytes absent;
    const struct symc_item item = symc_map_look(&hash->map, key);
    const struct symc_bytes *value = item.value != NULL ? item.value : &absent;

    *changed = false;
    if (item.queue != NULL)
        return symc_fail_is_queue("store_watch", key);
    if (symc_bytes_equal(value, before))
        return SYMMCOLL_OK;
    *changed = true;
    return value->data != NULL
               ? symc_bytes_copy(value->data, value->nbytes, now)
               : SYMMCOLL_OK;
}

/* Sleeps until this key changes, not only others.  Needs the lock. */
static void sleep_until_key_changes(
    struct hash *hash, const char *key, const struct symc_stop *stop)
{
    uint64_t version = symc_map_version(&hash->map, key);

    do
        pthread_cond_wait(&hash->changed, &hash->lock);
    while (!atomic_load(&stop->requested) && !hash->stopped &&
           symc_map_version(&hash->map, key) == version);
}

static symmcoll_status_t await_change_hash(void *table, const char *key,
    const struct symc_bytes *before, const struct symc_stop *stop,
    struct symc_bytes *now)
{
    struct hash *hash = table;
    symmcoll_status_t status = SYMMCOLL_OK;
    char shown[SYMC_KEY_TEXT];
    bool changed = false;

    pthread_mutex_lock(&hash->lock);
    while (
        status == SYMMCOLL_OK && !changed && !atomic_load(&stop->requested)) {
        status = take_change(hash, key, before, now, &changed);
        if (status != SYMMCOLL_OK || changed)
            break;
        if (hash->stopped)
            status = symc_fail(SYMMCOLL_ERR_CANCELED,
                "store: a rank that shares it has failed: the watch of key "
                "\"%s\" has ended",
                symc_key_text(key, shown));
        else
            sleep_until_key_changes(hash, key, stop);
    }
    pthread_mutex_unlock(&hash->lock);
    return status;
}

static void wake_hash(void *table)
{
    struct hash *hash = table;

    pthread_mutex_lock(&hash->lock);
    pthread_cond_broadcast(&hash->changed);
    pthread_mutex_unlock(&hash->lock);
}

static symmcoll_status_t count_hash(
    void *table, int64_t deadline_ns, size_t *count)
{
    struct hash *hash = table;

    (void)deadline_ns;
    pthread_mutex_lock(&hash->lock);
    *count = hash->map.count;
    pthread_mutex_unlock(&hash->lock);
    return SYMMCOLL_OK;
}

static symmcoll_status_t set_all_hash(void *table,
    const struct symc_pair *pairs, size_t npairs, int64_t deadline_ns)
{
    struct hash *hash = table;
    struct symc_bytes *copies = symc_alloc(npairs, sizeof(*copies));
    symmcoll_status_t status =
        copies != NULL ? SYMMCOLL_OK : SYMMCOLL_ERR_NO_MEMORY;
    size_t made = 0;

    (void)deadline_ns;
    while (status == SYMMCOLL_OK && made < npairs) {
        status = symc_bytes_copy(
            pairs[made].value.data, pairs[made].value.nbytes, &copies[made]);
        made += status == SYMMCOLL_OK;
    }
    if (status != SYMMCOLL_OK) {
        while (made > 0)
            free(copies[--made].data);
        free(copies);
        return status;
    }
    pthread_mutex_lock(&hash->lock);
    status = symc_map_put_all(&hash->map, pairs, copies, npairs);
    pthread_cond_broadcast(&hash->changed);
    pthread_mutex_unlock(&hash->lock);
    free(copies);
    return status;
}

static symmcoll_status_t length_hash(
    void *table, const char *key, int64_t deadline_ns, size_t *length)
{
    struct hash *hash = table;
    symmcoll_status_t status;

    (void)deadline_ns;
    pthread_mutex_lock(&hash->lock);
    status = symc_item_length(key, symc_map_look(&hash->map, key), length);
    pthread_mutex_unlock(&hash->lock);
    return status;
}

static symmcoll_status_t list_hash(void *table, const char *prefix,
    int64_t deadline_ns, struct symc_names *names)
{
    struct hash *hash = table;
    symmcoll_status_t status;

    (void)deadline_ns;
    pthread_mutex_lock(&hash->lock);
    status = symc_map_list(&hash->map, prefix, names);
    pthread_mutex_unlock(&hash->lock);
    return status;
}

static const struct symc_store_ops hash_ops = {
    .kind = "hash",
    .share = share_hash,
    .close = close_hash,
    .edit = edit_hash,
    .find = find_hash,
    .wait = wait_hash,
    .count = count_hash,
    .set_all = set_all_hash,
    .length = length_hash,
    .list = list_hash,
    .await_change = await_change_hash,
    .wake = wake_hash,
};

symmcoll_status_t symmcoll_store_create_hash(struct symmcoll_store **store)
{
    struct hash *hash;
    pthread_condattr_t attr;

    if (store == NULL)
        return symc_fail(
            SYMMCOLL_ERR_INVALID, "store_create_hash: store is NULL");
    hash = symc_alloc(1, sizeof *hash);
    if (hash == NULL)
        return SYMMCOLL_ERR_NO_MEMORY;
    /* Deadlines use the monotonic clock, which setting the date does not
     * change. */
    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_cond_init(&hash->changed, &attr);
    pthread_condattr_destroy(&attr);
    pthread_mutex_init(&hash->lock, NULL);
    hash->handles = 1;
    return symc_store_create(&hash_ops, hash, store);
}

void symc_store_stop_hash(struct symmcoll_store *store)
{
    struct hash *hash = store->table;

    pthread_mutex_lock(&hash->lock);
    hash->stopped = true;
    pthread_cond_broadcast(&hash->changed);
    pthread_mutex_unlock(&hash->lock);
}

/* Returns the table of a hash store, or of that under a view; NULL: another kind. */
static struct hash *find_table(const struct symmcoll_store *store)
{
    while (store != NULL && store->ops->underlying != NULL)
        store = store->ops->underlying(store->table);
    return store != NULL && store->ops == &hash_ops ? store->table : NULL;
}

bool symc_store_is_hash(const struct symmcoll_store *store)
{
    return find_table(store) != NULL;
}

bool symc_store_is_stopped(struct symmcoll_store *store)
{
    struct hash *hash = find_table(store);
    bool stopped;

    if (hash == NULL)
        return false;
    pthread_mutex_lock(&hash->lock);
    stopped = hash->stopped;
    pthread_mutex_unlock(&hash->lock);
    return stopped;
}
