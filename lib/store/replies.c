/* SPDX-License-Identifier: BSD-3-Clause */
/* The output of the server's clients. */
#include "store/serving.h"

#include <stdio.h>
#include <string.h>

void symc_put_raw(struct symc_client *client, const char *text)
{
    evbuffer_add(client->out, text, strlen(text));
}

void symc_put_number(struct symc_client *client, char type, int64_t number)
{
    char text[32];
    int length =
        snprintf(text, sizeof(text), "%c%lld\r\n", type, (long long)number);

    evbuffer_add(client->out, text, (size_t)length);
}

void symc_put_text(struct symc_client *client, const void *data, size_t nbytes)
{
    client->server->work += nbytes;
    symc_put_number(client, '$', (int64_t)nbytes);
    evbuffer_add(client->out, data, nbytes);
    evbuffer_add(client->out, "\r\n", 2);
}

size_t symc_client_out(const struct symc_client *client)
{
    return evbuffer_get_length(client->out);
}

void symc_client_flush(struct symc_client *client)
{
    if (client->tls != NULL || client->doomed ||
        evbuffer_get_length(client->out) == 0)
        return;
    /* An error is detected by the event that follows. */
    evbuffer_write(client->out, client->fd);
    if (evbuffer_get_length(client->out) > 0)
        event_add(&client->writable, NULL);
}

void symc_client_listen(struct symc_client *client, bool listen)
{
    if (client->tls != NULL && listen)
        bufferevent_enable(client->tls, EV_READ);
    else if (client->tls != NULL)
        bufferevent_disable(client->tls, EV_READ);
    else if (listen)
        event_add(&client->readable, NULL);
    else
        event_del(&client->readable);
}

void symc_client_doom(struct symc_client *client)
{
    client->doomed = true;
    client->server->some_doomed = true;
    symc_client_listen(client, false);
    if (client->tls != NULL)
        bufferevent_disable(client->tls, EV_WRITE);
    else
        event_del(&client->writable);
}

/* Drops the client with the most pending bytes.  They are no longer counted, as
 * the client is freed at the end of this callback. */
static void drop_largest(struct symc_server *server)
{
    struct symc_client *largest = server->first;

    for (struct symc_client *at = server->first; at != NULL; at = at->next)
        if (at->pending > largest->pending)
            largest = at;
    if (largest == NULL)
        return;
    server->pending -= largest->pending;
    largest->pending = 0;
    symc_client_doom(largest);
}

void symc_client_count(struct symc_client *client)
{
    struct symc_server *server = client->server;
    size_t pending = symc_resp_pending(client->resp) + client->queued_nbytes +
                     client->kept + symc_client_out(client);

    if (client->doomed)
        return;
    server->pending += pending - client->pending;
    client->pending = pending;
    while (server->pending > SYMC_SERVER_PENDING_MAX)
        drop_largest(server);
}
