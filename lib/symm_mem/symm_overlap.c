/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Checks that memory to register does not overlap memory that this rank knows.
 * That includes memory that a backend has mapped beyond a request, since it
 * maps whole granules.
 */
#include "base/ranks.h"
#include "symm_mem/symm_mem.h"

/* Returns whether the memory to register overlaps a range. */
static bool is_in(
    const struct symc_symm_request *request, const struct symc_extent *extent)
{
    return symc_overlap(
        request->own, request->nbytes, extent->begin, extent->nbytes);
}

/* ---- allocations ---- */

/* Returns the range that the backend has mapped for a memory handle. */
static struct symc_extent find_extent(
    const struct symc_backend *backend, const void *memory)
{
    return memory != NULL ? backend->mem->extent(memory)
                          : (struct symc_extent){.nbytes = 0};
}

/* Checks one allocation of this rank: its data, and what the backend has mapped
 * for it. */
static symmcoll_status_t check_allocation(
    const struct symc_symm_request *request, const struct symc_allocation *at)
{
    const void *begin = at->own != NULL ? at->own : at->data;
    struct symc_extent extent;

    if (begin == NULL)
        return SYMMCOLL_OK;
    if (symc_overlap(request->own, request->nbytes, begin, at->nbytes))
        return symc_fail(SYMMCOLL_ERR_INVALID,
            "%s: expected memory that is not symmetric, found %zu bytes at %p: "
            "%zu bytes at %p have been %s",
            request->where, request->nbytes, request->own, at->nbytes, begin,
            at->own != NULL ? "registered" : "allocated by symm_alloc");
    extent = find_extent(at->backend, at->memory);
    if (!is_in(request, &extent))
        return SYMMCOLL_OK;
    return symc_fail(SYMMCOLL_ERR_INVALID,
        "%s: expected memory that is not symmetric, found %zu bytes at %p: "
        "symm_alloc has mapped %zu bytes at %p for an allocation of %zu",
        request->where, request->nbytes, request->own, extent.nbytes,
        extent.begin, at->nbytes);
}

/* ---- shares ---- */

/* Returns whether the range mapped of a member's memory overlaps the
 * request. */
static bool is_mapped(const struct symc_symm_request *request,
    const struct symc_joined *joined, int member, struct symc_extent *extent)
{
    if (joined == NULL)
        return false;
    *extent = joined->mapped[member];
    return is_in(request, extent);
}

/* Returns whether the range mapped for this rank's allocation, which may have
 * been freed since, overlaps the request. */
static bool is_of_own(const struct symc_symm_request *request,
    const struct symc_share *share, int member, struct symc_extent *extent)
{
    const struct symc_allocation *allocation = share->allocation;

    *extent = find_extent(allocation->backend, allocation->memory);
    return member == share->rank && is_in(request, extent);
}

/* Checks the pads, which belong to the group, and not to the program. */
static symmcoll_status_t check_pads(
    const struct symc_symm_request *request, const struct symc_share *share)
{
    struct symc_extent extent =
        find_extent(share->allocation->backend, share->pad_memory);
    bool found = is_in(request, &extent);

    for (int r = 0; r < share->size && !found; r++)
        found = is_mapped(request, share->joined_pads, r, &extent);
    if (!found)
        return SYMMCOLL_OK;
    return symc_fail(SYMMCOLL_ERR_INVALID,
        "%s: expected memory that is not symmetric, found %zu bytes at %p: %zu "
        "bytes at %p have been mapped for signal pads",
        request->where, request->nbytes, request->own, extent.nbytes,
        extent.begin);
}

/* Checks the memory of one member, as this rank has it mapped. */
static symmcoll_status_t check_member(const struct symc_symm_request *request,
    const struct symc_share *share, int member)
{
    struct symc_extent extent = {share->at[member], share->shared.nbytes};
    char who[SYMC_RANK_TEXT];

    if (!is_in(request, &extent) &&
        !is_mapped(request, share->shared.joined, member, &extent) &&
        !is_of_own(request, share, member, &extent))
        return SYMMCOLL_OK;
    if (member == share->rank || share->group == NULL)
        return symc_fail(SYMMCOLL_ERR_INVALID,
            "%s: expected memory that is not in use, found %zu bytes at %p: "
            "handles of %zu bytes at %p have not been released",
            request->where, request->nbytes, request->own, extent.nbytes,
            extent.begin);
    return symc_fail(SYMMCOLL_ERR_INVALID,
        "%s: expected memory of this rank's, found %zu bytes at %p: %zu bytes "
        "at %p are of %s, as this rank has them mapped",
        request->where, request->nbytes, request->own, extent.nbytes,
        extent.begin,
        symc_format_rank(
            symc_group_ranks(share->group), member, SYMC_NO_PID, who));
}

/* Checks everything that a share has mapped. */
static symmcoll_status_t check_share(
    const struct symc_symm_request *request, const struct symc_share *share)
{
    symmcoll_status_t status = check_pads(request, share);

    for (int r = 0; r < share->size && status == SYMMCOLL_OK; r++)
        status = check_member(request, share, r);
    return status;
}

symmcoll_status_t symc_symm_check_own(
    const struct symc_symm *symm, const struct symc_symm_request *request)
{
    symmcoll_status_t status = SYMMCOLL_OK;

    for (const struct symc_allocation *at = symm->allocations;
         at != NULL && status == SYMMCOLL_OK; at = at->next)
        status = check_allocation(request, at);
    for (const struct symc_share *at = symm->shares;
         at != NULL && status == SYMMCOLL_OK; at = at->next) {
        if (at->allocation != NULL) /* its memory has not been left */
            status = check_share(request, at);
    }
    return status;
}
