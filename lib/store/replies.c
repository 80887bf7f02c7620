/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What the server puts into a client's output.
 */
#include "store/serving.h"

#include <stdio.h>
#include <string.h>

void symc_put_raw(struct symc_client *client, const char *text)
{
    evbuffer_add(bufferevent_get_output(client->events), text, strlen(text));
}

void symc_put_number(struct symc_client *client, char type, int64_t number)
{
    char text[32];
    int length =
        snprintf(text, sizeof(text), "%c%lld\r\n", type, (long long)number);

    evbuffer_add(bufferevent_get_output(client->events), text, (size_t)length);
}

void symc_put_text(struct symc_client *client, const void *data, size_t nbytes)
{
    struct evbuffer *out = bufferevent_get_output(client->events);

    symc_put_number(client, '$', (int64_t)nbytes);
    evbuffer_add(out, data, nbytes);
    evbuffer_add(out, "\r\n", 2);
}

size_t symc_client_out(const struct symc_client *client)
{
    return evbuffer_get_length(bufferevent_get_output(client->events));
}

void symc_client_flush(struct symc_client *client)
{
    struct evbuffer *out = bufferevent_get_output(client->events);

    if (client->server->tls != NULL || client->doomed ||
        evbuffer_get_length(out) == 0)
        return;
    /* The bufferevent does the same when it writes.  An error is found by the
     * event that is waited for then. */
    evbuffer_unfreeze(out, 1);
    evbuffer_write(out, bufferevent_getfd(client->events));
    evbuffer_freeze(out, 1);
    if (evbuffer_get_length(out) > 0)
        bufferevent_enable(client->events, EV_WRITE);
}

void symc_client_doom(struct symc_client *client)
{
    client->doomed = true;
    client->server->some_doomed = true;
    bufferevent_disable(client->events, EV_READ | EV_WRITE);
}
