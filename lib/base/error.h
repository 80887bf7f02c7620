/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Errors as objects.  Each thread has one current error, which the function
 * that first knows the cause sets with symc_fail(), and adds to with
 * symc_error_add_rank() and the like.  A caller that has to clean up before it
 * returns keeps the error and returns it afterwards, since the functions that
 * clean up may fail as well.
 */
#ifndef SYMC_BASE_ERROR_H
#define SYMC_BASE_ERROR_H

#include <symmcoll/types.h>

#include <stdbool.h>
#include <stdint.h>

#define SYMC_DETAIL_MAX 512 /* bytes of an error detail with its zero */
#define SYMC_RANKS_MAX 4096 /* of one world */
#define SYMC_GROUP_TEXT 144 /* bytes of a displayed group name with its zero */

#define SYMC_PRINTF(fmt, first) __attribute__((format(printf, fmt, first)))

struct symc_ranks;

/* An error: a status, the detail for symmcoll_last_error(), and what
 * symmcoll_error_info() returns.  All but the status is undefined for OK. */
struct symc_error {
    symmcoll_status_t status;
    symmcoll_status_t cause; /* of ABORTED: the first failure; OK: unknown */
    uint32_t kind;           /* enum symc_kind; 0: unknown */
    bool ranked;             /* the sets are valid; else they are empty */
    uint64_t seq;            /* 0: unknown */
    char group[SYMC_GROUP_TEXT];         /* "": unknown */
    uint64_t ranks[SYMC_RANKS_MAX / 64]; /* set of ranks in the group */
    uint64_t world[SYMC_RANKS_MAX / 64]; /* set of the same in the world */
    char detail[SYMC_DETAIL_MAX];
};

static inline bool symc_error_is_in(const uint64_t *set, int rank)
{
    return (set[rank / 64] >> (rank % 64) & 1) != 0;
}

/* Makes a new error the thread's current one: a status and the detail for
 * symmcoll_last_error(), the rest unknown.  Returns the status. */
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

/* Returns whether an error with this status is about ranks that the rank that
 * reports it waits for or compares itself with. */
static inline bool symc_error_is_of_others(symmcoll_status_t status)
{
    return status == SYMMCOLL_ERR_PEER || status == SYMMCOLL_ERR_TIMEOUT ||
           status == SYMMCOLL_ERR_MISMATCH;
}

/* Returns how many errors the thread has had: whether a program's function that
 * returns an error has one from the library. */
uint64_t symc_error_count(void);

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

/* ---- what symmcoll_error_info() returns ----
 * These functions add to the thread's current error, after symc_fail(), and
 * return its status. */

/* Sets the group, kind and number of the operation, each unless it is known
 * already: the innermost operation counts.  group may be NULL, and 0 is
 * unknown. */
symmcoll_status_t symc_error_set_call(
    const char *group, unsigned int kind, uint64_t seq);

/* Sets the status of the group's first failure, of which ABORTED results. */
symmcoll_status_t symc_error_set_cause(symmcoll_status_t cause);

/* Adds a member of a group, and the listed members, to the ranks that the error
 * concerns; also sets the group. */
symmcoll_status_t symc_error_add_rank(const struct symc_ranks *ranks, int rank);
symmcoll_status_t symc_error_add_ranks(
    const struct symc_ranks *ranks, const bool *listed);

/* Adds the member that has reported the error, unless the status is about other
 * ranks, which are then unknown; also sets the group. */
symmcoll_status_t symc_error_add_reporter(
    const struct symc_ranks *ranks, int rank);

/* Adds the members with another value than more than half of them have; without
 * such a majority, all.  alike() returns whether two members have the same. */
symmcoll_status_t symc_error_add_odd(const struct symc_ranks *ranks,
    bool (*alike)(const void *values, int a, int b), const void *values);

/* Returns the name of the current error's group, as the error has it, or "".
 * Borrowed until the thread's next error. */
const char *symc_error_group(void);

/* Lists the members that the thread's current error concerns.  Returns false if
 * none is known. */
bool symc_error_list_ranks(bool *listed, int size);

#endif
