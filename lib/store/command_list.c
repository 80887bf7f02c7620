/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Commands of all keys: those that match a pattern, and their number.
 */
#include "store/command.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

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
        symc_put_raw(client, SYMC_REPLY_NO_MEMORY);
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

const struct symc_command symc_commands_of_lists[] = {
    {"SCAN", 1, 7, 0, run_scan},
    {"DBSIZE", 0, 0, 0, run_dbsize},
    {.name = NULL},
};
