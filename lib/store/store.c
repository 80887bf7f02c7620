/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The public calls on a store: they check the arguments, convert seconds to
 * deadlines and call the kind's table.
 */
#include "base/cancel.h"
#include "store/ops.h"

#include <inttypes.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#define DEFAULT_TIMEOUT 300.0 /* seconds, as in torch.distributed */

symmcoll_status_t symc_store_create(const struct symc_store_ops *ops,
    void *table, struct symmcoll_store **store)
{
    struct symmcoll_store *handle = symc_alloc(1, sizeof *handle);

    if (handle == NULL) {
        ops->close(table);
        return SYMMCOLL_ERR_NO_MEMORY;
    }
    handle->ops = ops;
    handle->table = table;
    pthread_mutex_init(&handle->counting, NULL);
    symc_store_set_usual(handle, DEFAULT_TIMEOUT);
    *store = handle;
    return SYMMCOLL_OK;
}

/* ---- checks ---- */

symmcoll_status_t symc_store_refuse_null(const char *where, const char *what)
{
    return symc_fail(SYMMCOLL_ERR_INVALID, "%s: %s is NULL", where, what);
}

symmcoll_status_t symc_store_check_key(
    const struct symmcoll_store *store, const char *key, const char *where)
{
    char shown[SYMC_KEY_TEXT];
    size_t length;

    if (store == NULL)
        return symc_store_refuse_null(where, "store");
    if (key == NULL)
        return symc_store_refuse_null(where, "key");
    length = strlen(key);
    if (length > SYMC_STORE_KEY_MAX)
        return symc_fail(SYMMCOLL_ERR_INVALID,
            "%s: key \"%s\": expected at most %d bytes, found %zu", where,
            symc_key_text(key, shown), SYMC_STORE_KEY_MAX, length);
    return SYMMCOLL_OK;
}

symmcoll_status_t symc_store_check_keys(const struct symmcoll_store *store,
    const char *const *keys, size_t nkeys, const char *where)
{
    symmcoll_status_t status = SYMMCOLL_OK;

    if (store == NULL)
        return symc_store_refuse_null(where, "store");
    if (keys == NULL && nkeys > 0)
        return symc_store_refuse_null(where, "keys");
    for (size_t i = 0; i < nkeys && status == SYMMCOLL_OK; i++)
        status = symc_store_check_key(store, keys[i], where);
    return status;
}

symmcoll_status_t symc_store_check_value(
    const void *value, size_t nbytes, const char *name, const char *where)
{
    if (value == NULL && nbytes > 0)
        return symc_store_refuse_null(where, name);
    if (nbytes > SYMC_STORE_VALUE_MAX)
        return symc_fail(SYMMCOLL_ERR_INVALID,
            "%s: %s: expected at most %d bytes, found %zu", where, name,
            SYMC_STORE_VALUE_MAX, nbytes);
    return SYMMCOLL_OK;
}

/* ---- handles ---- */

symmcoll_status_t symmcoll_store_clone(
    struct symmcoll_store *store, struct symmcoll_store **clone)
{
    symmcoll_status_t status;

    if (store == NULL || clone == NULL)
        return symc_store_refuse_null(
            "store_clone", store == NULL ? "store" : "clone");
    store->ops->share(store->table);
    status = symc_store_create(store->ops, store->table, clone);
    if (status == SYMMCOLL_OK)
        symc_store_copy_timeout(*clone, store);
    return status;
}

void symmcoll_store_close(struct symmcoll_store *store)
{
    int cancel;

    if (store == NULL)
        return;
    cancel = symc_cancel_disable();
    store->ops->close(store->table);
    symc_cancel_restore(cancel);
    pthread_mutex_destroy(&store->counting);
    free(store);
}

struct symmcoll_store *symmcoll_store_underlying(
    const struct symmcoll_store *store)
{
    if (store == NULL || store->ops->underlying == NULL)
        return NULL;
    return store->ops->underlying(store->table);
}

symmcoll_status_t symmcoll_store_set_timeout(
    struct symmcoll_store *store, double timeout)
{
    symmcoll_status_t status;
    int64_t ns;

    if (store == NULL)
        return symc_store_refuse_null("store_set_timeout", "store");
    status = symc_timeout_read("store_set_timeout", timeout, 0, &ns);
    if (status == SYMMCOLL_OK)
        atomic_store(&store->timeout, timeout < 0 ? store->usual : timeout);
    return status;
}

symmcoll_status_t symmcoll_store_swap_timeout(
    struct symmcoll_store *store, double timeout, double *previous)
{
    symmcoll_status_t status;
    double before;
    int64_t ns;

    if (store == NULL)
        return symc_store_refuse_null("store_swap_timeout", "store");
    status = symc_timeout_read("store_swap_timeout", timeout, 0, &ns);
    if (status != SYMMCOLL_OK)
        return status;
    before =
        atomic_exchange(&store->timeout, timeout < 0 ? store->usual : timeout);
    if (previous != NULL)
        *previous = before;
    return SYMMCOLL_OK;
}

void symc_store_set_usual(struct symmcoll_store *store, double timeout)
{
    store->usual = timeout;
    atomic_store(&store->timeout, timeout);
}

double symmcoll_store_timeout(const struct symmcoll_store *store)
{
    return store != NULL ? atomic_load(&store->timeout) : 0;
}

void symc_store_copy_timeout(
    struct symmcoll_store *store, const struct symmcoll_store *other)
{
    store->usual = other->usual;
    atomic_store(&store->timeout, symmcoll_store_timeout(other));
}

int64_t symc_store_deadline(const struct symmcoll_store *store)
{
    return symc_deadline_ns(
        symc_now_ns(), symc_seconds_ns(symmcoll_store_timeout(store)));
}

/* ---- changes ---- */

symmcoll_status_t symc_store_edit(struct symmcoll_store *store, const char *key,
    struct symc_edit *edit, int64_t deadline_ns)
{
    static const enum symc_store_call calls[] = {
        [SYMC_EDIT_SET] = SYMC_STORE_SET,
        [SYMC_EDIT_ADD] = SYMC_STORE_ADD,
        [SYMC_EDIT_APPEND] = SYMC_STORE_APPEND,
        [SYMC_EDIT_COMPARE_SET] = SYMC_STORE_COMPARE_SET,
        [SYMC_EDIT_DELETE] = SYMC_STORE_DELETE,
        [SYMC_EDIT_PUSH] = SYMC_STORE_QUEUE_PUSH,
        [SYMC_EDIT_POP] = SYMC_STORE_QUEUE_POP,
    };
    int cancel = symc_cancel_disable();
    int64_t began_ns = symc_now_ns();
    symmcoll_status_t status =
        store->ops->edit(store->table, key, edit, deadline_ns);

    /* A change may fail after its result was read. */
    if (status != SYMMCOLL_OK) {
        free(edit->result.data);
        edit->result = (struct symc_bytes){NULL, 0};
    }
    /* One public pop may need several edits. */
    if (edit->kind != SYMC_EDIT_POP)
        symc_store_count(store, calls[edit->kind], began_ns, status);
    symc_cancel_restore(cancel);
    return status;
}

static symmcoll_status_t run_edit(
    struct symmcoll_store *store, const char *key, struct symc_edit *edit)
{
    return symc_store_edit(store, key, edit, symc_store_deadline(store));
}

symmcoll_status_t symmcoll_store_set(struct symmcoll_store *store,
    const char *key, const void *value, size_t nbytes)
{
    struct symc_edit edit = {
        .kind = SYMC_EDIT_SET, .value = value, .nbytes = nbytes};
    symmcoll_status_t status = symc_store_check_key(store, key, "store_set");

    if (status != SYMMCOLL_OK)
        return status;
    status = symc_store_check_value(value, nbytes, "value", "store_set");
    return status == SYMMCOLL_OK ? run_edit(store, key, &edit) : status;
}

symmcoll_status_t symmcoll_store_add(
    struct symmcoll_store *store, const char *key, int64_t amount, int64_t *sum)
{
    struct symc_edit edit = {.kind = SYMC_EDIT_ADD, .amount = amount};
    symmcoll_status_t status = symc_store_check_key(store, key, "store_add");

    if (status == SYMMCOLL_OK)
        status = run_edit(store, key, &edit);
    if (status == SYMMCOLL_OK && sum != NULL)
        *sum = edit.sum;
    return status;
}

symmcoll_status_t symmcoll_store_append(struct symmcoll_store *store,
    const char *key, const void *value, size_t nbytes)
{
    struct symc_edit edit = {
        .kind = SYMC_EDIT_APPEND, .value = value, .nbytes = nbytes};
    symmcoll_status_t status = symc_store_check_key(store, key, "store_append");

    if (status != SYMMCOLL_OK)
        return status;
    status = symc_store_check_value(value, nbytes, "value", "store_append");
    return status == SYMMCOLL_OK ? run_edit(store, key, &edit) : status;
}

symmcoll_status_t symmcoll_store_compare_set(struct symmcoll_store *store,
    const char *key, const void *expected, size_t expected_nbytes,
    const void *desired, size_t desired_nbytes,
    enum symmcoll_store_outcome *outcome, void **value, size_t *nbytes)
{
    static const char where[] = "store_compare_set";
    struct symc_edit edit = {
        .kind = SYMC_EDIT_COMPARE_SET,
        .value = desired,
        .nbytes = desired_nbytes,
        .expected = expected,
        .expected_nbytes = expected_nbytes,
    };
    symmcoll_status_t status = symc_store_check_key(store, key, where);

    if (status != SYMMCOLL_OK)
        return status;
    status =
        symc_store_check_value(expected, expected_nbytes, "expected", where);
    if (status != SYMMCOLL_OK)
        return status;
    status = symc_store_check_value(desired, desired_nbytes, "desired", where);
    if (status != SYMMCOLL_OK)
        return status;
    if (value != NULL && nbytes == NULL)
        return symc_store_refuse_null(where, "nbytes");
    status = run_edit(store, key, &edit);
    if (status != SYMMCOLL_OK || value == NULL) {
        free(edit.result.data);
    } else {
        *value = edit.result.data;
        *nbytes = edit.result.nbytes;
    }
    if (status == SYMMCOLL_OK && outcome != NULL)
        *outcome = edit.outcome;
    return status;
}

symmcoll_status_t symmcoll_store_delete(
    struct symmcoll_store *store, const char *key, int *removed)
{
    struct symc_edit edit = {.kind = SYMC_EDIT_DELETE};
    symmcoll_status_t status = symc_store_check_key(store, key, "store_delete");

    if (status == SYMMCOLL_OK)
        status = run_edit(store, key, &edit);
    if (status == SYMMCOLL_OK && removed != NULL)
        *removed = edit.existed;
    return status;
}

/* ---- reading and waiting ---- */

static symmcoll_status_t await_until(struct symmcoll_store *store,
    const char *const *keys, size_t nkeys, int64_t until_ns,
    int64_t deadline_ns, size_t *missing)
{
    int cancel = symc_cancel_disable();
    symmcoll_status_t status = store->ops->wait(
        store->table, keys, nkeys, until_ns, deadline_ns, missing);

    symc_cancel_restore(cancel);
    return status;
}

symmcoll_status_t symc_store_await(struct symmcoll_store *store,
    const char *const *keys, size_t nkeys, int64_t deadline_ns, size_t *missing)
{
    return await_until(store, keys, nkeys, deadline_ns, deadline_ns, missing);
}

static symmcoll_status_t find_value(struct symmcoll_store *store,
    const char *key, int64_t deadline_ns, bool *found, struct symc_bytes *value)
{
    int cancel = symc_cancel_disable();
    symmcoll_status_t status =
        store->ops->find(store->table, key, deadline_ns, found, value);

    symc_cancel_restore(cancel);
    return status;
}

static symmcoll_status_t get_until(struct symmcoll_store *store,
    const char *key, int64_t deadline_ns, struct symc_bytes *value,
    bool *absent)
{
    /* If a key is deleted between the wait and the read, the wait is
     * repeated. */
    for (;;) {
        bool found = false;
        size_t missing = 0;
        symmcoll_status_t status =
            find_value(store, key, deadline_ns, &found, value);

        if (status != SYMMCOLL_OK || found)
            return status;
        status = symc_store_await(store, &key, 1, deadline_ns, &missing);
        if (status != SYMMCOLL_OK)
            return status;
        *absent = missing == 0;
        if (*absent)
            return SYMMCOLL_ERR_TIMEOUT;
    }
}

symmcoll_status_t symc_store_get_until(struct symmcoll_store *store,
    const char *key, int64_t deadline_ns, struct symc_bytes *value,
    bool *absent)
{
    int64_t began_ns = symc_now_ns();

    *absent = false;
    return symc_store_count(store, SYMC_STORE_GET, began_ns,
        get_until(store, key, deadline_ns, value, absent));
}

symmcoll_status_t symc_store_fail_timeout(
    const char *where, const char *key, double timeout)
{
    char shown[SYMC_KEY_TEXT];

    return symc_fail(SYMMCOLL_ERR_TIMEOUT,
        "%s: timeout: key \"%s\" did not appear within %g s", where,
        symc_key_text(key, shown), timeout);
}

symmcoll_status_t symmcoll_store_get(
    struct symmcoll_store *store, const char *key, void **value, size_t *nbytes)
{
    static const char where[] = "store_get";
    struct symc_bytes bytes = {NULL, 0};
    symmcoll_status_t status = symc_store_check_key(store, key, where);
    int64_t deadline_ns;
    double timeout;
    bool absent;

    if (status != SYMMCOLL_OK)
        return status;
    if (value == NULL || nbytes == NULL)
        return symc_store_refuse_null(
            where, value == NULL ? "value" : "nbytes");
    timeout = symmcoll_store_timeout(store);
    deadline_ns = symc_store_deadline(store);
    status = symc_store_get_until(store, key, deadline_ns, &bytes, &absent);
    if (absent)
        return symc_store_fail_timeout(where, key, timeout);
    if (status != SYMMCOLL_OK)
        return status;
    *value = bytes.data;
    *nbytes = bytes.nbytes;
    return SYMMCOLL_OK;
}

symmcoll_status_t symmcoll_store_wait(struct symmcoll_store *store,
    const char *const *keys, size_t nkeys, double timeout)
{
    static const char where[] = "store_wait";
    symmcoll_status_t status = symc_store_check_keys(store, keys, nkeys, where);
    size_t missing = 0;
    int64_t timeout_ns, began_ns = symc_now_ns();

    if (status != SYMMCOLL_OK || nkeys == 0)
        return status;
    if (timeout < 0)
        timeout = symmcoll_store_timeout(store);
    status = symc_timeout_read(where, timeout, 0, &timeout_ns);
    if (status == SYMMCOLL_OK)
        status = symc_store_await(store, keys, nkeys,
            symc_deadline_ns(symc_now_ns(), timeout_ns), &missing);
    if (status == SYMMCOLL_OK && missing < nkeys)
        status = symc_store_fail_timeout(where, keys[missing], timeout);
    return symc_store_count(store, SYMC_STORE_WAIT, began_ns, status);
}

symmcoll_status_t symmcoll_store_check(struct symmcoll_store *store,
    const char *const *keys, size_t nkeys, int *exist)
{
    static const char where[] = "store_check";
    symmcoll_status_t status = symc_store_check_keys(store, keys, nkeys, where);
    size_t missing = 0;
    int64_t began_ns = symc_now_ns();

    if (status != SYMMCOLL_OK)
        return status;
    if (exist == NULL)
        return symc_store_refuse_null(where, "exist");
    if (nkeys > 0)
        status = await_until(
            store, keys, nkeys, 0, symc_store_deadline(store), &missing);
    if (status == SYMMCOLL_OK)
        *exist = missing == nkeys;
    return symc_store_count(store, SYMC_STORE_CHECK, began_ns, status);
}
