/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The server's commands among themselves: a table in each file, of which
 * commands.c makes one.
 */
#ifndef SYMC_STORE_COMMAND_H
#define SYMC_STORE_COMMAND_H

#include "store/serving.h"

#include <limits.h>

#define SYMC_COMMAND_MANY INT_MAX /* arguments */

/* Replies, as Redis has them. */
#define SYMC_REPLY_OK "+OK\r\n"
#define SYMC_REPLY_NONE "$-1\r\n"
#define SYMC_REPLY_NOT_NUMBER "-ERR value is not an integer or out of range\r\n"
#define SYMC_REPLY_WRONG_TYPE \
    "-WRONGTYPE Operation against a key holding the wrong kind of value\r\n"
#define SYMC_REPLY_SYNTAX "-ERR syntax error\r\n"
#define SYMC_REPLY_TOO_MUCH "-OOM the transaction asks for too much\r\n"
#define SYMC_REPLY_NO_MEMORY \
    "-OOM command not allowed when used memory > 'maxmemory'.\r\n"

enum {
    SYMC_COMMAND_WITHOUT_PASSWORD = 1,
    SYMC_COMMAND_SUBSCRIBED = 2, /* also for a client that has subscribed */
    SYMC_COMMAND_WRITES = 4,
    SYMC_COMMAND_AT_ONCE = 8, /* within a transaction too */
    SYMC_COMMAND_KEYS = 16    /* all arguments are keys, not only the first */
};

struct symc_command {
    const char *name;
    int least, most; /* arguments after the name */
    int flags;
    void (*run)(
        struct symc_client *client, struct symc_reply *const *args, size_t n);
};

/* Each ends with a row without a name. */
extern const struct symc_command symc_commands_of_keys[];
extern const struct symc_command symc_commands_of_lists[];
extern const struct symc_command symc_commands_of_clients[];

/* ---- glob.c ---- */

struct symc_glob;

/* NULL: no memory.  Release it with free(). */
struct symc_glob *symc_glob_create(const char *pattern);
bool symc_glob_match(struct symc_glob *glob, const char *text);

/* Returns how many steps a match with a text of so many bytes takes at most. */
size_t symc_glob_steps(const struct symc_glob *glob, size_t length);

/* ---- command_keys.c ---- */

/* A whole argument as a number. */
bool symc_command_read_number(const struct symc_reply *arg, int64_t *number);

#endif
