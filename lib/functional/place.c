/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Sites of a functional call's tensors, and copies of elements in another
 * order.
 */
#include "functional/functional.h"
#include "run/call.h"

symmcoll_status_t symc_f_find_site(
    const struct symc_f_spec *spec, struct symc_f_step *step, void **stream)
{
    struct symc_op op = {.kind = spec->kind,
        .memory = SYMC_MEMORY_DEVICE,
        .device = (int16_t)step->in.device_index};
    symmcoll_status_t status = SYMMCOLL_OK;

    *stream = NULL;
    if (step->in.device != SYMMCOLL_CUDA)
        return SYMMCOLL_OK;
    if (spec->call != NULL)
        status = symc_run_read_call(spec->call, &op);
    *stream =
        op.stream != NULL ? op.stream : symmcoll_group_stream(spec->group);
    return status == SYMMCOLL_OK
               ? symc_site_open(spec->name, spec->group, op.device, *stream,
                     step->in.data, spec->sums, &step->site)
               : status;
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
