/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Channels of the server, and who has subscribed to them.
 */
#include "store/serving.h"

#include <search.h>
#include <stdlib.h>
#include <string.h>

#define LARGE_NBYTES 65536 /* of a message */

struct channel {
    const char *name; /* first, so that a lookup needs no copy */
    struct symc_subscription *first;
    char text[];
};

struct symc_subscription {
    struct symc_client *client;
    struct channel *channel;
    struct symc_subscription *next, *previous; /* of the channel */
    struct symc_subscription *next_of_client;
};

static int compare_channels(const void *a, const void *b)
{
    return strcmp(
        ((const struct channel *)a)->name, ((const struct channel *)b)->name);
}

static struct channel *find_channel(
    const struct symc_server *server, const char *name)
{
    const struct channel wanted = {.name = name};
    struct channel **node = tfind(&wanted, &server->channels, compare_channels);

    return node != NULL ? *node : NULL;
}

static struct channel *take_channel(
    struct symc_server *server, const char *name)
{
    struct channel *channel = find_channel(server, name);
    size_t length = strlen(name) + 1;

    if (channel != NULL)
        return channel;
    channel = symc_alloc(1, sizeof(*channel) + length);
    if (channel == NULL)
        return NULL;
    memcpy(channel->text, name, length);
    channel->name = channel->text;
    if (tsearch(channel, &server->channels, compare_channels) == NULL) {
        free(channel);
        return NULL;
    }
    return channel;
}

static void drop_if_empty(struct symc_server *server, struct channel *channel)
{
    if (channel->first != NULL)
        return;
    tdelete(channel, &server->channels, compare_channels);
    free(channel);
}

symmcoll_status_t symc_channel_subscribe(
    struct symc_client *client, const char *name)
{
    struct symc_subscription *subscription;
    struct channel *channel;

    if (client->nsubscriptions >= SYMC_SERVER_WATCHES_MAX)
        return SYMMCOLL_ERR_INVALID;
    for (subscription = client->subscriptions; subscription != NULL;
         subscription = subscription->next_of_client)
        if (strcmp(subscription->channel->name, name) == 0)
            return SYMMCOLL_OK;
    subscription = symc_alloc(1, sizeof(*subscription));
    channel = subscription != NULL ? take_channel(client->server, name) : NULL;
    if (channel == NULL) {
        free(subscription);
        return SYMMCOLL_ERR_NO_MEMORY;
    }
    subscription->client = client;
    subscription->channel = channel;
    subscription->next = channel->first;
    if (channel->first != NULL)
        channel->first->previous = subscription;
    channel->first = subscription;
    subscription->next_of_client = client->subscriptions;
    client->subscriptions = subscription;
    client->nsubscriptions++;
    client->kept += sizeof(*subscription) + sizeof(*channel) + strlen(name);
    return SYMMCOLL_OK;
}

/* Take one out of both lists; it is the one that *link points to. */
static void remove_one(
    struct symc_client *client, struct symc_subscription **link)
{
    struct symc_subscription *subscription = *link;
    struct channel *channel = subscription->channel;

    *link = subscription->next_of_client;
    if (subscription->previous != NULL)
        subscription->previous->next = subscription->next;
    else
        channel->first = subscription->next;
    if (subscription->next != NULL)
        subscription->next->previous = subscription->previous;
    client->nsubscriptions--;
    client->kept -=
        sizeof(*subscription) + sizeof(*channel) + strlen(channel->name);
    free(subscription);
    drop_if_empty(client->server, channel);
}

void symc_channel_unsubscribe(struct symc_client *client, const char *name)
{
    struct symc_subscription **link = &client->subscriptions;

    while (*link != NULL && strcmp((*link)->channel->name, name) != 0)
        link = &(*link)->next_of_client;
    if (*link != NULL)
        remove_one(client, link);
}

void symc_channel_leave_all(struct symc_client *client)
{
    while (client->subscriptions != NULL)
        remove_one(client, &client->subscriptions);
}

const char *symc_channel_first(const struct symc_client *client)
{
    return client->subscriptions != NULL ? client->subscriptions->channel->name
                                         : NULL;
}

size_t symc_channel_publish(struct symc_client *publisher, const char *name,
    const void *data, size_t nbytes)
{
    struct channel *channel = find_channel(publisher->server, name);
    struct symc_subscription *subscription =
        channel != NULL ? channel->first : NULL;
    size_t told = 0;

    for (; subscription != NULL; subscription = subscription->next) {
        struct symc_client *client = subscription->client;

        /* A large one is not copied for each of thousands who do not read. */
        if (nbytes > LARGE_NBYTES &&
            publisher->server->pending + nbytes > SYMC_SERVER_PENDING_MAX)
            symc_client_doom(client);
        if (client->doomed)
            continue;
        symc_put_raw(client, "*3\r\n$7\r\nmessage\r\n");
        symc_put_text(client, name, strlen(name));
        symc_put_text(client, data, nbytes);
        if (client != publisher)
            symc_client_flush(client);
        symc_client_count(client);
        if (symc_client_out(client) > SYMC_SERVER_OUT_MAX)
            symc_client_doom(client);
        told++;
    }
    return told;
}
