/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Changes in a tcp store: a transaction of the command, of the key's expiry and
 * of a message on its channel.  A change that depends on the present value
 * watches the key, and starts again if another client was faster.
 */
#include "store/tcp.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ATTEMPTS_OF_ADD 3

/* ---- commands of a transaction ---- */

/* Adds a SET with a new expiry. */
static void add_set(
    struct symc_tcp_batch *batch, struct symc_arg key, struct symc_arg value)
{
    symc_tcp_batch_add(batch,
        (struct symc_arg[]){SYMC_ARG("SET"), key, value, SYMC_ARG("EX"),
            SYMC_ARG(SYMC_TCP_LIFE)},
        5);
}

/* Adds a message to the key's waiters and watches. */
static void add_word(struct symc_tcp_batch *batch, struct symc_arg key)
{
    symc_tcp_batch_add(
        batch, (struct symc_arg[]){SYMC_ARG("PUBLISH"), key, SYMC_ARG("1")}, 3);
}

/* Adds the expiry, if the command does not set it, and the message. */
static void add_life_and_word(
    struct symc_tcp_batch *batch, struct symc_arg key, bool life)
{
    if (life)
        symc_tcp_batch_add(batch,
            (struct symc_arg[]){
                SYMC_ARG("EXPIRE"), key, SYMC_ARG(SYMC_TCP_LIFE)},
            3);
    add_word(batch, key);
}

/* Runs a transaction that watches no key. */
static symmcoll_status_t run_unwatched(
    struct symc_tcp_batch *batch, struct symc_reply **list)
{
    symmcoll_status_t status = symc_tcp_batch_run(batch, list);

    return status != SYMMCOLL_OK || *list != NULL
               ? status
               : symc_fail(SYMMCOLL_ERR_SYSTEM,
                     "tcp store: expected the replies of a transaction, found "
                     "none");
}

/* ---- set, add, push, pop, delete ---- */

/* Publishes as well: waits do not need it, but watches do. */
static symmcoll_status_t delete_key(
    const struct symc_tcp_call *call, struct symc_edit *edit)
{
    const struct symc_arg key = symc_tcp_arg(&call->name);
    struct symc_tcp_batch batch;
    struct symc_reply *list;
    symmcoll_status_t status;

    symc_tcp_batch_begin(&batch, call);
    symc_tcp_batch_add(&batch, (struct symc_arg[]){SYMC_ARG("DEL"), key}, 2);
    add_word(&batch, key);
    status = run_unwatched(&batch, &list);
    if (status != SYMMCOLL_OK)
        return status;
    edit->existed = list->items[0]->number > 0;
    status = symc_tcp_check(call->key, list->items[0], SYMC_REPLY_NUMBER);
    symc_reply_free(list);
    return status;
}

static symmcoll_status_t pop_first(
    const struct symc_tcp_call *call, struct symc_edit *edit)
{
    static const struct symc_tcp_question pop = {
        "LPOP", true, symc_fail_is_value};
    struct symc_tcp_answer answer;
    symmcoll_status_t status =
        symc_tcp_request(call, &pop, "store_queue_pop", &answer);

    edit->existed = answer.found;
    edit->result = answer.value;
    return status;
}

/* Checks the reply to change(); refused is true if the server rejects an
 * addition. */
static symmcoll_status_t judge_change(const struct symc_tcp_call *call,
    const struct symc_edit *edit, const struct symc_reply *reply, bool *refused)
{
    if (symc_tcp_is_wrong_type(reply))
        return edit->kind == SYMC_EDIT_PUSH
                   ? symc_fail_is_value("store_queue_push", call->key)
                   : symc_fail_is_queue("store_add", call->key);
    *refused = reply->type == SYMC_REPLY_ERROR && edit->kind == SYMC_EDIT_ADD;
    if (*refused)
        return SYMMCOLL_OK;
    return symc_tcp_check(call->key, reply,
        edit->kind == SYMC_EDIT_SET ? SYMC_REPLY_STATUS : SYMC_REPLY_NUMBER);
}

/* Runs a set, an add or a push. */
static symmcoll_status_t change(
    const struct symc_tcp_call *call, struct symc_edit *edit, bool *refused)
{
    const struct symc_arg key = symc_tcp_arg(&call->name);
    const struct symc_arg value = {edit->value, edit->nbytes};
    struct symc_tcp_batch batch;
    struct symc_reply *list = NULL;
    char amount[24];
    int length = snprintf(amount, sizeof(amount), "%" PRId64, edit->amount);
    symmcoll_status_t status;

    symc_tcp_batch_begin(&batch, call);
    if (edit->kind == SYMC_EDIT_SET)
        add_set(&batch, key, value);
    else if (edit->kind == SYMC_EDIT_PUSH)
        symc_tcp_batch_add(
            &batch, (struct symc_arg[]){SYMC_ARG("RPUSH"), key, value}, 3);
    else
        symc_tcp_batch_add(&batch,
            (struct symc_arg[]){
                SYMC_ARG("INCRBY"), key, {amount, (size_t)length}},
            3);
    add_life_and_word(&batch, key, edit->kind != SYMC_EDIT_SET);
    status = run_unwatched(&batch, &list);
    if (status != SYMMCOLL_OK)
        return status;
    edit->sum = list->items[0]->number;
    status = judge_change(call, edit, list->items[0], refused);
    symc_reply_free(list);
    return status;
}

/* ---- changes that depend on the present value ---- */

static const struct symc_tcp_question present = {
    "GET", true, symc_fail_is_queue};

/* Computes an edit from the present value; the caller owns what->value. */
static symmcoll_status_t apply_here(const struct symc_tcp_call *call,
    struct symc_edit *edit, const struct symc_tcp_answer *answer,
    struct symc_change *what)
{
    return symc_edit_apply(edit, call->key,
        (struct symc_item){.value = answer->found ? &answer->value : NULL},
        what);
}

/* Repeats a rejected addition locally for its error message, which is the same
 * in all stores. */
static symmcoll_status_t explain_add(
    const struct symc_tcp_call *call, struct symc_edit *edit)
{
    struct symc_change what = {.what = SYMC_KEEP};
    struct symc_tcp_answer answer;
    symmcoll_status_t status =
        symc_tcp_request(call, &present, "store_add", &answer);

    if (status == SYMMCOLL_OK)
        status = apply_here(call, edit, &answer, &what);
    free(what.value.data);
    free(answer.value.data);
    return status;
}

static symmcoll_status_t unwatch(const struct symc_tcp_call *call)
{
    return symc_tcp_order(call, (struct symc_arg[]){SYMC_ARG("UNWATCH")}, 1);
}

/* Stores a computed value; done is false if the key has changed. */
static symmcoll_status_t store_change(const struct symc_tcp_call *call,
    const struct symc_edit *edit, const struct symc_change *what, bool *done)
{
    const struct symc_arg key = symc_tcp_arg(&call->name);
    bool append = edit->kind == SYMC_EDIT_APPEND;
    struct symc_tcp_batch batch;
    struct symc_reply *list = NULL;
    symmcoll_status_t status;

    symc_tcp_batch_begin(&batch, call);
    if (append)
        symc_tcp_batch_add(&batch,
            (struct symc_arg[]){
                SYMC_ARG("APPEND"), key, {edit->value, edit->nbytes}},
            3);
    else
        add_set(&batch, key,
            (struct symc_arg){what->value.data, what->value.nbytes});
    add_life_and_word(&batch, key, append);
    status = symc_tcp_batch_run(&batch, &list);
    *done = list != NULL;
    if (status == SYMMCOLL_OK && list != NULL)
        status = symc_tcp_check(call->key, list->items[0],
            append ? SYMC_REPLY_NUMBER : SYMC_REPLY_STATUS);
    symc_reply_free(list);
    return status;
}

/* Watches the key and computes the change from its present value; the caller
 * owns what->value. */
static symmcoll_status_t watch_and_compute(const struct symc_tcp_call *call,
    struct symc_edit *edit, struct symc_change *what)
{
    struct symc_tcp_answer answer;
    symmcoll_status_t status = symc_tcp_order(call,
        (struct symc_arg[]){SYMC_ARG("WATCH"), symc_tcp_arg(&call->name)}, 2);

    if (status != SYMMCOLL_OK)
        return status;
    status = symc_tcp_request(call, &present,
        edit->kind == SYMC_EDIT_APPEND ? "store_append" : "store_compare_set",
        &answer);
    if (status != SYMMCOLL_OK)
        return status;
    status = apply_here(call, edit, &answer, what);
    free(answer.value.data);
    return status;
}

/* Runs a compare_set or an append within the limit; done is false if another
 * client has changed the key. */
static symmcoll_status_t watched_change(
    const struct symc_tcp_call *call, struct symc_edit *edit, bool *done)
{
    struct symc_change what = {.what = SYMC_KEEP};
    symmcoll_status_t status = watch_and_compute(call, edit, &what);

    *done = true;
    if (status == SYMMCOLL_OK) {
        status = what.what == SYMC_PUT ? store_change(call, edit, &what, done)
                                       : unwatch(call);
    } else if (symc_link_is_good(call->link)) {
        struct symc_error error;

        symc_error_keep(&error, status);
        if (unwatch(call) != SYMMCOLL_OK)
            status = symc_error_return(&error);
    }
    if (status != SYMMCOLL_OK || !*done) {
        free(edit->result.data);
        edit->result.data = NULL;
    }
    free(what.value.data);
    return status;
}

/* ---- the calls ---- */

/* Retries, because the rejected value may have changed before it was read. */
static symmcoll_status_t change_or_explain(
    const struct symc_tcp_call *call, struct symc_edit *edit)
{
    for (int i = 0; i < ATTEMPTS_OF_ADD; i++) {
        bool refused = false;
        symmcoll_status_t status = change(call, edit, &refused);

        if (status == SYMMCOLL_OK && refused)
            status = explain_add(call, edit);
        if (status != SYMMCOLL_OK || !refused)
            return status;
    }
    return symc_fail(SYMMCOLL_ERR_SYSTEM,
        "tcp store: the server refused to add a number to a valid counter");
}

static symmcoll_status_t run_edit(
    const struct symc_tcp_call *call, struct symc_edit *edit)
{
    symmcoll_status_t status;
    bool done;

    switch (edit->kind) {
    case SYMC_EDIT_POP:
        return pop_first(call, edit);
    case SYMC_EDIT_DELETE:
        return delete_key(call, edit);
    case SYMC_EDIT_SET:
    case SYMC_EDIT_PUSH:
    case SYMC_EDIT_ADD:
        return change_or_explain(call, edit);
    case SYMC_EDIT_APPEND:
    case SYMC_EDIT_COMPARE_SET:
        do {
            status = watched_change(call, edit, &done);
            if (status != SYMMCOLL_OK || done)
                return status;
        } while (symc_now_ns() <= call->deadline_ns);
        return symc_fail(SYMMCOLL_ERR_TIMEOUT,
            "tcp store: timeout: other clients changed the key in each attempt");
    }
    return symc_fail(
        SYMMCOLL_ERR_INTERNAL, "store: no edit has the number %d", edit->kind);
}

symmcoll_status_t symc_tcp_edit(
    void *table, const char *key, struct symc_edit *edit, int64_t deadline_ns)
{
    struct symc_tcp_call call;
    symmcoll_status_t status = symc_tcp_begin(table, key, deadline_ns, &call);

    if (status != SYMMCOLL_OK)
        return status;
    status = run_edit(&call, edit);
    symc_tcp_end(&call);
    return status;
}

symmcoll_status_t symc_tcp_add_own(struct symc_tcp *tcp, const char *own,
    int64_t amount, int64_t deadline_ns, int64_t *sum)
{
    struct symc_edit edit = {.kind = SYMC_EDIT_ADD, .amount = amount};
    struct symc_tcp_call call;
    symmcoll_status_t status = symc_tcp_begin(tcp, own, deadline_ns, &call);

    if (status != SYMMCOLL_OK)
        return status;
    call.name.nbytes = (size_t)snprintf(
        call.name.text, sizeof(call.name.text), "%s%s", tcp->prefix, own);
    call.deadline_ns = deadline_ns; /* the caller's deadline, without
                                       symc_tcp_grace() */
    status = run_edit(&call, &edit);
    *sum = edit.sum;
    symc_tcp_end(&call);
    return status;
}

/* Runs one SET and one PUBLISH per key in one transaction. */
static symmcoll_status_t set_pairs(const struct symc_tcp_call *call,
    const struct symc_pair *pairs, size_t npairs)
{
    struct symc_tcp_batch batch;
    struct symc_reply *list = NULL;
    struct symc_tcp_key name;
    symmcoll_status_t status;

    symc_tcp_batch_begin(&batch, call);
    for (size_t i = 0; i < npairs; i++) {
        symc_tcp_name(call->tcp, pairs[i].key, &name);
        add_set(&batch, symc_tcp_arg(&name),
            (struct symc_arg){pairs[i].value.data, pairs[i].value.nbytes});
        add_word(&batch, symc_tcp_arg(&name));
    }
    status = run_unwatched(&batch, &list);
    for (size_t i = 0; i < npairs && status == SYMMCOLL_OK; i++)
        status =
            symc_tcp_check(pairs[i].key, list->items[2 * i], SYMC_REPLY_STATUS);
    symc_reply_free(list);
    return status;
}

symmcoll_status_t symc_tcp_set_all(void *table, const struct symc_pair *pairs,
    size_t npairs, int64_t deadline_ns)
{
    struct symc_tcp_call call;
    symmcoll_status_t status =
        symc_tcp_begin(table, pairs[0].key, deadline_ns, &call);

    if (status != SYMMCOLL_OK)
        return status;
    status = set_pairs(&call, pairs, npairs);
    symc_tcp_end(&call);
    return status;
}
