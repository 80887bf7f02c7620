/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Watches a key of a tcp store: reads it and subscribes to its channel in one
 * transaction, again after each message on the channel and after some seconds,
 * as waits do (tcp_read.c).
 */
#include "store/tcp.h"

#include <stdlib.h>

/* Takes the value from a reply to GET; without data if the key is absent. */
static symmcoll_status_t take_value(const struct symc_tcp_call *call,
    struct symc_reply *reply, struct symc_bytes *value)
{
    *value = (struct symc_bytes){NULL, 0};
    if (symc_tcp_is_wrong_type(reply))
        return symc_fail_is_queue("store_watch", call->key);
    if (reply->type != SYMC_REPLY_TEXT)
        return symc_tcp_check(call->key, reply, SYMC_REPLY_NONE);
    *value = (struct symc_bytes){reply->text, reply->nbytes};
    reply->text = NULL;
    return SYMMCOLL_OK;
}

/* Reads the key; if it is unchanged, waits for a message on its channel. */
static symmcoll_status_t look(struct symc_tcp_call *call,
    const struct symc_bytes *before, struct symc_bytes *now, bool *changed)
{
    struct symc_reply *list, *word = NULL;
    symmcoll_status_t status;

    call->deadline_ns = symc_now_ns() + SYMC_TCP_ANSWER_NS;
    status = symc_tcp_subscribe(call, "GET", &list);
    if (status == SYMMCOLL_OK)
        status = take_value(call, list->items[0], now);
    symc_reply_free(list);
    if (status != SYMMCOLL_OK)
        return status;
    *changed = !symc_bytes_equal(now, before);
    if (!*changed) {
        free(now->data);
        *now = (struct symc_bytes){NULL, 0};
        status = symc_link_poll(
            call->link, symc_now_ns() + SYMC_TCP_REREAD_NS, &word);
        symc_reply_free(word);
    }
    call->deadline_ns = symc_now_ns() + SYMC_TCP_ANSWER_NS;
    return status == SYMMCOLL_OK ? symc_tcp_unsubscribe(call) : status;
}

symmcoll_status_t symc_tcp_await_change(void *table, const char *key,
    const struct symc_bytes *before, const struct symc_stop *stop,
    struct symc_bytes *now)
{
    struct symc_tcp_call call;
    bool changed = false;
    symmcoll_status_t status =
        symc_tcp_begin(table, key, symc_now_ns() + SYMC_TCP_ANSWER_NS, &call);

    if (status != SYMMCOLL_OK)
        return status;
    /* A stopped server must not delay the end of a watch: pending waits on the
     * link then fail, without a report to the user. */
    symc_link_end_by(call.link, stop->fd);
    while (status == SYMMCOLL_OK && !changed && !atomic_load(&stop->requested))
        status = look(&call, before, now, &changed);
    if (status != SYMMCOLL_OK) {
        symc_link_break(call.link); /* it may be subscribed */
        free(now->data);
        *now = (struct symc_bytes){NULL, 0};
    }
    symc_link_end_by(call.link, -1);
    symc_tcp_end(&call);
    return status;
}
