/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * State that a group keeps for fused operations on a device: the compute
 * library, plans of products, and memory.
 */
#include "fused/device.h"

#include "config/config.h"
#include "group/site.h"
#include "run/slot.h"
#include "symm_mem/symm_mem.h"

#include <stdlib.h>

#define PLANS_MOST 64 /* plans kept between calls */

struct symc_fused_plan {
    struct symc_fused_plan *next;
    struct symc_product product;
    void *plan;
    size_t workspace;
    bool loaded;
    bool wanted[SYMC_FUSED_FORMS]; /* used by the current call */
};

static void free_plan(
    const struct symc_fused_device *device, struct symc_fused_plan *plan)
{
    device->ops->forget(device->compute, plan->plan);
    free(plan);
}

/* Frees the plans beyond the PLANS_MOST used most recently. */
static void forget_old(struct symc_fused_device *device)
{
    struct symc_fused_plan **at = &device->plans;

    for (int i = 0; i < PLANS_MOST && *at != NULL; i++)
        at = &(*at)->next;
    while (*at != NULL) {
        struct symc_fused_plan *plan = *at;

        *at = plan->next;
        free_plan(device, plan);
    }
}

/* Clears the marks that the last call has left on plans. */
static void begin_call(struct symc_fused_device *device)
{
    for (int i = 0; i < SYMC_FUSED_FORMS; i++)
        device->cold[i] = false;
    for (struct symc_fused_plan *at = device->plans; at != NULL; at = at->next)
        for (int i = 0; i < SYMC_FUSED_FORMS; i++)
            at->wanted[i] = false;
}

/* Frees the device state. idle: no operation runs on its streams. */
static void free_device(struct symc_fused *fused, bool idle)
{
    struct symc_fused_device *device = fused->device;

    if (device == NULL)
        return;
    while (device->plans != NULL) {
        struct symc_fused_plan *plan = device->plans;

        device->plans = plan->next;
        free_plan(device, plan);
    }
    if (idle)
        device->ops->close(device->compute);
    symc_site_close(device->site);
    free(device);
    fused->device = NULL;
}

/* Releases the memory of the device. */
static void release_memory(struct symc_fused *fused)
{
    struct symc_fused_device *device = fused->device;

    if (device == NULL)
        return;
    symc_symm_drop(device->memory.handle);
    device->memory = (struct symc_fused_memory){.data = NULL};
    for (size_t i = 0; i < device->nkept; i++)
        symc_symm_drop(device->kept[i]);
    free(device->kept);
    device->kept = NULL;
    device->nkept = 0;
}

symmcoll_status_t symc_fused_device_open(struct symc_fused *fused,
    const char *name, int index, void *stream, const void *memory)
{
    struct symmcoll_world *world = symc_group_world(fused->group);
    const struct symc_memory_request request = {.device = index,
        .stream = stream,
        .buffer = memory,
        .state = symc_slot_device_state(symc_group_runner(fused->group))};
    const struct symc_fused_device *old = fused->device;
    struct symc_fused_device *made;
    symmcoll_status_t status;

    /* A call on another device, or in another context there, was refused while
     * the group had no device. */
    if (old != NULL && !symc_members_failed(symc_group_members(fused->group)) &&
        (old->index != index || !old->ops->serves(old->compute, &request))) {
        release_memory(fused);
        free_device(fused, true);
    }
    if (fused->device != NULL) {
        begin_call(fused->device);
        forget_old(fused->device);
        if (fused->device->dropped)
            fused->device->dropped = symc_symm_reap(world);
        return SYMMCOLL_OK;
    }
    made = symc_alloc(1, sizeof(*made));
    if (made == NULL)
        return SYMMCOLL_ERR_NO_MEMORY;
    made->index = index;
    status = symc_site_open(
        name, fused->group, index, stream, memory, false, &made->site);
    if (status != SYMMCOLL_OK)
        goto close_site;
    status = symc_registry_open_compute(&world->registry, world->config, name,
        request, &made->ops, &made->compute);
    if (status != SYMMCOLL_OK)
        goto close_site;
    fused->device = made;
    return SYMMCOLL_OK;

close_site:
    symc_site_close(made->site);
    free(made);
    return status;
}

/* In a failed group the site that is kept may belong to another context. */
symmcoll_status_t symc_fused_device_site(struct symc_fused *fused,
    const char *name, int index, void *stream, const void *memory,
    struct symc_site **site)
{
    const struct symc_fused_device *device = fused->device;

    return device->index == index && symc_site_serves(device->site,
                                         fused->group, index, stream, memory)
               ? symc_site_open_again(device->site, stream, site)
               : symc_site_open(
                     name, fused->group, index, stream, memory, false, site);
}

/* Keeps memory until the group ends; false: no memory for the entry. */
static bool keep(struct symc_fused_device *device, struct symmcoll_symm *handle)
{
    struct symmcoll_symm **kept = realloc(
        device->kept, (device->nkept + 1) * sizeof(struct symmcoll_symm *));

    if (kept == NULL)
        return false;
    kept[device->nkept++] = handle;
    device->kept = kept;
    return true;
}

void symc_fused_device_replace(
    struct symc_fused_device *device, struct symc_fused_memory memory)
{
    if (device->memory.handle != NULL && device->captured) {
        /* without an entry the memory stays until the world ends */
        (void)keep(device, device->memory.handle);
    } else if (device->memory.handle != NULL) {
        symc_symm_drop(device->memory.handle);
        device->dropped = true;
    }
    device->memory = memory;
    device->captured = false;
}

void symc_fused_device_end(struct symc_fused *fused, int64_t until_ns)
{
    bool idle;

    if (fused->device == NULL)
        return;
    idle = symc_slots_reclaim(symc_group_runner(fused->group), until_ns) ==
           SYMMCOLL_OK;
    release_memory(fused);
    free_device(fused, idle);
}

/* ---- plans ---- */

static bool is_same_matrix(
    const struct symc_product_matrix *a, const struct symc_product_matrix *b)
{
    return a->dtype == b->dtype && a->rows == b->rows && a->cols == b->cols &&
           a->distance == b->distance && a->by_columns == b->by_columns &&
           a->alignment == b->alignment;
}

static bool is_same(const struct symc_product *a, const struct symc_product *b)
{
    return is_same_matrix(&a->a, &b->a) && is_same_matrix(&a->b, &b->b) &&
           is_same_matrix(&a->c, &b->c) && a->add == b->add &&
           a->divisor == b->divisor && a->tf32 == b->tf32 &&
           a->outer == b->outer && a->fast == b->fast &&
           a->scaled == b->scaled && a->sms == b->sms &&
           a->workspace == b->workspace;
}

/* Finds a plan, and moves it to the front; NULL: none. */
static struct symc_fused_plan *find_plan(
    struct symc_fused_device *device, const struct symc_product *product)
{
    struct symc_fused_plan **at = &device->plans, *found;

    while (*at != NULL && !is_same(&(*at)->product, product))
        at = &(*at)->next;
    found = *at;
    if (found == NULL)
        return NULL;
    *at = found->next;
    found->next = device->plans;
    device->plans = found;
    return found;
}

symmcoll_status_t symc_fused_device_plan(struct symc_fused *fused,
    const char *name, enum symc_fused_form form, struct symc_product *product,
    void **plan, size_t *workspace)
{
    struct symc_fused_device *device = fused->device;
    struct symc_fused_plan *at;
    symmcoll_status_t status;

    *plan = NULL;
    if (product->a.rows == 0 || product->a.cols == 0 || product->b.cols == 0)
        return SYMMCOLL_OK;
    product->tf32 = symc_group_config(fused->group)->fused_tf32;
    at = find_plan(device, product);
    if (at == NULL) {
        at = symc_alloc(1, sizeof(*at));
        if (at == NULL)
            return SYMMCOLL_ERR_NO_MEMORY;
        at->product = *product;
        status = device->ops->plan(
            device->compute, product, &at->plan, &at->workspace);
        if (status != SYMMCOLL_OK) {
            free(at);
            return symc_fused_name_error(name, status);
        }
        at->next = device->plans;
        device->plans = at;
    }
    at->wanted[form] = true;
    /* Loading matters only for ranks that are threads: another process does not
     * wait for it. */
    device->cold[form] |=
        symc_group_world(fused->group)->threads && !at->loaded;
    *plan = at->plan;
    if (at->workspace > *workspace)
        *workspace = at->workspace;
    return SYMMCOLL_OK;
}

symmcoll_status_t symc_fused_device_load(
    struct symc_fused *fused, enum symc_fused_form form)
{
    struct symc_fused_device *device = fused->device;
    symmcoll_status_t status = SYMMCOLL_OK;

    for (struct symc_fused_plan *at = device->plans;
         at != NULL && status == SYMMCOLL_OK; at = at->next)
        if (at->wanted[form] && !at->loaded)
            status = device->ops->load(device->compute, at->plan, &at->loaded);
    return status;
}
