/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The Redis protocol as both ends of a tcp store read and write it: hiredis
 * formats and parses, and this bounds what it may take in.
 */
#ifndef SYMC_STORE_RESP_H
#define SYMC_STORE_RESP_H

#include "store/ops.h"

enum symc_reply_type {
    SYMC_REPLY_TEXT, /* a bulk string */
    SYMC_REPLY_LIST,
    SYMC_REPLY_NUMBER,
    SYMC_REPLY_NONE,
    SYMC_REPLY_STATUS,
    SYMC_REPLY_ERROR
};

/* One reply, or one request. */
struct symc_reply {
    enum symc_reply_type type;
    int64_t number;
    char *text; /* with a zero byte after nbytes */
    size_t nbytes;
    struct symc_reply **items; /* count of them */
    size_t count;
};

/* Bytes of memory beside its text, the place in the list around it and heads of
 * allocations included. */
#define SYMC_REPLY_NBYTES (sizeof(struct symc_reply) + 64)

void symc_reply_free(struct symc_reply *reply);

struct symc_resp_limits {
    size_t depth;  /* of lists within lists, 1: a list of texts */
    size_t items;  /* in all lists of a reply together */
    size_t bulk;   /* bytes of one text */
    size_t nbytes; /* of one whole reply */
};

struct symc_resp;

/* Errors: NO_MEMORY. */
symmcoll_status_t symc_resp_create(
    const struct symc_resp_limits *limits, struct symc_resp **resp);

/* Other limits from now on. */
void symc_resp_set_limits(
    struct symc_resp *resp, const struct symc_resp_limits *limits);
void symc_resp_free(struct symc_resp *resp);

/* Take in bytes.  Errors: NO_MEMORY. */
symmcoll_status_t symc_resp_feed(
    struct symc_resp *resp, const void *data, size_t nbytes);

/* The next whole reply, the caller's; NULL where more bytes are needed.
 * Errors: INVALID (not the protocol, or beyond a limit), NO_MEMORY. */
symmcoll_status_t symc_resp_next(
    struct symc_resp *resp, struct symc_reply **reply);

/* Bytes that are kept of what is not whole yet. */
size_t symc_resp_pending(const struct symc_resp *resp);

/* One argument of a command; the data is borrowed. */
struct symc_arg {
    const void *data;
    size_t nbytes;
};
#define SYMC_ARG(literal)                \
    (struct symc_arg)                    \
    {                                    \
        (literal), sizeof((literal)) - 1 \
    }

/* A command on the heap, for free().  Errors: NO_MEMORY. */
symmcoll_status_t symc_resp_format(
    const struct symc_arg *args, size_t nargs, char **text, size_t *nbytes);

#endif
