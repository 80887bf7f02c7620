/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Allocations in device memory, which a backend provides: the data of an
 * allocation, and the pads of a share. The pads are one block: the signal pad,
 * the barrier pad, and a table of addresses.
 */
#include "registry/registry.h"
#include "symm_mem/backing.h"

#include <stdarg.h>
#include <stdio.h>

/* Alignment of a pad: no cache line of a device holds words of two pads. */
#define PART_ALIGN ((size_t)256)

const char *symc_symm_format_place(
    enum symmcoll_device device, int index, char buffer[SYMC_SYMM_PLACE])
{
    if (device == SYMMCOLL_HOST)
        snprintf(buffer, SYMC_SYMM_PLACE, "host memory");
    else if (index < 0) /* SYMC_NO_DEVICE */
        snprintf(buffer, SYMC_SYMM_PLACE, "memory that has been freed");
    else
        snprintf(buffer, SYMC_SYMM_PLACE, "memory of CUDA device %d", index);
    return buffer;
}

symmcoll_status_t symc_symm_check_place(
    const char *where, enum symmcoll_device device, int index)
{
    if (device != SYMMCOLL_HOST && device != SYMMCOLL_CUDA)
        return symc_fail(SYMMCOLL_ERR_UNSUPPORTED,
            "%s: expected host memory (%d) or that of a CUDA device (%d), "
            "found device kind %d",
            where, (int)SYMMCOLL_HOST, (int)SYMMCOLL_CUDA, (int)device);
    if (index < 0 || index > INT16_MAX || (device == SYMMCOLL_HOST && index))
        return symc_fail(SYMMCOLL_ERR_INVALID,
            "%s: expected %s, found device_index %d", where,
            device == SYMMCOLL_HOST ? "device_index 0 for host memory"
                                    : "device_index of 0 or more",
            index);
    return SYMMCOLL_OK;
}

void symc_symm_log(
    void *world, enum symc_log_level level, const char *format, ...)
{
    const struct symmcoll_world *of = world;
    char line[SYMC_DETAIL_MAX];
    va_list arguments;

    va_start(arguments, format);
    (void)vsnprintf(line, sizeof(line), format, arguments);
    va_end(arguments);
    symc_logf(&of->log, level, "%s", line);
}

/* Returns a buffer in the context in which the backend has to allocate: for
 * pads, the data. */
static const void *find_buffer(const struct symc_allocation *allocation)
{
    if (allocation->own != NULL)
        return allocation->own;
    return allocation->near.memory != NULL ? allocation->near.memory
                                           : allocation->data;
}

/* Takes memory (out) from the backend: the pads of a group, new data, or data
 * that the program registers. */
static symmcoll_status_t take(struct symmcoll_world *world,
    const struct symc_allocation *allocation, struct symmcoll_group *group,
    size_t nbytes, void **memory, void **at)
{
    const bool words = group != NULL;
    void *stream = words && allocation->near.stream == NULL
                       ? symmcoll_group_stream(group)
                       : allocation->near.stream;
    const struct symc_memory_ops *mem = allocation->backend->mem;
    const struct symc_settings settings = symc_registry_settings(world->config);
    const struct symc_memory_request request = {.settings = &settings,
        .fail = symc_fail,
        .device = allocation->device_index,
        .threads = world->threads,
        .words = words,
        .nbytes = nbytes,
        .stream = stream,
        .buffer = find_buffer(allocation),
        .memory = words ? allocation->memory : NULL,
        .state = group != NULL
                     ? symc_slot_device_state(symc_group_runner(group))
                     : NULL,
        .log = symc_symm_log,
        .of = world};

    if (words || allocation->own == NULL)
        return mem->allocate(&request, memory, at);
    *at = allocation->own;
    return mem->import(&request, allocation->own, memory);
}

symmcoll_status_t symc_device_backing_open(struct symmcoll_world *world,
    const char *where, struct symc_allocation *allocation)
{
    size_t nbytes = allocation->nbytes;
    void *at = NULL;
    symmcoll_status_t status = symc_registry_find_device(&world->registry,
        where, allocation->device_index, &allocation->backend);

    if (status != SYMMCOLL_OK)
        return status;
    if (nbytes > PTRDIFF_MAX)
        return symc_fail(SYMMCOLL_ERR_NO_MEMORY,
            "%s: %zu bytes requested, which no memory has", where,
            allocation->nbytes);
    status = take(world, allocation, NULL, nbytes > 0 ? nbytes : 1,
        &allocation->memory, &at);
    if (status != SYMMCOLL_OK)
        return symc_error_prefix(status,
            "%s: %zu bytes in memory of CUDA device %d", where,
            allocation->nbytes, allocation->device_index);
    allocation->data = at;
    return SYMMCOLL_OK;
}

symmcoll_status_t symc_device_pads_allocate(
    struct symmcoll_world *world, struct symc_share *share)
{
    const size_t table = 2 * (size_t)share->size * sizeof(void *);
    size_t pad = 0;
    void *at = NULL;
    symmcoll_status_t status;

    /* round up; pads are limited in size, so this cannot overflow */
    (void)symc_backing_round(share->pad_nbytes, PART_ALIGN, &pad);
    status = take(world, share->allocation, share->group, 2 * pad + table,
        &share->pad_memory, &at);
    if (status != SYMMCOLL_OK)
        return symc_error_prefix(status,
            "signal pads of %zu bytes in memory of CUDA device %d",
            2 * pad + table, share->device_index);
    share->barrier_at = pad;
    share->table_at = 2 * pad;
    return SYMMCOLL_OK;
}

void symc_device_backing_close(struct symc_allocation *allocation)
{
    allocation->backend->mem->free(allocation->memory);
}
