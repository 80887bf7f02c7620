/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The Redis protocol for both ends of a tcp store: hiredis formats and parses,
 * and this module limits what it accepts.
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

/* The memory of a reply besides its text, with its entry in the list around it
 * and the overhead of allocations. */
#define SYMC_REPLY_NBYTES (sizeof(struct symc_reply) + 64)

void symc_reply_free(struct symc_reply *reply);

struct symc_resp_limits {
    size_t depth;  /* nesting of lists; 1: a list of texts */
    size_t items;  /* in all lists of a reply */
    size_t bulk;   /* bytes of one text */
    size_t nbytes; /* of a whole reply */
};

struct symc_resp;

/* Creates a reader.  Errors: NO_MEMORY. */
symmcoll_status_t symc_resp_create(
    const struct symc_resp_limits *limits, struct symc_resp **resp);

/* Changes the limits. */
void symc_resp_set_limits(
    struct symc_resp *resp, const struct symc_resp_limits *limits);
void symc_resp_free(struct symc_resp *resp);

/* Passes received bytes to the reader.  Errors: NO_MEMORY. */
symmcoll_status_t symc_resp_feed(
    struct symc_resp *resp, const void *data, size_t nbytes);

/* Returns in reply the next complete reply, owned by the caller, or NULL if
 * more bytes are needed.  Errors: INVALID (not the protocol, or beyond a
 * limit), NO_MEMORY. */
symmcoll_status_t symc_resp_next(
    struct symc_resp *resp, struct symc_reply **reply);

/* Returns the bytes that are kept of an incomplete reply. */
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

/* Formats a command on the heap, to be released with free().  Errors:
 * NO_MEMORY. */
symmcoll_status_t symc_resp_format(
    const struct symc_arg *args, size_t nargs, char **text, size_t *nbytes);

#endif
