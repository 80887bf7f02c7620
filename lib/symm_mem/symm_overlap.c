/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Whether memory of the program's own, which is to be registered, is apart from
 * all that this rank knows.
 */
#include "base/ranks.h"
#include "symm_mem/symm_mem.h"

static bool overlap(
    const void *one, size_t nbytes, const void *other, size_t other_nbytes)
{
    uintptr_t a = (uintptr_t)one, b = (uintptr_t)other;

    return a > b ? a - b < other_nbytes : b - a < nbytes;
}

static symmcoll_status_t check_allocation(
    const struct symc_symm_request *request, const struct symc_allocation *at)
{
    const void *begin = at->own != NULL ? at->own : at->data;

    if (begin == NULL ||
        !overlap(request->own, request->nbytes, begin, at->nbytes))
        return SYMMCOLL_OK;
    return symc_fail(SYMMCOLL_ERR_INVALID,
        "%s: expected memory that is not symmetric, found %zu bytes at %p: %zu "
        "bytes at %p have been %s",
        request->where, request->nbytes, request->own, at->nbytes, begin,
        at->own != NULL ? "registered" : "allocated by symm_alloc");
}

/* What any member has of it, where this rank sees that. */
static symmcoll_status_t check_share(
    const struct symc_symm_request *request, const struct symc_share *share)
{
    char who[SYMC_RANK_TEXT];

    for (int r = 0; r < share->size; r++) {
        if (!overlap(request->own, request->nbytes, share->at[r],
                share->shared.nbytes))
            continue;
        if (r == share->rank || share->group == NULL)
            return symc_fail(SYMMCOLL_ERR_INVALID,
                "%s: expected memory that is not in use, found %zu bytes at "
                "%p: handles of %zu bytes at %p have not been released",
                request->where, request->nbytes, request->own,
                share->shared.nbytes, (void *)share->at[r]);
        return symc_fail(SYMMCOLL_ERR_INVALID,
            "%s: expected memory of this rank's, found %zu bytes at %p: %zu "
            "bytes at %p are of %s, as this rank has them mapped",
            request->where, request->nbytes, request->own, share->shared.nbytes,
            (void *)share->at[r],
            symc_format_rank(
                &share->group->members.ranks, r, SYMC_NO_PID, who));
    }
    return SYMMCOLL_OK;
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
        if (at->allocation != NULL) /* it has not been left */
            status = check_share(request, at);
    }
    return status;
}
