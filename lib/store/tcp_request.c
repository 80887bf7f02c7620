/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Requests of a tcp store to its server: one command about one key, or several
 * in one transaction.
 */
#include "store/tcp.h"

#include <string.h>

symmcoll_status_t symc_tcp_begin(struct symc_tcp *tcp, const char *key,
    int64_t deadline_ns, struct symc_tcp_call *call)
{
    call->tcp = tcp;
    call->key = key;
    call->deadline_ns = symc_tcp_grace(deadline_ns);
    symc_tcp_name(tcp, key, &call->name);
    return symc_tcp_take(tcp, deadline_ns, &call->link);
}

void symc_tcp_end(const struct symc_tcp_call *call)
{
    symc_tcp_give(call->tcp, call->link);
}

bool symc_tcp_is_wrong_type(const struct symc_reply *reply)
{
    return reply->type == SYMC_REPLY_ERROR &&
           strncmp(reply->text, "WRONGTYPE", 9) == 0;
}

/* ---- one command ---- */

/* Converts a reply to an answer, or to an error. */
static symmcoll_status_t take_answer(const struct symc_tcp_call *call,
    const struct symc_tcp_question *question, const char *where,
    struct symc_reply *reply, struct symc_tcp_answer *answer)
{
    if (question->refuse != NULL && symc_tcp_is_wrong_type(reply))
        return question->refuse(where, call->key);
    if (!question->text) {
        answer->number = reply->number;
        answer->found = reply->number > 0;
        return symc_tcp_check(call->key, reply, SYMC_REPLY_NUMBER);
    }
    if (reply->type != SYMC_REPLY_TEXT)
        return symc_tcp_check(call->key, reply, SYMC_REPLY_NONE);
    answer->found = true;
    answer->value = (struct symc_bytes){reply->text, reply->nbytes};
    reply->text = NULL;
    return SYMMCOLL_OK;
}

symmcoll_status_t symc_tcp_request(const struct symc_tcp_call *call,
    const struct symc_tcp_question *question, const char *where,
    struct symc_tcp_answer *answer)
{
    const struct symc_arg args[] = {
        {question->command, strlen(question->command)},
        symc_tcp_arg(&call->name)};
    struct symc_reply *reply;
    symmcoll_status_t status =
        symc_link_request(call->link, args, 2, call->deadline_ns, &reply);

    *answer = (struct symc_tcp_answer){.found = false};
    if (status != SYMMCOLL_OK)
        return status;
    status = take_answer(call, question, where, reply, answer);
    symc_reply_free(reply);
    return status;
}

symmcoll_status_t symc_tcp_expect(const struct symc_tcp_call *call)
{
    struct symc_reply *reply = NULL;
    symmcoll_status_t status =
        symc_link_receive(call->link, call->deadline_ns, &reply);

    if (status == SYMMCOLL_OK && reply->type == SYMC_REPLY_ERROR)
        status = symc_tcp_check(call->key, reply, SYMC_REPLY_STATUS);
    symc_reply_free(reply);
    return status;
}

symmcoll_status_t symc_tcp_order(
    const struct symc_tcp_call *call, const struct symc_arg *args, size_t nargs)
{
    symmcoll_status_t status = symc_link_send(call->link, args, nargs);

    return status == SYMMCOLL_OK ? symc_tcp_expect(call) : status;
}

/* ---- transactions ---- */

void symc_tcp_batch_begin(
    struct symc_tcp_batch *batch, const struct symc_tcp_call *call)
{
    batch->call = call;
    batch->count = 0;
    batch->status =
        symc_link_send(call->link, (struct symc_arg[]){SYMC_ARG("MULTI")}, 1);
}

void symc_tcp_batch_add(
    struct symc_tcp_batch *batch, const struct symc_arg *args, size_t nargs)
{
    if (batch->status == SYMMCOLL_OK)
        batch->status = symc_link_send(batch->call->link, args, nargs);
    batch->count++;
}

/* Receives the replies before EXEC's.  All are received, so that the link stays
 * usable; the first rejected command is stored in refused. */
static symmcoll_status_t take_queued(
    const struct symc_tcp_batch *batch, symmcoll_status_t *refused)
{
    const struct symc_tcp_call *call = batch->call;
    symmcoll_status_t status = batch->status;

    *refused = SYMMCOLL_OK;
    for (size_t i = 0; i <= batch->count && status == SYMMCOLL_OK; i++) {
        struct symc_reply *reply = NULL;

        status = symc_link_receive(call->link, call->deadline_ns, &reply);
        if (status == SYMMCOLL_OK && *refused == SYMMCOLL_OK)
            *refused = symc_tcp_check(call->key, reply, SYMC_REPLY_STATUS);
        symc_reply_free(reply);
    }
    return status;
}

symmcoll_status_t symc_tcp_batch_run(
    struct symc_tcp_batch *batch, struct symc_reply **list)
{
    const struct symc_tcp_call *call = batch->call;
    struct symc_reply *reply;
    symmcoll_status_t status, refused;

    *list = NULL;
    if (batch->status == SYMMCOLL_OK)
        batch->status = symc_link_send(
            call->link, (struct symc_arg[]){SYMC_ARG("EXEC")}, 1);
    status = take_queued(batch, &refused);
    if (status != SYMMCOLL_OK)
        return status;
    status = symc_link_receive(call->link, call->deadline_ns, &reply);
    if (status != SYMMCOLL_OK)
        return status;
    status = refused;
    if (status != SYMMCOLL_OK || reply->type == SYMC_REPLY_NONE)
        goto free_reply;
    status = symc_tcp_check(call->key, reply, SYMC_REPLY_LIST);
    if (status != SYMMCOLL_OK)
        goto free_reply;
    if (reply->count == batch->count) {
        *list = reply;
        return SYMMCOLL_OK;
    }
    status = symc_fail(SYMMCOLL_ERR_SYSTEM,
        "tcp store: expected %zu replies of a transaction, found %zu",
        batch->count, reply->count);
free_reply:
    symc_reply_free(reply);
    return status;
}
