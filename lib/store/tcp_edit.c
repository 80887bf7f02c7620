/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Changes in a tcp store: a transaction of the command, of a new life of the
 * key and of a word on its channel.  What depends on the present value watches
 * the key, and begins anew where another client was faster.
 */
#include "store/tcp.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define COMMANDS_MAX 3 /* of one transaction */
#define ATTEMPTS_OF_ADD 3

/* The commands of one transaction, without those around them. */
struct commands {
    struct symc_arg args[COMMANDS_MAX][5];
    size_t nargs[COMMANDS_MAX];
    size_t count;
};

static void add_command(
    struct commands *commands, const struct symc_arg *args, size_t nargs)
{
    memcpy(commands->args[commands->count], args, nargs * sizeof(*args));
    commands->nargs[commands->count++] = nargs;
}

/* What every change that creates a key ends with. */
static void add_life_and_word(
    struct commands *commands, struct symc_arg key, bool life)
{
    if (life)
        add_command(commands,
            (struct symc_arg[]){
                SYMC_ARG("EXPIRE"), key, SYMC_ARG(SYMC_TCP_LIFE)},
            3);
    add_command(commands,
        (struct symc_arg[]){SYMC_ARG("PUBLISH"), key, SYMC_ARG("1")}, 3);
}

/*
 * Run a transaction.  list (out) has a reply for each command, and is NULL
 * where a watched key has changed.
 */
static symmcoll_status_t run_commands(struct symc_link *link, const char *key,
    const struct commands *commands, int64_t deadline_ns,
    struct symc_reply **list)
{
    struct symc_reply *reply = NULL;
    symmcoll_status_t status =
        symc_link_send(link, (struct symc_arg[]){SYMC_ARG("MULTI")}, 1);
    symmcoll_status_t queued = SYMMCOLL_OK;

    *list = NULL;
    for (size_t i = 0; i < commands->count && status == SYMMCOLL_OK; i++)
        status = symc_link_send(link, commands->args[i], commands->nargs[i]);
    if (status == SYMMCOLL_OK)
        status = symc_link_send(link, (struct symc_arg[]){SYMC_ARG("EXEC")}, 1);
    /* All replies are taken, so that the link can be used again. */
    for (size_t i = 0; i <= commands->count && status == SYMMCOLL_OK; i++) {
        status = symc_link_receive(link, deadline_ns, &reply);
        if (status == SYMMCOLL_OK && queued == SYMMCOLL_OK)
            queued = symc_tcp_check(key, reply, SYMC_REPLY_STATUS);
        symc_reply_free(reply);
        reply = NULL;
    }
    if (status == SYMMCOLL_OK)
        status = symc_link_receive(link, deadline_ns, &reply);
    if (status == SYMMCOLL_OK)
        status = queued;
    if (status == SYMMCOLL_OK && reply->type != SYMC_REPLY_NONE)
        status = symc_tcp_check(key, reply, SYMC_REPLY_LIST);
    if (status == SYMMCOLL_OK && reply->type == SYMC_REPLY_LIST &&
        reply->count == commands->count)
        *list = reply;
    else
        symc_reply_free(reply);
    return status;
}

/* ---- set, add, push, pop, delete ---- */

static symmcoll_status_t one_command(struct symc_link *link,
    const struct symc_tcp_key *name, const char *key, struct symc_edit *edit,
    int64_t deadline_ns)
{
    bool pop = edit->kind == SYMC_EDIT_POP;
    struct symc_reply *reply = NULL;
    symmcoll_status_t status = symc_tcp_ask(link,
        (struct symc_arg[]){
            pop ? SYMC_ARG("LPOP") : SYMC_ARG("DEL"), symc_tcp_arg(name)},
        2, deadline_ns, &reply);

    if (status != SYMMCOLL_OK)
        return status;
    if (!pop) {
        status = symc_tcp_check(key, reply, SYMC_REPLY_NUMBER);
        edit->existed = reply->number > 0;
    } else if (reply->type == SYMC_REPLY_TEXT) {
        edit->existed = true;
        edit->result = (struct symc_bytes){reply->text, reply->nbytes};
        reply->text = NULL;
    } else if (symc_tcp_is_wrong_type(reply)) {
        status = symc_fail_is_value("store_queue_pop", key);
    } else {
        status = symc_tcp_check(key, reply, SYMC_REPLY_NONE);
    }
    symc_reply_free(reply);
    return status;
}

/* Set, add or push; refused is true where the server refuses the addition. */
static symmcoll_status_t change(struct symc_link *link,
    const struct symc_tcp_key *name, const char *key, struct symc_edit *edit,
    int64_t deadline_ns, bool *refused)
{
    const struct symc_arg arg = symc_tcp_arg(name);
    const struct symc_arg value = {edit->value, edit->nbytes};
    struct commands commands = {.count = 0};
    struct symc_reply *list = NULL;
    char amount[24];
    int length = snprintf(amount, sizeof(amount), "%" PRId64, edit->amount);
    symmcoll_status_t status;

    if (edit->kind == SYMC_EDIT_SET)
        add_command(&commands,
            (struct symc_arg[]){SYMC_ARG("SET"), arg, value, SYMC_ARG("EX"),
                SYMC_ARG(SYMC_TCP_LIFE)},
            5);
    else if (edit->kind == SYMC_EDIT_PUSH)
        add_command(
            &commands, (struct symc_arg[]){SYMC_ARG("RPUSH"), arg, value}, 3);
    else
        add_command(&commands,
            (struct symc_arg[]){
                SYMC_ARG("INCRBY"), arg, {amount, (size_t)length}},
            3);
    add_life_and_word(&commands, arg, edit->kind != SYMC_EDIT_SET);
    status = run_commands(link, key, &commands, deadline_ns, &list);
    if (status != SYMMCOLL_OK)
        return status;
    if (list == NULL)
        return symc_fail(SYMMCOLL_ERR_SYSTEM,
            "tcp store: expected the replies of a transaction, found none");
    edit->sum = list->items[0]->number;
    if (symc_tcp_is_wrong_type(list->items[0]))
        status = edit->kind == SYMC_EDIT_PUSH
                     ? symc_fail_is_value("store_queue_push", key)
                     : symc_fail_is_queue("store_add", key);
    else if (list->items[0]->type == SYMC_REPLY_ERROR &&
             edit->kind == SYMC_EDIT_ADD)
        *refused = true;
    else
        status = symc_tcp_check(key, list->items[0],
            edit->kind == SYMC_EDIT_SET ? SYMC_REPLY_STATUS
                                        : SYMC_REPLY_NUMBER);
    symc_reply_free(list);
    return status;
}

/* ---- what depends on the present value ---- */

/* Read the present value; text (out) is the caller's, NULL: absent. */
static symmcoll_status_t read_present(struct symc_link *link,
    const struct symc_tcp_key *name, const char *key, const char *where,
    bool watch, int64_t deadline_ns, struct symc_bytes *value, bool *found)
{
    struct symc_reply *reply = NULL;
    symmcoll_status_t status = SYMMCOLL_OK;

    *found = false;
    if (watch) {
        status = symc_link_send(link,
            (struct symc_arg[]){SYMC_ARG("WATCH"), symc_tcp_arg(name)}, 2);
        if (status == SYMMCOLL_OK)
            status = symc_tcp_expect(link, key, deadline_ns);
    }
    if (status == SYMMCOLL_OK)
        status = symc_tcp_ask(link,
            (struct symc_arg[]){SYMC_ARG("GET"), symc_tcp_arg(name)}, 2,
            deadline_ns, &reply);
    if (status != SYMMCOLL_OK)
        return status;
    if (reply->type == SYMC_REPLY_TEXT) {
        *found = true;
        *value = (struct symc_bytes){reply->text, reply->nbytes};
        reply->text = NULL;
    } else if (symc_tcp_is_wrong_type(reply)) {
        status = symc_fail_is_queue(where, key);
    } else {
        status = symc_tcp_check(key, reply, SYMC_REPLY_NONE);
    }
    symc_reply_free(reply);
    return status;
}

/* Why the server refused an addition: the same words as everywhere. */
static symmcoll_status_t explain_add(struct symc_link *link,
    const struct symc_tcp_key *name, const char *key, struct symc_edit *edit,
    int64_t deadline_ns)
{
    struct symc_bytes value = {NULL, 0};
    struct symc_change what = {.what = SYMC_KEEP};
    bool found;
    symmcoll_status_t status = read_present(
        link, name, key, "store_add", false, deadline_ns, &value, &found);

    if (status == SYMMCOLL_OK)
        status = symc_edit_apply(edit, key,
            (struct symc_item){.value = found ? &value : NULL}, &what);
    free(what.value.data);
    free(value.data);
    return status;
}

static symmcoll_status_t unwatch(
    struct symc_link *link, const char *key, int64_t deadline_ns)
{
    symmcoll_status_t status =
        symc_link_send(link, (struct symc_arg[]){SYMC_ARG("UNWATCH")}, 1);

    return status == SYMMCOLL_OK ? symc_tcp_expect(link, key, deadline_ns)
                                 : status;
}

/* Compare and store, or append within the limit; done is false where another
 * client changed the key meanwhile. */
static symmcoll_status_t watched_change(struct symc_link *link,
    const struct symc_tcp_key *name, const char *key, struct symc_edit *edit,
    int64_t deadline_ns, bool *done)
{
    static const char *const names[] = {
        [SYMC_EDIT_APPEND] = "store_append",
        [SYMC_EDIT_COMPARE_SET] = "store_compare_set",
    };
    struct symc_bytes value = {NULL, 0};
    struct symc_change what = {.what = SYMC_KEEP};
    struct symc_reply *list = NULL;
    bool append = edit->kind == SYMC_EDIT_APPEND;
    bool found;
    symmcoll_status_t status = read_present(
        link, name, key, names[edit->kind], true, deadline_ns, &value, &found);

    *done = true;
    if (status == SYMMCOLL_OK)
        status = symc_edit_apply(edit, key,
            (struct symc_item){.value = found ? &value : NULL}, &what);
    if (status == SYMMCOLL_OK && what.what == SYMC_PUT) {
        const struct symc_arg arg = symc_tcp_arg(name);
        struct commands commands = {.count = 0};

        if (append)
            add_command(&commands,
                (struct symc_arg[]){
                    SYMC_ARG("APPEND"), arg, {edit->value, edit->nbytes}},
                3);
        else
            add_command(&commands,
                (struct symc_arg[]){SYMC_ARG("SET"), arg,
                    {what.value.data, what.value.nbytes}, SYMC_ARG("EX"),
                    SYMC_ARG(SYMC_TCP_LIFE)},
                5);
        add_life_and_word(&commands, arg, append);
        status = run_commands(link, key, &commands, deadline_ns, &list);
        *done = list != NULL;
        if (status == SYMMCOLL_OK && list != NULL)
            status = symc_tcp_check(key, list->items[0],
                append ? SYMC_REPLY_NUMBER : SYMC_REPLY_STATUS);
    } else if (symc_link_is_good(link)) {
        /* A refusal keeps its own detail. */
        symmcoll_status_t unwatched = SYMMCOLL_OK;

        if (status == SYMMCOLL_OK)
            status = unwatch(link, key, deadline_ns);
        else
            unwatched = unwatch(link, key, deadline_ns);
        (void)unwatched;
    }
    if (status != SYMMCOLL_OK || !*done) {
        free(edit->result.data);
        edit->result.data = NULL;
    }
    symc_reply_free(list);
    free(what.value.data);
    free(value.data);
    return status;
}

/* ---- the calls ---- */

static symmcoll_status_t run_edit(struct symc_link *link,
    const struct symc_tcp_key *name, const char *key, struct symc_edit *edit,
    int64_t deadline_ns)
{
    symmcoll_status_t status = SYMMCOLL_OK;
    bool refused = true, done = false;

    switch (edit->kind) {
    case SYMC_EDIT_POP:
    case SYMC_EDIT_DELETE:
        return one_command(link, name, key, edit, deadline_ns);
    case SYMC_EDIT_SET:
    case SYMC_EDIT_PUSH:
    case SYMC_EDIT_ADD:
        /* The value that was refused may be another one by now. */
        for (int i = 0; i < ATTEMPTS_OF_ADD && refused; i++) {
            refused = false;
            status = change(link, name, key, edit, deadline_ns, &refused);
            if (status == SYMMCOLL_OK && refused)
                status = explain_add(link, name, key, edit, deadline_ns);
            if (status != SYMMCOLL_OK)
                return status;
        }
        return !refused ? SYMMCOLL_OK
                        : symc_fail(SYMMCOLL_ERR_SYSTEM,
                              "tcp store: the server refuses an addition that "
                              "it should make");
    case SYMC_EDIT_APPEND:
    case SYMC_EDIT_COMPARE_SET:
        while (status == SYMMCOLL_OK && !done) {
            status = watched_change(link, name, key, edit, deadline_ns, &done);
            if (status == SYMMCOLL_OK && !done && symc_now_ns() > deadline_ns)
                status = symc_fail(SYMMCOLL_ERR_TIMEOUT,
                    "tcp store: timeout: other clients keep changing a key");
        }
        return status;
    }
    return symc_fail(
        SYMMCOLL_ERR_INTERNAL, "store: no edit has the number %d", edit->kind);
}

symmcoll_status_t symc_tcp_edit(
    void *table, const char *key, struct symc_edit *edit, int64_t deadline_ns)
{
    struct symc_tcp *tcp = table;
    struct symc_tcp_key name;
    struct symc_link *link;
    symmcoll_status_t status;

    symc_tcp_name(tcp, key, &name);
    deadline_ns = symc_tcp_grace(deadline_ns);
    status = symc_tcp_take(tcp, deadline_ns, &link);
    if (status != SYMMCOLL_OK)
        return status;
    status = run_edit(link, &name, key, edit, deadline_ns);
    symc_tcp_give(tcp, link);
    return status;
}

symmcoll_status_t symc_tcp_add_own(struct symc_tcp *tcp, const char *own,
    int64_t amount, int64_t deadline_ns, int64_t *sum)
{
    struct symc_edit edit = {.kind = SYMC_EDIT_ADD, .amount = amount};
    struct symc_tcp_key name;
    struct symc_link *link;
    symmcoll_status_t status = symc_tcp_take(tcp, deadline_ns, &link);

    if (status != SYMMCOLL_OK)
        return status;
    name.nbytes = (size_t)snprintf(
        name.text, sizeof(name.text), "%s%s", tcp->prefix, own);
    status = run_edit(link, &name, own, &edit, deadline_ns);
    *sum = edit.sum;
    symc_tcp_give(tcp, link);
    return status;
}

/* Send one SET and one PUBLISH for each key, within one transaction. */
static symmcoll_status_t set_pairs(struct symc_tcp *tcp, struct symc_link *link,
    const struct symc_pair *pairs, size_t npairs, int64_t deadline_ns)
{
    symmcoll_status_t status =
        symc_link_send(link, (struct symc_arg[]){SYMC_ARG("MULTI")}, 1);
    symmcoll_status_t queued = SYMMCOLL_OK;
    struct symc_tcp_key name;

    for (size_t i = 0; i < npairs && status == SYMMCOLL_OK; i++) {
        symc_tcp_name(tcp, pairs[i].key, &name);
        status = symc_link_send(link,
            (struct symc_arg[]){SYMC_ARG("SET"), symc_tcp_arg(&name),
                {pairs[i].value.data, pairs[i].value.nbytes}, SYMC_ARG("EX"),
                SYMC_ARG(SYMC_TCP_LIFE)},
            5);
        if (status == SYMMCOLL_OK)
            status = symc_link_send(link,
                (struct symc_arg[]){
                    SYMC_ARG("PUBLISH"), symc_tcp_arg(&name), SYMC_ARG("1")},
                3);
    }
    if (status == SYMMCOLL_OK)
        status = symc_link_send(link, (struct symc_arg[]){SYMC_ARG("EXEC")}, 1);
    for (size_t i = 0; i < 2 * npairs + 2 && status == SYMMCOLL_OK; i++) {
        struct symc_reply *reply = NULL;

        status = symc_link_receive(link, deadline_ns, &reply);
        if (status == SYMMCOLL_OK && queued == SYMMCOLL_OK)
            queued = symc_tcp_check(pairs[0].key, reply,
                i == 2 * npairs + 1 ? SYMC_REPLY_LIST : SYMC_REPLY_STATUS);
        symc_reply_free(reply);
    }
    return status == SYMMCOLL_OK ? queued : status;
}

symmcoll_status_t symc_tcp_set_all(void *table, const struct symc_pair *pairs,
    size_t npairs, int64_t deadline_ns)
{
    struct symc_tcp *tcp = table;
    struct symc_link *link;
    symmcoll_status_t status;

    deadline_ns = symc_tcp_grace(deadline_ns);
    status = symc_tcp_take(tcp, deadline_ns, &link);
    if (status != SYMMCOLL_OK)
        return status;
    status = set_pairs(tcp, link, pairs, npairs, deadline_ns);
    symc_tcp_give(tcp, link);
    return status;
}
