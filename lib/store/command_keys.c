/* SPDX-License-Identifier: BSD-3-Clause */
/* Commands about single keys: values, counters, queues, and their expiry. */
#include "store/command.h"

#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <strings.h>

bool symc_command_read_number(const struct symc_reply *arg, int64_t *number)
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

/* Returns the content of a key, which is removed first if it has expired. */
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

static bool exists(struct symc_client *client, const char *key)
{
    struct symc_item item = look(client, key);

    return item.value != NULL || item.queue != NULL;
}

/* Gets the content of a key for a command on values or on queues.  Returns
 * false after replying with an error if the key has the other kind. */
static bool look_kind(struct symc_client *client, const char *key, bool queue,
    struct symc_item *item)
{
    *item = look(client, key);
    if (queue ? item->value == NULL : item->queue == NULL)
        return true;
    symc_put_raw(client, SYMC_REPLY_WRONG_TYPE);
    return false;
}

static void put_value(
    struct symc_client *client, const struct symc_bytes *value)
{
    if (value == NULL)
        symc_put_raw(client, SYMC_REPLY_NONE);
    else
        symc_put_text(client, value->data, value->nbytes);
}

/* Runs a change by the rules of all stores.  Returns false after replying with
 * an error. */
static bool change(
    struct symc_client *client, const char *key, struct symc_edit *edit)
{
    struct symc_item item;
    struct symc_map *map = &client->server->map;
    bool queue = edit->kind == SYMC_EDIT_PUSH || edit->kind == SYMC_EDIT_POP;
    bool numeric = edit->kind == SYMC_EDIT_ADD;
    bool any = edit->kind == SYMC_EDIT_SET || edit->kind == SYMC_EDIT_DELETE;
    int64_t expires_ns;
    struct symc_change what;
    symmcoll_status_t status;

    if (any)
        item = look(client, key);
    else if (!look_kind(client, key, queue, &item))
        return false;
    client->server->work +=
        edit->nbytes + (item.value != NULL ? item.value->nbytes : 0);
    expires_ns = symc_map_expires(map, key);
    status = symc_edit_apply(edit, key, item, &what);
    if (status == SYMMCOLL_OK)
        status = symc_map_apply(map, key, &what);
    if (status == SYMMCOLL_OK) {
        /* Only SET resets the expiry. */
        if (what.what == SYMC_PUT && edit->kind != SYMC_EDIT_SET &&
            expires_ns != 0)
            symc_map_expire(map, key, expires_ns);
        return true;
    }
    symc_put_raw(client, status == SYMMCOLL_ERR_NO_MEMORY ? SYMC_REPLY_NO_MEMORY
                         : numeric
                             ? SYMC_REPLY_NOT_NUMBER
                             : "-ERR string exceeds maximum allowed size\r\n");
    return false;
}

/* ---- values ---- */

static void run_get(
    struct symc_client *client, struct symc_reply *const *args, size_t n)
{
    struct symc_item item;

    (void)n;
    if (look_kind(client, args[0]->text, false, &item))
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
    if (nbytes > SYMC_SERVER_REPLY_MAX) {
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
    struct symc_item item;

    (void)n;
    if (look_kind(client, args[0]->text, false, &item))
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
    int only = 0; /* 1: if absent, -1: if present */

    for (size_t i = 2; i < n; i++) {
        bool seconds = strcasecmp(args[i]->text, "EX") == 0;

        if (seconds || strcasecmp(args[i]->text, "PX") == 0) {
            if (i + 1 >= n ||
                !symc_command_read_number(args[i + 1], &life_ms) ||
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
            symc_put_raw(client, SYMC_REPLY_SYNTAX);
            return;
        }
    }
    if (only != 0 && (only > 0) == exists(client, args[0]->text)) {
        symc_put_raw(client, SYMC_REPLY_NONE);
        return;
    }
    if (!set_one(client, args[0], args[1]))
        return;
    if (life_ms > 0)
        symc_map_expire(&client->server->map, args[0]->text,
            symc_now_ns() + life_ms * 1000000);
    symc_put_raw(client, SYMC_REPLY_OK);
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
            symc_put_raw(client, SYMC_REPLY_SYNTAX);
            return;
        }
    for (size_t i = 0; i < n; i += 2)
        if (!set_one(client, args[i], args[i + 1]))
            return;
    symc_put_raw(client, SYMC_REPLY_OK);
}

static void run_incrby(
    struct symc_client *client, struct symc_reply *const *args, size_t n)
{
    struct symc_edit edit = {.kind = SYMC_EDIT_ADD, .amount = 1};

    if (n > 1 && !symc_command_read_number(args[1], &edit.amount))
        symc_put_raw(client, SYMC_REPLY_NOT_NUMBER);
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

    for (size_t i = 0; i < n; i++)
        found += exists(client, args[i]->text);
    symc_put_number(client, ':', found);
}

static void run_expire(
    struct symc_client *client, struct symc_reply *const *args, size_t n)
{
    bool found = exists(client, args[0]->text);
    int64_t seconds;

    (void)n;
    if (!symc_command_read_number(args[1], &seconds) ||
        seconds > INT64_C(1000000000)) {
        symc_put_raw(client, SYMC_REPLY_NOT_NUMBER);
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
    int64_t at;

    (void)n;
    if (!exists(client, args[0]->text)) {
        symc_put_number(client, ':', -2);
        return;
    }
    at = symc_map_expires(&client->server->map, args[0]->text);
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
    struct symc_item item;

    (void)n;
    if (look_kind(client, args[0]->text, true, &item))
        symc_put_number(
            client, ':', item.queue != NULL ? (int64_t)item.queue->length : 0);
}

/* ---- the table ---- */

const struct symc_command symc_commands_of_keys[] = {
    {"SET", 2, 8, SYMC_COMMAND_WRITES, run_set},
    {"GET", 1, 1, 0, run_get},
    {"EXISTS", 1, SYMC_COMMAND_MANY, SYMC_COMMAND_KEYS, run_exists},
    {"INCRBY", 2, 2, SYMC_COMMAND_WRITES, run_incrby},
    {"INCR", 1, 1, SYMC_COMMAND_WRITES, run_incrby},
    {"EXPIRE", 2, 2, 0, run_expire},
    {"DEL", 1, SYMC_COMMAND_MANY, SYMC_COMMAND_KEYS, run_del},
    {"MGET", 1, SYMC_COMMAND_MANY, SYMC_COMMAND_KEYS, run_mget},
    {"MSET", 2, SYMC_COMMAND_MANY, SYMC_COMMAND_WRITES, run_mset},
    {"APPEND", 2, 2, SYMC_COMMAND_WRITES, run_append},
    {"STRLEN", 1, 1, 0, run_strlen},
    {"RPUSH", 2, SYMC_COMMAND_MANY, SYMC_COMMAND_WRITES, run_rpush},
    {"LPOP", 1, 1, 0, run_lpop},
    {"LLEN", 1, 1, 0, run_llen},
    {"TTL", 1, 1, 0, run_ttl},
    {.name = NULL},
};
