/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Memory beside the tensors of a functional call, and copies of elements in another
 * order.
 */
#include "functional/functional.h"

void *symc_f_alloc(const char *where, size_t count, size_t elem)
{
    void *memory = NULL;

    return symc_site_alloc(where, NULL, count, elem, &memory) == SYMMCOLL_OK
               ? memory
               : NULL;
}

symmcoll_status_t symc_f_copy(const struct symc_site *site,
    const struct symc_f_view *view, const void *from, void *to, size_t elem)
{
    const struct symc_strided copy = {.out = to,
        .in = from,
        .elem = elem,
        .ndim = view->ndim,
        .shape = view->shape,
        .strides = view->strides};

    if (site != NULL)
        return symc_site_copy(site, &copy);
    symc_f_view_copy(view, from, to, elem);
    return SYMMCOLL_OK;
}
