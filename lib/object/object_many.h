/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Several objects of one rank, sent one after the other.
 */
#ifndef SYMC_OBJECT_OBJECT_MANY_H
#define SYMC_OBJECT_OBJECT_MANY_H

#include "object/object.h"

/* Begins a call like symc_object_begin(), and checks its list; sent: and the
 * objects in it. */
symmcoll_status_t symc_objects_begin(struct symc_object_call *it,
    const struct symmcoll_object *objects, size_t n, int rank, bool sent);

void symc_objects_lengths(
    int64_t *lengths, const struct symmcoll_object *objects, size_t n);

/* Returns the bytes of all objects with their heads; 0 and a problem above the
 * limit. */
size_t symc_objects_total(
    struct symc_object_call *it, const int64_t *lengths, size_t n, int from);

/* Initialises the objects, and allocates their memory unless there is a
 * problem. */
void symc_objects_make(struct symc_object_call *it,
    struct symmcoll_object *objects, size_t n, const int64_t *lengths);

void symc_objects_pack(
    char *to, const struct symmcoll_object *objects, size_t n);
void symc_objects_unpack(
    struct symmcoll_object *objects, size_t n, const char *from);

#endif
