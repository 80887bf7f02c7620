/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The connections of a tcp store, of which each call takes one, so that calls
 * do not wait for each other; and the common checks of replies.
 */
#include "store/tcp.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* The least time for a reply: the deadline of a call may have passed, as that of a call
 * that must not wait for a key, or may be near. */
#define ANSWER_OVER_NS (SYMC_NS_PER_S / 2)
/* Limits the wait for a server that is stopped. */
#define ANSWER_MAX_NS (60 * SYMC_NS_PER_S)

void symc_tcp_name(
    const struct symc_tcp *tcp, const char *key, struct symc_tcp_key *name)
{
    name->nbytes = (size_t)snprintf(
        name->text, sizeof(name->text), "%s/%s", tcp->prefix, key);
}

struct symc_arg symc_tcp_arg(const struct symc_tcp_key *name)
{
    return (struct symc_arg){name->text, name->nbytes};
}

int64_t symc_tcp_grace(int64_t deadline_ns)
{
    int64_t now = symc_now_ns();

    if (deadline_ns < now + ANSWER_OVER_NS)
        return now + ANSWER_OVER_NS;
    return deadline_ns - now > ANSWER_MAX_NS ? now + ANSWER_MAX_NS
                                             : deadline_ns;
}

/* Drops the connections of the parent process after fork().  Needs the lock. */
static void forget_parents(struct symc_tcp *tcp)
{
    pid_t pid = getpid();

    if (tcp->pid == pid)
        return;
    while (tcp->nlinks > 0)
        symc_link_close(tcp->links[--tcp->nlinks]);
    /* Their threads exist only in the parent, which may hold their locks. */
    tcp->server = NULL;
    free(tcp->renewal);
    tcp->renewal = NULL;
    tcp->pid = pid;
    tcp->joined = false;
}

symmcoll_status_t symc_tcp_take(
    struct symc_tcp *tcp, int64_t deadline_ns, struct symc_link **link)
{
    struct symc_link *found = NULL;

    pthread_mutex_lock(&tcp->lock);
    forget_parents(tcp);
    while (found == NULL && tcp->nlinks > 0) {
        found = tcp->links[--tcp->nlinks];
        if (!symc_link_is_good(found)) {
            symc_link_close(found);
            found = NULL;
        }
    }
    pthread_mutex_unlock(&tcp->lock);
    *link = found;
    if (found != NULL)
        return SYMMCOLL_OK;
    return symc_link_open(
        &tcp->place, false, symc_tcp_grace(deadline_ns), link);
}

void symc_tcp_give(struct symc_tcp *tcp, struct symc_link *link)
{
    if (!symc_link_is_good(link)) {
        symc_link_close(link);
        return;
    }
    pthread_mutex_lock(&tcp->lock);
    if (tcp->nlinks < SYMC_TCP_LINKS) {
        tcp->links[tcp->nlinks++] = link;
        link = NULL;
    }
    pthread_mutex_unlock(&tcp->lock);
    symc_link_close(link);
}

void symc_tcp_close_links(struct symc_tcp *tcp)
{
    pthread_mutex_lock(&tcp->lock);
    while (tcp->nlinks > 0)
        symc_link_close(tcp->links[--tcp->nlinks]);
    pthread_mutex_unlock(&tcp->lock);
}

symmcoll_status_t symc_tcp_check(const char *key,
    const struct symc_reply *reply, enum symc_reply_type expected)
{
    char shown[SYMC_KEY_TEXT];
    char found[SYMC_KEY_TEXT];

    if (reply->type == expected)
        return SYMMCOLL_OK;
    if (reply->type == SYMC_REPLY_ERROR &&
        (strncmp(reply->text, "NOAUTH", 6) == 0 ||
            strncmp(reply->text, "NOPERM", 6) == 0))
        return symc_fail(SYMMCOLL_ERR_INVALID,
            "tcp store: the server refused access to this user or password: %s",
            symc_key_text(reply->text, found));
    return symc_fail(SYMMCOLL_ERR_SYSTEM,
        "tcp store: key \"%s\": unexpected reply of the server: %s",
        symc_key_text(key, shown),
        reply->text != NULL ? symc_key_text(reply->text, found) : "not a text");
}
