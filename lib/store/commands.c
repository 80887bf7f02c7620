/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The server's commands: those that a tcp store uses, and a few for
 * administrators.  Their replies are those of Redis.  This file checks
 * requests, and queues those of a transaction.
 */
#include "store/command.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

/* ---- transactions ---- */

static void forget_watches(struct symc_client *client)
{
    while (client->watches != NULL) {
        struct symc_watch *watch = client->watches;

        client->watches = watch->next;
        client->nwatches--;
        client->kept -= sizeof(*watch) + strlen(watch->key) + 1;
        free(watch);
    }
}

static void forget_queued(struct symc_client *client)
{
    while (client->nqueued > 0)
        symc_reply_free(client->queued[--client->nqueued]);
    free(client->queued);
    client->queued = NULL;
    client->queued_room = client->queued_nbytes = 0;
    client->multi = client->spoiled = false;
}

void symc_command_forget(struct symc_client *client)
{
    forget_watches(client);
    forget_queued(client);
}

static void run_watch(
    struct symc_client *client, struct symc_reply *const *args, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        size_t length = strlen(args[i]->text) + 1;
        struct symc_watch *watch = client->nwatches < SYMC_SERVER_WATCHES_MAX
                                       ? symc_alloc(1, sizeof(*watch) + length)
                                       : NULL;

        if (watch == NULL) {
            symc_put_raw(client, SYMC_REPLY_NO_MEMORY);
            return;
        }
        memcpy(watch->key, args[i]->text, length);
        watch->version = symc_map_version(&client->server->map, args[i]->text);
        watch->next = client->watches;
        client->watches = watch;
        client->nwatches++;
        client->kept += sizeof(*watch) + length;
    }
    symc_put_raw(client, SYMC_REPLY_OK);
}

static void run_unwatch(
    struct symc_client *client, struct symc_reply *const *args, size_t n)
{
    (void)args;
    (void)n;
    forget_watches(client);
    symc_put_raw(client, SYMC_REPLY_OK);
}

static void run_multi(
    struct symc_client *client, struct symc_reply *const *args, size_t n)
{
    (void)args;
    (void)n;
    if (client->multi) {
        symc_put_raw(client, "-ERR MULTI calls can not be nested\r\n");
        return;
    }
    client->multi = true;
    symc_put_raw(client, SYMC_REPLY_OK);
}

static void run_discard(
    struct symc_client *client, struct symc_reply *const *args, size_t n)
{
    (void)args;
    (void)n;
    if (!client->multi) {
        symc_put_raw(client, "-ERR DISCARD without MULTI\r\n");
        return;
    }
    symc_command_forget(client);
    symc_put_raw(client, SYMC_REPLY_OK);
}

static const struct symc_command *find_command(const char *name);
static const char *judge_limits(
    const struct symc_client *client, const struct symc_command *command);

/* Runs the queued requests.  A command that would exceed a limit fails alone,
 * like one on a key of the wrong kind. */
static void run_queued(struct symc_client *client)
{
    const struct symc_server *server = client->server;
    size_t begun = server->work;

    symc_put_number(client, '*', (int64_t)client->nqueued);
    for (size_t i = 0; i < client->nqueued; i++) {
        const struct symc_reply *request = client->queued[i];
        const struct symc_command *command =
            find_command(request->items[0]->text);
        const char *error = judge_limits(client, command);

        if (error == NULL &&
            (server->work - begun > SYMC_SERVER_EXEC_WORK ||
                symc_client_out(client) >
                    SYMC_SERVER_OUT_MAX - SYMC_SERVER_REPLY_MAX))
            error = SYMC_REPLY_TOO_MUCH;
        if (error != NULL)
            symc_put_raw(client, error);
        else
            command->run(client, request->items + 1, request->count - 1);
    }
}

static void run_exec(
    struct symc_client *client, struct symc_reply *const *args, size_t n)
{
    bool changed = false;

    (void)args;
    (void)n;
    if (!client->multi) {
        symc_put_raw(client, "-ERR EXEC without MULTI\r\n");
        return;
    }
    for (const struct symc_watch *watch = client->watches; watch != NULL;
         watch = watch->next)
        changed |= symc_map_version(&client->server->map, watch->key) !=
                   watch->version;
    if (client->spoiled) {
        symc_put_raw(client,
            "-EXECABORT Transaction discarded because of previous errors.\r\n");
    } else if (changed) {
        symc_put_raw(client, "*-1\r\n");
    } else {
        run_queued(client);
    }
    symc_command_forget(client);
}

/* ---- the tables ---- */

static const struct symc_command commands_of_transactions[] = {
    {"MULTI", 0, 0, SYMC_COMMAND_AT_ONCE, run_multi},
    {"EXEC", 0, 0, SYMC_COMMAND_AT_ONCE, run_exec},
    {"WATCH", 1, SYMC_COMMAND_MANY, SYMC_COMMAND_AT_ONCE | SYMC_COMMAND_KEYS,
        run_watch},
    {"UNWATCH", 0, 0, 0, run_unwatch},
    {"DISCARD", 0, 0, SYMC_COMMAND_AT_ONCE, run_discard},
    {.name = NULL},
};

static const struct symc_command *const tables[] = {symc_commands_of_keys,
    commands_of_transactions, symc_commands_of_clients, symc_commands_of_lists};

static const struct symc_command *find_command(const char *name)
{
    for (size_t i = 0; i < sizeof(tables) / sizeof(tables[0]); i++)
        for (const struct symc_command *at = tables[i]; at->name != NULL; at++)
            /* Most names differ in the first letter. */
            if (((at->name[0] ^ name[0]) & ~('a' ^ 'A')) == 0 &&
                strcasecmp(at->name, name) == 0)
                return at;
    return NULL;
}

/* ---- requests ---- */

static bool are_keys(const struct symc_reply *request, size_t n)
{
    for (size_t i = 1; i <= n; i++)
        if (strlen(request->items[i]->text) != request->items[i]->nbytes ||
            request->items[i]->nbytes > SYMC_SERVER_KEY_MAX)
            return false;
    return true;
}

/* Returns the error of a command that may not run now, or NULL. */
static const char *judge_limits(
    const struct symc_client *client, const struct symc_command *command)
{
    if ((command->flags & SYMC_COMMAND_WRITES) != 0 &&
        client->server->map.nbytes > client->server->max_memory)
        return SYMC_REPLY_NO_MEMORY;
    return NULL;
}

/* Returns the error of a request, or NULL.  A request is a list of texts; a
 * text that may be a key must not have a zero byte. */
static const char *judge_request(const struct symc_client *client,
    const struct symc_reply *request, const struct symc_command **found)
{
    const struct symc_command *command;
    size_t n;

    if (request->type != SYMC_REPLY_LIST || request->count == 0)
        return "-ERR Protocol error: expected a list of texts\r\n";
    for (size_t i = 0; i < request->count; i++)
        if (request->items[i] == NULL ||
            request->items[i]->type != SYMC_REPLY_TEXT)
            return "-ERR Protocol error: expected a list of texts\r\n";
    command = find_command(request->items[0]->text);
    *found = command;
    if (!client->entered &&
        (command == NULL ||
            (command->flags & SYMC_COMMAND_WITHOUT_PASSWORD) == 0))
        return "-NOAUTH Authentication required.\r\n";
    if (command == NULL)
        return "-ERR unknown command\r\n";
    n = request->count - 1;
    if (n < (size_t)command->least || n > (size_t)command->most)
        return "-ERR wrong number of arguments\r\n";
    if ((command->flags & SYMC_COMMAND_WITHOUT_PASSWORD) == 0 &&
        !are_keys(request,
            n > 0 && (command->flags & SYMC_COMMAND_KEYS) == 0 ? 1 : n))
        return "-ERR a key has no zero byte and at most 5120 bytes\r\n";
    if (client->nsubscriptions > 0 &&
        (command->flags & SYMC_COMMAND_SUBSCRIBED) == 0)
        return "-ERR only SUBSCRIBE, UNSUBSCRIBE, PUBLISH, PING and QUIT are "
               "allowed in this context\r\n";
    return judge_limits(client, command);
}

static size_t measure_request(const struct symc_reply *request)
{
    size_t nbytes = SYMC_REPLY_NBYTES;

    for (size_t i = 0; i < request->count; i++)
        nbytes += request->items[i]->nbytes + SYMC_REPLY_NBYTES;
    return nbytes;
}

/* Queues a request of a transaction.  Returns false if there is no room. */
static bool queue_request(
    struct symc_client *client, struct symc_reply *request)
{
    size_t nbytes = measure_request(request);

    if (client->queued_nbytes + nbytes > SYMC_SERVER_QUEUED_MAX)
        return false;
    if (client->nqueued == client->queued_room) {
        size_t room = 2 * client->queued_room + 4;
        struct symc_reply **queued =
            realloc(client->queued, room * sizeof(*queued));

        if (queued == NULL)
            return false;
        client->queued = queued;
        client->queued_room = room;
    }
    client->queued[client->nqueued++] = request;
    client->queued_nbytes += nbytes;
    return true;
}

void symc_command_run(struct symc_client *client, struct symc_reply *request)
{
    const struct symc_command *command = NULL;
    const char *error = judge_request(client, request, &command);

    client->server->work += SYMC_SERVER_REQUEST_WORK;
    if (error != NULL) {
        symc_put_raw(client, error);
        client->spoiled = client->multi;
        symc_reply_free(request);
        return;
    }
    if (client->multi && (command->flags & SYMC_COMMAND_AT_ONCE) == 0) {
        if (queue_request(client, request)) {
            symc_put_raw(client, "+QUEUED\r\n");
            return;
        }
        symc_put_raw(client, "-OOM the transaction is too large\r\n");
        client->spoiled = true;
        symc_reply_free(request);
        return;
    }
    command->run(client, request->items + 1, request->count - 1);
    symc_reply_free(request);
}
