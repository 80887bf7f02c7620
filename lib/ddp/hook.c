/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The built-in communication hook that keeps a bucket's element type, and the
 * sum that other built-in hooks use.
 */
#include "base/base.h"
#include "base/dtype.h"
#include "ddp/reducer.h"
#include "world/world.h"

#include <symmcoll/collectives.h>
#include <symmcoll/group.h>

#include <stdlib.h>

/* ---- devices ---- */

/* A device with buckets.  It is kept open until the world ends, because opening
 * it looks up kernels. */
struct opened {
    struct opened *next;
    int device;
    struct symc_site *site;
};

struct devices {
    struct symc_extension extension;
    pthread_mutex_t lock;
    struct opened *first;
};

static void end_devices(
    struct symc_extension *extension, struct symmcoll_world *world)
{
    struct devices *devices = (struct devices *)extension;

    (void)world;
    while (devices->first != NULL) {
        struct opened *opened = devices->first;

        devices->first = opened->next;
        symc_site_close(opened->site);
        free(opened);
    }
    pthread_mutex_destroy(&devices->lock);
    free(devices);
}

static const char key; /* its address identifies the extension */

static struct symc_extension *make_devices(void)
{
    struct devices *devices = symc_alloc(1, sizeof(*devices));

    if (devices == NULL)
        return NULL;
    pthread_mutex_init(&devices->lock, NULL);
    devices->extension =
        (struct symc_extension){.key = &key, .end = end_devices};
    return &devices->extension;
}

static struct symc_site *find_site(struct devices *devices,
    const struct symmcoll_group *group, const struct symmcoll_bucket *bucket)
{
    struct symc_site *site = NULL;

    pthread_mutex_lock(&devices->lock);
    for (struct opened *at = devices->first; at != NULL && site == NULL;
         at = at->next)
        if (at->device == bucket->device_index &&
            symc_site_serves(
                at->site, group, at->device, bucket->stream, bucket->buffer))
            site = at->site;
    pthread_mutex_unlock(&devices->lock);
    return site;
}

/* Finds the open site of a bucket's device (out), or opens it.  If two threads
 * open the same device at once, both sites are kept. */
static symmcoll_status_t open_site(const struct symmcoll_group *group,
    const struct symmcoll_bucket *bucket, const struct symc_site **site)
{
    struct devices *devices = (struct devices *)symc_world_extension(
        symmcoll_group_world(group), &key, make_devices);
    struct opened *made;
    symmcoll_status_t status;

    if (devices == NULL)
        return SYMMCOLL_ERR_NO_MEMORY;
    *site = find_site(devices, group, bucket);
    if (*site != NULL)
        return SYMMCOLL_OK;
    made = symc_alloc(1, sizeof(*made));
    if (made == NULL)
        return SYMMCOLL_ERR_NO_MEMORY;
    made->device = bucket->device_index;
    status = symc_site_open("hook_all_reduce", group, made->device,
        bucket->stream, bucket->buffer, true, &made->site);
    if (status != SYMMCOLL_OK) {
        free(made);
        return status;
    }
    *site = made->site;
    pthread_mutex_lock(&devices->lock);
    made->next = devices->first;
    devices->first = made;
    pthread_mutex_unlock(&devices->lock);
    return SYMMCOLL_OK;
}

/* ---- the hook ---- */

/* Scales a bucket in place, on its stream.  captured (out): whether that stream
 * is being captured. */
static symmcoll_status_t scale(const struct symmcoll_group *group,
    const struct symmcoll_bucket *bucket, const struct symc_local_sum *scaling,
    bool *captured)
{
    const struct symmcoll_tensor buffer = {.data = bucket->buffer,
        .device = bucket->device,
        .device_index = bucket->device_index};
    const struct symc_site *site = NULL;
    symmcoll_status_t status =
        symc_site_check("hook_all_reduce", group, &buffer);

    if (status == SYMMCOLL_OK && bucket->device == SYMMCOLL_CUDA)
        status = open_site(group, bucket, &site);
    if (status == SYMMCOLL_OK)
        status = symc_site_query_captured(site, bucket->stream, captured);
    return status == SYMMCOLL_OK
               ? symc_site_add_on(site, bucket->stream, scaling)
               : status;
}

symmcoll_status_t symc_hook_read(const char *where,
    const struct symmcoll_group *group, const struct symmcoll_bucket *given,
    struct symmcoll_work *const *work, struct symmcoll_bucket *bucket)
{
    if (group == NULL || given == NULL || work == NULL)
        return symc_fail(SYMMCOLL_ERR_INVALID,
            "%s: expected a group, a bucket and a work, found NULL", where);
    return symc_sized_read(&symc_bucket_kind, where, given, bucket);
}

symmcoll_status_t symc_hook_sum(struct symmcoll_group *group,
    const struct symmcoll_bucket *bucket, bool captured,
    struct symmcoll_work **work)
{
    struct symmcoll_call call = SYMMCOLL_CALL_INIT;
    char label[SYMC_BUCKET_TEXT];

    if (captured)
        *work = NULL;
    call.label = symc_bucket_text(bucket->index, label);
    if (bucket->device == SYMMCOLL_CUDA)
        call.stream = bucket->stream;
    if (bucket->reducer != NULL)
        bucket->reducer->sent_nbytes +=
            bucket->count * symmcoll_dtype_size(bucket->dtype);
    return symmcoll_all_reduce(group, bucket->buffer, bucket->buffer,
        bucket->count, bucket->dtype, SYMMCOLL_SUM, &call,
        captured ? NULL : work);
}

symmcoll_status_t symmcoll_hook_all_reduce(struct symmcoll_group *group,
    const struct symmcoll_bucket *given, void *arg, struct symmcoll_work **work)
{
    struct symmcoll_bucket bucket;
    struct symc_local_sum scaling = {.n = 1};
    bool captured = false;
    const struct symc_dtype *dtype;
    symmcoll_status_t status;

    (void)arg;
    status = symc_hook_read("hook_all_reduce", group, given, work, &bucket);
    if (status != SYMMCOLL_OK)
        return status;
    dtype = symc_dtype_find(bucket.dtype);
    if (dtype == NULL || !symc_dtype_reduces(dtype, SYMMCOLL_PREMUL_SUM))
        return symc_fail(SYMMCOLL_ERR_UNSUPPORTED,
            "hook_all_reduce: gradients of %s have no average",
            dtype != NULL ? dtype->name : "an unknown type");
    scaling.dtype = bucket.dtype;
    scaling.elem = dtype->size;
    scaling.out = bucket.buffer;
    scaling.in[0] = bucket.buffer;
    scaling.count = bucket.count;
    scaling.factor = 1.0 / symmcoll_group_size(group);
    status = scale(group, &bucket, &scaling, &captured);
    return status == SYMMCOLL_OK ? symc_hook_sum(group, &bucket, captured, work)
                                 : status;
}
