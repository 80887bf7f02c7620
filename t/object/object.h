/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Objects for tests: which tell whose they are.
 */
#ifndef T_OBJECT_OBJECT_H
#define T_OBJECT_OBJECT_H

#include <symmcoll.h>

#include <stdbool.h>

/* One of so many bytes; released by symmcoll_objects_free(). */
struct symmcoll_object object_make(size_t nbytes, int whose);

/* Whether it is that one. */
bool object_is(const struct symmcoll_object *object, size_t nbytes, int whose);

/* Whether a call has succeeded, else its error is in the log; and whether it has
 * failed so, with a text in its error. */
bool object_ok(symmcoll_status_t status);
bool object_fails(
    symmcoll_status_t status, symmcoll_status_t expected, const char *text);

#endif
