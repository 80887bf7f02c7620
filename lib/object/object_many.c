/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Several objects of one rank; see object_many.h.
 */
#include "object/object_many.h"

#include <string.h>

symmcoll_status_t symc_objects_begin(struct symc_object_call *it,
    const struct symmcoll_object *objects, size_t n, int rank, bool sent)
{
    symmcoll_status_t status = symc_object_begin(it, rank);

    if (status != SYMMCOLL_OK)
        return status;
    if (objects == NULL || n == 0)
        return symc_fail(SYMMCOLL_ERR_INVALID,
            "%s: expected one object or more, found %s", it->where,
            n == 0 ? "0" : "NULL");
    for (size_t i = 0; sent && i < n && status == SYMMCOLL_OK; i++)
        status = symc_object_check(it, &objects[i]);
    return status;
}

void symc_objects_lengths(
    int64_t *lengths, const struct symmcoll_object *objects, size_t n)
{
    for (size_t i = 0; i < n; i++)
        lengths[i] = symc_object_length(objects[i].nbytes);
}

size_t symc_objects_total(
    struct symc_object_call *it, const int64_t *lengths, size_t n, int from)
{
    size_t bytes = 0, total;

    for (size_t i = 0; i < n; i++) {
        if (!symc_add(bytes, symc_object_read(it, lengths[i], from), &bytes))
            bytes = SIZE_MAX;
        /* A sum above the limit is refused like a single length. */
        bytes = symc_object_read(it, symc_object_length(bytes), from);
    }
    if (it->problem.status == SYMMCOLL_OK &&
        symc_multiply(n, SYMC_OBJECT_HEAD, &total) &&
        symc_add(total, bytes, &total))
        return total;
    return 0;
}

void symc_objects_make(struct symc_object_call *it,
    struct symmcoll_object *objects, size_t n, const int64_t *lengths)
{
    memset(objects, 0, n * sizeof(*objects));
    for (size_t i = 0; i < n && it->problem.status == SYMMCOLL_OK; i++)
        symc_object_make(it, &objects[i], (size_t)lengths[i]);
}

void symc_objects_pack(
    char *to, const struct symmcoll_object *objects, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        symc_object_pack(to, &objects[i]);
        to += SYMC_OBJECT_HEAD + objects[i].nbytes;
    }
}

void symc_objects_unpack(
    struct symmcoll_object *objects, size_t n, const char *from)
{
    for (size_t i = 0; i < n; i++) {
        symc_object_unpack(&objects[i], from);
        from += SYMC_OBJECT_HEAD + objects[i].nbytes;
    }
}
