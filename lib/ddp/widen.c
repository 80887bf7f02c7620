/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Gradients of 16-bit parameters that are added, reduced and averaged in
 * float32.  They are converted when they are written into the bucket, whose
 * elements are float32, and, with write_back, when the average is written back.
 */
#include "ddp/reducer.h"

#include "base/reduce.h"

/* Allocates memory for one gradient in float32, if gradients are added to the
 * view. */
static symmcoll_status_t make_scratch(struct symmcoll_reducer *reducer)
{
    size_t nbytes = 0;

    for (int i = 0; i < reducer->nparams; i++)
        if (symc_is_wide(&reducer->params[i]) &&
            reducer->params[i].grad_nbytes > nbytes)
            nbytes = reducer->params[i].grad_nbytes;
    if (nbytes == 0 || reducer->views || reducer->write_back)
        return SYMMCOLL_OK;
    return symc_site_alloc("reducer: a gradient in float32", reducer->site,
        nbytes, 1, &reducer->wide);
}

symmcoll_status_t symc_widen_open(
    struct symmcoll_reducer *reducer, enum symmcoll_dtype dtype)
{
    if (dtype == 0)
        return SYMMCOLL_OK;
    if (dtype != SYMMCOLL_FLOAT32)
        return symc_fail(SYMMCOLL_ERR_UNSUPPORTED,
            "reducer: reduce_dtype: expected float32, or 0 for the parameters' "
            "type, found %d",
            (int)dtype);
    reducer->reduce_dtype = dtype;
    for (int i = 0; i < reducer->nparams; i++) {
        struct symc_param *param = &reducer->params[i];

        if (!symc_is_convertible(param->tensor.dtype, dtype))
            continue;
        param->grad_dtype = dtype;
        param->grad_nbytes = param->count * symmcoll_dtype_size(dtype);
    }
    return make_scratch(reducer);
}

void symc_widen_close(struct symmcoll_reducer *reducer)
{
    symc_site_release(reducer->site, reducer->wide);
    symc_site_release(reducer->site, reducer->arranged);
    reducer->wide = reducer->arranged = NULL;
}

bool symc_is_wide(const struct symc_param *param)
{
    return param->grad_dtype != param->tensor.dtype;
}

symmcoll_status_t symc_widen(const struct symmcoll_reducer *reducer,
    const struct symc_param *param, const void *grad, double factor,
    const void **added)
{
    const struct symc_conversion conversion = {param->tensor.dtype,
        param->grad_dtype, param->has_accumulated ? reducer->wide : param->view,
        grad, param->count, param->has_accumulated ? 1.0 : factor};

    *added = param->has_accumulated ? reducer->wide : NULL;
    return symc_site_convert(
        reducer->site, symc_site_stream(reducer->site), &conversion);
}

symmcoll_status_t symc_narrow(const struct symmcoll_reducer *reducer,
    const struct symc_param *param, void *to)
{
    const struct symc_conversion conversion = {param->grad_dtype,
        param->tensor.dtype, to, param->view, param->count, 1.0};

    return symc_site_convert(
        reducer->site, symc_site_stream(reducer->site), &conversion);
}
