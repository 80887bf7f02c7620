/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The prefix store: a view of another store in which key means prefix/key, so
 * that modules and worlds that share a store do not use each other's keys.
 * Views of views compose.
 */
#include "store/ops.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

struct prefix {
    struct symmcoll_store *inner; /* a clone, owned by the view */
    atomic_size_t handles;
    size_t length; /* of text */
    char text[];   /* "prefix/" */
};

/* Puts the view's prefix before a key.  Errors: INVALID (too long). */
static symmcoll_status_t join_key(
    const struct prefix *prefix, const char *key, char *buffer)
{
    char shown[SYMC_KEY_TEXT];
    size_t length = strlen(key);

    if (length > SYMC_STORE_KEY_MAX - prefix->length)
        return symc_fail(SYMMCOLL_ERR_INVALID,
            "store: key \"%s\": expected at most %d bytes with its prefix, "
            "found %zu + %zu",
            symc_key_text(key, shown), SYMC_STORE_KEY_MAX, prefix->length,
            length);
    memcpy(buffer, prefix->text, prefix->length);
    memcpy(buffer + prefix->length, key, length + 1);
    return SYMMCOLL_OK;
}

static void share_prefix(void *table)
{
    struct prefix *prefix = table;

    atomic_fetch_add_explicit(&prefix->handles, 1, memory_order_relaxed);
}

static void close_prefix(void *table)
{
    struct prefix *prefix = table;

    /* Acquire: the last handle must see what the others did with the view. */
    if (atomic_fetch_sub_explicit(&prefix->handles, 1, memory_order_acq_rel) >
        1)
        return;
    symmcoll_store_close(prefix->inner);
    free(prefix);
}

static symmcoll_status_t edit_prefix(
    void *table, const char *key, struct symc_edit *edit, int64_t deadline_ns)
{
    const struct prefix *prefix = table;
    char full[SYMC_STORE_KEY_MAX + 1];
    symmcoll_status_t status = join_key(prefix, key, full);

    if (status != SYMMCOLL_OK)
        return status;
    return prefix->inner->ops->edit(
        prefix->inner->table, full, edit, deadline_ns);
}

static symmcoll_status_t find_prefix(void *table, const char *key,
    int64_t deadline_ns, bool *found, struct symc_bytes *value)
{
    const struct prefix *prefix = table;
    char full[SYMC_STORE_KEY_MAX + 1];
    symmcoll_status_t status = join_key(prefix, key, full);

    if (status != SYMMCOLL_OK)
        return status;
    return prefix->inner->ops->find(
        prefix->inner->table, full, deadline_ns, found, value);
}

static symmcoll_status_t wait_prefix(void *table, const char *const *keys,
    size_t nkeys, int64_t until_ns, int64_t deadline_ns, size_t *missing)
{
    const struct prefix *prefix = table;
    symmcoll_status_t status = SYMMCOLL_OK;
    char(*full)[SYMC_STORE_KEY_MAX + 1] = symc_alloc(nkeys, sizeof *full);
    const char **list = symc_alloc(nkeys, sizeof *list);

    if (full == NULL || list == NULL) {
        status = SYMMCOLL_ERR_NO_MEMORY;
        goto free_keys;
    }
    for (size_t i = 0; i < nkeys && status == SYMMCOLL_OK; i++) {
        status = join_key(prefix, keys[i], full[i]);
        list[i] = full[i];
    }
    if (status == SYMMCOLL_OK)
        status = prefix->inner->ops->wait(
            prefix->inner->table, list, nkeys, until_ns, deadline_ns, missing);
free_keys:
    free(list);
    free(full);
    return status;
}

static symmcoll_status_t count_prefix(
    void *table, int64_t deadline_ns, size_t *count)
{
    const struct prefix *prefix = table;

    return prefix->inner->ops->count(prefix->inner->table, deadline_ns, count);
}

static symmcoll_status_t set_all_prefix(void *table,
    const struct symc_pair *pairs, size_t npairs, int64_t deadline_ns)
{
    const struct prefix *prefix = table;
    symmcoll_status_t status = SYMMCOLL_OK;
    char(*full)[SYMC_STORE_KEY_MAX + 1] = symc_alloc(npairs, sizeof(*full));
    struct symc_pair *list = symc_alloc(npairs, sizeof(*list));

    if (full == NULL || list == NULL) {
        status = SYMMCOLL_ERR_NO_MEMORY;
        goto free_pairs;
    }
    for (size_t i = 0; i < npairs && status == SYMMCOLL_OK; i++) {
        status = join_key(prefix, pairs[i].key, full[i]);
        list[i] = (struct symc_pair){full[i], pairs[i].value};
    }
    if (status == SYMMCOLL_OK)
        status = prefix->inner->ops->set_all(
            prefix->inner->table, list, npairs, deadline_ns);
free_pairs:
    free(list);
    free(full);
    return status;
}

static symmcoll_status_t length_prefix(
    void *table, const char *key, int64_t deadline_ns, size_t *length)
{
    const struct prefix *prefix = table;
    char full[SYMC_STORE_KEY_MAX + 1];
    symmcoll_status_t status = join_key(prefix, key, full);

    if (status != SYMMCOLL_OK)
        return status;
    return prefix->inner->ops->length(
        prefix->inner->table, full, deadline_ns, length);
}

/* Lists only the view's keys, without the prefix. */
static symmcoll_status_t list_prefix(
    void *table, const char *key, int64_t deadline_ns, struct symc_names *names)
{
    const struct prefix *prefix = table;
    char full[SYMC_STORE_KEY_MAX + 1];
    symmcoll_status_t status = join_key(prefix, key, full);

    if (status != SYMMCOLL_OK)
        return status;
    names->skip += prefix->length;
    return prefix->inner->ops->list(
        prefix->inner->table, full, deadline_ns, names);
}

static symmcoll_status_t await_change_prefix(void *table, const char *key,
    const struct symc_bytes *before, const struct symc_stop *stop,
    struct symc_bytes *now)
{
    const struct prefix *prefix = table;
    char full[SYMC_STORE_KEY_MAX + 1];
    symmcoll_status_t status = join_key(prefix, key, full);

    if (status != SYMMCOLL_OK)
        return status;
    return symc_store_await_change(
        prefix->inner->ops, prefix->inner->table, full, before, stop, now);
}

static void wake_prefix(void *table)
{
    const struct prefix *prefix = table;

    if (prefix->inner->ops->wake != NULL)
        prefix->inner->ops->wake(prefix->inner->table);
}

static struct symmcoll_store *get_inner(void *table)
{
    const struct prefix *prefix = table;

    return prefix->inner;
}

static const struct symc_store_ops prefix_ops = {
    .kind = "prefix",
    .share = share_prefix,
    .close = close_prefix,
    .edit = edit_prefix,
    .find = find_prefix,
    .wait = wait_prefix,
    .count = count_prefix,
    .set_all = set_all_prefix,
    .length = length_prefix,
    .list = list_prefix,
    .await_change = await_change_prefix,
    .wake = wake_prefix,
    .underlying = get_inner,
};

symmcoll_status_t symmcoll_store_create_prefix(struct symmcoll_store *store,
    const char *text, struct symmcoll_store **view)
{
    struct prefix *prefix;
    symmcoll_status_t status;
    size_t length;

    if (store == NULL || text == NULL || view == NULL)
        return symc_fail(SYMMCOLL_ERR_INVALID,
            "store_create_prefix: %s is NULL",
            store == NULL  ? "store"
            : text == NULL ? "prefix"
                           : "view");
    length = strlen(text) + 1; /* with the slash */
    if (length > SYMC_STORE_KEY_MAX)
        return symc_fail(SYMMCOLL_ERR_INVALID,
            "store_create_prefix: expected a prefix of at most %d bytes, found "
            "%zu",
            SYMC_STORE_KEY_MAX - 1, length - 1);
    prefix = symc_alloc(1, sizeof *prefix + length);
    if (prefix == NULL)
        return SYMMCOLL_ERR_NO_MEMORY;
    memcpy(prefix->text, text, length - 1);
    prefix->text[length - 1] = '/';
    prefix->length = length;
    atomic_init(&prefix->handles, 1);
    status = symmcoll_store_clone(store, &prefix->inner);
    if (status != SYMMCOLL_OK)
        goto free_prefix;
    status = symc_store_create(&prefix_ops, prefix, view);
    if (status == SYMMCOLL_OK)
        symc_store_copy_timeout(*view, store);
    return status;

free_prefix:
    free(prefix);
    return status;
}
