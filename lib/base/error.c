/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The thread's error, and the names of statuses.  The error is the only state
 * of the library that belongs to a thread and not to a handle, since there may
 * be no handle yet.
 */
#include "base/base.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>

static _Thread_local struct symc_error last;

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

symmcoll_status_t symc_fail(symmcoll_status_t status, const char *format, ...)
{
    int saved = errno;
    va_list args;

    va_start(args, format);
    format_detail(format, args, NULL);
    va_end(args);
    last.status = status;
    errno = saved;
    return status;
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
    last.status = status;
    errno = saved;
    return status;
}

symmcoll_status_t symc_fail_descriptor(int error, const char *where)
{
    struct rlimit files = {0};

    if (error != EMFILE || getrlimit(RLIMIT_NOFILE, &files) != 0)
        return symc_fail_errno(SYMMCOLL_ERR_SYSTEM, error, "%s", where);
    return symc_fail_errno(SYMMCOLL_ERR_SYSTEM, error,
        "%s: one more descriptor asked for, RLIMIT_NOFILE is %llu", where,
        (unsigned long long)files.rlim_cur);
}

symmcoll_status_t symc_error_status(void)
{
    return last.status;
}

void symc_error_keep(struct symc_error *error, symmcoll_status_t status)
{
    if (status != SYMMCOLL_OK)
        *error = last;
    error->status = status;
}

symmcoll_status_t symc_error_return(const struct symc_error *error)
{
    if (error->status != SYMMCOLL_OK)
        last = *error;
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
