/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Commands about all keys: those that match a pattern, and their number.
 *
 * The keys and the work of one SCAN are limited; its cursor is where the next
 * one continues.
 */
#include "store/command.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#define SCAN_MOST 1000                        /* keys of one SCAN */
#define PATTERN_MAX (2 * SYMC_SERVER_KEY_MAX) /* each byte escaped */
#define STEP_WORK 16                          /* of one step of a match */
#define KEY_WORK 256                          /* of one key */

struct scan {
    size_t left;   /* the cursor: keys below this index remain */
    int64_t count; /* maximum number of keys to check */
    const char *pattern;
};

static bool read_scan(
    struct symc_reply *const *args, size_t n, struct scan *scan)
{
    int64_t cursor;

    *scan = (struct scan){.count = SCAN_MOST, .pattern = "*"};
    if (n % 2 == 0 || !symc_command_read_number(args[0], &cursor) || cursor < 0)
        return false;
    scan->left = (size_t)cursor;
    for (size_t i = 1; i < n; i += 2) {
        if (strcasecmp(args[i]->text, "MATCH") == 0)
            scan->pattern = args[i + 1]->text;
        else if (strcasecmp(args[i]->text, "COUNT") != 0 ||
                 !symc_command_read_number(args[i + 1], &scan->count) ||
                 scan->count < 1)
            return false;
    }
    return true;
}

/* Checks the next keys, with a limit on their number and on the work.  Returns
 * how many of them match. */
static size_t find_matches(struct symc_server *server, struct scan *scan,
    struct symc_glob *glob, size_t found[SCAN_MOST])
{
    const struct symc_map *map = &server->map;
    int64_t now_ns = symc_now_ns(), expires_ns;
    size_t begun = server->work, nfound = 0;

    if (scan->left == 0 || scan->left > map->count)
        scan->left = map->count;
    for (int64_t i = 0; i < scan->count && i < SCAN_MOST && scan->left > 0 &&
                        server->work - begun < SYMC_SERVER_TURN;
         i++) {
        const char *key = symc_map_key(map, --scan->left, &expires_ns);

        server->work +=
            KEY_WORK + STEP_WORK * symc_glob_steps(glob, strlen(key));
        if (expires_ns > now_ns && symc_glob_match(glob, key))
            found[nfound++] = scan->left;
    }
    return nfound;
}

/* The cursor is 1 + the index of the next key, which is the number of keys that
 * remain. */
static void run_scan(
    struct symc_client *client, struct symc_reply *const *args, size_t n)
{
    struct symc_server *server = client->server;
    size_t found[SCAN_MOST], nfound;
    int64_t expires_ns;
    struct symc_glob *glob;
    struct scan scan;
    char cursor[24];

    if (!read_scan(args, n, &scan)) {
        symc_put_raw(client, SYMC_REPLY_SYNTAX);
        return;
    }
    if (strlen(scan.pattern) > PATTERN_MAX) {
        symc_put_raw(client, "-ERR a pattern has at most 10240 bytes\r\n");
        return;
    }
    glob = symc_glob_create(scan.pattern);
    if (glob == NULL) {
        symc_put_raw(client, SYMC_REPLY_NO_MEMORY);
        return;
    }
    server->work += 256 * strlen(scan.pattern); /* sets of bytes */
    nfound = find_matches(server, &scan, glob, found);
    free(glob);
    snprintf(cursor, sizeof(cursor), "%zu", scan.left);
    symc_put_raw(client, "*2\r\n");
    symc_put_text(client, cursor, strlen(cursor));
    symc_put_number(client, '*', (int64_t)nfound);
    for (size_t i = 0; i < nfound; i++) {
        const char *key = symc_map_key(&server->map, found[i], &expires_ns);

        symc_put_text(client, key, strlen(key));
    }
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
