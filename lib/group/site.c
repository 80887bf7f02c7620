/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The place of one rank's tensors: host memory, or a device and a stream that
 * orders memory and copies there.
 */
#include "group/site.h"
#include "base/reduce.h"
#include "base/tensor.h"
#include "group/group.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct symc_site {
    const struct symc_local_ops *ops;
    void *local;
    void *stream;
    struct symc_site *of; /* the site that opened the device; NULL: this one */
    _Atomic int uses;
};

/* ---- choice ---- */

const char *symc_site_format(
    const struct symmcoll_tensor *tensor, char buffer[SYMC_MEMORY_TEXT])
{
    return symc_memory_format(
        tensor->device == SYMMCOLL_CUDA ? SYMC_MEMORY_DEVICE : SYMC_MEMORY_HOST,
        tensor->device_index, buffer);
}

/* Checks the memory and device found for one byte of a tensor.  what: the byte
 * in messages; "" for the first. */
static symmcoll_status_t judge_byte(const char *where,
    const struct symc_registry *registry, const struct symmcoll_tensor *tensor,
    const char *what, const void *at, enum symc_memory memory, int16_t device)
{
    enum symc_memory wanted =
        tensor->device == SYMMCOLL_CUDA ? SYMC_MEMORY_DEVICE : SYMC_MEMORY_HOST;
    char expected[SYMC_MEMORY_TEXT], found[SYMC_MEMORY_TEXT];

    if (memory == wanted &&
        (wanted == SYMC_MEMORY_HOST || device == tensor->device_index))
        return SYMMCOLL_OK;
    if (memory != SYMC_MEMORY_HOST && device == SYMC_UNKNOWN_DEVICE)
        return symc_registry_refuse(registry, where, at);
    if (memory != SYMC_MEMORY_HOST && device == SYMC_NO_DEVICE)
        return symc_fail(SYMMCOLL_ERR_INVALID,
            "%s: expected a tensor in %s, found %s%p, which has been freed",
            where, symc_site_format(tensor, expected), what, at);
    return symc_fail(SYMMCOLL_ERR_INVALID,
        "%s: expected a tensor in %s, found %s%p in %s", where,
        symc_site_format(tensor, expected), what, at,
        symc_memory_format(memory, device, found));
}

static symmcoll_status_t check_byte(const char *where,
    const struct symc_registry *registry, const struct symmcoll_tensor *tensor,
    const char *what, const void *at)
{
    int16_t device = 0;
    enum symc_memory memory = symc_registry_find(registry, at, &device);

    return judge_byte(where, registry, tensor, what, at, memory, device);
}

/* Checks one byte.  whole (out): all bytes from it to `last` are known to be in
 * the same memory. */
static symmcoll_status_t check_from(const char *where,
    const struct symc_registry *registry, const struct symmcoll_tensor *tensor,
    const char *what, const void *at, const void *last, bool *whole)
{
    int16_t device = 0;
    enum symc_memory memory =
        symc_registry_find_whole(registry, at, last, &device, whole);

    return judge_byte(where, registry, tensor, what, at, memory, device);
}

symmcoll_status_t symc_site_check(const char *where,
    const struct symmcoll_group *group, const struct symmcoll_tensor *tensor)
{
    const struct symc_registry *registry = &group->world->registry;
    struct symc_tensor_span span;
    const void *first, *last;
    symmcoll_status_t status;
    bool whole;

    if (tensor->data == NULL || !symc_registry_is_other_present(registry))
        return SYMMCOLL_OK;
    span = symc_tensor_span(tensor);
    if (tensor->device != SYMMCOLL_CUDA || span.end == 0)
        return check_byte(where, registry, tensor, "", tensor->data);
    first = (const void *)span.first;
    last = (const void *)(span.end - 1);
    status =
        check_from(where, registry, tensor, "", tensor->data, last, &whole);
    if (status == SYMMCOLL_OK && first != tensor->data)
        status = check_from(
            where, registry, tensor, "its first byte, ", first, last, &whole);
    if (status != SYMMCOLL_OK || whole)
        return status;
    status = check_byte(where, registry, tensor, "its last byte, ", last);
    if (status != SYMMCOLL_OK || symc_registry_is_one(registry, first, last))
        return status;
    return symc_fail(SYMMCOLL_ERR_INVALID,
        "%s: expected a tensor in one allocation, found that another one begins "
        "between its first byte, %p, and its last, %p",
        where, first, last);
}

static struct symc_memory_request make_request(
    const struct symmcoll_group *group, int device, void *stream,
    const void *memory)
{
    return (struct symc_memory_request){.device = device,
        .stream = stream,
        .buffer = memory,
        .state = symc_slot_device_state(&group->runner)};
}

symmcoll_status_t symc_site_open(const char *where,
    const struct symmcoll_group *group, int device, void *stream,
    const void *memory, bool sums, struct symc_site **site)
{
    struct symc_memory_request request =
        make_request(group, device, stream, memory);
    struct symc_site *made = symc_alloc(1, sizeof(*made));
    symmcoll_status_t status;

    if (made == NULL)
        return SYMMCOLL_ERR_NO_MEMORY;
    request.sums = sums;
    status = symc_registry_open_device(
        &group->world->registry, where, request, &made->ops, &made->local);
    if (status != SYMMCOLL_OK) {
        free(made);
        return status;
    }
    made->stream = stream;
    atomic_init(&made->uses, 1);
    *site = made;
    return SYMMCOLL_OK;
}

symmcoll_status_t symc_site_open_again(
    struct symc_site *site, void *stream, struct symc_site **again)
{
    struct symc_site *made = symc_alloc(1, sizeof(*made));

    if (made == NULL)
        return SYMMCOLL_ERR_NO_MEMORY;
    made->ops = site->ops;
    made->local = site->local;
    made->stream = stream;
    made->of = symc_site_share(site);
    atomic_init(&made->uses, 1);
    *again = made;
    return SYMMCOLL_OK;
}

bool symc_site_serves(const struct symc_site *site,
    const struct symmcoll_group *group, int device, void *stream,
    const void *memory)
{
    const struct symc_memory_request request =
        make_request(group, device, stream, memory);

    return site->ops->serves(site->local, &request);
}

struct symc_site *symc_site_share(struct symc_site *site)
{
    if (site != NULL)
        atomic_fetch_add(&site->uses, 1);
    return site;
}

void symc_site_close(struct symc_site *site)
{
    while (site != NULL && atomic_fetch_sub(&site->uses, 1) == 1) {
        struct symc_site *of = site->of;

        if (of == NULL)
            site->ops->close(site->local);
        free(site);
        site = of;
    }
}

symmcoll_status_t symc_site_follow(const struct symc_site *site, void *stream)
{
    if (site == NULL || site->stream == stream)
        return SYMMCOLL_OK;
    return site->ops->follow(site->local, site->stream, stream);
}

symmcoll_status_t symc_site_set_stream(struct symc_site *site, void *stream)
{
    symmcoll_status_t status = SYMMCOLL_OK;

    if (site == NULL || site->stream == stream)
        return status;
    status = site->ops->follow(site->local, stream, site->stream);
    if (status == SYMMCOLL_OK)
        site->stream = stream;
    return status;
}

void symc_site_leave_stream(struct symc_site *site, void *stream)
{
    if (site != NULL)
        site->stream = stream;
}

void *symc_site_stream(const struct symc_site *site)
{
    return site != NULL ? site->stream : NULL;
}

bool symc_site_is_beside(const struct symc_site *site, void *stream)
{
    return site != NULL && site->stream != stream;
}

symmcoll_status_t symc_site_query(const struct symc_site *site)
{
    return site == NULL ? SYMMCOLL_OK
                        : site->ops->query(site->local, site->stream);
}

symmcoll_status_t symc_site_query_captured(
    const struct symc_site *site, void *stream, bool *captured)
{
    *captured = false;
    return site == NULL
               ? SYMMCOLL_OK
               : site->ops->query_captured(site->local, stream, captured);
}

symmcoll_status_t symc_site_mark(const struct symc_site *site, void **mark)
{
    return site->ops->mark(site->local, site->stream, mark);
}

symmcoll_status_t symc_site_elapsed(
    const struct symc_site *site, void *from, void *to, int64_t *ns)
{
    return site->ops->elapsed(site->local, from, to, ns);
}

void symc_site_unmark(const struct symc_site *site, void *mark)
{
    site->ops->unmark(site->local, mark);
}

/* ---- memory ---- */

static void *alloc_host(const char *where, size_t count, size_t elem)
{
    size_t nbytes, rounded;
    void *memory = NULL;

    if (symc_multiply(count, elem, &nbytes) &&
        symc_add(nbytes, SYMC_LINE, &rounded))
        memory = aligned_alloc(SYMC_LINE, rounded / SYMC_LINE * SYMC_LINE);
    if (memory == NULL)
        symc_fail(SYMMCOLL_ERR_NO_MEMORY,
            "%s: %zu elements of %zu bytes requested", where, count, elem);
    return memory;
}

symmcoll_status_t symc_site_alloc(const char *where, struct symc_site *site,
    size_t count, size_t elem, void **memory)
{
    symmcoll_status_t status;

    if (site == NULL) {
        *memory = alloc_host(where, count, elem);
        return *memory != NULL ? SYMMCOLL_OK : SYMMCOLL_ERR_NO_MEMORY;
    }
    /* A tensor's byte count cannot overflow. */
    status =
        site->ops->allocate(site->local, site->stream, count * elem, memory);
    return status == SYMMCOLL_OK ? status
                                 : symc_error_prefix(status, "%s", where);
}

void symc_site_release(struct symc_site *site, void *memory)
{
    if (site == NULL)
        free(memory);
    else if (memory != NULL)
        (void)site->ops->free(site->local, site->stream, memory);
}

/* The driver's per-thread default stream: no stream of another rank waits for
 * it. */
#define OWN_STREAM ((void *)(uintptr_t)2)

void symc_site_release_idle(struct symc_site *site, void *memory)
{
    if (memory != NULL)
        (void)site->ops->free(site->local, OWN_STREAM, memory);
}

symmcoll_status_t symc_site_copy(
    const struct symc_site *site, const struct symc_strided *copy)
{
    return site->ops->copy(site->local, site->stream, copy);
}

symmcoll_status_t symc_site_move(
    const struct symc_site *site, void *to, const void *from, size_t nbytes)
{
    const int64_t shape = (int64_t)nbytes, stride = 1;
    const struct symc_strided copy = {.out = to,
        .in = from,
        .elem = 1,
        .ndim = 1,
        .shape = &shape,
        .strides = &stride};

    if (nbytes == 0 || to == from)
        return SYMMCOLL_OK;
    if (site != NULL)
        return symc_site_copy(site, &copy);
    memcpy(to, from, nbytes);
    return SYMMCOLL_OK;
}

symmcoll_status_t symc_site_move_pieces(
    const struct symc_site *site, const struct symc_local_pieces *pieces)
{
    if (site != NULL)
        return site->ops->move(site->local, site->stream, pieces);
    for (size_t i = 0; i < pieces->n; i++) {
        const struct symc_local_piece *piece = &pieces->pieces[i];
        char *place = (char *)pieces->buffer + piece->offset;

        if (piece->nbytes > 0)
            memcpy(pieces->spread ? piece->at : place,
                pieces->spread ? place : piece->at, piece->nbytes);
    }
    return SYMMCOLL_OK;
}

symmcoll_status_t symc_site_clear(
    const struct symc_site *site, void *at, size_t nbytes)
{
    if (site != NULL)
        return site->ops->clear(site->local, site->stream, at, nbytes);
    if (nbytes > 0)
        memset(at, 0, nbytes);
    return SYMMCOLL_OK;
}

/* ---- sums ---- */

symmcoll_status_t symc_site_add_on(const struct symc_site *site, void *stream,
    const struct symc_local_sum *sum)
{
    const double factors[2] = {sum->factor, sum->factor};
    const struct symc_reduction reduction = {
        .dtype = sum->dtype,
        .op = sum->factor == 1.0 ? SYMMCOLL_SUM : SYMMCOLL_PREMUL_SUM,
        .block = 2,
        .factors = sum->factor == 1.0 ? NULL : factors,
    };

    if (sum->count == 0 ||
        (sum->n == 1 && sum->factor == 1.0 && sum->out == sum->in[0]))
        return SYMMCOLL_OK;
    if (site != NULL)
        return site->ops->add(site->local, stream, sum);
    symc_reduce(&reduction, sum->out, NULL, sum->in, sum->n, sum->count, false);
    return SYMMCOLL_OK;
}

symmcoll_status_t symc_site_add(
    const struct symc_site *site, const struct symc_local_sum *sum)
{
    return sum->n == 1 && sum->factor == 1.0
               ? symc_site_move(
                     site, sum->out, sum->in[0], sum->count * sum->elem)
               : symc_site_add_on(site, symc_site_stream(site), sum);
}

symmcoll_status_t symc_site_convert(const struct symc_site *site, void *stream,
    const struct symc_conversion *conversion)
{
    if (conversion->count == 0)
        return SYMMCOLL_OK;
    if (site != NULL)
        return site->ops->convert(site->local, stream, conversion);
    symc_convert(conversion);
    return SYMMCOLL_OK;
}
