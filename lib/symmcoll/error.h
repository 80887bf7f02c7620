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
