/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The interface between the server's command files: each has a table of
 * commands, and commands.c searches all of them.
 */
#ifndef SYMC_STORE_COMMAND_H
#define SYMC_STORE_COMMAND_H

#include "store/serving.h"

#include <limits.h>

#define SYMC_COMMAND_MANY INT_MAX /* arguments */

/* Replies with the texts of Redis. */
#define SYMC_REPLY_OK "+OK\r\n"
#define SYMC_REPLY_NONE "$-1\r\n"
#define SYMC_REPLY_NOT_NUMBER "-ERR value is not an integer or out of range\r\n"
#define SYMC_REPLY_WRONG_TYPE \
    "-WRONGTYPE Operation against a key holding the wrong kind of value\r\n"
#define SYMC_REPLY_SYNTAX "-ERR syntax error\r\n"
#define SYMC_REPLY_TOO_MUCH "-OOM the transaction needs too much memory\r\n"
#define SYMC_REPLY_NO_MEMORY \
    "-OOM command not allowed when used memory > 'maxmemory'.\r\n"

enum {
    SYMC_COMMAND_WITHOUT_PASSWORD = 1,
    SYMC_COMMAND_SUBSCRIBED = 2, /* allowed for a client with subscriptions */
    SYMC_COMMAND_WRITES = 4,
    SYMC_COMMAND_AT_ONCE = 8, /* not queued in a transaction */
    SYMC_COMMAND_KEYS = 16    /* all arguments are keys, not only the first */
};

struct symc_command {
    const char *name;
    int least, most; /* number of arguments after the name */
    int flags;
    void (*run)(
        struct symc_client *client, struct symc_reply *const *args, size_t n);
};

/* Each table ends with a row without a name. */
extern const struct symc_command symc_commands_of_keys[];
extern const struct symc_command symc_commands_of_lists[];
extern const struct symc_command symc_commands_of_clients[];

/* ---- glob.c ---- */

struct symc_glob;

/* Compiles a pattern.  Returns NULL without memory.  Release with free(). */
struct symc_glob *symc_glob_create(const char *pattern);
bool symc_glob_match(struct symc_glob *glob, const char *text);

/* Returns the maximum number of steps of a match with a text of length
 * bytes. */
size_t symc_glob_steps(const struct symc_glob *glob, size_t length);

/* ---- command_keys.c ---- */

/* Parses a whole argument as a number. */
bool symc_command_read_number(const struct symc_reply *arg, int64_t *number);

#endif
