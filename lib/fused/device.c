/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Fused operations on a device: their memory, which all ranks map and agree on,
 * and enqueuing.
 */
#include "fused/device.h"

#include "base/ranks.h"
#include "run/call.h"
#include "symm_mem/symm_mem.h"

#include <stdio.h>
#include <string.h>

/* ---- beginning a call ---- */

static symmcoll_status_t check_device(
    const struct symc_fused *fused, const char *name, int index)
{
    int found;

    if (symc_run_is_on_device(symc_group_runner(fused->group), index, &found))
        return SYMMCOLL_OK;
    return symc_fail(SYMMCOLL_ERR_INVALID,
        "%s: expected memory of device %d, as in earlier operations of group "
        "%s, found device %d",
        name, found, symc_group_name(fused->group), index);
}

static symmcoll_status_t query_captured(
    const struct symc_fused *fused, const char *name, struct symc_fused_on *on)
{
    const struct symc_fused_device *device = fused->device;

    return symc_fused_name_error(
        name, device->ops->query_captured(
                  device->compute, on->stream, &on->captured));
}

symmcoll_status_t symc_fused_on_begin(struct symc_fused *fused,
    enum symc_kind kind, const struct symc_fused_call *begun,
    const struct symmcoll_tensor *a, struct symc_fused_on *on)
{
    const char *name = begun->args.name;
    struct symc_op op = {.kind = kind,
        .memory = SYMC_MEMORY_DEVICE,
        .device = (int16_t)a->device_index,
        .direct = true};
    const struct symc_fused_named named = {"a", -1, a};
    symmcoll_status_t status;

    on->index = a->device_index;
    on->memory = a->data;
    on->words = begun->options;
    on->words.stream = NULL;
    on->stream = begun->options.stream;
    if (on->stream == NULL)
        on->stream = symmcoll_group_stream(fused->group);
    op.stream = on->stream;
    status = symc_fused_check_memory(name, fused->group, &named);
    if (status != SYMMCOLL_OK)
        return status;
    status = check_device(fused, name, on->index);
    if (status != SYMMCOLL_OK)
        return status;
    status =
        symc_fused_device_open(fused, name, on->index, on->stream, a->data);
    if (status != SYMMCOLL_OK)
        return status;
    status = symc_fused_device_site(
        fused, name, on->index, on->stream, a->data, &on->site);
    if (status != SYMMCOLL_OK)
        return status;
    status = symc_fused_check_reach(name, fused, &named);
    if (status != SYMMCOLL_OK)
        return status;
    on->checked =
        symc_slot_device_state(symc_group_runner(fused->group)) != NULL;
    status = symc_slot_check(symc_group_runner(fused->group), &op);
    return status == SYMMCOLL_OK ? query_captured(fused, name, on) : status;
}

void symc_fused_on_end(struct symc_fused_on *on)
{
    symc_site_close(on->site);
    on->site = NULL;
}

/* ---- memory ---- */

size_t symc_fused_room_add(
    struct symc_fused_room *room, size_t count, size_t elem)
{
    size_t at = room->nbytes, nbytes;

    if (!symc_multiply(count, elem, &nbytes) ||
        !symc_add(nbytes, SYMC_FUSED_ALIGN - 1, &nbytes) ||
        !symc_add(
            at, nbytes / SYMC_FUSED_ALIGN * SYMC_FUSED_ALIGN, &room->nbytes))
        room->overflow = true;
    return at;
}

/* Checks a size against fused.device_memory. nbytes is the most that any rank
 * needs. */
static symmcoll_status_t check_limit(
    const struct symc_fused *fused, const char *name, size_t nbytes)
{
    const size_t most = symc_group_config(fused->group)->fused_device_memory;

    if (nbytes <= most)
        return SYMMCOLL_OK;
    return symc_fail(SYMMCOLL_ERR_NO_MEMORY,
        "%s: expected fused.device_memory to be %zu bytes or more, for what "
        "ranks need of their devices, found %zu",
        name, nbytes, most);
}

/* Allocates memory on all ranks, and joins it. If one has none, every rank
 * returns its error. */
static symmcoll_status_t grow(struct symc_fused *fused,
    const struct symc_fused_args *args, const struct symc_fused_on *on,
    size_t nbytes)
{
    struct symmcoll_world *world = symc_group_world(fused->group);
    struct symmcoll_symm_args place = SYMMCOLL_SYMM_ARGS_INIT;
    struct symc_fused_memory made = {.nbytes = nbytes};
    struct symc_near near = {.memory = NULL};
    struct symc_error error;
    void *data = NULL;
    symmcoll_status_t status;

    place.device = SYMMCOLL_CUDA;
    place.device_index = on->index;
    if (on->memory != NULL)
        near.memory = on->memory;
    else
        near.stream = on->stream;
    status = check_limit(fused, args->name, nbytes);
    if (status == SYMMCOLL_OK)
        status = symc_symm_allocate_near(world, nbytes, &place, near, &data);
    made.data = data;
    status = symc_fused_confirm(fused, args, &on->words, status);
    if (status != SYMMCOLL_OK)
        goto free_data;
    status =
        symmcoll_symm_rendezvous(fused->group, data, &on->words, &made.handle);
    if (status != SYMMCOLL_OK)
        goto free_data;
    symc_fused_device_replace(fused->device, made);
    return SYMMCOLL_OK;

free_data:
    symc_error_keep(&error, status);
    (void)symmcoll_symm_free(world, data);
    return symc_error_return(&error);
}

/* Loads the plans of the call on every rank before a rank enqueues a kernel
 * that waits. Loading may wait for running kernels; ranks that are threads
 * share a process and a device, so it might wait for a kernel that waits for
 * this rank. */
static symmcoll_status_t load(struct symc_fused *fused,
    const struct symc_fused_args *args, const struct symc_fused_on *on,
    enum symc_fused_form form)
{
    symmcoll_status_t status =
        symc_fused_name_error(args->name, symc_fused_device_load(fused, form));

    return symc_fused_confirm(fused, args, &on->words, status);
}

static bool are_captured(const void *words, int a, int b)
{
    const struct symc_fused_word *all = words;

    return all[a].captured == all[b].captured;
}

/* Checks that either all streams are captured or none. Else kernels of a graph
 * and kernels of a stream would wait for each other until the graph is
 * launched. */
static symmcoll_status_t check_captured(
    const struct symc_fused *fused, const struct symc_fused_args *args)
{
    const struct symmcoll_group *group = fused->group;
    /* first rank with a stream that is not captured, and first with one that is */
    int found[2] = {-1, -1};
    char who[2][SYMC_RANK_TEXT];

    for (int r = symc_group_size(group) - 1; r >= 0; r--)
        found[fused->all[r].captured != 0] = r;
    if (found[0] < 0 || found[1] < 0)
        return SYMMCOLL_OK;
    for (int i = 0; i < 2; i++)
        symc_format_rank(
            symc_group_ranks(group), found[i], SYMC_NO_PID, who[i]);
    (void)symc_fail(SYMMCOLL_ERR_MISMATCH,
        "%s: expected streams of which all are captured, or none, found %p of "
        "%s that is and %p of %s that is not (group %s, seq %llu)",
        args->name, (void *)(uintptr_t)fused->all[found[1]].offset, who[1],
        (void *)(uintptr_t)fused->all[found[0]].offset, who[0],
        symc_group_name(group),
        (unsigned long long)symmcoll_group_sequence(group));
    return symc_error_add_odd(
        symc_group_ranks(group), are_captured, fused->all);
}

symmcoll_status_t symc_fused_device_agree(struct symc_fused *fused,
    const struct symc_fused_args *args, struct symc_fused_on *on,
    const struct symc_fused_room *room, symmcoll_status_t status,
    bool *in_parts)
{
    struct symc_fused_device *device = fused->device;
    struct symc_error own;
    symmcoll_status_t others;
    size_t most = 0;
    bool large = true, cold = false, plain = false;
    enum symc_fused_form form;

    if (status == SYMMCOLL_OK && room->overflow)
        status = symc_fail(SYMMCOLL_ERR_NO_MEMORY,
            "%s: expected products that memory has room for, found more",
            args->name);
    symc_error_keep(&own, status);
    fused->mine = (struct symc_fused_word){.status = (int32_t)status,
        .number = room->nbytes,
        .offset = (uintptr_t)on->stream,
        .captured = on->captured,
        .cold = {device->cold[0], device->cold[1]}};
    fused->mine.large = status == SYMMCOLL_OK && device->memory.data != NULL &&
                        device->memory.nbytes >= room->nbytes;
    others = symc_fused_publish(fused, args, &on->words, NULL);
    if (others == SYMMCOLL_OK)
        others = symc_fused_collect(fused, args, &on->words, NULL, &plain);
    if (others == SYMMCOLL_OK)
        others = check_captured(fused, args);
    if (status != SYMMCOLL_OK)
        return symc_error_return(&own);
    if (others != SYMMCOLL_OK)
        return others;
    *in_parts = *in_parts && !plain;
    form = *in_parts ? SYMC_FUSED_PARTS : SYMC_FUSED_WHOLE;
    for (int r = 0; r < symc_group_size(fused->group); r++) {
        large = large && fused->all[r].large;
        cold = cold || fused->all[r].cold[form];
        most = fused->all[r].number > most ? fused->all[r].number : most;
    }
    on->checked = on->checked && large;
    status = large ? SYMMCOLL_OK : grow(fused, args, on, most);
    if (status != SYMMCOLL_OK)
        return status;
    if (cold)
        status = load(fused, args, on, form);
    if (status == SYMMCOLL_OK && on->captured)
        device->captured = true;
    return status;
}

char *symc_fused_device_at(
    const struct symc_fused *fused, int rank, size_t offset)
{
    return fused->device->memory.handle->at[rank] + offset;
}

/* ---- products ---- */

bool symc_fused_device_matrix(
    const struct symmcoll_tensor *tensor, struct symc_product_matrix *matrix)
{
    int64_t rows = tensor->shape[0], cols = tensor->shape[1];
    int64_t down = tensor->strides[0], across = tensor->strides[1];
    int64_t elem = (int64_t)symmcoll_dtype_size(tensor->dtype);

    *matrix = (struct symc_product_matrix){
        .dtype = tensor->dtype, .rows = rows, .cols = cols};
    if ((cols == 1 || across == 1) && (rows == 1 || down >= cols))
        matrix->distance = rows == 1 ? cols : down;
    else if ((rows == 1 || down == 1) && (cols == 1 || across >= rows))
        matrix->distance = cols == 1 ? rows : across;
    else
        return false;
    matrix->by_columns =
        !((cols == 1 || across == 1) && (rows == 1 || down >= cols));
    matrix->alignment =
        symc_product_alignment(tensor->data, matrix->distance * elem);
    return true;
}

struct symc_product_matrix symc_fused_device_rows(
    enum symmcoll_dtype dtype, int64_t rows, int64_t cols, size_t step)
{
    return (struct symc_product_matrix){.dtype = dtype,
        .rows = rows,
        .cols = cols,
        .distance = cols,
        .alignment = symc_product_alignment(
            NULL, (int64_t)(step | (size_t)cols * symmcoll_dtype_size(dtype)))};
}

/* ---- the operation ---- */

/* Data that each rank publishes when it enqueues. */
struct payload {
    uint64_t memory; /* number of the memory that all have joined */
    uint64_t digest; /* digest of the arguments */
    int64_t status;  /* error that keeps this rank from enqueuing, or OK */
    uint64_t zero;
};

_Static_assert(sizeof(struct payload) == SYMC_MOVER_PAYLOAD, "all of it");

static bool are_alike(const void *payloads, int a, int b)
{
    const void *const *all = payloads;

    return memcmp(all[a], all[b], offsetof(struct payload, status)) == 0;
}

/* Reports that a rank's call is another one than this rank's. */
static symmcoll_status_t fail_order(
    const struct symc_moving *moving, const void *const *payloads, int rank)
{
    (void)symc_fail(SYMMCOLL_ERR_MISMATCH,
        "%s: expected calls of all ranks in one order, found another call of "
        "rank %d (group %s, seq %llu)",
        symc_kind_name(moving->op->kind), rank, moving->group,
        (unsigned long long)moving->op->seq);
    return symc_error_add_odd(moving->ranks, are_alike, payloads);
}

/* Checks that all ranks use the same memory, and passed arguments that were
 * compared. */
static symmcoll_status_t check_payloads(struct symc_mover *mover,
    const struct symc_moving *moving, const void *const *payloads)
{
    const char *name = symc_kind_name(moving->op->kind);
    unsigned long long seq = moving->op->seq;
    char who[SYMC_RANK_TEXT];
    struct payload mine, other;

    memcpy(&mine, mover->payload, sizeof(mine));
    for (int r = 0; r < moving->size; r++) {
        memcpy(&other, payloads[r], sizeof(other));
        if (other.memory != mine.memory || other.digest != mine.digest)
            return fail_order(moving, payloads, r);
    }
    for (int r = 0; r < moving->size; r++) {
        memcpy(&other, payloads[r], sizeof(other));
        if (other.status == SYMMCOLL_OK)
            continue;
        symc_format_rank(moving->ranks, r, SYMC_NO_PID, who);
        (void)symc_fail((symmcoll_status_t)other.status,
            "%s: %s cannot go on: %s (group %s, seq %llu)", name, who,
            symmcoll_status_name((symmcoll_status_t)other.status),
            moving->group, seq);
        return symc_error_add_reporter(moving->ranks, r);
    }
    return SYMMCOLL_OK;
}

symmcoll_status_t symc_fused_device_run(struct symc_fused *fused,
    const struct symc_fused_call *begun, const struct symc_fused_on *on,
    const struct symc_op *op, struct symc_mover *mover)
{
    const struct symc_fused_device *device = fused->device;
    const struct symc_share *share = device->memory.handle->share;
    struct payload payload = {
        .memory = share->shared.number, .digest = fused->mine.digest};
    struct symc_op made = *op;
    struct symc_error found;
    symmcoll_status_t status;

    made.memory = SYMC_MEMORY_DEVICE;
    made.device = (int16_t)on->index;
    made.out = mover;
    made.timeout_ns = symc_group_timeout(fused->group);
    status = symc_run_read_call(&begun->options, &made);
    if (status != SYMMCOLL_OK)
        return status;
    made.stream = on->stream;
    made.direct = true;
    made.checked = true;
    made.captured = on->captured;
    /* The group may be on the device only since this call has allocated memory
     * there. The others wait for this rank, so the error is published. */
    status = on->checked
                 ? SYMMCOLL_OK
                 : symc_slot_check(symc_group_runner(fused->group), &made);
    symc_error_keep(&found, status);
    payload.status = status;
    memcpy(mover->payload, &payload, sizeof(payload));
    mover->joined = share->shared.joined;
    mover->compute = device->compute;
    mover->check = check_payloads;
    status = symc_run_call_device(symc_group_runner(fused->group), &made, NULL);
    symc_run_put_sequence(&begun->options, &made, NULL);
    return found.status == SYMMCOLL_OK ? status : symc_error_return(&found);
}
