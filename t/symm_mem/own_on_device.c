/* SPDX-License-Identifier: BSD-3-Clause */
#include "t/symm_mem/own_on_device.h"
#include "t/symm_mem/own.h"

static bool shows_all(const struct joined *it)
{
    struct symmcoll_symm_info info = SYMMCOLL_SYMM_INFO_INIT;
    bool right =
        OK(symmcoll_symm_get_info(it->handle, &info)) &&
        HOLDS(info.device == SYMMCOLL_CUDA) &&
        HOLDS(info.device_index == device_use(it->rank)) &&
        HOLDS(info.nbytes == NBYTES) && HOLDS(info.channels > 0) &&
        HOLDS(info.buffers[it->rank] == it->data) &&
        HOLDS(symmcoll_symm_is_symmetric(it->world, it->data) == 1) &&
        HOLDS(symmcoll_symm_is_symmetric(it->world, it->data + NBYTES) == 0);

    for (int r = 0; r < it->size && right; r++)
        right = is_pattern(info.buffers[r], NBYTES, r) &&
                HOLDS(is_zero(info.pads[r], info.pad));
    return right && OK(symmcoll_barrier(it->group, NULL, NULL));
}

static int is_joined(struct symmcoll_group *group, int rank, enum kind kind)
{
    struct joined it;
    struct own own;
    bool right;

    device_use(rank);
    own = make_own(kind, rank);
    write_pattern(own.data, NBYTES, rank);
    right = begin_own(&it, group, rank, &own) && shows_all(&it) &&
            passes_on(&it) && is_alone(&own);
    right = end_own(&it, &own, right) &&
            HOLDS(symmcoll_symm_is_symmetric(it.world, own.data) == 0);
    return right;
}

int own_joins_allocated(struct symmcoll_group *group, int rank)
{
    return is_joined(group, rank, ALLOCATED);
}

int own_joins_mapped(struct symmcoll_group *group, int rank)
{
    return is_joined(group, rank, MAPPED);
}

/* Joins two parts of an allocation, and one of them in two groups; the next
 * rank has read the data of one group before the other group writes there. */
int own_joins_parts(struct symmcoll_group *all, int rank)
{
    struct symmcoll_symm *rest = NULL;
    struct symmcoll_group *group = NULL;
    struct joined it, other;
    struct own own;
    bool right;

    device_use(rank);
    own = make_own(ALLOCATED, rank);
    right =
        begin_own(&it, all, rank, &own) &&
        OK(symmcoll_symm_register(
            it.world, own.data + NBYTES + 8, 1024, NULL)) &&
        OK(symmcoll_symm_rendezvous(all, own.data + NBYTES + 8, NULL, &rest)) &&
        OK(symmcoll_group_create(it.world, NULL, &group)) &&
        OK(symmcoll_group_set_stream(group, it.stream));
    other = it;
    other.group = group;
    right =
        right &&
        OK(symmcoll_symm_rendezvous(group, own.data, NULL, &other.handle)) &&
        passes_on(&other) && OK(symmcoll_barrier(all, NULL, NULL)) &&
        passes_on(&it) &&
        OK(symmcoll_symm_memset32(rest, it.next, 0, 77, 255)) &&
        OK(symmcoll_symm_write_value32(rest, it.next, 1020, 77)) &&
        OK(symmcoll_symm_wait_value32(rest, it.before, 1020, 77, -1));
    device_wait(it.stream);
    right = OK(symmcoll_barrier(all, NULL, NULL)) && right;
    symmcoll_symm_release(rest);
    symmcoll_symm_release(other.handle);
    right = OK(symmcoll_symm_deregister(it.world, own.data + NBYTES + 8)) &&
            OK(symmcoll_group_free(group)) && right;
    return end_own(&it, &own, right);
}

/* Joins memory allocated by the library on some ranks, and mapped memory on
 * others. */
int own_joins_both_kinds(struct symmcoll_group *group, int rank)
{
    struct joined it;
    struct own own;
    bool right;

    device_use(rank);
    if (rank == 0) {
        right = begin_joined(&it, group, rank, NBYTES) && passes_on(&it);
        device_wait(it.stream);
        right = synchronise(group) && right;
        right = end_joined(&it, right);
        return synchronise(group) && right;
    }
    own = make_own(MAPPED, rank);
    right =
        begin_own(&it, group, rank, &own) && passes_on(&it) && is_alone(&own);
    return end_own(&it, &own, right);
}

/* Checks that mapped memory stays valid for peers after its rank has
 * deregistered and unmapped it, and that finalize deregisters the rest. */
int own_leaves_mapped_to_peers(struct symmcoll_group *group, int rank)
{
    struct symmcoll_symm_info info = SYMMCOLL_SYMM_INFO_INIT;
    struct joined it;
    struct own own;
    bool right;

    device_use(rank);
    own = make_own(MAPPED, rank);
    write_pattern(own.data, NBYTES, rank);
    right = begin_own(&it, group, rank, &own) &&
            OK(symmcoll_symm_get_info(it.handle, &info));
    if (right && rank == 0) {
        symmcoll_symm_release(it.handle);
        right = OK(symmcoll_symm_deregister(it.world, own.data));
        free_own(&own);
    }
    right = synchronise(group) && right;
    if (!right || rank == 0)
        return right;
    right = is_pattern(info.buffers[0], NBYTES, 0);
    symmcoll_symm_release(it.handle);
    return right;
}
