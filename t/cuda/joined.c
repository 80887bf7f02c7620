/* SPDX-License-Identifier: BSD-3-Clause */
#include "t/cuda/joined.h"
#include "cuda/joined.h"

#include <stdlib.h>
#include <string.h>

#define SECONDS 60

int joined_open(struct symmcoll_group *group, int rank)
{
    struct collective one = {
        .kind = SYMC_ALL_REDUCE, .dtype = F32, .count = 10};

    return same_as_host(group, rank, &one);
}

const struct symc_backend *joined_backend(struct symmcoll_group *group)
{
    return group->runner.slots[SYMC_MEMORY_DEVICE].backend;
}

struct symc_memory_request joined_request(
    struct symmcoll_group *group, int device, size_t nbytes)
{
    return (struct symc_memory_request){.settings = group->runner.core.settings,
        .fail = group->runner.core.fail,
        .device = device,
        .threads = group->world->threads,
        .nbytes = nbytes};
}

void *joined_alloc(
    struct symmcoll_group *group, int device, size_t nbytes, void **at)
{
    struct symc_memory_request request = joined_request(group, device, nbytes);
    void *memory = NULL;

    if (joined_backend(group)->mem->allocate(&request, &memory, at) !=
        SYMMCOLL_OK)
        diag("device %d: %s", device, symmcoll_last_error());
    return memory;
}

symmcoll_status_t joined_join(
    struct symmcoll_group *group, void *memory, struct symc_joined **joined)
{
    uint64_t ticket;
    const struct symc_op op = {.kind = SYMC_SYMM_RENDEZVOUS};
    symmcoll_status_t status;

    (void)symc_queue_enter(group->runner.queue, NULL, &ticket);
    status = symc_slot_join(&group->runner, &op,
        (struct symc_slot_memory){
            .backend = joined_backend(group), .memory = memory},
        symc_deadline_ns(symc_now_ns(), SECONDS * SYMC_NS_PER_S), joined);

    symc_queue_leave(group->runner.queue, ticket);
    return status;
}

static int meet(struct symmcoll_group *group)
{
    return say(symmcoll_barrier(group, NULL, NULL) == SYMMCOLL_OK, "barrier");
}

/* Returns the bytes of a member as kernels address them. */
static const unsigned char *for_kernels(
    const struct symc_joined *joined, int rank)
{
    struct symc_device_data data = symc_cuda_joined_data(joined, 16);
    unsigned char *begin = data.table != NULL
                               ? data.table[rank]
                               : data.base + (uint64_t)rank * data.stride;

    return begin + data.offset - 16;
}

static bool has_all(const void *at, size_t nbytes, unsigned char value)
{
    const unsigned char *byte = at;

    for (size_t i = 0; i < nbytes; i++) {
        if (byte[i] != value) {
            diag("byte %zu: expected %d, found %d", i, value, byte[i]);
            return false;
        }
    }
    return true;
}

/* Checks the bytes of all members. value: that of rank 0. */
static int have_all(const struct symc_joined *joined, int value, int step)
{
    bool right = true;

    for (int r = 0; r < joined->size; r++) {
        unsigned char expected = (unsigned char)(value + r * step);

        right = right && has_all(joined->at[r], joined->nbytes, expected) &&
                has_all(for_kernels(joined, r), joined->nbytes, expected);
    }
    return right;
}

int joined_is_common(struct symmcoll_group *group, int rank,
    const struct symc_joined *joined, bool is_new)
{
    int right = joined->size == symmcoll_group_size(group);

    if (is_new)
        right = right && have_all(joined, 0, 0);
    right = meet(group) && right;
    memset(joined->at[rank], 17 + rank, joined->nbytes);
    right = meet(group) && right && have_all(joined, 17, 1);
    return meet(group) && right;
}

struct symmcoll_group *joined_group(struct symmcoll_group *all)
{
    struct symmcoll_group_args args = SYMMCOLL_GROUP_ARGS_INIT;
    struct symmcoll_group *group = NULL;

    if (!say(symmcoll_group_split(all, 0, symmcoll_group_rank(all), &args,
                 &group) == SYMMCOLL_OK,
            "a group"))
        abort();
    return group;
}

int joined_objects(void)
{
    int sum = 0;

    for (int i = 0; i < FAKE_OBJECTS; i++) {
        if (i != FAKE_LIBRARIES)
            sum += fake_live((enum fake_object)i);
    }
    return sum;
}
