/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The passes of a built-in hook's state: it is in that of one reducer at a time, and is
 * not loaded while works may use it.
 */
#include "ddp/reducer.h"

#include <stdlib.h>
#include <string.h>

symmcoll_status_t symc_hook_read_call(const char *where,
    const struct symmcoll_group *group, const struct symmcoll_bucket *given,
    struct symmcoll_work *const *work, struct symmcoll_bucket *bucket)
{
    symmcoll_status_t status =
        symc_hook_read(where, group, given, work, bucket);

    if (status != SYMMCOLL_OK || bucket->reducer != NULL)
        return status;
    return symc_fail(SYMMCOLL_ERR_INVALID,
        "%s: expected the bucket that a reducer calls a hook with, found "
        "another one",
        where);
}

void *symc_hook_grow(void *states, int *count, size_t nbytes, int index)
{
    int wanted = *count > 0 ? 2 * *count : 8;
    void *grown;

    if (index < *count)
        return states;
    if (wanted <= index)
        wanted = index + 1;
    grown = symc_alloc((size_t)wanted, nbytes);
    if (grown == NULL)
        return NULL;
    if (*count > 0)
        memcpy(grown, states, (size_t)*count * nbytes);
    free(states);
    *count = wanted;
    return grown;
}

symmcoll_status_t symc_hook_enter(const char *where,
    struct symc_hook_pass *pass, struct symmcoll_reducer *reducer)
{
    if (pass->reducer == reducer)
        return SYMMCOLL_OK;
    if (pass->reducer != NULL)
        return symc_fail(SYMMCOLL_ERR_INVALID,
            "%s: expected a hook in a pass of one reducer, found it called by a "
            "second one",
            where);
    pass->reducer = reducer;
    pass->next = reducer->hook_passes;
    reducer->hook_passes = pass;
    return SYMMCOLL_OK;
}

void symc_hooks_leave(struct symmcoll_reducer *reducer)
{
    struct symc_hook_pass *pass;

    while ((pass = reducer->hook_passes) != NULL) {
        reducer->hook_passes = pass->next;
        pass->next = NULL;
        pass->reducer = NULL;
    }
}
