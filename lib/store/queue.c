/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The public calls on queues: a key that has values in the order in which they
 * were pushed; each is returned by one pop.
 */
#include "base/cancel.h"
#include "store/ops.h"

#include <stdlib.h>

symmcoll_status_t symmcoll_store_queue_push(struct symmcoll_store *store,
    const char *key, const void *value, size_t nbytes)
{
    static const char where[] = "store_queue_push";
    struct symc_edit edit = {
        .kind = SYMC_EDIT_PUSH, .value = value, .nbytes = nbytes};
    symmcoll_status_t status = symc_store_check_key(store, key, where);

    if (status != SYMMCOLL_OK)
        return status;
    status = symc_store_check_value(value, nbytes, "value", where);
    if (status != SYMMCOLL_OK)
        return status;
    return symc_store_edit(store, key, &edit, symc_store_deadline(store));
}

/* Takes the first value. empty (out): TIMEOUT because the queue stayed empty,
 * which has no detail. */
static symmcoll_status_t pop_until(struct symmcoll_store *store,
    const char *key, int64_t deadline_ns, struct symc_bytes *value, bool *empty)
{
    *empty = false;
    for (;;) {
        struct symc_edit edit = {.kind = SYMC_EDIT_POP};
        size_t missing = 0;
        symmcoll_status_t status =
            symc_store_edit(store, key, &edit, deadline_ns);

        if (status != SYMMCOLL_OK)
            return status;
        if (edit.existed) {
            *value = edit.result;
            return SYMMCOLL_OK;
        }
        *empty = deadline_ns <= symc_now_ns();
        if (*empty)
            return SYMMCOLL_ERR_TIMEOUT;
        status = symc_store_await(store, &key, 1, deadline_ns, &missing);
        if (status != SYMMCOLL_OK)
            return status;
        *empty = missing == 0;
        if (*empty)
            return SYMMCOLL_ERR_TIMEOUT;
    }
}

symmcoll_status_t symmcoll_store_queue_pop(struct symmcoll_store *store,
    const char *key, double timeout, void **value, size_t *nbytes)
{
    static const char where[] = "store_queue_pop";
    symmcoll_status_t status = symc_store_check_key(store, key, where);
    struct symc_bytes bytes = {NULL, 0};
    char shown[SYMC_KEY_TEXT];
    int64_t timeout_ns, began_ns = symc_now_ns();
    bool empty = false;

    if (status != SYMMCOLL_OK)
        return status;
    if (value == NULL || nbytes == NULL)
        return symc_store_refuse_null(
            where, value == NULL ? "value" : "nbytes");
    if (timeout < 0)
        timeout = symmcoll_store_timeout(store);
    status = symc_timeout_read(where, timeout, 0, &timeout_ns);
    if (status == SYMMCOLL_OK)
        status = symc_store_count(store, SYMC_STORE_QUEUE_POP, began_ns,
            pop_until(store, key, symc_deadline_ns(began_ns, timeout_ns),
                &bytes, &empty));
    if (empty && timeout_ns == 0)
        return symc_fail(status, "%s: queue \"%s\" is empty", where,
            symc_key_text(key, shown));
    if (empty)
        return symc_fail(status,
            "%s: timeout: no value arrived in queue \"%s\" within %g s", where,
            symc_key_text(key, shown), timeout);
    if (status != SYMMCOLL_OK)
        return status;
    *value = bytes.data;
    *nbytes = bytes.nbytes;
    return SYMMCOLL_OK;
}

symmcoll_status_t symmcoll_store_queue_len(
    struct symmcoll_store *store, const char *key, size_t *length)
{
    static const char where[] = "store_queue_len";
    symmcoll_status_t status = symc_store_check_key(store, key, where);
    int64_t began_ns = symc_now_ns();
    int cancel;

    if (status != SYMMCOLL_OK)
        return status;
    if (length == NULL)
        return symc_store_refuse_null(where, "length");
    cancel = symc_cancel_disable();
    status = store->ops->length(
        store->table, key, symc_store_deadline(store), length);
    symc_cancel_restore(cancel);
    return symc_store_count(store, SYMC_STORE_QUEUE_LEN, began_ns, status);
}
