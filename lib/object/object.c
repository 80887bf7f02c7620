/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Steps of calls with objects; see object.h.
 */
#include "object/object.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

symmcoll_status_t symc_object_begin(struct symc_object_call *it, int rank)
{
    if (it->group == NULL)
        return symc_fail(SYMMCOLL_ERR_INVALID,
            "%s: expected a group, found NULL", it->where);
    if (!symc_group_is_usable(it->group))
        return symc_group_refuse(it->group, SYMC_ALL_GATHER);
    if (symc_coll_in_region(it->group))
        return symc_fail(SYMMCOLL_ERR_INVALID,
            "%s: expected no open region of this thread in group %s, found one",
            it->where, symc_group_name(it->group));
    if (rank < 0 || rank >= symc_group_size(it->group))
        return symc_fail(SYMMCOLL_ERR_INVALID,
            "%s: expected a rank of 0 to %d, found %d", it->where,
            symc_group_size(it->group) - 1, rank);
    if (it->most == 0)
        it->most = SYMMCOLL_OBJECT_MOST;
    it->problem.status = SYMMCOLL_OK;
    return SYMMCOLL_OK;
}

/* Checks that an object is in host memory, since the host accesses it. */
static symmcoll_status_t check_memory(
    const struct symc_object_call *it, const void *data)
{
    const struct symc_registry *registry =
        &symc_group_world(it->group)->registry;
    char place[SYMC_MEMORY_TEXT];
    enum symc_memory memory;
    int16_t device;

    if (!symc_registry_is_other_present(registry))
        return SYMMCOLL_OK;
    memory = symc_registry_find(registry, data, &device);
    if (memory == SYMC_MEMORY_HOST)
        return SYMMCOLL_OK;
    if (device == SYMC_UNKNOWN_DEVICE)
        return symc_registry_refuse(registry, it->where, data);
    return symc_fail(SYMMCOLL_ERR_INVALID,
        "%s: expected an object in host memory, found %p in %s", it->where,
        data, symc_memory_format(memory, device, place));
}

symmcoll_status_t symc_object_check(
    const struct symc_object_call *it, const struct symmcoll_object *object)
{
    if (object == NULL)
        return symc_fail(SYMMCOLL_ERR_INVALID,
            "%s: expected an object, found NULL", it->where);
    if (object->data == NULL && object->nbytes > 0)
        return symc_fail(SYMMCOLL_ERR_INVALID,
            "%s: expected data of %zu bytes, found NULL", it->where,
            object->nbytes);
    return object->nbytes > 0 ? check_memory(it, object->data) : SYMMCOLL_OK;
}

void symc_object_refuse(struct symc_object_call *it, symmcoll_status_t status)
{
    if (it->problem.status == SYMMCOLL_OK)
        symc_error_keep(&it->problem, status);
}

symmcoll_status_t symc_object_end(
    const struct symc_object_call *it, symmcoll_status_t status)
{
    if (it->problem.status != SYMMCOLL_OK &&
        (status == SYMMCOLL_OK || status == SYMMCOLL_ERR_MISMATCH))
        return symc_error_return(&it->problem);
    if (status != SYMMCOLL_ERR_MISMATCH)
        return status;
    return symc_error_amend(status,
        "%s: %.400s; a rank that passed 0 cannot receive", it->where,
        symmcoll_last_error());
}

void *symc_object_alloc(struct symc_object_call *it, size_t count, size_t size)
{
    void *memory;

    if (it->problem.status != SYMMCOLL_OK)
        return NULL;
    memory = symc_alloc(count, size);
    if (memory == NULL) {
        symc_fail(SYMMCOLL_ERR_NO_MEMORY,
            "%s: no memory for %zu times %zu bytes", it->where, count, size);
        symc_object_refuse(it, SYMMCOLL_ERR_NO_MEMORY);
    }
    return memory;
}

int64_t symc_object_length(size_t nbytes)
{
    return nbytes > (size_t)INT64_MAX ? -1 : (int64_t)nbytes;
}

size_t symc_object_read(struct symc_object_call *it, int64_t length, int from)
{
    if (length >= 0 && (uint64_t)length <= it->most)
        return (size_t)length;
    symc_fail(SYMMCOLL_ERR_INVALID,
        "%s: expected at most %zu bytes of rank %d, found %lld", it->where,
        it->most, from, (long long)length);
    symc_object_refuse(it, SYMMCOLL_ERR_INVALID);
    return 0;
}

void symc_object_make(
    struct symc_object_call *it, struct symmcoll_object *object, size_t nbytes)
{
    object->data = NULL;
    object->nbytes = nbytes;
    object->type = 0;
    if (nbytes > 0)
        object->data = symc_object_alloc(it, nbytes, 1);
}

void symc_object_pack(char *to, const struct symmcoll_object *object)
{
    memcpy(to, &object->type, SYMC_OBJECT_HEAD);
    if (object->nbytes > 0)
        memcpy(to + SYMC_OBJECT_HEAD, object->data, object->nbytes);
}

void symc_object_unpack(struct symmcoll_object *object, const char *from)
{
    memcpy(&object->type, from, SYMC_OBJECT_HEAD);
    if (object->nbytes > 0)
        memcpy(object->data, from + SYMC_OBJECT_HEAD, object->nbytes);
}

void symmcoll_objects_free(struct symmcoll_object *objects, size_t n)
{
    for (size_t i = 0; objects != NULL && i < n; i++) {
        free(objects[i].data);
        objects[i] = (struct symmcoll_object){NULL, 0, 0};
    }
}
