/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What calls with objects share.  A rank that cannot go on, since a length is
 * above its limit or it has no memory, takes part in the next step with a count
 * of 0: so the others, whose count is greater, are told at once, and nobody
 * waits.  No step of bytes has a count of 0 otherwise, since each object has
 * its type with it.
 */
#ifndef SYMC_OBJECT_OBJECT_H
#define SYMC_OBJECT_OBJECT_H

#include "coll/coll.h"

#include <symmcoll/object.h>

#define SYMC_OBJECT_HEAD sizeof(uint64_t) /* its type */

struct symc_object_call {
    struct symmcoll_group *group;
    const struct symmcoll_call *call;
    const char *where;
    size_t most;
    symmcoll_status_t problem; /* why this rank cannot go on, or OK */
    char detail[SYMC_DETAIL_MAX];
};

/* Whether the call can be made at all: the group, and its member `rank`. */
symmcoll_status_t symc_object_begin(struct symc_object_call *it, int rank);

/* An object that is sent. */
symmcoll_status_t symc_object_check(
    const struct symc_object_call *it, const struct symmcoll_object *object);

/* The last error is this rank's problem. */
void symc_object_refuse(struct symc_object_call *it, symmcoll_status_t status);

/* How a step ended for this rank, which may have had a problem. */
symmcoll_status_t symc_object_end(
    const struct symc_object_call *it, symmcoll_status_t status);

/* Zeroed bytes; without memory, or with a problem, NULL and a problem. */
void *symc_object_alloc(struct symc_object_call *it, size_t count, size_t size);

/* A length as it is sent, and one that has come: at most `most`, else 0 and a
 * problem. */
int64_t symc_object_length(size_t nbytes);
size_t symc_object_read(struct symc_object_call *it, int64_t length, int from);

/* Memory for an object that will come. */
void symc_object_make(
    struct symc_object_call *it, struct symmcoll_object *object, size_t nbytes);

/* Its type and bytes, to where they are sent from, and from where they came. */
void symc_object_pack(char *to, const struct symmcoll_object *object);
void symc_object_unpack(struct symmcoll_object *object, const char *from);

#endif
