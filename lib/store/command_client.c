/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Commands about the client itself: its login, and the channels that it
 * subscribes to.
 */
#include "store/command.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

/* ---- connection ---- */

/* Compares a password in constant time. */
static bool is_password(
    const struct symc_server *server, const char *given, size_t nbytes)
{
    char padded[SYMC_SECRET_MAX] = {0};
    volatile unsigned char differs = 0;

    memcpy(
        padded, given, nbytes < sizeof(padded) ? nbytes : sizeof(padded) - 1);
    for (size_t i = 0; i < sizeof(padded); i++)
        differs |= (unsigned char)(padded[i] ^ server->password[i]);
    explicit_bzero(padded, sizeof(padded));
    return differs == 0 && nbytes < sizeof(padded);
}

/* Authenticates a client; user may be NULL.  Returns false after replying
 * with an error. */
static bool enter(struct symc_client *client, const struct symc_reply *user,
    const struct symc_reply *password)
{
    const struct symc_server *server = client->server;

    if (server->password[0] == '\0') {
        symc_put_raw(client,
            "-ERR AUTH <password> called without any password configured\r\n");
        return false;
    }
    if (!is_password(server, password->text, password->nbytes) ||
        (user != NULL && strcmp(user->text, "default") != 0)) {
        symc_put_raw(client,
            "-WRONGPASS invalid username-password pair or user is disabled.\r\n");
        client->entered = false;
        return false;
    }
    client->entered = true;
    return true;
}

static void run_auth(
    struct symc_client *client, struct symc_reply *const *args, size_t n)
{
    if (enter(client, n > 1 ? args[0] : NULL, args[n - 1]))
        symc_put_raw(client, SYMC_REPLY_OK);
}

static void run_hello(
    struct symc_client *client, struct symc_reply *const *args, size_t n)
{
    int64_t version = 2;

    if (n > 0 &&
        (!symc_command_read_number(args[0], &version) || version != 2)) {
        symc_put_raw(client, "-NOPROTO unsupported protocol version\r\n");
        return;
    }
    if (n == 4 && strcasecmp(args[1]->text, "AUTH") == 0) {
        if (!enter(client, args[2], args[3]))
            return;
    } else if (n > 1) {
        symc_put_raw(client, SYMC_REPLY_SYNTAX);
        return;
    }
    if (!client->entered) {
        symc_put_raw(client,
            "-NOAUTH HELLO must be called with the client already "
            "authenticated\r\n");
        return;
    }
    symc_put_raw(
        client, "*8\r\n$6\r\nserver\r\n$8\r\nsymmcoll\r\n$7\r\nversion\r\n");
    symc_put_text(client, PACKAGE_VERSION, sizeof(PACKAGE_VERSION) - 1);
    symc_put_raw(client, "$5\r\nproto\r\n:2\r\n$4\r\nrole\r\n$6\r\nmaster\r\n");
}

static void run_ping(
    struct symc_client *client, struct symc_reply *const *args, size_t n)
{
    if (client->nsubscriptions > 0) {
        symc_put_raw(client, "*2\r\n$4\r\npong\r\n");
        symc_put_text(
            client, n > 0 ? args[0]->text : "", n > 0 ? args[0]->nbytes : 0);
    } else if (n > 0) {
        symc_put_text(client, args[0]->text, args[0]->nbytes);
    } else {
        symc_put_raw(client, "+PONG\r\n");
    }
}

static void run_select(
    struct symc_client *client, struct symc_reply *const *args, size_t n)
{
    int64_t number = 1;

    (void)n;
    symc_put_raw(
        client, symc_command_read_number(args[0], &number) && number == 0
                    ? SYMC_REPLY_OK
                    : "-ERR DB index is out of range\r\n");
}

static void run_quit(
    struct symc_client *client, struct symc_reply *const *args, size_t n)
{
    (void)args;
    (void)n;
    symc_put_raw(client, SYMC_REPLY_OK);
    client->closing = true;
}

/* ---- channels ---- */

static void put_subscription(
    struct symc_client *client, const char *what, const char *name)
{
    symc_put_raw(client, "*3\r\n");
    symc_put_text(client, what, strlen(what));
    if (name != NULL)
        symc_put_text(client, name, strlen(name));
    else
        symc_put_raw(client, SYMC_REPLY_NONE);
    symc_put_number(client, ':', (int64_t)client->nsubscriptions);
}

static void run_subscribe(
    struct symc_client *client, struct symc_reply *const *args, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if (symc_channel_subscribe(client, args[i]->text) != SYMMCOLL_OK) {
            symc_put_raw(client, "-ERR no room for more channels\r\n");
            return;
        }
        put_subscription(client, "subscribe", args[i]->text);
    }
}

static void run_unsubscribe(
    struct symc_client *client, struct symc_reply *const *args, size_t n)
{
    char name[SYMC_SERVER_KEY_MAX + 1];

    for (size_t i = 0; i < n; i++) {
        symc_channel_unsubscribe(client, args[i]->text);
        put_subscription(client, "unsubscribe", args[i]->text);
    }
    if (n == 0 && client->nsubscriptions == 0)
        put_subscription(client, "unsubscribe", NULL);
    while (n == 0 && client->nsubscriptions > 0) {
        snprintf(name, sizeof(name), "%s", symc_channel_first(client));
        symc_channel_unsubscribe(client, name);
        put_subscription(client, "unsubscribe", name);
    }
}

static void run_publish(
    struct symc_client *client, struct symc_reply *const *args, size_t n)
{
    (void)n;
    symc_put_number(client, ':',
        (int64_t)symc_channel_publish(
            client, args[0]->text, args[1]->text, args[1]->nbytes));
}

/* ---- the table ---- */

const struct symc_command symc_commands_of_clients[] = {
    {"PUBLISH", 2, 2, SYMC_COMMAND_SUBSCRIBED, run_publish},
    {"SUBSCRIBE", 1, SYMC_COMMAND_MANY,
        SYMC_COMMAND_SUBSCRIBED | SYMC_COMMAND_KEYS, run_subscribe},
    {"UNSUBSCRIBE", 0, SYMC_COMMAND_MANY,
        SYMC_COMMAND_SUBSCRIBED | SYMC_COMMAND_KEYS, run_unsubscribe},
    {"PING", 0, 1, SYMC_COMMAND_SUBSCRIBED, run_ping},
    {"SELECT", 1, 1, 0, run_select},
    {"AUTH", 1, 2, SYMC_COMMAND_WITHOUT_PASSWORD | SYMC_COMMAND_AT_ONCE,
        run_auth},
    {"HELLO", 0, 6, SYMC_COMMAND_WITHOUT_PASSWORD | SYMC_COMMAND_AT_ONCE,
        run_hello},
    {"QUIT", 0, 0,
        SYMC_COMMAND_WITHOUT_PASSWORD | SYMC_COMMAND_SUBSCRIBED |
            SYMC_COMMAND_AT_ONCE,
        run_quit},
    {.name = NULL},
};
