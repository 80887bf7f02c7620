/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Clients of the bootstrap server: answering and dropping them. This file calls
 * neither the server nor the rendezvous, which both call it.
 */
#include "bootstrap/server.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

void symc_bootstrap_close_fds(int *fds, int count)
{
    for (int i = 0; i < count; i++)
        close(fds[i]);
}

void symc_bootstrap_drop_client(
    struct symc_bootstrap_server *server, struct symc_bootstrap_client *client)
{
    struct symc_bootstrap_client **at = &server->clients;

    while (*at != NULL && *at != client)
        at = &(*at)->next;
    if (*at == NULL)
        return; /* it has been dropped already */
    *at = client->next;
    server->in_flight -= client->in_flight;
    if (client->rendezvous != NULL) {
        client->rendezvous->ranks[client->hello.rank] = NULL;
        client->rendezvous->joined--;
    }
    symc_bootstrap_close_fds(client->fds, (int)client->hello.nfds);
    close(client->fd);
    free(client);
}

/* Sends an answer without ranks. If that fails, the end of the client's
 * connection is read next. */
static void send_answer(const struct symc_bootstrap_client *client,
    enum symc_bootstrap_kind kind, symmcoll_status_t status, const char *text)
{
    struct symc_bootstrap_answer answer;

    memset(&answer, 0, symc_bootstrap_answer_nbytes(0));
    answer.magic = SYMC_BOOTSTRAP_MAGIC;
    answer.kind = kind;
    answer.status = status;
    snprintf(answer.text, sizeof(answer.text), "%s", text);
    symc_bootstrap_message_send(
        client->fd, &answer, symc_bootstrap_answer_nbytes(0), NULL, 0);
}

void symc_bootstrap_acknowledge(const struct symc_bootstrap_client *client)
{
    send_answer(client, SYMC_BOOTSTRAP_JOINED, SYMMCOLL_OK, "");
}

void symc_bootstrap_say(
    const struct symc_bootstrap_client *client, const char *text)
{
    send_answer(client, SYMC_BOOTSTRAP_WAITING, SYMMCOLL_OK, text);
}

void symc_bootstrap_inform(struct symc_bootstrap_server *server,
    struct symc_bootstrap_client *client, symmcoll_status_t status,
    const char *text)
{
    if (server->events.failed != NULL)
        server->events.failed(client->pid, status, text, server->events.arg);
    send_answer(client, SYMC_BOOTSTRAP_FAILED, status, text);
    symc_bootstrap_drop_client(server, client);
}

void symc_bootstrap_refuse(struct symc_bootstrap_server *server,
    struct symc_bootstrap_client *client, symmcoll_status_t status,
    const char *text)
{
    send_answer(client, SYMC_BOOTSTRAP_FAILED, status, text);
    symc_bootstrap_drop_client(server, client);
}

const char *symc_bootstrap_format_refused(
    const struct symc_bootstrap_server *server,
    char buffer[SYMC_BOOTSTRAP_REFUSED_TEXT])
{
    buffer[0] = '\0';
    if (server->refused > 0)
        snprintf(buffer, SYMC_BOOTSTRAP_REFUSED_TEXT,
            "; %" PRIu64 " connections of other users were refused",
            server->refused);
    return buffer;
}
