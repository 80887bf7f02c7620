/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Errors: a status is the kind of an error; its detail says where it occurred,
 * what was expected and what was found.  Manual: symmcoll_last_error(3).
 */
#ifndef SYMMCOLL_ERROR_H
#define SYMMCOLL_ERROR_H

#include <symmcoll/types.h>

SYMMCOLL_BEGIN_DECLS

/* The exception classes of torch.distributed, from general to specific. */
enum symmcoll_category {
    SYMMCOLL_CATEGORY_NONE = 0,    /* no error */
    SYMMCOLL_CATEGORY_VALUE = 1,   /* ValueError, TypeError */
    SYMMCOLL_CATEGORY_DIST = 2,    /* DistError, and RuntimeError */
    SYMMCOLL_CATEGORY_BACKEND = 3, /* DistBackendError, a DIST */
    SYMMCOLL_CATEGORY_SYSTEM = 4,  /* OSError, MemoryError */
    SYMMCOLL_CATEGORY_NOT_IMPLEMENTED = 5
};

/*
 * Returns the detail of the calling thread's latest failed call: one line,
 * lower case, never NULL, empty before the first failure.  Borrowed: valid
 * until the next call of the library in this thread.
 */
SYMMCOLL_API
const char *symmcoll_last_error(void);

/* The calling thread's error, for symmcoll_error_info().  Initialise it with
 * SYMMCOLL_ERROR_INFO_INIT.  Later releases may add members at the end. */
struct symmcoll_error_info {
    size_t size; /* sizeof(struct symmcoll_error_info) */

    /* Set by the caller: room for the ranks that the error concerns, as numbers
     * in the group and in the world; NULL: not wanted. */
    int *ranks;
    int *world_ranks;
    int max_ranks; /* room of each array; the group's size is always enough */

    /* Set by the call.  nranks is 0 if no rank is known; if it is more than
     * max_ranks, the arrays have only the lowest ones. */
    int nranks;
    symmcoll_status_t status; /* OK before the first failure */
    enum symmcoll_category category;
    symmcoll_status_t cause; /* for ABORTED, the status of the group's first
                                failure, if known; else the status */
    enum symmcoll_kind kind; /* of the operation; 0: none is known */
    uint64_t sequence;       /* its number in the group; 0: none is known */
    const char *operation;   /* its name, "all_reduce"; "": none is known.
                                Static */
    const char *group;       /* name of the group; "": none is known.
                                Borrowed, as symmcoll_last_error() */
};
#define SYMMCOLL_ERROR_INFO_INIT                                               \
    {                                                                          \
        sizeof(struct symmcoll_error_info), NULL, NULL, 0, 0, SYMMCOLL_OK,     \
            SYMMCOLL_CATEGORY_NONE, SYMMCOLL_OK, (enum symmcoll_kind)0, 0, "", \
            ""                                                                 \
    }

/*
 * Returns what is known about the error that symmcoll_last_error() describes:
 * the calling thread's latest failed call, the failed work that it last waited
 * for or tested, or in a callback the failed operation.
 *
 * info  in: the room for ranks; out: the rest.  The arrays are the caller's
 *
 * The ranks are, each array in ascending order:
 *
 *   PEER      those that have died, or that have finalized or released the
 *             group before they took part; of symmcoll_monitored_barrier()
 *             also those that did not come in time
 *   TIMEOUT   those that had not arrived at the timeout
 *   MISMATCH  those that have passed something else than more than half of the
 *             ranks; without such a majority, all that differ
 *   CANCELED  the one that has aborted or shrunk the group
 *   ABORTED   those of the group's first failure, see cause; of
 *             symmcoll_group_shrink() the calling rank, which others exclude
 *   others    the one on which the operation has failed, if it is known
 *
 * What is not known is empty or 0, and never guessed.  After PEER and TIMEOUT,
 * ranks and nranks are what symmcoll_group_shrink() takes as exclude and
 * nexclude, on a rank that is not among them.
 *
 * The call changes no error unless it fails itself.
 *
 * Errors: INVALID (info is NULL, or its size is not valid).
 * Manual: symmcoll_error_info(3).
 */
SYMMCOLL_CHECKED
symmcoll_status_t symmcoll_error_info(struct symmcoll_error_info *info);

/* Returns the name of a status, such as "TIMEOUT"; "unknown status" for any
 * other number.  Static. */
SYMMCOLL_API
const char *symmcoll_status_name(symmcoll_status_t status);

/* Returns the category of a status; NONE for a status that is no error. */
SYMMCOLL_API
enum symmcoll_category symmcoll_status_category(symmcoll_status_t status);

/* Returns the library's version, such as "0.2.0".  Static. */
SYMMCOLL_API
const char *symmcoll_version(void);

SYMMCOLL_END_DECLS

#endif
