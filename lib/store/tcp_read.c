/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Reads a tcp store, and waits for keys.
 *
 * A wait reads the key and subscribes to its channel in one transaction, so
 * that no creation is missed.  It reads again after some seconds, because
 * foreign clients do not publish on channels.
 */
#include "store/tcp.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SCAN_COUNT "1000"
#define CURSOR_MAX 24

/* Runs one command about a key, as a call of its own. */
static symmcoll_status_t request_once(struct symc_tcp *tcp, const char *key,
    const struct symc_tcp_question *question, const char *where,
    int64_t deadline_ns, struct symc_tcp_answer *answer)
{
    struct symc_tcp_call call;
    symmcoll_status_t status = symc_tcp_begin(tcp, key, deadline_ns, &call);

    if (status != SYMMCOLL_OK)
        return status;
    status = symc_tcp_request(&call, question, where, answer);
    symc_tcp_end(&call);
    return status;
}

symmcoll_status_t symc_tcp_find(void *table, const char *key,
    int64_t deadline_ns, bool *found, struct symc_bytes *value)
{
    static const struct symc_tcp_question question = {
        "GET", true, symc_fail_is_queue};
    struct symc_tcp_answer answer;
    symmcoll_status_t status =
        request_once(table, key, &question, "store_get", deadline_ns, &answer);

    if (status != SYMMCOLL_OK)
        return status;
    *found = answer.found;
    *value = answer.value;
    return SYMMCOLL_OK;
}

symmcoll_status_t symc_tcp_length(
    void *table, const char *key, int64_t deadline_ns, size_t *length)
{
    static const struct symc_tcp_question question = {
        "LLEN", false, symc_fail_is_value};
    struct symc_tcp_answer answer;
    symmcoll_status_t status = request_once(
        table, key, &question, "store_queue_len", deadline_ns, &answer);

    if (status == SYMMCOLL_OK)
        *length = (size_t)answer.number;
    return status;
}

/* ---- waiting ---- */

/* Finds the first key that does not exist: sends all commands, then receives
 * the replies. */
static symmcoll_status_t find_missing(const struct symc_tcp_call *call,
    const char *const *keys, size_t nkeys, size_t *missing)
{
    struct symc_link *link = call->link;
    symmcoll_status_t status = SYMMCOLL_OK;
    struct symc_tcp_key name;

    for (size_t i = 0; i < nkeys && status == SYMMCOLL_OK; i++) {
        symc_tcp_name(call->tcp, keys[i], &name);
        status = symc_link_send(link,
            (struct symc_arg[]){SYMC_ARG("EXISTS"), symc_tcp_arg(&name)}, 2);
    }
    *missing = nkeys;
    for (size_t i = 0; i < nkeys && status == SYMMCOLL_OK; i++) {
        struct symc_reply *reply = NULL;

        status = symc_link_receive(link, call->deadline_ns, &reply);
        if (status == SYMMCOLL_OK)
            status = symc_tcp_check(keys[i], reply, SYMC_REPLY_NUMBER);
        if (status == SYMMCOLL_OK && reply->number == 0 && *missing == nkeys)
            *missing = i;
        symc_reply_free(reply);
    }
    if (status != SYMMCOLL_OK)
        symc_link_break(link);
    return status;
}

symmcoll_status_t symc_tcp_subscribe(const struct symc_tcp_call *call,
    const char *command, struct symc_reply **list)
{
    struct symc_arg arg = symc_tcp_arg(&call->name);
    struct symc_tcp_batch batch;
    symmcoll_status_t status;

    *list = NULL;
    symc_tcp_batch_begin(&batch, call);
    symc_tcp_batch_add(
        &batch, (struct symc_arg[]){{command, strlen(command)}, arg}, 2);
    symc_tcp_batch_add(
        &batch, (struct symc_arg[]){SYMC_ARG("SUBSCRIBE"), arg}, 2);
    status = symc_tcp_batch_run(&batch, list);
    if (status == SYMMCOLL_OK && *list == NULL)
        status = symc_fail(SYMMCOLL_ERR_SYSTEM,
            "tcp store: expected the replies of a transaction, found none");
    return status;
}

static symmcoll_status_t subscribe(
    const struct symc_tcp_call *call, bool *exists)
{
    struct symc_reply *list;
    symmcoll_status_t status = symc_tcp_subscribe(call, "EXISTS", &list);

    if (status != SYMMCOLL_OK)
        return status;
    *exists = list->items[0]->number > 0;
    status = symc_tcp_check(call->key, list->items[0], SYMC_REPLY_NUMBER);
    symc_reply_free(list);
    return status;
}

/* Receives replies until the confirmation. */
symmcoll_status_t symc_tcp_unsubscribe(const struct symc_tcp_call *call)
{
    int64_t deadline_ns = symc_tcp_grace(call->deadline_ns);
    struct symc_link *link = call->link;
    bool done = false;
    symmcoll_status_t status =
        symc_link_send(link, (struct symc_arg[]){SYMC_ARG("UNSUBSCRIBE")}, 1);

    while (status == SYMMCOLL_OK && !done) {
        struct symc_reply *reply = NULL;

        status = symc_link_receive(link, deadline_ns, &reply);
        if (status != SYMMCOLL_OK)
            return status;
        status = symc_tcp_check("", reply, SYMC_REPLY_LIST);
        done = status == SYMMCOLL_OK && reply->count == 3 &&
               reply->items[0]->text != NULL &&
               strcmp(reply->items[0]->text, "unsubscribe") == 0;
        symc_reply_free(reply);
    }
    return status;
}

/* Waits until a message arrives on a key's channel, or for SYMC_TCP_REREAD_NS. */
static symmcoll_status_t listen_for(
    struct symc_tcp_call *call, const char *key, int64_t until_ns)
{
    int64_t again_ns = symc_now_ns() + SYMC_TCP_REREAD_NS;
    struct symc_reply *reply = NULL;
    bool exists = false;
    symmcoll_status_t status;

    call->key = key;
    symc_tcp_name(call->tcp, key, &call->name);
    status = subscribe(call, &exists);
    if (status == SYMMCOLL_OK && !exists)
        status = symc_link_poll(
            call->link, again_ns < until_ns ? again_ns : until_ns, &reply);
    symc_reply_free(reply);
    if (status == SYMMCOLL_OK)
        status = symc_tcp_unsubscribe(call);
    if (status != SYMMCOLL_OK)
        symc_link_break(call->link); /* it may be subscribed */
    return status;
}

symmcoll_status_t symc_tcp_wait(void *table, const char *const *keys,
    size_t nkeys, int64_t until_ns, int64_t deadline_ns, size_t *missing)
{
    struct symc_tcp_call call;
    symmcoll_status_t status =
        symc_tcp_begin(table, keys[0], deadline_ns, &call);

    if (status != SYMMCOLL_OK)
        return status;
    do {
        call.deadline_ns = symc_tcp_grace(deadline_ns);
        status = find_missing(&call, keys, nkeys, missing);
        if (status != SYMMCOLL_OK || *missing == nkeys ||
            symc_now_ns() >= until_ns)
            break;
        status = listen_for(&call, keys[*missing], until_ns);
    } while (status == SYMMCOLL_OK);
    symc_tcp_end(&call);
    return status;
}

/* ---- all keys ---- */

/* Makes a pattern that matches exactly the keys with a prefix. */
static size_t make_pattern(const char *prefix, char *pattern)
{
    char *at = pattern;

    for (; *prefix != '\0'; prefix++) {
        if (strchr("*?[]\\^-", *prefix) != NULL)
            *at++ = '\\';
        *at++ = *prefix;
    }
    *at++ = '*';
    *at = '\0';
    return (size_t)(at - pattern);
}

static symmcoll_status_t take_names(
    const struct symc_reply *list, struct symc_names *names)
{
    symmcoll_status_t status = SYMMCOLL_OK;

    for (size_t i = 0; i < list->count && status == SYMMCOLL_OK; i++)
        /* Keys of this library have no zero byte; others are skipped. */
        if (list->items[i]->type == SYMC_REPLY_TEXT &&
            strlen(list->items[i]->text) == list->items[i]->nbytes)
            status = symc_names_add(names, list->items[i]->text);
    return status;
}

/* Gets the next part of the list; cursor becomes "0" after the last one. */
static symmcoll_status_t scan_some(const struct symc_tcp_call *call,
    struct symc_arg pattern, char cursor[CURSOR_MAX], struct symc_names *names)
{
    struct symc_reply *reply;
    symmcoll_status_t status = symc_link_request(call->link,
        (struct symc_arg[]){SYMC_ARG("SCAN"), {cursor, strlen(cursor)},
            SYMC_ARG("MATCH"), pattern, SYMC_ARG("COUNT"),
            SYMC_ARG(SCAN_COUNT)},
        6, call->deadline_ns, &reply);

    if (status != SYMMCOLL_OK)
        return status;
    status = symc_tcp_check(call->key, reply, SYMC_REPLY_LIST);
    if (status != SYMMCOLL_OK)
        goto free_reply;
    if (reply->count == 2 && reply->items[0]->text != NULL &&
        reply->items[0]->nbytes < CURSOR_MAX) {
        snprintf(cursor, CURSOR_MAX, "%s", reply->items[0]->text);
        status = take_names(reply->items[1], names);
    } else {
        status = symc_fail(SYMMCOLL_ERR_SYSTEM,
            "tcp store: expected a cursor and keys, found something else");
    }
free_reply:
    symc_reply_free(reply);
    return status;
}

symmcoll_status_t symc_tcp_scan(const struct symc_tcp_call *call,
    const char *prefix, struct symc_names *names)
{
    char pattern[2 * SYMC_TCP_KEY + 2];
    struct symc_arg text = {pattern, make_pattern(prefix, pattern)};
    char cursor[CURSOR_MAX] = "0";
    symmcoll_status_t status;

    do {
        status = scan_some(call, text, cursor, names);
        if (status != SYMMCOLL_OK)
            return status;
        if (symc_now_ns() > call->deadline_ns)
            return symc_fail(SYMMCOLL_ERR_TIMEOUT,
                "tcp store: timeout: listing keys took too long");
    } while (strcmp(cursor, "0") != 0);
    return symc_names_unique(names);
}

symmcoll_status_t symc_tcp_list(void *table, const char *prefix,
    int64_t deadline_ns, struct symc_names *names)
{
    struct symc_tcp *tcp = table;
    struct symc_tcp_call call;
    symmcoll_status_t status = symc_tcp_begin(tcp, prefix, deadline_ns, &call);

    if (status != SYMMCOLL_OK)
        return status;
    names->skip += strlen(tcp->prefix) + 1;
    status = symc_tcp_scan(&call, call.name.text, names);
    symc_tcp_end(&call);
    return status;
}

symmcoll_status_t symc_tcp_count(
    void *table, int64_t deadline_ns, size_t *count)
{
    struct symc_names names = {0};
    symmcoll_status_t status = symc_tcp_list(table, "", deadline_ns, &names);

    *count = names.count;
    free(names.text);
    return status;
}
