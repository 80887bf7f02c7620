/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Keeps the keys of a job alive while a process of the job has the store open:
 * a thread renews their expiry at intervals, whether or not they are written.
 *
 * The processes alternate through the key "renewed/": the first one creates it,
 * and it expires before the next interval.
 */
#include "store/tcp.h"

#include "base/thread.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define TURN "renewed/"
#define ANSWER_NS (30 * SYMC_NS_PER_S)

struct symc_renewal {
    pthread_mutex_t lock; /* of the members below */
    pthread_cond_t changed;
    struct symc_tcp *tcp;
    pthread_t thread;
    int64_t every_ns;
    uint64_t rounds; /* completed */
    bool stop;
};

/* Sends a command for each name except the turn's, whose expiry must not
 * change; sent (out) is their number. */
static symmcoll_status_t send_each(const struct symc_tcp_call *call,
    const struct symc_names *names, bool remove, size_t *sent)
{
    const char *name = names->text;
    size_t head = strlen(call->tcp->prefix);
    symmcoll_status_t status = SYMMCOLL_OK;

    *sent = 0;
    for (size_t i = 0; i < names->count && status == SYMMCOLL_OK; i++) {
        struct symc_arg args[] = {remove ? SYMC_ARG("DEL") : SYMC_ARG("EXPIRE"),
            {name, strlen(name)}, SYMC_ARG(SYMC_TCP_LIFE)};

        if (remove || strcmp(name + head, TURN) != 0) {
            status = symc_link_send(call->link, args, remove ? 2 : 3);
            ++*sent;
        }
        name += strlen(name) + 1;
    }
    return status;
}

symmcoll_status_t symc_tcp_for_each(
    struct symc_tcp *tcp, bool remove, int64_t deadline_ns)
{
    struct symc_names names = {0};
    struct symc_tcp_call call;
    symmcoll_status_t status = symc_tcp_begin(tcp, "", deadline_ns, &call);
    size_t sent = 0;

    if (status != SYMMCOLL_OK)
        return status;
    call.deadline_ns = deadline_ns; /* the caller's deadline, without
                                       symc_tcp_grace() */
    status = symc_tcp_scan(&call, tcp->prefix, &names);
    if (status == SYMMCOLL_OK)
        status = send_each(&call, &names, remove, &sent);
    for (size_t i = 0; i < sent && status == SYMMCOLL_OK; i++)
        status = symc_tcp_expect(&call);
    if (status != SYMMCOLL_OK)
        symc_link_break(call.link);
    symc_tcp_end(&call);
    free(names.text);
    return status;
}

/* Returns whether it is this process's turn: the key did not exist. */
static bool take_turn(
    struct symc_tcp *tcp, int64_t every_ns, int64_t deadline_ns)
{
    struct symc_tcp_call call;
    struct symc_reply *reply;
    char life[24];
    symmcoll_status_t status = symc_tcp_begin(tcp, "", deadline_ns, &call);
    bool mine;

    if (status != SYMMCOLL_OK)
        return false;
    /* Shorter than the interval, so that the key has expired by then. */
    snprintf(life, sizeof(life), "%" PRId64, every_ns / 2000000 + 1);
    call.name.nbytes = (size_t)snprintf(
        call.name.text, sizeof(call.name.text), "%s" TURN, tcp->prefix);
    status = symc_link_request(call.link,
        (struct symc_arg[]){SYMC_ARG("SET"), symc_tcp_arg(&call.name),
            SYMC_ARG("1"), SYMC_ARG("PX"), {life, strlen(life)},
            SYMC_ARG("NX")},
        6, call.deadline_ns, &reply);
    mine = status == SYMMCOLL_OK && reply->type == SYMC_REPLY_STATUS;
    symc_reply_free(reply);
    symc_tcp_end(&call);
    return mine;
}

/* Renews once.  If the server does not reply, the next round tries again. */
static void renew(struct symc_tcp *tcp, int64_t every_ns)
{
    int64_t deadline_ns = symc_now_ns() + ANSWER_NS;

    if (take_turn(tcp, every_ns, deadline_ns) &&
        symc_tcp_for_each(tcp, false, deadline_ns) != SYMMCOLL_OK)
        return;
}

static void *run_renewal(void *arg)
{
    struct symc_renewal *renewal = arg;
    int64_t at_ns = symc_now_ns();

    pthread_mutex_lock(&renewal->lock);
    while (!renewal->stop) {
        int64_t every_ns = renewal->every_ns;
        int64_t next_ns = at_ns + every_ns;
        const struct timespec until = {
            .tv_sec = (time_t)(next_ns / SYMC_NS_PER_S),
            .tv_nsec = (long)(next_ns % SYMC_NS_PER_S),
        };

        if (pthread_cond_timedwait(&renewal->changed, &renewal->lock, &until) !=
            ETIMEDOUT)
            continue;
        pthread_mutex_unlock(&renewal->lock);
        renew(renewal->tcp, every_ns);
        at_ns = symc_now_ns();
        pthread_mutex_lock(&renewal->lock);
        renewal->rounds++;
        pthread_cond_broadcast(&renewal->changed);
    }
    pthread_mutex_unlock(&renewal->lock);
    return NULL;
}

symmcoll_status_t symc_renewal_start(
    struct symc_tcp *tcp, int64_t every_ns, struct symc_renewal **out)
{
    struct symc_renewal *renewal = symc_alloc(1, sizeof(*renewal));
    pthread_condattr_t attr;
    symmcoll_status_t status;

    if (renewal == NULL)
        return SYMMCOLL_ERR_NO_MEMORY;
    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_cond_init(&renewal->changed, &attr);
    pthread_condattr_destroy(&attr);
    pthread_mutex_init(&renewal->lock, NULL);
    renewal->tcp = tcp;
    renewal->every_ns = every_ns;
    status = symc_thread_start(
        &renewal->thread, "symc-renew", SYMC_STACK_SMALL, run_renewal, renewal);
    if (status != SYMMCOLL_OK) {
        pthread_cond_destroy(&renewal->changed);
        pthread_mutex_destroy(&renewal->lock);
        free(renewal);
        return status;
    }
    *out = renewal;
    return SYMMCOLL_OK;
}

void symc_renewal_every(
    struct symc_renewal *renewal, int64_t every_ns, uint64_t rounds)
{
    pthread_mutex_lock(&renewal->lock);
    renewal->every_ns = every_ns;
    rounds += renewal->rounds;
    pthread_cond_broadcast(&renewal->changed);
    while (renewal->rounds < rounds)
        pthread_cond_wait(&renewal->changed, &renewal->lock);
    pthread_mutex_unlock(&renewal->lock);
}

void symc_renewal_stop(struct symc_renewal *renewal)
{
    if (renewal == NULL)
        return;
    pthread_mutex_lock(&renewal->lock);
    renewal->stop = true;
    pthread_cond_broadcast(&renewal->changed);
    pthread_mutex_unlock(&renewal->lock);
    pthread_join(renewal->thread, NULL);
    pthread_cond_destroy(&renewal->changed);
    pthread_mutex_destroy(&renewal->lock);
    free(renewal);
}
