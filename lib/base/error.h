/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Errors as objects.  Each thread has one current error, which the function
 * that first knows the cause sets with symc_fail().  A caller that has to clean
 * up before it returns keeps the error and returns it afterwards, since the
 * functions that clean up may fail as well.
 */
#ifndef SYMC_BASE_ERROR_H
#define SYMC_BASE_ERROR_H

#include <symmcoll/types.h>

#define SYMC_DETAIL_MAX 512 /* bytes of an error detail with its zero */

#define SYMC_PRINTF(fmt, first) __attribute__((format(printf, fmt, first)))

/* An error: a status, and the detail for symmcoll_last_error().  The detail of
 * OK is undefined. */
struct symc_error {
    symmcoll_status_t status;
    char detail[SYMC_DETAIL_MAX];
};

/* Stores the detail for symmcoll_last_error() and returns the status. */
symmcoll_status_t symc_fail(symmcoll_status_t status, const char *format, ...)
    SYMC_PRINTF(2, 3);

/* As symc_fail(), with ": strerror(error)" appended. */
symmcoll_status_t symc_fail_errno(symmcoll_status_t status, int error,
    const char *format, ...) SYMC_PRINTF(3, 4);

/* Reports that a descriptor could not be opened, with RLIMIT_NOFILE if that is
 * the cause.  Returns SYSTEM. */
symmcoll_status_t symc_fail_descriptor(int error, const char *where);

/* Returns the status of the thread's current error, OK before the first. */
symmcoll_status_t symc_error_status(void);

/* Copies the thread's current error, which is that of `status`.  OK, which is
 * no error, is valid. */
void symc_error_keep(struct symc_error *error, symmcoll_status_t status);

/* Makes a kept error the thread's current one, unless its status is OK, and
 * returns its status. */
symmcoll_status_t symc_error_return(const struct symc_error *error);

/* Replaces the detail of the thread's current error, by one that contains it:
 * symmcoll_last_error() may be an argument.  Returns the status. */
symmcoll_status_t symc_error_amend(
    symmcoll_status_t status, const char *format, ...) SYMC_PRINTF(2, 3);

/* Puts a text and ": " before the detail of the thread's current error.
 * Returns the status. */
symmcoll_status_t symc_error_prefix(
    symmcoll_status_t status, const char *format, ...) SYMC_PRINTF(2, 3);

#endif
