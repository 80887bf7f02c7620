/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Reads and writes the Redis protocol with hiredis.
 *
 * hiredis trusts its input: it allocates lists of any announced length and
 * keeps any number of bytes.  Therefore objects are created here, where depth,
 * number and size are limited, and the remaining input is checked after each
 * read.
 */
#include "store/resp.h"

#include <hiredis/hiredis.h>
#include <stdlib.h>
#include <string.h>

#define LINE_MAX_BYTES 4096 /* of a status, an error or a length */
#define ARGS_MAX 16         /* of a command that the library sends */

struct symc_resp {
    redisReader *reader;
    struct symc_resp_limits limits;
    size_t items;        /* in the lists of the current reply */
    size_t nbytes;       /* of its texts */
    const char *refused; /* the limit that was exceeded; or NULL */
};

void symc_reply_free(struct symc_reply *reply)
{
    if (reply == NULL)
        return;
    /* The recursion is limited by the reader's limit on depth. */
    for (size_t i = 0; i < reply->count; i++)
        symc_reply_free(reply->items[i]);
    free(reply->items);
    free(reply->text);
    free(reply);
}

static void free_object(void *object)
{
    symc_reply_free(object);
}

static struct symc_reply *refuse(struct symc_resp *resp, const char *why)
{
    resp->refused = why;
    return NULL;
}

static size_t count_depth(const redisReadTask *task)
{
    size_t depth = 0;

    for (; task->parent != NULL; task = task->parent)
        depth++;
    return depth;
}

/* Creates an object and stores it in the list around it. */
static struct symc_reply *make_object(
    const redisReadTask *task, enum symc_reply_type type)
{
    struct symc_reply *reply = symc_alloc(1, sizeof(*reply));
    struct symc_reply *parent;

    if (reply == NULL)
        return NULL;
    reply->type = type;
    if (task->parent != NULL) {
        parent = task->parent->obj;
        parent->items[task->idx] = reply;
    }
    return reply;
}

static void *create_text(const redisReadTask *task, char *text, size_t nbytes)
{
    struct symc_resp *resp = task->privdata;
    enum symc_reply_type type =
        task->type == REDIS_REPLY_ERROR    ? SYMC_REPLY_ERROR
        : task->type == REDIS_REPLY_STATUS ? SYMC_REPLY_STATUS
                                           : SYMC_REPLY_TEXT;
    struct symc_reply *reply;
    char *copy;

    resp->nbytes += nbytes;
    if (nbytes > resp->limits.bulk)
        return refuse(resp, "a text is too long");
    if (resp->nbytes > resp->limits.nbytes)
        return refuse(resp, "the message is too long");
    copy = malloc(nbytes + 1);
    if (copy == NULL)
        return NULL;
    memcpy(copy, text, nbytes);
    copy[nbytes] = '\0';
    reply = make_object(task, type);
    if (reply == NULL) {
        free(copy);
        return NULL;
    }
    reply->text = copy;
    reply->nbytes = nbytes;
    return reply;
}

static void *make_list(const redisReadTask *task, size_t count)
{
    struct symc_resp *resp = task->privdata;
    struct symc_reply *reply;

    if (count_depth(task) >= resp->limits.depth)
        return refuse(resp, "lists are nested too deeply");
    if (count > resp->limits.items - resp->items)
        return refuse(resp, "the message has too many parts");
    resp->items += count;
    reply = make_object(task, SYMC_REPLY_LIST);
    if (reply == NULL || count == 0)
        return reply;
    reply->items = calloc(count, sizeof(struct symc_reply *));
    if (reply->items == NULL) {
        /* hiredis frees the list around this one, and with it this one. */
        if (task->parent == NULL)
            free(reply);
        return NULL;
    }
    reply->count = count;
    return reply;
}

#if HIREDIS_MAJOR >= 1
static void *create_list(const redisReadTask *task, size_t count)
{
    return make_list(task, count);
}
#else
static void *create_list(const redisReadTask *task, int count)
{
    return make_list(task, (size_t)count);
}
#endif

static void *create_number(const redisReadTask *task, long long number)
{
    struct symc_reply *reply = make_object(task, SYMC_REPLY_NUMBER);

    if (reply != NULL)
        reply->number = number;
    return reply;
}

static void *create_none(const redisReadTask *task)
{
    return make_object(task, SYMC_REPLY_NONE);
}

static redisReplyObjectFunctions functions = {
    .createString = create_text,
    .createArray = create_list,
    .createInteger = create_number,
    .createNil = create_none,
    .freeObject = free_object,
};

symmcoll_status_t symc_resp_create(
    const struct symc_resp_limits *limits, struct symc_resp **out)
{
    struct symc_resp *resp = symc_alloc(1, sizeof(*resp));

    if (resp == NULL)
        return SYMMCOLL_ERR_NO_MEMORY;
    resp->limits = *limits;
    resp->reader = redisReaderCreateWithFunctions(&functions);
    if (resp->reader == NULL) {
        free(resp);
        return symc_fail(
            SYMMCOLL_ERR_NO_MEMORY, "tcp store: no memory for a reader");
    }
    resp->reader->privdata = resp;
    *out = resp;
    return SYMMCOLL_OK;
}

void symc_resp_set_limits(
    struct symc_resp *resp, const struct symc_resp_limits *limits)
{
    resp->limits = *limits;
}

void symc_resp_free(struct symc_resp *resp)
{
    if (resp == NULL)
        return;
    redisReaderFree(resp->reader);
    free(resp);
}

symmcoll_status_t symc_resp_feed(
    struct symc_resp *resp, const void *data, size_t nbytes)
{
    if (redisReaderFeed(resp->reader, data, nbytes) == REDIS_OK)
        return SYMMCOLL_OK;
    return symc_fail(
        SYMMCOLL_ERR_NO_MEMORY, "tcp store: no memory for received data");
}

size_t symc_resp_pending(const struct symc_resp *resp)
{
    return resp->reader->len - resp->reader->pos + resp->nbytes +
           resp->items * SYMC_REPLY_NBYTES;
}

/*
 * Returns the reason why the remaining input is invalid, or NULL.  It begins
 * with an incomplete line, or with the length of an incomplete text; neither
 * may be too long.
 */
static const char *judge_rest(const struct symc_resp *resp)
{
    const redisReader *reader = resp->reader;
    const char *rest = reader->buf + reader->pos;
    size_t nbytes = reader->len - reader->pos;
    size_t head = nbytes < LINE_MAX_BYTES ? nbytes : LINE_MAX_BYTES;

    if (nbytes == 0)
        return NULL;
    if (memchr(rest, '\n', head) == NULL)
        return nbytes > head ? "a line is too long" : NULL;
    if (rest[0] >= '0' && rest[0] <= '9' &&
        strtoull(rest, NULL, 10) > resp->limits.bulk)
        return "a text is too long";
    return symc_resp_pending(resp) > resp->limits.nbytes
               ? "the message is too long"
               : NULL;
}

symmcoll_status_t symc_resp_next(
    struct symc_resp *resp, struct symc_reply **reply)
{
    void *object = NULL;
    const char *why = NULL;

    *reply = NULL;
    if (redisReaderGetReply(resp->reader, &object) != REDIS_OK) {
        why = resp->refused != NULL ? resp->refused : resp->reader->errstr;
        if (resp->refused == NULL && resp->reader->err == REDIS_ERR_OOM)
            return symc_fail(SYMMCOLL_ERR_NO_MEMORY,
                "tcp store: no memory for received data");
    } else if (object == NULL) {
        why = judge_rest(resp);
    }
    if (why != NULL)
        return symc_fail(SYMMCOLL_ERR_INVALID,
            "tcp store: expected the Redis protocol, found something else: %s",
            why);
    if (object != NULL) {
        resp->items = 0;
        resp->nbytes = 0;
    }
    *reply = object;
    return SYMMCOLL_OK;
}

symmcoll_status_t symc_resp_format(
    const struct symc_arg *args, size_t nargs, char **text, size_t *nbytes)
{
    const char *data[ARGS_MAX];
    size_t lengths[ARGS_MAX];
    int length;

    if (nargs > ARGS_MAX)
        return symc_fail(SYMMCOLL_ERR_INTERNAL,
            "tcp store: expected a command of at most %d args, found %zu",
            ARGS_MAX, nargs);
    for (size_t i = 0; i < nargs; i++) {
        data[i] = args[i].data != NULL ? args[i].data : "";
        lengths[i] = args[i].nbytes;
    }
    length = redisFormatCommandArgv(text, (int)nargs, data, lengths);
    if (length < 0)
        return symc_fail(
            SYMMCOLL_ERR_NO_MEMORY, "tcp store: no memory for a command");
    *nbytes = (size_t)length;
    return SYMMCOLL_OK;
}
