/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * write_back: gradients are in the caller's memory, to which backward adds.  A bucket's
 * part is copied from there, and finish writes the average to the same memory.
 */
#include "ddp/reducer.h"

#include <stdio.h>

/* Returns whether there is an average of a parameter but no memory for it, since no
 * gradient has been passed after the previous average. */
static bool is_unplaced(
    const struct symmcoll_reducer *reducer, const struct symc_param *param)
{
    return reducer->write_back && param->origin == NULL && param->count > 0;
}

symmcoll_status_t symc_check_origin(const struct symmcoll_reducer *reducer,
    int number, const void *grad, const char *text)
{
    const struct symc_param *param = &reducer->params[number];
    uintptr_t start = (uintptr_t)grad;
    char other_text[SYMC_PARAM_TEXT];

    for (int i = 0; i < reducer->nparams; i++) {
        const struct symc_param *other = &reducer->params[i];
        uintptr_t other_start = (uintptr_t)other->origin;

        if (i == number || other->origin == NULL || other->nbytes == 0 ||
            start >= other_start + other->nbytes ||
            other_start >= start + param->nbytes)
            continue;
        return symc_fail(SYMMCOLL_ERR_INVALID,
            "reducer_ready: %s: its gradient shares memory with that of %s, "
            "and both averages are to be written back",
            text, symc_param_text(other, i, other_text));
    }
    return SYMMCOLL_OK;
}

void symc_refuse_unplaced(struct symmcoll_reducer *reducer)
{
    char missing[SYMC_DETAIL_MAX / 2];

    if (reducer->refusal != SYMMCOLL_OK ||
        !symc_params_list(reducer, is_unplaced, missing, sizeof(missing)))
        return;
    reducer->refusal = SYMMCOLL_ERR_INVALID;
    snprintf(reducer->refusal_detail, sizeof(reducer->refusal_detail),
        "expected every gradient, where write_back writes the average, found "
        "none of %s",
        missing);
}

void symc_return_averages(struct symmcoll_reducer *reducer, int index)
{
    const struct symc_ddp_bucket *bucket = &reducer->layout.buckets[index];
    struct symc_local_pieces averages = {
        .buffer = bucket->buffer, .pieces = reducer->pieces, .spread = true};
    symmcoll_status_t status = SYMMCOLL_OK;

    for (int i = 0; i < bucket->ngrads; i++) {
        struct symc_param *param = &reducer->params[bucket->params[i]];

        if (param->origin != NULL)
            reducer->pieces[averages.n++] =
                (struct symc_local_piece){param->origin,
                    (size_t)(param->view - bucket->buffer), param->nbytes};
        param->origin = NULL;
    }
    if (reducer->failure == SYMMCOLL_OK)
        status = symc_site_move_pieces(reducer->site, &averages);
    if (status != SYMMCOLL_OK)
        symc_keep_failure(reducer, index, status, symmcoll_last_error());
}
