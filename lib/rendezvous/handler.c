/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Handlers of schemes that the program has registered (R38). They belong to the
 * process, since a handler is looked up before its world exists.
 */
#include "rendezvous/handler.h"

#include <symmcoll/store.h>

#include <math.h>
#include <pthread.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#define HANDLERS_MAX 32

static const char where[] = "rendezvous_register";

static const struct symmcoll_rendezvous_functions default_functions =
    SYMMCOLL_RENDEZVOUS_FUNCTIONS_INIT;
static const struct symc_sized functions_kind = {.name = "functions",
    .macro = "SYMMCOLL_RENDEZVOUS_FUNCTIONS_INIT",
    .defaults = &default_functions,
    .nbytes = sizeof(default_functions),
    .least = sizeof(default_functions)};

struct handler {
    char scheme[SYMC_RENDEZVOUS_SCHEME];
    struct symmcoll_rendezvous_functions functions;
};

/* protects both variables below */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct handler handlers[HANDLERS_MAX];
static size_t count;

/* Finds a handler, under the lock. */
static const struct handler *find(const char *scheme, size_t length)
{
    for (size_t i = 0; i < count; i++)
        if (strlen(handlers[i].scheme) == length &&
            memcmp(handlers[i].scheme, scheme, length) == 0)
            return &handlers[i];
    return NULL;
}

bool symc_rendezvous_handler_find(const char *scheme, size_t length,
    struct symmcoll_rendezvous_functions *functions)
{
    const struct handler *found;

    pthread_mutex_lock(&lock);
    found = find(scheme, length);
    if (found != NULL)
        *functions = found->functions;
    pthread_mutex_unlock(&lock);
    return found != NULL;
}

/* ---- calling a handler ---- */

static symmcoll_status_t check_result(symmcoll_status_t status, uint64_t before,
    const struct symmcoll_store *store)
{
    if (status > 0 || status < SYMMCOLL_ERR_INTERNAL)
        return symc_fail(SYMMCOLL_ERR_INVALID,
            "init: the program's rendezvous handler: expected 0 or an error, "
            "found %d",
            (int)status);
    if (status == SYMMCOLL_OK && store == NULL)
        return symc_fail(SYMMCOLL_ERR_INVALID,
            "init: the program's rendezvous handler: expected a store, found "
            "NULL");
    if (status == SYMMCOLL_OK)
        return status;
    if (symc_error_count() == before)
        return symc_fail(status,
            "init: the program's rendezvous handler returned %s",
            symmcoll_status_name(status));
    /* A call of the library has failed in the handler. */
    return symc_error_amend(status,
        "init: the program's rendezvous handler returned %s: %s",
        symmcoll_status_name(status), symmcoll_last_error());
}

symmcoll_status_t symc_rendezvous_handler_open(
    const struct symmcoll_rendezvous_functions *functions, const char *url,
    int64_t deadline_ns, int *rank, int *size, struct symmcoll_store **store)
{
    int64_t left = deadline_ns - symc_now_ns();
    double seconds = deadline_ns == SYMC_NEVER ? (double)INFINITY
                     : left > 0 ? (double)left / (double)SYMC_NS_PER_S
                                : 0;
    uint64_t before = symc_error_count();
    symmcoll_status_t status;

    *store = NULL;
    status = functions->open(functions->user, url, seconds, rank, size, store);
    status = check_result(status, before, *store);
    if (status == SYMMCOLL_OK && *rank >= -1 && *size >= -1)
        return SYMMCOLL_OK;
    if (status == SYMMCOLL_OK) {
        status = symc_fail(SYMMCOLL_ERR_INVALID,
            "init: the program's rendezvous handler: expected a rank and a "
            "world_size from 0, or -1, found %d and %d",
            *rank, *size);
        symmcoll_store_close(*store);
    }
    *store = NULL;
    return status;
}

/* ---- registering a handler ---- */

/* Returns whether a text is a scheme of RFC 3986 in lower case: "s3",
 * "my+scheme.1". */
static bool is_scheme(const char *text)
{
    size_t length = strspn(text, "abcdefghijklmnopqrstuvwxyz0123456789+-.");

    return length > 0 && text[length] == '\0' &&
           length < SYMC_RENDEZVOUS_SCHEME && text[0] >= 'a' && text[0] <= 'z';
}

static symmcoll_status_t add(
    const char *scheme, const struct symmcoll_rendezvous_functions *functions)
{
    if (find(scheme, strlen(scheme)) != NULL)
        return symc_fail(SYMMCOLL_ERR_INVALID,
            "%s: expected a scheme without a handler, found %s://, which has "
            "one",
            where, scheme);
    if (count == HANDLERS_MAX)
        return symc_fail(SYMMCOLL_ERR_NO_MEMORY,
            "%s: expected at most %d handlers, found one more", where,
            HANDLERS_MAX);
    snprintf(
        handlers[count].scheme, sizeof(handlers[count].scheme), "%s", scheme);
    handlers[count++].functions = *functions;
    return SYMMCOLL_OK;
}

symmcoll_status_t symmcoll_rendezvous_register(
    const char *scheme, const struct symmcoll_rendezvous_functions *given)
{
    struct symmcoll_rendezvous_functions functions;
    char shown[2 * SYMC_RENDEZVOUS_SCHEME];
    symmcoll_status_t status;

    if (scheme == NULL || given == NULL)
        return symc_fail(SYMMCOLL_ERR_INVALID, "%s: %s is NULL", where,
            scheme == NULL ? "scheme" : "functions");
    if (!is_scheme(scheme)) {
        snprintf(shown, sizeof(shown), "%.40s", scheme);
        symc_make_printable(shown);
        return symc_fail(SYMMCOLL_ERR_INVALID,
            "%s: scheme: expected 1 to %d of a-z, 0-9, '+', '-' and '.', the "
            "first a letter, found \"%s\"",
            where, SYMC_RENDEZVOUS_SCHEME - 1, shown);
    }
    if (strcmp(scheme, "env") == 0 || strcmp(scheme, "file") == 0 ||
        strcmp(scheme, "tcp") == 0)
        return symc_fail(SYMMCOLL_ERR_INVALID,
            "%s: expected a scheme of the program's own, found %s://", where,
            scheme);
    status = symc_sized_read(&functions_kind, where, given, &functions);
    if (status != SYMMCOLL_OK)
        return status;
    if (functions.open == NULL)
        return symc_fail(SYMMCOLL_ERR_INVALID, "%s: open is NULL", where);
    pthread_mutex_lock(&lock);
    status = add(scheme, &functions);
    pthread_mutex_unlock(&lock);
    return status;
}
