/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * write_back: gradients are in the caller's memory, to which backward adds.
 * They are copied into buckets, and finish writes the averages back.  The
 * addresses are given at creation, in args.grads, or in each pass, to ready.
 */
#include "ddp/reducer.h"

#include <stdlib.h>

/* ---- addresses given at creation ---- */

static int compare_homes(const void *a, const void *b)
{
    const struct symc_param *one = *(struct symc_param *const *)a;
    const struct symc_param *other = *(struct symc_param *const *)b;
    uintptr_t start = (uintptr_t)one->home,
              other_start = (uintptr_t)other->home;

    if (start == other_start)
        return one < other ? -1 : one > other;
    return start < other_start ? -1 : 1;
}

/* Checks that no two gradients share memory: sorted by address, each begins
 * after the end of the one before. */
static symmcoll_status_t check_homes(const struct symmcoll_reducer *reducer)
{
    struct symc_param **sorted =
        symc_alloc((size_t)reducer->nparams, sizeof(*sorted));
    char text[SYMC_PARAM_TEXT], other[SYMC_PARAM_TEXT];
    symmcoll_status_t status = SYMMCOLL_OK;
    int n = 0;

    if (sorted == NULL)
        return SYMMCOLL_ERR_NO_MEMORY;
    for (int i = 0; i < reducer->nparams; i++)
        if (reducer->params[i].count > 0)
            sorted[n++] = &reducer->params[i];
    qsort(sorted, (size_t)n, sizeof(*sorted), compare_homes);
    for (int i = 1; i < n && status == SYMMCOLL_OK; i++) {
        const struct symc_param *before = sorted[i - 1], *param = sorted[i];

        if ((uintptr_t)before->home + before->nbytes > (uintptr_t)param->home)
            status = symc_fail(SYMMCOLL_ERR_INVALID,
                "reducer: %s: its gradient shares memory with that of %s, and "
                "both averages are to be written back",
                symc_number_text(reducer, param->number, text),
                symc_number_text(reducer, before->number, other));
    }
    free(sorted);
    return status;
}

static symmcoll_status_t take_home(
    struct symmcoll_reducer *reducer, int number, void *grad)
{
    struct symc_param *param = symc_number_param(reducer, number);
    char text[SYMC_PARAM_TEXT], other[SYMC_PARAM_TEXT];
    symmcoll_status_t status;

    if (grad == NULL && param->count > 0)
        return symc_fail(SYMMCOLL_ERR_INVALID,
            "reducer: %s: expected the memory of its gradient, found NULL",
            symc_number_text(reducer, number, text));
    if (number != param->number && grad != param->home)
        return symc_fail(SYMMCOLL_ERR_INVALID,
            "reducer: %s: expected its gradient at %p, as of %s, which is the "
            "same parameter, found %p",
            symc_number_text(reducer, number, text), param->home,
            symc_number_text(reducer, param->number, other), grad);
    status = symc_check_gradient(reducer, "reducer", number, grad);
    if (status == SYMMCOLL_OK)
        param->home = grad;
    return status;
}

symmcoll_status_t symc_take_homes(
    struct symmcoll_reducer *reducer, void *const *grads)
{
    if (grads == NULL)
        return SYMMCOLL_OK;
    if (!reducer->write_back)
        return symc_fail(SYMMCOLL_ERR_INVALID,
            "reducer: expected grads with write_back, found them without");
    for (int i = 0; i < reducer->nnumbers; i++) {
        symmcoll_status_t status = symc_number_is_ignored(reducer, i)
                                       ? SYMMCOLL_OK
                                       : take_home(reducer, i, grads[i]);

        if (status != SYMMCOLL_OK)
            return status;
    }
    return check_homes(reducer);
}

/* ---- passes ---- */

/* Returns whether the average of a parameter has no address to be written to:
 * none was given at creation, and none was passed since the previous average. */
static bool is_unplaced(const struct symmcoll_reducer *reducer, int number)
{
    const struct symc_param *param;

    if (symc_number_is_ignored(reducer, number))
        return false;
    param = symc_number_param(reducer, number);
    return reducer->write_back && param->origin == NULL &&
           param->home == NULL && param->count > 0 &&
           !symc_used_nowhere(reducer, param);
}

/* Refuses a gradient that is not at the expected address. */
static symmcoll_status_t refuse_place(const struct symmcoll_reducer *reducer,
    int number, const void *expected, const char *why, const void *found)
{
    char text[SYMC_PARAM_TEXT];

    return symc_fail(SYMMCOLL_ERR_INVALID,
        "reducer_ready: %s: expected its gradient at %p, %s, found %p",
        symc_number_text(reducer, number, text), expected, why, found);
}

symmcoll_status_t symc_check_origin(
    const struct symmcoll_reducer *reducer, int number, const void *grad)
{
    const struct symc_param *param = symc_number_param(reducer, number);
    uintptr_t start = (uintptr_t)grad;
    char text[SYMC_PARAM_TEXT], other_text[SYMC_PARAM_TEXT];

    if (param->home != NULL && grad != param->home)
        return refuse_place(
            reducer, number, param->home, "as args.grads names it", grad);
    if (param->came && grad != param->origin)
        return refuse_place(
            reducer, number, param->origin, "as before in this backward", grad);
    /* Later passes use the memory of the first one, or nearly so, and are not
     * checked. */
    if (param->home != NULL || reducer->npasses > 0)
        return SYMMCOLL_OK;
    for (int i = 0; i < reducer->nparams; i++) {
        const struct symc_param *other = &reducer->params[i];
        uintptr_t other_start = (uintptr_t)other->origin;

        if (other == param || other->origin == NULL || other->nbytes == 0 ||
            start >= other_start + other->nbytes ||
            other_start >= start + param->nbytes)
            continue;
        return symc_fail(SYMMCOLL_ERR_INVALID,
            "reducer_ready: %s: its gradient shares memory with that of %s, "
            "and both averages are to be written back",
            symc_number_text(reducer, number, text),
            symc_number_text(reducer, other->number, other_text));
    }
    return SYMMCOLL_OK;
}

void symc_refuse_unplaced(struct symmcoll_reducer *reducer)
{
    char missing[SYMC_DETAIL_MAX / 2];

    if (symc_numbers_list(reducer, is_unplaced, missing, sizeof(missing)))
        (void)symc_keep_refusal(reducer, SYMMCOLL_ERR_INVALID,
            "expected every gradient, where write_back writes the average, "
            "found none of %s",
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

        void *to = param->origin != NULL ? param->origin : param->home;

        param->origin = NULL;
        if (to == NULL || symc_used_nowhere(reducer, param))
            continue;
        if (!symc_is_wide(param))
            reducer->pieces[averages.n++] = (struct symc_local_piece){
                to, (size_t)(param->view - bucket->buffer), param->nbytes};
        else if (status == SYMMCOLL_OK &&
                 reducer->failure.status == SYMMCOLL_OK)
            status = symc_narrow(reducer, param, to);
    }
    if (status == SYMMCOLL_OK && reducer->failure.status == SYMMCOLL_OK)
        status = symc_site_move_pieces(reducer->site, &averages);
    if (status != SYMMCOLL_OK)
        symc_keep_failure(reducer, index, status);
}
