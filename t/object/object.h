/* SPDX-License-Identifier: BSD-3-Clause */
/* Objects for tests, with contents that identify their rank. */
#ifndef T_OBJECT_OBJECT_H
#define T_OBJECT_OBJECT_H

#include <symmcoll.h>

#include <stdbool.h>

/* Returns an object of nbytes bytes; released by symmcoll_objects_free(). */
struct symmcoll_object object_make(size_t nbytes, int whose);

/* Checks the contents of an object. */
bool object_is(const struct symmcoll_object *object, size_t nbytes, int whose);

/* object_ok() returns whether a call succeeded, and logs the error if not.
 * object_fails() checks that it failed with a status and with a text in its
 * error. */
bool object_ok(symmcoll_status_t status);
bool object_fails(
    symmcoll_status_t status, symmcoll_status_t expected, const char *text);

#endif
