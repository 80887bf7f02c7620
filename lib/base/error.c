/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The thread's error, and the names of statuses.  The error is the only state
 * of the library that belongs to a thread and not to a handle, since there may
 * be no handle yet.
 */
#include "base/base.h"
#include "base/ranks.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>

static _Thread_local struct symc_error last;
static _Thread_local uint64_t errors; /* had so far */

/* Keeps a detail on one line, even if it quotes a user's text. */
static void keep_one_line(char *text)
{
    for (; *text != '\0'; text++) {
        unsigned char byte = (unsigned char)*text;

        if (byte < 0x20 || byte == 0x7f)
            *text = ' ';
    }
}

/* Marks a text that did not fit with "...". */
static void mark_cut(char *text, size_t nbytes)
{
    memcpy(text + nbytes - sizeof("..."), "...", sizeof("..."));
}

/*
 * Formats the thread's detail, with ": reason" appended unless reason is NULL.
 * Formats to a local buffer first: the reason or an argument may be the detail
 * that is being replaced.
 */
static void format_detail(const char *format, va_list args, const char *reason)
{
    char text[SYMC_DETAIL_MAX];
    int length = vsnprintf(text, sizeof(text), format, args);

    if (length < 0)
        length = snprintf(text, sizeof(text), "%s", format);
    if (reason != NULL && length >= 0 && (size_t)length < sizeof(text)) {
        size_t used = (size_t)length;

        length += snprintf(text + used, sizeof(text) - used, ": %s", reason);
    }
    if (length >= 0 && (size_t)length >= sizeof(text))
        mark_cut(text, sizeof(text));
    keep_one_line(text);
    memcpy(last.detail, text, sizeof(text));
}

/* Sets the status of a new error, of which nothing else is known. */
static symmcoll_status_t set_new(symmcoll_status_t status)
{
    errors++;
    last.status = status;
    last.cause = SYMMCOLL_OK;
    last.kind = 0;
    last.ranked = false;
    last.seq = 0;
    last.group[0] = '\0';
    return status;
}

symmcoll_status_t symc_fail(symmcoll_status_t status, const char *format, ...)
{
    int saved = errno;
    va_list args;

    va_start(args, format);
    format_detail(format, args, NULL);
    va_end(args);
    errno = saved;
    return set_new(status);
}

symmcoll_status_t symc_fail_errno(
    symmcoll_status_t status, int error, const char *format, ...)
{
    int saved = errno;
    char buffer[128];
    va_list args;

    va_start(args, format);
    format_detail(format, args, strerror_r(error, buffer, sizeof(buffer)));
    va_end(args);
    errno = saved;
    return set_new(status);
}

symmcoll_status_t symc_fail_descriptor(int error, const char *where)
{
    struct rlimit files = {0};

    if (error != EMFILE || getrlimit(RLIMIT_NOFILE, &files) != 0)
        return symc_fail_errno(SYMMCOLL_ERR_SYSTEM, error, "%s", where);
    return symc_fail_errno(SYMMCOLL_ERR_SYSTEM, error,
        "%s: one more descriptor requested, RLIMIT_NOFILE is %llu", where,
        (unsigned long long)files.rlim_cur);
}

symmcoll_status_t symc_error_status(void)
{
    return last.status;
}

uint64_t symc_error_count(void)
{
    return errors;
}

void symc_error_keep(struct symc_error *error, symmcoll_status_t status)
{
    if (status != SYMMCOLL_OK)
        *error = last;
    error->status = status;
}

symmcoll_status_t symc_error_return(const struct symc_error *error)
{
    if (error->status != SYMMCOLL_OK) {
        last = *error;
        errors++;
    }
    return error->status;
}

symmcoll_status_t symc_error_amend(
    symmcoll_status_t status, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    format_detail(format, args, NULL);
    va_end(args);
    last.status = status;
    return status;
}

symmcoll_status_t symc_error_prefix(
    symmcoll_status_t status, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    format_detail(format, args, last.detail);
    va_end(args);
    last.status = status;
    return status;
}

/* ---- what symmcoll_error_info() returns ---- */

symmcoll_status_t symc_error_set_call(
    const char *group, unsigned int kind, uint64_t seq)
{
    if (last.group[0] == '\0' && group != NULL)
        snprintf(last.group, sizeof(last.group), "%s", group);
    if (last.kind == 0 && kind != 0) {
        last.kind = kind;
        last.seq = seq;
    }
    return last.status;
}

symmcoll_status_t symc_error_set_cause(symmcoll_status_t cause)
{
    last.cause = cause;
    return last.status;
}

static void add_to(uint64_t *set, int rank)
{
    set[rank / 64] |= UINT64_C(1) << (rank % 64);
}

symmcoll_status_t symc_error_add_rank(const struct symc_ranks *ranks, int rank)
{
    int world = ranks->global != NULL ? ranks->global[rank] : rank;

    if (!last.ranked) {
        memset(last.ranks, 0, sizeof(last.ranks));
        memset(last.world, 0, sizeof(last.world));
    }
    last.ranked = true;
    add_to(last.ranks, rank);
    add_to(last.world, world);
    return symc_error_set_call(ranks->group, 0, 0);
}

symmcoll_status_t symc_error_add_reporter(
    const struct symc_ranks *ranks, int rank)
{
    return symc_error_is_of_others(last.status)
               ? symc_error_set_call(ranks->group, 0, 0)
               : symc_error_add_rank(ranks, rank);
}

symmcoll_status_t symc_error_add_ranks(
    const struct symc_ranks *ranks, const bool *listed)
{
    for (int r = 0; r < ranks->size; r++) {
        if (listed[r])
            (void)symc_error_add_rank(ranks, r);
    }
    return last.status;
}

symmcoll_status_t symc_error_add_odd(const struct symc_ranks *ranks,
    bool (*alike)(const void *values, int a, int b), const void *values)
{
    int most = 0, votes = 0, count = 0;

    /* A majority, if there is one, has a vote left (Boyer and Moore). */
    for (int r = 0; r < ranks->size; r++) {
        if (votes == 0)
            most = r;
        votes += alike(values, most, r) ? 1 : -1;
    }
    for (int r = 0; r < ranks->size; r++)
        count += alike(values, most, r);
    for (int r = 0; r < ranks->size; r++) {
        if (2 * count <= ranks->size || !alike(values, most, r))
            (void)symc_error_add_rank(ranks, r);
    }
    return last.status;
}

const char *symc_error_group(void)
{
    return last.group;
}

bool symc_error_list_ranks(bool *listed, int size)
{
    for (int r = 0; r < size; r++)
        listed[r] = last.ranked && symc_error_is_in(last.ranks, r);
    return last.ranked;
}

const char *symmcoll_last_error(void)
{
    return last.detail;
}

const char *symmcoll_status_name(symmcoll_status_t status)
{
    switch (status) {
    case SYMMCOLL_OK:
        return "OK";
    case SYMMCOLL_IN_PROGRESS:
        return "IN_PROGRESS";
    case SYMMCOLL_SKIPPED:
        return "SKIPPED";
    case SYMMCOLL_NOT_MEMBER:
        return "NOT_MEMBER";
    case SYMMCOLL_ERR_INVALID:
        return "INVALID";
    case SYMMCOLL_ERR_UNSUPPORTED:
        return "UNSUPPORTED";
    case SYMMCOLL_ERR_MISMATCH:
        return "MISMATCH";
    case SYMMCOLL_ERR_TIMEOUT:
        return "TIMEOUT";
    case SYMMCOLL_ERR_PEER:
        return "PEER";
    case SYMMCOLL_ERR_CANCELED:
        return "CANCELED";
    case SYMMCOLL_ERR_ABORTED:
        return "ABORTED";
    case SYMMCOLL_ERR_NOT_SYMMETRIC:
        return "NOT_SYMMETRIC";
    case SYMMCOLL_ERR_NO_MEMORY:
        return "NO_MEMORY";
    case SYMMCOLL_ERR_SYSTEM:
        return "SYSTEM";
    case SYMMCOLL_ERR_DEVICE:
        return "DEVICE";
    case SYMMCOLL_ERR_CONFIG:
        return "CONFIG";
    case SYMMCOLL_ERR_INTERNAL:
        return "INTERNAL";
    default:
        return "unknown status";
    }
}

enum symmcoll_category symmcoll_status_category(symmcoll_status_t status)
{
    switch (status) {
    case SYMMCOLL_OK:
    case SYMMCOLL_IN_PROGRESS:
    case SYMMCOLL_SKIPPED:
    case SYMMCOLL_NOT_MEMBER:
        return SYMMCOLL_CATEGORY_NONE;
    case SYMMCOLL_ERR_INVALID:
    case SYMMCOLL_ERR_CONFIG:
        return SYMMCOLL_CATEGORY_VALUE;
    case SYMMCOLL_ERR_TIMEOUT:
    case SYMMCOLL_ERR_PEER:
    case SYMMCOLL_ERR_CANCELED:
    case SYMMCOLL_ERR_ABORTED:
    case SYMMCOLL_ERR_DEVICE:
        return SYMMCOLL_CATEGORY_BACKEND;
    case SYMMCOLL_ERR_NO_MEMORY:
    case SYMMCOLL_ERR_SYSTEM:
        return SYMMCOLL_CATEGORY_SYSTEM;
    case SYMMCOLL_ERR_UNSUPPORTED:
        return SYMMCOLL_CATEGORY_NOT_IMPLEMENTED;
    default: /* MISMATCH, NOT_SYMMETRIC, INTERNAL, and statuses of newer
                libraries */
        return status < 0 ? SYMMCOLL_CATEGORY_DIST : SYMMCOLL_CATEGORY_NONE;
    }
}

const char *symmcoll_version(void)
{
    return PACKAGE_VERSION;
}
