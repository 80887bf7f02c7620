/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The fake store: every key exists, with an empty value, whatever is stored, so
 * that no call blocks.  For ranks without peers.
 */
#include "store/ops.h"

#include <stdlib.h>

static void share_fake(void *table)
{
    (void)table;
}

static void close_fake(void *table)
{
    (void)table;
}

/* For a change the key is treated as absent, so that the change always
 * succeeds; a pop gets an empty value. */
static symmcoll_status_t edit_fake(
    void *table, const char *key, struct symc_edit *edit, int64_t deadline_ns)
{
    const struct symc_item nothing = {NULL, NULL};
    struct symc_change change;
    symmcoll_status_t status;

    (void)table;
    (void)deadline_ns;
    if (edit->kind == SYMC_EDIT_POP) {
        edit->existed = true;
        return symc_bytes_copy("", 0, &edit->result);
    }
    status = symc_edit_apply(edit, key, nothing, &change);
    free(change.value.data);
    return status;
}

static symmcoll_status_t find_fake(void *table, const char *key,
    int64_t deadline_ns, bool *found, struct symc_bytes *value)
{
    (void)table;
    (void)key;
    (void)deadline_ns;
    *found = true;
    return symc_bytes_copy("", 0, value);
}

static symmcoll_status_t wait_fake(void *table, const char *const *keys,
    size_t nkeys, int64_t until_ns, int64_t deadline_ns, size_t *missing)
{
    (void)table;
    (void)keys;
    (void)until_ns;
    (void)deadline_ns;
    *missing = nkeys;
    return SYMMCOLL_OK;
}

static symmcoll_status_t count_fake(
    void *table, int64_t deadline_ns, size_t *count)
{
    (void)table;
    (void)deadline_ns;
    *count = 0;
    return SYMMCOLL_OK;
}

static symmcoll_status_t set_all_fake(void *table,
    const struct symc_pair *pairs, size_t npairs, int64_t deadline_ns)
{
    (void)table;
    (void)pairs;
    (void)npairs;
    (void)deadline_ns;
    return SYMMCOLL_OK;
}

static symmcoll_status_t length_fake(
    void *table, const char *key, int64_t deadline_ns, size_t *length)
{
    (void)key;
    return count_fake(table, deadline_ns, length);
}

static symmcoll_status_t list_fake(void *table, const char *prefix,
    int64_t deadline_ns, struct symc_names *names)
{
    (void)table;
    (void)prefix;
    (void)deadline_ns;
    (void)names;
    return SYMMCOLL_OK;
}

static const struct symc_store_ops fake_ops = {
    .kind = "fake",
    .share = share_fake,
    .close = close_fake,
    .edit = edit_fake,
    .find = find_fake,
    .wait = wait_fake,
    .count = count_fake,
    .set_all = set_all_fake,
    .length = length_fake,
    .list = list_fake,
};

symmcoll_status_t symmcoll_store_create_fake(struct symmcoll_store **store)
{
    if (store == NULL)
        return symc_store_refuse_null("store_create_fake", "store");
    return symc_store_create(&fake_ops, NULL, store);
}

bool symc_store_is_fake(const struct symmcoll_store *store)
{
    while (store != NULL && store->ops->underlying != NULL)
        store = store->ops->underlying(store->table);
    return store != NULL && store->ops == &fake_ops;
}
