/* SPDX-License-Identifier: BSD-3-Clause */
/* The server's channels and their subscribers. */
#include "store/serving.h"

#include <search.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LARGE_NBYTES 16384 /* of a message */
#define MESSAGE_HEADS 96   /* the most bytes around name and data */
#define SEND_WORK 16384    /* of sending one message, without its bytes */

struct channel {
    const char *name; /* first, so that a lookup needs no copy */
    struct symc_subscription *first;
    char text[];
};

/* A node of the client's tree and of the channel's list. */
struct symc_subscription {
    struct channel *channel;
    struct symc_client *client;
    struct symc_subscription *next, *previous;
};

/* A message to subscribers, in the form in which it is sent. */
struct message {
    size_t users;
    size_t nbytes;
    char bytes[];
};

static int compare_channels(const void *a, const void *b)
{
    return strcmp(
        ((const struct channel *)a)->name, ((const struct channel *)b)->name);
}

static int compare_subscriptions(const void *a, const void *b)
{
    uintptr_t one = (uintptr_t)((const struct symc_subscription *)a)->channel;
    uintptr_t other = (uintptr_t)((const struct symc_subscription *)b)->channel;

    return (one > other) - (one < other);
}

static struct channel *find_channel(
    const struct symc_server *server, const char *name)
{
    const struct channel wanted = {.name = name};
    struct channel **node = tfind(&wanted, &server->channels, compare_channels);

    return node != NULL ? *node : NULL;
}

/* Returns a channel, creating it if needed; NULL without memory. */
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

static struct symc_subscription *find_subscription(
    struct symc_client *client, const char *name)
{
    const struct symc_subscription wanted = {
        .channel = find_channel(client->server, name)};
    struct symc_subscription **node =
        wanted.channel != NULL
            ? tfind(&wanted, &client->subscriptions, compare_subscriptions)
            : NULL;

    return node != NULL ? *node : NULL;
}

static size_t measure_subscription(const struct channel *channel)
{
    return sizeof(struct symc_subscription) + sizeof(*channel) +
           strlen(channel->name);
}

symmcoll_status_t symc_channel_subscribe(
    struct symc_client *client, const char *name)
{
    struct symc_subscription *subscription;
    struct channel *channel;

    if (client->nsubscriptions >= SYMC_SERVER_WATCHES_MAX)
        return SYMMCOLL_ERR_INVALID;
    if (find_subscription(client, name) != NULL)
        return SYMMCOLL_OK;
    subscription = symc_alloc(1, sizeof(*subscription));
    channel = subscription != NULL ? take_channel(client->server, name) : NULL;
    if (channel == NULL) {
        free(subscription);
        return SYMMCOLL_ERR_NO_MEMORY;
    }
    subscription->client = client;
    subscription->channel = channel;
    if (tsearch(subscription, &client->subscriptions, compare_subscriptions) ==
        NULL) {
        free(subscription);
        drop_if_empty(client->server, channel);
        return SYMMCOLL_ERR_NO_MEMORY;
    }
    subscription->next = channel->first;
    if (channel->first != NULL)
        channel->first->previous = subscription;
    channel->first = subscription;
    client->nsubscriptions++;
    client->kept += measure_subscription(channel);
    return SYMMCOLL_OK;
}

static void remove_one(struct symc_subscription *subscription)
{
    struct symc_client *client = subscription->client;
    struct channel *channel = subscription->channel;

    tdelete(subscription, &client->subscriptions, compare_subscriptions);
    if (subscription->previous != NULL)
        subscription->previous->next = subscription->next;
    else
        channel->first = subscription->next;
    if (subscription->next != NULL)
        subscription->next->previous = subscription->previous;
    client->nsubscriptions--;
    client->kept -= measure_subscription(channel);
    free(subscription);
    drop_if_empty(client->server, channel);
}

void symc_channel_unsubscribe(struct symc_client *client, const char *name)
{
    struct symc_subscription *subscription = find_subscription(client, name);

    if (subscription != NULL)
        remove_one(subscription);
}

/* Returns the subscription at the root of a client's tree, or NULL if the tree
 * is empty. */
static struct symc_subscription *find_any(const struct symc_client *client)
{
    if (client->subscriptions == NULL)
        return NULL;
    /* The analyzer does not detect that tdelete() removes what is freed. */
    /* NOLINTNEXTLINE(clang-analyzer-unix.Malloc) */
    return *(struct symc_subscription *const *)client->subscriptions;
}

void symc_channel_leave_all(struct symc_client *client)
{
    while (client->subscriptions != NULL)
        remove_one(find_any(client));
}

const char *symc_channel_first(const struct symc_client *client)
{
    const struct symc_subscription *any = find_any(client);

    return any != NULL ? any->channel->name : NULL;
}

/* ---- messages ---- */

/* Returns NULL without memory. */
static struct message *make_message(
    const char *name, const void *data, size_t nbytes)
{
    size_t length = strlen(name), room = length + MESSAGE_HEADS;
    struct message *message = symc_alloc(1, sizeof(*message) + room + nbytes);
    char *at;

    if (message == NULL)
        return NULL;
    message->users = 1;
    at = message->bytes + snprintf(message->bytes, room,
                              "*3\r\n$7\r\nmessage\r\n$%zu\r\n%s\r\n$%zu\r\n",
                              length, name, nbytes);
    memcpy(at, data, nbytes);
    memcpy(at + nbytes, "\r\n", 2);
    message->nbytes = (size_t)(at + nbytes + 2 - message->bytes);
    return message;
}

static void release_message(const void *data, size_t nbytes, void *arg)
{
    struct message *message = arg;

    (void)data;
    (void)nbytes;
    if (--message->users == 0)
        free(message);
}

/* Adds a message to a client's output.  A large message is neither copied for
 * each client, nor sent before other clients have run. */
static void put_message(
    struct symc_client *client, struct message *message, bool own)
{
    if (message->nbytes <= LARGE_NBYTES) {
        evbuffer_add(client->out, message->bytes, message->nbytes);
        if (!own)
            symc_client_flush(client);
    } else if (evbuffer_add_reference(client->out, message->bytes,
                   message->nbytes, release_message, message) == 0) {
        message->users++;
        if (client->tls == NULL)
            event_add(&client->writable, NULL);
    }
    symc_client_count(client);
    if (symc_client_out(client) > SYMC_SERVER_OUT_MAX)
        symc_client_doom(client);
}

size_t symc_channel_publish(struct symc_client *publisher, const char *name,
    const void *data, size_t nbytes)
{
    const struct channel *channel = find_channel(publisher->server, name);
    struct message *message;
    size_t sent = 0;

    if (channel == NULL)
        return 0;
    message = make_message(name, data, nbytes);
    if (message == NULL)
        return 0;
    for (struct symc_subscription *at = channel->first; at != NULL;
         at = at->next) {
        publisher->server->work += SEND_WORK;
        if (at->client->doomed)
            continue;
        put_message(at->client, message, at->client == publisher);
        sent++;
    }
    release_message(NULL, 0, message);
    return sent;
}
