/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Common part of calls with objects. A rank that cannot go on, since a length
 * exceeds its limit or it has no memory, takes part in the next step with a
 * count of 0. The others pass a greater count, so the mismatch is found at once
 * and no rank waits. Otherwise no step of bytes has a count of 0, since each
 * object carries its type.
 */
#ifndef SYMC_OBJECT_OBJECT_H
#define SYMC_OBJECT_OBJECT_H

#include "coll/coll.h"

#include <symmcoll/object.h>

#define SYMC_OBJECT_HEAD sizeof(uint64_t) /* the type of an object */

struct symc_object_call {
    struct symmcoll_group *group;
    const struct symmcoll_call *call;
    const char *where;
    size_t most;
    struct symc_error problem; /* this rank's error, or OK */
};

/* Checks the group, and that `rank` is a member. */
symmcoll_status_t symc_object_begin(struct symc_object_call *it, int rank);

/* Checks an object that is sent. */
symmcoll_status_t symc_object_check(
    const struct symc_object_call *it, const struct symmcoll_object *object);

/* Stores the last error as this rank's problem. */
void symc_object_refuse(struct symc_object_call *it, symmcoll_status_t status);

/* Returns the status of a step: this rank's problem if it had one. */
symmcoll_status_t symc_object_end(
    const struct symc_object_call *it, symmcoll_status_t status);

/* Allocates zeroed memory; NULL without memory, which becomes the problem, or
 * if there already is one. */
void *symc_object_alloc(struct symc_object_call *it, size_t count, size_t size);

/* Converts a length to the form in which it is sent. */
int64_t symc_object_length(size_t nbytes);
/* Reads a received length: at most it->most, else 0 and a problem. */
size_t symc_object_read(struct symc_object_call *it, int64_t length, int from);

/* Allocates memory for an object to receive. */
void symc_object_make(
    struct symc_object_call *it, struct symmcoll_object *object, size_t nbytes);

/* Copy the type and the bytes of an object to and from a message. */
void symc_object_pack(char *to, const struct symmcoll_object *object);
void symc_object_unpack(struct symmcoll_object *object, const char *from);

#endif
