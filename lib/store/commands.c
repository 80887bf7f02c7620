/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The server's commands: those that a tcp store uses, and a few with which an
 * administrator looks at it.  Their replies are those of Redis.
 */
#include "store/serving.h"

#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#define OK_TEXT "+OK\r\n"
#define NONE_TEXT "$-1\r\n"
#define NOT_NUMBER "-ERR value is not an integer or out of range\r\n"
#define WRONG_TYPE \
    "-WRONGTYPE Operation against a key holding the wrong kind of value\r\n"
#define SYNTAX "-ERR syntax error\r\n"
#define NO_MEMORY "-OOM command not allowed when used memory > 'maxmemory'.\r\n"

enum {
    WITHOUT_PASSWORD = 1,
    SUBSCRIBED = 2, /* also allowed to a client that has subscribed */
    WRITES = 4,
    AT_ONCE = 8, /* within a transaction too */
    KEYS = 16    /* all arguments are keys, not only the first */
};

struct command {
    const char *name;
    int least, most; /* arguments after the name */
    int flags;
    void (*run)(
        struct symc_client *client, struct symc_reply *const *args, size_t n);
};

/* ---- helpers ---- */

static bool read_number(const struct symc_reply *arg, int64_t *number)
{
    char *end;
    intmax_t value;

    if (arg->nbytes == 0 || isspace((unsigned char)arg->text[0]))
        return false;
    errno = 0;
    value = strtoimax(arg->text, &end, 10);
    *number = value;
    return errno == 0 && end == arg->text + arg->nbytes && value >= INT64_MIN &&
           value <= INT64_MAX;
}

static struct symc_item look(struct symc_client *client, const char *key)
{
    struct symc_map *map = &client->server->map;
    struct symc_item item = symc_map_look(map, key);

    if ((item.value != NULL || item.queue != NULL) &&
        symc_map_expires(map, key) <= symc_now_ns()) {
        symc_map_remove(map, key);
        return (struct symc_item){NULL, NULL};
    }
    return item;
}

static void put_value(
    struct symc_client *client, const struct symc_bytes *value)
{
    if (value == NULL)
        symc_put_raw(client, NONE_TEXT);
    else
        symc_put_text(client, value->data, value->nbytes);
}

/* Run a change by the rules of all stores; false where it replied already. */
static bool change(
    struct symc_client *client, const char *key, struct symc_edit *edit)
{
    struct symc_item item = look(client, key);
    struct symc_map *map = &client->server->map;
    bool queue = edit->kind == SYMC_EDIT_PUSH || edit->kind == SYMC_EDIT_POP;
    bool numeric = edit->kind == SYMC_EDIT_ADD;
    bool any = edit->kind == SYMC_EDIT_SET || edit->kind == SYMC_EDIT_DELETE;
    int64_t expires_ns = symc_map_expires(map, key);
    struct symc_change what;
    symmcoll_status_t status;

    if (!any && (queue ? item.value != NULL : item.queue != NULL)) {
        symc_put_raw(client, WRONG_TYPE);
        return false;
    }
    status = symc_edit_apply(edit, key, item, &what);
    if (status == SYMMCOLL_OK)
        status = symc_map_apply(map, key, &what);
    if (status == SYMMCOLL_OK) {
        /* Only set begins a new life. */
        if (what.what == SYMC_PUT && edit->kind != SYMC_EDIT_SET &&
            expires_ns != 0)
            symc_map_expire(map, key, expires_ns);
        return true;
    }
    symc_put_raw(client, status == SYMMCOLL_ERR_NO_MEMORY ? NO_MEMORY
                         : numeric
                             ? NOT_NUMBER
                             : "-ERR string exceeds maximum allowed size\r\n");
    return false;
}

/* ---- connection ---- */

/* As long for a wrong password as for a right one. */
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
        symc_put_raw(client, OK_TEXT);
}

static void run_hello(
    struct symc_client *client, struct symc_reply *const *args, size_t n)
{
    int64_t version = 2;

    if (n > 0 && (!read_number(args[0], &version) || version != 2)) {
        symc_put_raw(client, "-NOPROTO unsupported protocol version\r\n");
        return;
    }
    if (n == 4 && strcasecmp(args[1]->text, "AUTH") == 0) {
        if (!enter(client, args[2], args[3]))
            return;
    } else if (n > 1) {
        symc_put_raw(client, SYNTAX);
        return;
    }
    if (!client->entered) {
        symc_put_raw(client,
            "-NOAUTH HELLO must be called with the client already "
            "authenticated\r\n");
        return;
    }
    symc_put_raw(client,
        "*6\r\n$6\r\nserver\r\n$8\r\nsymmcoll\r\n$5\r\nproto\r\n:2\r\n"
        "$4\r\nrole\r\n$6\r\nmaster\r\n");
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
    symc_put_raw(client, read_number(args[0], &number) && number == 0
                             ? OK_TEXT
                             : "-ERR DB index is out of range\r\n");
}

static void run_quit(
    struct symc_client *client, struct symc_reply *const *args, size_t n)
{
    (void)args;
    (void)n;
    symc_put_raw(client, OK_TEXT);
    client->closing = true;
}

/* ---- values ---- */

static void run_get(
    struct symc_client *client, struct symc_reply *const *args, size_t n)
{
    struct symc_item item = look(client, args[0]->text);

    (void)n;
    if (item.queue != NULL)
        symc_put_raw(client, WRONG_TYPE);
    else
        put_value(client, item.value);
}

static void run_mget(
    struct symc_client *client, struct symc_reply *const *args, size_t n)
{
    size_t nbytes = 0;

    for (size_t i = 0; i < n; i++) {
        struct symc_item item = look(client, args[i]->text);

        nbytes += item.value != NULL ? item.value->nbytes : 0;
    }
    if (nbytes > SYMC_SERVER_OUT_MAX / 2) {
        symc_put_raw(client, "-ERR the values are too large for one reply\r\n");
        return;
    }
    symc_put_number(client, '*', (int64_t)n);
    for (size_t i = 0; i < n; i++)
        put_value(client, look(client, args[i]->text).value);
}

static void run_strlen(
    struct symc_client *client, struct symc_reply *const *args, size_t n)
{
    struct symc_item item = look(client, args[0]->text);

    (void)n;
    if (item.queue != NULL)
        symc_put_raw(client, WRONG_TYPE);
    else
        symc_put_number(
            client, ':', item.value != NULL ? (int64_t)item.value->nbytes : 0);
}

static bool set_one(struct symc_client *client, const struct symc_reply *key,
    const struct symc_reply *value)
{
    struct symc_edit edit = {
        .kind = SYMC_EDIT_SET, .value = value->text, .nbytes = value->nbytes};

    return change(client, key->text, &edit);
}

static void run_set(
    struct symc_client *client, struct symc_reply *const *args, size_t n)
{
    int64_t life_ms = -1;
    int only = 0; /* 1: where absent, -1: where there */
    struct symc_item item;

    for (size_t i = 2; i < n; i++) {
        bool seconds = strcasecmp(args[i]->text, "EX") == 0;

        if (seconds || strcasecmp(args[i]->text, "PX") == 0) {
            if (i + 1 >= n || !read_number(args[i + 1], &life_ms) ||
                life_ms <= 0 || life_ms > INT64_C(10000000000)) {
                symc_put_raw(
                    client, "-ERR invalid expire time in 'set' command\r\n");
                return;
            }
            life_ms *= seconds ? 1000 : 1;
            i++;
        } else if (strcasecmp(args[i]->text, "NX") == 0) {
            only = 1;
        } else if (strcasecmp(args[i]->text, "XX") == 0) {
            only = -1;
        } else {
            symc_put_raw(client, SYNTAX);
            return;
        }
    }
    item = look(client, args[0]->text);
    if (only != 0 && (only > 0) == (item.value != NULL || item.queue != NULL)) {
        symc_put_raw(client, NONE_TEXT);
        return;
    }
    if (!set_one(client, args[0], args[1]))
        return;
    if (life_ms > 0)
        symc_map_expire(&client->server->map, args[0]->text,
            symc_now_ns() + life_ms * 1000000);
    symc_put_raw(client, OK_TEXT);
}

static void run_mset(
    struct symc_client *client, struct symc_reply *const *args, size_t n)
{
    if (n % 2 != 0) {
        symc_put_raw(
            client, "-ERR wrong number of arguments for 'mset' command\r\n");
        return;
    }
    for (size_t i = 0; i < n; i += 2)
        if (args[i]->nbytes > SYMC_SERVER_KEY_MAX) {
            symc_put_raw(client, SYNTAX);
            return;
        }
    for (size_t i = 0; i < n; i += 2)
        if (!set_one(client, args[i], args[i + 1]))
            return;
    symc_put_raw(client, OK_TEXT);
}

static void run_incrby(
    struct symc_client *client, struct symc_reply *const *args, size_t n)
{
    struct symc_edit edit = {.kind = SYMC_EDIT_ADD, .amount = 1};

    if (n > 1 && !read_number(args[1], &edit.amount))
        symc_put_raw(client, NOT_NUMBER);
    else if (change(client, args[0]->text, &edit))
        symc_put_number(client, ':', edit.sum);
}

static void run_append(
    struct symc_client *client, struct symc_reply *const *args, size_t n)
{
    struct symc_edit edit = {.kind = SYMC_EDIT_APPEND,
        .value = args[1]->text,
        .nbytes = args[1]->nbytes};

    if (change(client, args[0]->text, &edit))
        run_strlen(client, args, n);
}

static void run_del(
    struct symc_client *client, struct symc_reply *const *args, size_t n)
{
    int64_t removed = 0;

    for (size_t i = 0; i < n; i++) {
        struct symc_edit edit = {.kind = SYMC_EDIT_DELETE};

        if (!change(client, args[i]->text, &edit))
            return;
        removed += edit.existed;
    }
    symc_put_number(client, ':', removed);
}

static void run_exists(
    struct symc_client *client, struct symc_reply *const *args, size_t n)
{
    int64_t found = 0;

    for (size_t i = 0; i < n; i++) {
        struct symc_item item = look(client, args[i]->text);

        found += item.value != NULL || item.queue != NULL;
    }
    symc_put_number(client, ':', found);
}

static void run_expire(
    struct symc_client *client, struct symc_reply *const *args, size_t n)
{
    struct symc_item item = look(client, args[0]->text);
    bool found = item.value != NULL || item.queue != NULL;
    int64_t seconds;

    (void)n;
    if (!read_number(args[1], &seconds) || seconds > INT64_C(1000000000)) {
        symc_put_raw(client, NOT_NUMBER);
        return;
    }
    if (found && seconds <= 0)
        symc_map_remove(&client->server->map, args[0]->text);
    else if (found)
        symc_map_expire(&client->server->map, args[0]->text,
            symc_now_ns() + seconds * SYMC_NS_PER_S);
    symc_put_number(client, ':', found);
}

static void run_ttl(
    struct symc_client *client, struct symc_reply *const *args, size_t n)
{
    struct symc_item item = look(client, args[0]->text);
    int64_t at = symc_map_expires(&client->server->map, args[0]->text);

    (void)n;
    if (item.value == NULL && item.queue == NULL)
        symc_put_number(client, ':', -2);
    else
        symc_put_number(client, ':',
            at == SYMC_NEVER
                ? -1
                : (at - symc_now_ns() + SYMC_NS_PER_S / 2) / SYMC_NS_PER_S);
}

/* ---- queues ---- */

static void run_rpush(
    struct symc_client *client, struct symc_reply *const *args, size_t n)
{
    struct symc_edit edit = {.kind = SYMC_EDIT_PUSH};

    for (size_t i = 1; i < n; i++) {
        edit.value = args[i]->text;
        edit.nbytes = args[i]->nbytes;
        if (!change(client, args[0]->text, &edit))
            return;
    }
    symc_put_number(client, ':', edit.sum);
}

static void run_lpop(
    struct symc_client *client, struct symc_reply *const *args, size_t n)
{
    struct symc_edit edit = {.kind = SYMC_EDIT_POP};

    (void)n;
    if (!change(client, args[0]->text, &edit))
        return;
    put_value(client, edit.existed ? &edit.result : NULL);
    free(edit.result.data);
}

static void run_llen(
    struct symc_client *client, struct symc_reply *const *args, size_t n)
{
    struct symc_item item = look(client, args[0]->text);

    (void)n;
    if (item.value != NULL)
        symc_put_raw(client, WRONG_TYPE);
    else
        symc_put_number(
            client, ':', item.queue != NULL ? (int64_t)item.queue->length : 0);
}

/* ---- all keys ---- */

/* Whether a text matches * ? [abc] [^a-c] \x; no pattern takes long. */
static bool match_one(const char **pattern, char c)
{
    const char *at = *pattern;
    bool negate, found = false;

    if (*at == '?') {
        *pattern = at + 1;
        return true;
    }
    if (*at != '[') {
        if (*at == '\\' && at[1] != '\0')
            at++;
        *pattern = at + 1;
        return *at == c;
    }
    at++;
    negate = *at == '^';
    at += negate;
    for (; *at != '\0' && *at != ']'; at++) {
        if (*at == '\\' && at[1] != '\0')
            at++;
        if (at[1] == '-' && at[2] != '\0' && at[2] != ']') {
            found |= *at <= c && c <= at[2];
            at += 2;
        } else {
            found |= *at == c;
        }
    }
    *pattern = *at != '\0' ? at + 1 : at;
    return found != negate;
}

static bool matches(const char *pattern, const char *text)
{
    const char *star = NULL, *again = NULL;

    while (*text != '\0') {
        const char *next = pattern;

        if (*pattern == '*') {
            star = ++pattern;
            again = text;
        } else if (*pattern != '\0' && match_one(&next, *text)) {
            pattern = next;
            text++;
        } else if (star != NULL) {
            pattern = star;
            text = ++again;
        } else {
            return false;
        }
    }
    while (*pattern == '*')
        pattern++;
    return *pattern == '\0';
}

/* What every match begins with: the pattern up to its first special one. */
static void find_prefix(const char *pattern, char *prefix, size_t room)
{
    size_t used = 0;

    while (*pattern != '\0' && strchr("*?[", *pattern) == NULL &&
           used + 1 < room) {
        if (*pattern == '\\' && pattern[1] != '\0')
            pattern++;
        prefix[used++] = *pattern++;
    }
    prefix[used] = '\0';
}

/* All at once: the cursor that is returned is always the last one. */
static void run_scan(
    struct symc_client *client, struct symc_reply *const *args, size_t n)
{
    struct symc_map *map = &client->server->map;
    struct symc_names names = {0};
    const char *pattern = "*", *name;
    char prefix[SYMC_SERVER_KEY_MAX + 1];
    size_t found = 0;

    for (size_t i = 1; i + 1 < n; i += 2)
        if (strcasecmp(args[i]->text, "MATCH") == 0)
            pattern = args[i + 1]->text;
    find_prefix(pattern, prefix, sizeof(prefix));
    if (symc_map_sweep(map, symc_now_ns()) != SYMMCOLL_OK ||
        symc_map_list(map, prefix, &names) != SYMMCOLL_OK) {
        free(names.text);
        symc_put_raw(client, NO_MEMORY);
        return;
    }
    name = names.text;
    for (size_t i = 0; i < names.count; i++, name += strlen(name) + 1)
        found += matches(pattern, name);
    symc_put_raw(client, "*2\r\n$1\r\n0\r\n");
    symc_put_number(client, '*', (int64_t)found);
    name = names.text;
    for (size_t i = 0; i < names.count; i++, name += strlen(name) + 1)
        if (matches(pattern, name))
            symc_put_text(client, name, strlen(name));
    free(names.text);
}

static void run_dbsize(
    struct symc_client *client, struct symc_reply *const *args, size_t n)
{
    (void)args;
    (void)n;
    symc_put_number(client, ':', (int64_t)client->server->map.count);
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
        symc_put_raw(client, NONE_TEXT);
    symc_put_number(client, ':', (int64_t)client->nsubscriptions);
}

static void run_subscribe(
    struct symc_client *client, struct symc_reply *const *args, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if (symc_channel_subscribe(client, args[i]->text) != SYMMCOLL_OK) {
            symc_put_raw(client, NO_MEMORY);
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

/* ---- transactions ---- */

static void forget_watches(struct symc_client *client)
{
    while (client->watches != NULL) {
        struct symc_watch *watch = client->watches;

        client->watches = watch->next;
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
        struct symc_watch *watch = symc_alloc(1, sizeof(*watch) + length);

        if (watch == NULL) {
            symc_put_raw(client, NO_MEMORY);
            return;
        }
        memcpy(watch->key, args[i]->text, length);
        watch->version = symc_map_version(&client->server->map, args[i]->text);
        watch->next = client->watches;
        client->watches = watch;
    }
    symc_put_raw(client, OK_TEXT);
}

static void run_unwatch(
    struct symc_client *client, struct symc_reply *const *args, size_t n)
{
    (void)args;
    (void)n;
    forget_watches(client);
    symc_put_raw(client, OK_TEXT);
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
    symc_put_raw(client, OK_TEXT);
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
    symc_put_raw(client, OK_TEXT);
}

static const struct command *find_command(const char *name);

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
        symc_put_number(client, '*', (int64_t)client->nqueued);
        for (size_t i = 0; i < client->nqueued; i++) {
            const struct symc_reply *request = client->queued[i];

            find_command(request->items[0]->text)
                ->run(client, request->items + 1, request->count - 1);
        }
    }
    symc_command_forget(client);
}

/* ---- the table ---- */

#define MANY INT_MAX

static const struct command commands[] = {
    {"SET", 2, 8, WRITES, run_set},
    {"GET", 1, 1, 0, run_get},
    {"EXISTS", 1, MANY, KEYS, run_exists},
    {"PUBLISH", 2, 2, SUBSCRIBED, run_publish},
    {"MULTI", 0, 0, AT_ONCE, run_multi},
    {"EXEC", 0, 0, AT_ONCE, run_exec},
    {"SUBSCRIBE", 1, MANY, SUBSCRIBED | KEYS, run_subscribe},
    {"UNSUBSCRIBE", 0, MANY, SUBSCRIBED | KEYS, run_unsubscribe},
    {"INCRBY", 2, 2, WRITES, run_incrby},
    {"INCR", 1, 1, WRITES, run_incrby},
    {"EXPIRE", 2, 2, 0, run_expire},
    {"DEL", 1, MANY, KEYS, run_del},
    {"MGET", 1, MANY, KEYS, run_mget},
    {"MSET", 2, MANY, WRITES, run_mset},
    {"APPEND", 2, 2, WRITES, run_append},
    {"STRLEN", 1, 1, 0, run_strlen},
    {"RPUSH", 2, MANY, WRITES, run_rpush},
    {"LPOP", 1, 1, 0, run_lpop},
    {"LLEN", 1, 1, 0, run_llen},
    {"WATCH", 1, MANY, AT_ONCE | KEYS, run_watch},
    {"UNWATCH", 0, 0, 0, run_unwatch},
    {"DISCARD", 0, 0, AT_ONCE, run_discard},
    {"SCAN", 1, 7, 0, run_scan},
    {"TTL", 1, 1, 0, run_ttl},
    {"DBSIZE", 0, 0, 0, run_dbsize},
    {"PING", 0, 1, SUBSCRIBED, run_ping},
    {"SELECT", 1, 1, 0, run_select},
    {"AUTH", 1, 2, WITHOUT_PASSWORD | AT_ONCE, run_auth},
    {"HELLO", 0, 6, WITHOUT_PASSWORD | AT_ONCE, run_hello},
    {"QUIT", 0, 0, WITHOUT_PASSWORD | SUBSCRIBED | AT_ONCE, run_quit},
};

static const struct command *find_command(const char *name)
{
    for (size_t i = 0; i < sizeof(commands) / sizeof(commands[0]); i++)
        if (strcasecmp(commands[i].name, name) == 0)
            return &commands[i];
    return NULL;
}

static bool are_keys(const struct symc_reply *request, size_t n)
{
    for (size_t i = 1; i <= n; i++)
        if (strlen(request->items[i]->text) != request->items[i]->nbytes ||
            request->items[i]->nbytes > SYMC_SERVER_KEY_MAX)
            return false;
    return true;
}

/* A request is a list of texts, of which those that may be keys are texts
 * without a zero byte. */
static const char *judge_request(const struct symc_client *client,
    const struct symc_reply *request, const struct command **found)
{
    const struct command *command;
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
        (command == NULL || (command->flags & WITHOUT_PASSWORD) == 0))
        return "-NOAUTH Authentication required.\r\n";
    if (command == NULL)
        return "-ERR unknown command\r\n";
    n = request->count - 1;
    if (n < (size_t)command->least || n > (size_t)command->most)
        return "-ERR wrong number of arguments\r\n";
    if ((command->flags & WITHOUT_PASSWORD) == 0 &&
        !are_keys(request, n > 0 && (command->flags & KEYS) == 0 ? 1 : n))
        return "-ERR a key has no zero byte and at most 5120 bytes\r\n";
    if (client->nsubscriptions > 0 && (command->flags & SUBSCRIBED) == 0)
        return "-ERR only SUBSCRIBE, UNSUBSCRIBE, PUBLISH, PING and QUIT are "
               "allowed in this context\r\n";
    if ((command->flags & WRITES) != 0 &&
        client->server->map.nbytes > client->server->max_memory)
        return NO_MEMORY;
    return NULL;
}

static size_t measure_request(const struct symc_reply *request)
{
    size_t nbytes = sizeof(*request);

    for (size_t i = 0; i < request->count; i++)
        nbytes += request->items[i]->nbytes + sizeof(*request);
    return nbytes;
}

/* Keep a request of a transaction; false where there is no room. */
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
    const struct command *command = NULL;
    const char *error = judge_request(client, request, &command);

    if (error != NULL) {
        symc_put_raw(client, error);
        client->spoiled = client->multi;
        symc_reply_free(request);
        return;
    }
    if (client->multi && (command->flags & AT_ONCE) == 0) {
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
