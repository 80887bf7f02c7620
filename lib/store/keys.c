/* SPDX-License-Identifier: BSD-3-Clause */
/* The public calls on several keys: setting, reading, counting and listing. */
#include "base/cancel.h"
#include "store/ops.h"

#include <stdlib.h>
#include <string.h>

/* ---- several keys ---- */

static symmcoll_status_t set_all(
    struct symmcoll_store *store, const struct symc_pair *pairs, size_t npairs)
{
    int cancel = symc_cancel_disable();
    int64_t began_ns = symc_now_ns();
    symmcoll_status_t status = store->ops->set_all(
        store->table, pairs, npairs, symc_store_deadline(store));

    symc_cancel_restore(cancel);
    return symc_store_count(store, SYMC_STORE_MULTI_SET, began_ns, status);
}

symmcoll_status_t symmcoll_store_multi_set(struct symmcoll_store *store,
    const char *const *keys, const void *const *values, const size_t *nbytes,
    size_t nkeys)
{
    static const char where[] = "store_multi_set";
    symmcoll_status_t status = symc_store_check_keys(store, keys, nkeys, where);
    struct symc_pair *pairs;

    if (status != SYMMCOLL_OK || nkeys == 0)
        return status;
    if (values == NULL || nbytes == NULL)
        return symc_store_refuse_null(
            where, values == NULL ? "values" : "nbytes");
    for (size_t i = 0; i < nkeys && status == SYMMCOLL_OK; i++)
        status = symc_store_check_value(values[i], nbytes[i], "value", where);
    if (status != SYMMCOLL_OK)
        return status;
    pairs = symc_alloc(nkeys, sizeof(*pairs));
    if (pairs == NULL)
        return SYMMCOLL_ERR_NO_MEMORY;
    for (size_t i = 0; i < nkeys; i++) /* borrowed: not written to */
        pairs[i] = (struct symc_pair){
            keys[i], {(void *)(uintptr_t)values[i], nbytes[i]}};
    status = set_all(store, pairs, nkeys);
    free(pairs);
    return status;
}

symmcoll_status_t symmcoll_store_multi_get(struct symmcoll_store *store,
    const char *const *keys, void **values, size_t *nbytes, size_t nkeys)
{
    static const char where[] = "store_multi_get";
    symmcoll_status_t status = symc_store_check_keys(store, keys, nkeys, where);
    double timeout;
    int64_t deadline_ns;
    bool absent;

    if (status != SYMMCOLL_OK || nkeys == 0)
        return status;
    if (values == NULL || nbytes == NULL)
        return symc_store_refuse_null(
            where, values == NULL ? "values" : "nbytes");
    timeout = symmcoll_store_timeout(store);
    deadline_ns = symc_store_deadline(store);
    for (size_t i = 0; i < nkeys; i++) {
        struct symc_bytes bytes = {NULL, 0};

        status =
            symc_store_get_until(store, keys[i], deadline_ns, &bytes, &absent);
        if (absent)
            symc_store_fail_timeout(where, keys[i], timeout);
        if (status != SYMMCOLL_OK) {
            while (i-- > 0)
                free(values[i]);
            return status;
        }
        values[i] = bytes.data;
        nbytes[i] = bytes.nbytes;
    }
    return SYMMCOLL_OK;
}

/* ---- all keys ---- */

symmcoll_status_t symmcoll_store_num_keys(
    struct symmcoll_store *store, size_t *count)
{
    symmcoll_status_t status;
    int64_t began_ns = symc_now_ns();
    int cancel;

    if (store == NULL || count == NULL)
        return symc_store_refuse_null(
            "store_num_keys", store == NULL ? "store" : "count");
    cancel = symc_cancel_disable();
    status = store->ops->count(store->table, symc_store_deadline(store), count);
    symc_cancel_restore(cancel);
    return symc_store_count(store, SYMC_STORE_NUM_KEYS, began_ns, status);
}

symmcoll_status_t symc_names_add(struct symc_names *names, const char *key)
{
    size_t length = strlen(key);
    size_t skip = names->skip < length ? names->skip : length;
    size_t nbytes = length - skip + 1;

    if (names->nbytes + nbytes > names->room) {
        size_t room = 2 * (names->room + nbytes);
        char *text = realloc(names->text, room);

        if (text == NULL)
            return symc_fail(
                SYMMCOLL_ERR_NO_MEMORY, "store: no memory for a list of keys");
        names->text = text;
        names->room = room;
    }
    memcpy(names->text + names->nbytes, key + skip, nbytes);
    names->nbytes += nbytes;
    names->count++;
    return SYMMCOLL_OK;
}

static int compare_names(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

/* Makes one block: the pointers, a NULL, then the text. */
static symmcoll_status_t pack_names(
    const struct symc_names *names, char ***keys, size_t *count)
{
    size_t head = (names->count + 1) * sizeof(char *);
    char **list = symc_alloc(head + names->nbytes, 1);
    char *text;

    if (list == NULL)
        return SYMMCOLL_ERR_NO_MEMORY;
    text = (char *)list + head;
    if (names->nbytes > 0)
        memcpy(text, names->text, names->nbytes);
    for (size_t i = 0; i < names->count; i++) {
        list[i] = text;
        text += strlen(text) + 1;
    }
    qsort(list, names->count, sizeof(*list), compare_names);
    *keys = list;
    *count = names->count;
    return SYMMCOLL_OK;
}

symmcoll_status_t symc_names_unique(struct symc_names *names)
{
    struct symc_names sorted = {0};
    char **list = NULL;
    size_t count = 0;
    symmcoll_status_t status = pack_names(names, &list, &count);

    for (size_t i = 0; i < count && status == SYMMCOLL_OK; i++)
        if (i == 0 || strcmp(list[i - 1], list[i]) != 0)
            status = symc_names_add(&sorted, list[i]);
    free(list);
    if (status != SYMMCOLL_OK) {
        free(sorted.text);
        return status;
    }
    free(names->text);
    sorted.skip = names->skip;
    *names = sorted;
    return SYMMCOLL_OK;
}

symmcoll_status_t symmcoll_store_list_keys(
    struct symmcoll_store *store, char ***keys, size_t *count)
{
    static const char where[] = "store_list_keys";
    struct symc_names names = {0};
    symmcoll_status_t status;
    int64_t began_ns = symc_now_ns();
    int cancel;

    if (store == NULL || keys == NULL || count == NULL)
        return symc_store_refuse_null(where, store == NULL  ? "store"
                                             : keys == NULL ? "keys"
                                                            : "count");
    cancel = symc_cancel_disable();
    status =
        store->ops->list(store->table, "", symc_store_deadline(store), &names);
    symc_cancel_restore(cancel);
    if (status == SYMMCOLL_OK)
        status = pack_names(&names, keys, count);
    free(names.text);
    return symc_store_count(store, SYMC_STORE_LIST_KEYS, began_ns, status);
}
