/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Rendezvous of a server: the ranks that have joined, and failures.
 */
#include "bootstrap/server.h"
#include "segment/liveness.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* time to read what other ranks have sent */
#define READ_NS (INT64_C(200) * 1000 * 1000)

/* Returns the rendezvous of a name that still accepts ranks. A complete one
 * only sends its answers. */
static struct symc_bootstrap_rendezvous *find_rendezvous(
    const struct symc_bootstrap_server *server, const char *name)
{
    struct symc_bootstrap_rendezvous *rendezvous = server->rendezvous_list;

    while (rendezvous != NULL &&
           (rendezvous->complete || strcmp(rendezvous->name, name) != 0))
        rendezvous = rendezvous->next;
    return rendezvous;
}

static void free_rendezvous(struct symc_bootstrap_rendezvous *rendezvous)
{
    free(rendezvous->ranks);
    free(rendezvous->offers);
    free(rendezvous->informed);
    free(rendezvous->gone);
    free(rendezvous->missing);
    free(rendezvous);
}

static struct symc_bootstrap_rendezvous *add_rendezvous(
    struct symc_bootstrap_server *server, const char *name, int size)
{
    struct symc_bootstrap_rendezvous *rendezvous =
        symc_alloc(1, sizeof(*rendezvous));

    if (rendezvous == NULL)
        return NULL;
    rendezvous->ranks =
        symc_alloc((size_t)size, sizeof(struct symc_bootstrap_client *));
    rendezvous->offers =
        symc_alloc((size_t)size, sizeof(struct symc_bootstrap_held_offer));
    rendezvous->informed = symc_alloc((size_t)size, sizeof(bool));
    rendezvous->gone = symc_alloc((size_t)size, sizeof(bool));
    rendezvous->missing = symc_alloc((size_t)size, sizeof(bool));
    if (rendezvous->ranks == NULL || rendezvous->offers == NULL ||
        rendezvous->informed == NULL || rendezvous->gone == NULL ||
        rendezvous->missing == NULL) {
        free_rendezvous(rendezvous);
        return NULL;
    }
    snprintf(rendezvous->name, sizeof(rendezvous->name), "%s", name);
    rendezvous->size = size;
    rendezvous->next = server->rendezvous_list;
    server->rendezvous_list = rendezvous;
    return rendezvous;
}

void symc_bootstrap_drop_rendezvous(struct symc_bootstrap_server *server,
    struct symc_bootstrap_rendezvous *rendezvous)
{
    struct symc_bootstrap_rendezvous **at = &server->rendezvous_list;

    while (*at != rendezvous)
        at = &(*at)->next;
    *at = rendezvous->next;
    for (int r = 0; r < rendezvous->size; r++)
        symc_bootstrap_close_fds(
            rendezvous->offers[r].fds, rendezvous->offers[r].nfds);
    free_rendezvous(rendezvous);
}

/* Lists the ranks that have not joined, and counts them. */
static int list_missing(const struct symc_bootstrap_rendezvous *rendezvous)
{
    int count = 0;

    for (int r = 0; r < rendezvous->size; r++) {
        rendezvous->missing[r] =
            rendezvous->ranks[r] == NULL && !rendezvous->gone[r];
        count += rendezvous->missing[r];
    }
    return count;
}

void symc_bootstrap_fail_rendezvous(struct symc_bootstrap_server *server,
    struct symc_bootstrap_rendezvous *rendezvous, symmcoll_status_t status,
    const char *text)
{
    bool all = true;

    rendezvous->failure = status;
    snprintf(rendezvous->text, sizeof(rendezvous->text), "%s", text);
    for (int r = 0; r < rendezvous->size; r++) {
        struct symc_bootstrap_client *client = rendezvous->ranks[r];

        if (client != NULL) {
            rendezvous->informed[r] = true;
            symc_bootstrap_inform(server, client, status, text);
        }
        all = all && rendezvous->informed[r];
    }
    rendezvous->complete = false;
    if (all)
        symc_bootstrap_drop_rendezvous(server, rendezvous);
}

/* Returns the text of the error if processes and threads are mixed, else
 * NULL. */
static const char *check_kinds(
    struct symc_bootstrap_rendezvous *rendezvous, char *buffer, size_t nbytes)
{
    char first[SYMC_PID_TEXT], second[SYMC_PID_TEXT];

    for (int r = 1; r < rendezvous->size; r++) {
        for (int s = 0; s < r; s++) {
            pid_t pid = rendezvous->ranks[r]->pid,
                  other = rendezvous->ranks[s]->pid;
            /* 0: a PID outside of this namespace */
            bool same = pid == other && pid > 0;

            if (r == 1)
                rendezvous->threads = same;
            if (same == rendezvous->threads)
                continue;
            snprintf(buffer, nbytes,
                "init: expected all ranks to be processes or all to be threads "
                "of one, found rank %d (%s) and rank %d (%s)",
                s, symc_format_pid(other, first), r,
                symc_format_pid(pid, second));
            return buffer;
        }
    }
    return NULL;
}

/* Adds a name to the list of completed rendezvous. */
static void note_complete(
    struct symc_bootstrap_server *server, const char *name)
{
    char **grown = realloc(server->completed,
        (server->completed_count + 1) * sizeof(*server->completed));

    if (grown == NULL)
        return;
    server->completed = grown;
    server->completed[server->completed_count] = symc_strdup(name);
    if (server->completed[server->completed_count] != NULL)
        server->completed_count++;
}

/* Reports a completed rendezvous to the launcher. */
static void announce(struct symc_bootstrap_server *server,
    const struct symc_bootstrap_rendezvous *rendezvous)
{
    int *blocks = symc_alloc((size_t)rendezvous->size, sizeof(int));
    pid_t *pids = symc_alloc((size_t)rendezvous->size, sizeof(pid_t));

    for (int r = 0; blocks != NULL && pids != NULL && r < rendezvous->size;
         r++) {
        const struct symc_bootstrap_held_offer *offer = &rendezvous->offers[r];

        blocks[r] = offer->nfds > 0 ? offer->fds[SYMC_BOOTSTRAP_ARENA] : -1;
        pids[r] = offer->pid;
    }
    if (blocks != NULL && pids != NULL)
        server->events.joined(rendezvous->name, rendezvous->size, blocks, pids,
            server->events.arg);
    free(blocks);
    free(pids);
}

/* Takes over the offer of a rank. */
static void hold_offer(struct symc_bootstrap_client *client,
    struct symc_bootstrap_held_offer *offer)
{
    *offer = (struct symc_bootstrap_held_offer){.pid = client->pid,
        .nbytes = client->hello.nbytes,
        .least = client->hello.least,
        .address = client->hello.address,
        .inbox = client->hello.inbox,
        .nfds = (int)client->hello.nfds};
    memcpy(offer->fds, client->fds, sizeof(offer->fds));
    client->hello.nfds = 0;
}

/* Completes a rendezvous that all ranks have joined. */
static void complete_rendezvous(struct symc_bootstrap_server *server,
    struct symc_bootstrap_rendezvous *rendezvous)
{
    char text[256];
    const char *mixed = check_kinds(rendezvous, text, sizeof(text));

    if (mixed != NULL) {
        symc_bootstrap_fail_rendezvous(
            server, rendezvous, SYMMCOLL_ERR_INVALID, mixed);
        return;
    }
    rendezvous->complete = true;
    for (int r = 0; r < rendezvous->size; r++) {
        rendezvous->ranks[r]->state = SYMC_BOOTSTRAP_CLIENT_SENDING;
        hold_offer(rendezvous->ranks[r], &rendezvous->offers[r]);
    }
    if (!symc_bootstrap_is_complete(server, rendezvous->name))
        note_complete(server, rendezvous->name);
    if (server->serve_once)
        symc_bootstrap_stop_listening(server);
    if (server->events.joined != NULL)
        announce(server, rendezvous);
}

/* Informs a late rank of a failed rendezvous; the last one ends it. */
static void inform_of_failure(struct symc_bootstrap_server *server,
    struct symc_bootstrap_client *client,
    struct symc_bootstrap_rendezvous *rendezvous)
{
    bool all = true;

    rendezvous->informed[client->hello.rank] = true;
    for (int r = 0; r < rendezvous->size; r++)
        all = all && rendezvous->informed[r];
    symc_bootstrap_inform(
        server, client, rendezvous->failure, rendezvous->text);
    if (all)
        symc_bootstrap_drop_rendezvous(server, rendezvous);
}

void symc_bootstrap_admit(
    struct symc_bootstrap_server *server, struct symc_bootstrap_client *client)
{
    const struct symc_bootstrap_hello *hello = &client->hello;
    struct symc_bootstrap_rendezvous *rendezvous =
        find_rendezvous(server, hello->name);
    char text[256], first[SYMC_PID_TEXT], second[SYMC_PID_TEXT];

    if (server->failure != SYMMCOLL_OK) {
        symc_bootstrap_inform(server, client, server->failure, server->text);
        return;
    }
    if (rendezvous == NULL)
        rendezvous = add_rendezvous(server, hello->name, hello->size);
    if (rendezvous == NULL) {
        symc_bootstrap_refuse(
            server, client, SYMMCOLL_ERR_NO_MEMORY, symmcoll_last_error());
        return;
    }
    if (rendezvous->size != hello->size) {
        snprintf(text, sizeof(text),
            "init: size differs: rank %d passed %d, others passed %d",
            hello->rank, hello->size, rendezvous->size);
        symc_bootstrap_refuse(server, client, SYMMCOLL_ERR_INVALID, text);
        return;
    }
    if (rendezvous->failure != SYMMCOLL_OK &&
        rendezvous->informed[hello->rank]) {
        /* it was informed, and tries again */
        symc_bootstrap_drop_rendezvous(server, rendezvous);
        rendezvous = add_rendezvous(server, hello->name, hello->size);
        if (rendezvous == NULL) {
            symc_bootstrap_refuse(
                server, client, SYMMCOLL_ERR_NO_MEMORY, symmcoll_last_error());
            return;
        }
    } else if (rendezvous->failure != SYMMCOLL_OK) {
        inform_of_failure(server, client, rendezvous);
        return;
    }
    if (rendezvous->ranks[hello->rank] != NULL) {
        snprintf(text, sizeof(text),
            "init: rank %d has joined already (%s): another one (%s) passed the "
            "same rank",
            hello->rank,
            symc_format_pid(rendezvous->ranks[hello->rank]->pid, first),
            symc_format_pid(client->pid, second));
        symc_bootstrap_refuse(server, client, SYMMCOLL_ERR_INVALID, text);
        return;
    }
    symc_bootstrap_acknowledge(client);
    client->rendezvous = rendezvous;
    client->state = SYMC_BOOTSTRAP_CLIENT_JOINED;
    rendezvous->ranks[hello->rank] = client;
    if (++rendezvous->joined == rendezvous->size)
        complete_rendezvous(server, rendezvous);
}

/* Marks a client with a passed deadline. Its rendezvous fails after the
 * messages that other ranks have sent by now have been read. */
void symc_bootstrap_give_up(
    struct symc_bootstrap_server *server, struct symc_bootstrap_client *client)
{
    client->late = true;
    if (server->late_at == 0)
        server->late_at = symc_now_ns();
}

void symc_bootstrap_send_missing(struct symc_bootstrap_server *server,
    const struct symc_bootstrap_client *client)
{
    const struct symc_bootstrap_rendezvous *rendezvous = client->rendezvous;
    char ranks[100], text[256], refused[SYMC_BOOTSTRAP_REFUSED_TEXT];
    int missing;

    if (rendezvous == NULL || rendezvous->complete)
        return;
    for (int r = 0; r < client->hello.rank; r++) {
        if (rendezvous->ranks[r] != NULL)
            return;
    }
    missing = list_missing(rendezvous);
    /* a rank that joined and left again ends the rendezvous */
    if (missing == 0)
        return;
    symc_format_named_ranks(
        rendezvous->missing, rendezvous->size, ranks, sizeof(ranks));
    snprintf(text, sizeof(text), "%d of %d ranks have joined, missing: %s%s",
        rendezvous->size - missing, rendezvous->size, ranks,
        symc_bootstrap_format_refused(server, refused));
    symc_bootstrap_say(client, text);
}

/* Returns whether a deadline has passed in a rendezvous. */
static bool is_late(const struct symc_bootstrap_rendezvous *rendezvous)
{
    bool late = false;

    for (int r = 0; r < rendezvous->size; r++) {
        const struct symc_bootstrap_client *client = rendezvous->ranks[r];

        late = late || rendezvous->gone[r] || (client != NULL && client->late);
    }
    return late;
}

static void fail_late_rendezvous(struct symc_bootstrap_server *server,
    struct symc_bootstrap_rendezvous *rendezvous)
{
    int size = rendezvous->size, missing = list_missing(rendezvous);
    char ranks[100], text[256], refused[SYMC_BOOTSTRAP_REFUSED_TEXT];

    symc_format_named_ranks(
        missing == 0 ? rendezvous->gone : rendezvous->missing, size, ranks,
        sizeof(ranks));
    if (missing == 0)
        snprintf(text, sizeof(text),
            "init: all %d ranks joined, but %s gave up before the bootstrap "
            "server (pid %d) had received all: was it stopped?",
            size, ranks, (int)getpid());
    else
        snprintf(text, sizeof(text),
            "init: %d of %d ranks joined, missing: %s%s", size - missing, size,
            ranks, symc_bootstrap_format_refused(server, refused));
    symc_bootstrap_fail_rendezvous(
        server, rendezvous, SYMMCOLL_ERR_TIMEOUT, text);
}

void symc_bootstrap_fail_late(
    struct symc_bootstrap_server *server, bool all_read)
{
    struct symc_bootstrap_rendezvous *rendezvous, *next;

    if (server->late_at == 0 ||
        (!all_read && symc_now_ns() - server->late_at < READ_NS))
        return;
    server->late_at = 0;
    for (rendezvous = server->rendezvous_list; rendezvous != NULL;
         rendezvous = next) {
        next = rendezvous->next;
        if (!rendezvous->complete && rendezvous->failure == SYMMCOLL_OK &&
            is_late(rendezvous))
            fail_late_rendezvous(server, rendezvous);
    }
}

/* Drops a client that has its answer; the last one ends the rendezvous. */
static void finish_client(
    struct symc_bootstrap_server *server, struct symc_bootstrap_client *client)
{
    struct symc_bootstrap_rendezvous *rendezvous = client->rendezvous;

    symc_bootstrap_drop_client(server, client);
    if (rendezvous->joined == 0)
        symc_bootstrap_drop_rendezvous(server, rendezvous);
}

/* Handles the acknowledgement of a batch. */
void symc_bootstrap_take_ack(
    struct symc_bootstrap_server *server, struct symc_bootstrap_client *client)
{
    client->unacknowledged = false;
    server->in_flight -= client->in_flight;
    client->in_flight = 0;
    if (client->state == SYMC_BOOTSTRAP_CLIENT_SENT)
        finish_client(server, client);
}

/* Handles the end of a client's connection. */
void symc_bootstrap_lose(
    struct symc_bootstrap_server *server, struct symc_bootstrap_client *client)
{
    struct symc_bootstrap_rendezvous *rendezvous = client->rendezvous;
    char text[256], how[64], pid[SYMC_PID_TEXT];

    if (rendezvous == NULL) {
        symc_bootstrap_drop_client(server, client);
        return;
    }
    if (rendezvous->complete) { /* its peers' monitors will detect it */
        finish_client(server, client);
        return;
    }
    /* It has not died: symc_bootstrap_fail_late() follows. */
    if (client->late) {
        rendezvous->gone[client->hello.rank] = true;
        rendezvous->informed[client->hello.rank] = true;
        symc_bootstrap_drop_client(server, client);
        return;
    }
    if (!symc_liveness_format_status(client->pid,
            client->hello.nfds == SYMC_BOOTSTRAP_FDS
                ? client->fds[SYMC_BOOTSTRAP_PIDFD]
                : -1,
            how, sizeof(how)))
        snprintf(how, sizeof(how), "died or gave up");
    snprintf(text, sizeof(text), "init: rank %d (%s) %s during init",
        client->hello.rank, symc_format_pid(client->pid, pid), how);
    rendezvous->informed[client->hello.rank] = true;
    symc_bootstrap_drop_client(server, client);
    symc_bootstrap_fail_rendezvous(server, rendezvous, SYMMCOLL_ERR_PEER, text);
}

bool symc_bootstrap_busy(const struct symc_bootstrap_server *server)
{
    const struct symc_bootstrap_rendezvous *at = server->rendezvous_list;

    while (at != NULL && !at->complete && at->failure == SYMMCOLL_OK)
        at = at->next;
    return at != NULL;
}

bool symc_bootstrap_answers_threads(const struct symc_bootstrap_server *server)
{
    const struct symc_bootstrap_rendezvous *at = server->rendezvous_list;

    while (at != NULL && !(at->complete && at->threads))
        at = at->next;
    return at != NULL;
}

bool symc_bootstrap_is_complete(
    const struct symc_bootstrap_server *server, const char *rendezvous)
{
    for (size_t i = 0; i < server->completed_count; i++) {
        if (strcmp(server->completed[i], rendezvous) == 0)
            return true;
    }
    return false;
}

void symc_bootstrap_fail_rank(
    struct symc_bootstrap_server *server, int rank, const char *text)
{
    char line[256];
    struct symc_bootstrap_rendezvous *rendezvous, *next;

    snprintf(line, sizeof(line), "init: %s", text);
    for (rendezvous = server->rendezvous_list; rendezvous != NULL;
         rendezvous = next) {
        next = rendezvous->next;
        if (rendezvous->complete || rendezvous->failure != SYMMCOLL_OK ||
            rank >= rendezvous->size)
            continue;
        rendezvous->informed[rank] = true;
        if (rendezvous->ranks[rank] != NULL)
            symc_bootstrap_drop_client(server, rendezvous->ranks[rank]);
        symc_bootstrap_fail_rendezvous(
            server, rendezvous, SYMMCOLL_ERR_PEER, line);
    }
}

void symc_bootstrap_missing(const struct symc_bootstrap_server *server,
    const char *name, char *buffer, size_t nbytes)
{
    const struct symc_bootstrap_rendezvous *rendezvous =
        find_rendezvous(server, name);

    buffer[0] = '\0';
    if (rendezvous != NULL && list_missing(rendezvous) > 0)
        symc_format_ranks(
            rendezvous->missing, rendezvous->size, buffer, nbytes);
}
