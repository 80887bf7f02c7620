/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Maps the caller's numbers, which are indices in its array, to parameters.  A
 * tensor passed twice, such as tied weights, is one parameter with two numbers:
 * its gradient is the sum of those passed for both.  A parameter that is ignored
 * by name has a number, and is no parameter here.
 */
#include "ddp/reducer.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- messages and checks ---- */

const char *symc_number_text(
    const struct symmcoll_reducer *reducer, int number, char *buffer)
{
    const char *name = reducer->numbers[number].name;

    if (name != NULL)
        snprintf(buffer, SYMC_PARAM_TEXT, "parameter %d (%.64s)", number, name);
    else
        snprintf(buffer, SYMC_PARAM_TEXT, "parameter %d", number);
    return buffer;
}

bool symc_numbers_list(const struct symmcoll_reducer *reducer,
    symc_number_filter_fn is_listed, char *buffer, size_t nbytes)
{
    size_t used = 0;
    bool any = false;

    for (int i = 0; i < reducer->nnumbers && used < nbytes; i++) {
        char text[SYMC_PARAM_TEXT];

        if (!is_listed(reducer, i))
            continue;
        if (nbytes - used < SYMC_PARAM_TEXT) {
            snprintf(buffer + used, nbytes - used, ", ...");
            break;
        }
        used += (size_t)snprintf(buffer + used, nbytes - used, "%s%s",
            any ? ", " : "", symc_number_text(reducer, i, text));
        any = true;
    }
    return any;
}

symmcoll_status_t symc_number_check(
    const struct symmcoll_reducer *reducer, const char *where, int number)
{
    char text[SYMC_PARAM_TEXT];

    if (number < 0 || number >= reducer->nnumbers)
        return symc_fail(SYMMCOLL_ERR_INVALID,
            "%s: expected a parameter from 0 to %d, found %d", where,
            reducer->nnumbers - 1, number);
    if (symc_number_is_ignored(reducer, number))
        return symc_fail(SYMMCOLL_ERR_INVALID,
            "%s: %s: expected a parameter that is not in args.ignored", where,
            symc_number_text(reducer, number, text));
    return SYMMCOLL_OK;
}

symmcoll_status_t symc_check_gradient(const struct symmcoll_reducer *reducer,
    const char *where, int number, const void *grad)
{
    struct symc_param *param = symc_number_param(reducer, number);
    struct symmcoll_tensor found = param->tensor;
    char text[SYMC_PARAM_TEXT];
    size_t align = symc_param_align(param);
    symmcoll_status_t status;

    if (reducer->views || param->count == 0 || grad == param->known)
        return SYMMCOLL_OK;
    if (reducer->site != NULL && (uintptr_t)grad % align != 0)
        return symc_fail(SYMMCOLL_ERR_INVALID,
            "%s: %s: expected a gradient at a multiple of %zu, found %p", where,
            symc_number_text(reducer, number, text), align, grad);
    /* A gradient has no gaps, even if its parameter has. */
    found.data = (void *)(uintptr_t)grad;
    found.ndim = 1;
    found.shape[0] = (int64_t)param->count;
    found.strides[0] = 1;
    status = symc_site_check("its gradient", reducer->group, &found);
    if (status == SYMMCOLL_OK) {
        param->known = reducer->site == NULL ? grad : NULL;
        return status;
    }
    return symc_error_prefix(
        status, "%s: %s", where, symc_number_text(reducer, number, text));
}

/* ---- ignored names ---- */

bool symc_is_ignored(const struct symmcoll_reducer_args *args, const char *name)
{
    for (int i = 0; name != NULL && i < args->nignored; i++)
        if (strcmp(args->ignored[i], name) == 0)
            return true;
    return false;
}

static bool has_name(const char *const *names, int n, const char *name)
{
    for (int i = 0; names != NULL && i < n; i++)
        if (names[i] != NULL && strcmp(names[i], name) == 0)
            return true;
    return false;
}

symmcoll_status_t symc_check_ignored(
    const struct symmcoll_reducer_args *args, int nparams)
{
    if (args->nignored < 0 || (args->nignored > 0 && args->ignored == NULL))
        return symc_fail(SYMMCOLL_ERR_INVALID,
            "reducer: expected names in args.ignored, found NULL or %d of them",
            args->nignored);
    for (int i = 0; i < args->nignored; i++)
        if (args->ignored[i] == NULL ||
            !(has_name(args->names, nparams, args->ignored[i]) ||
                has_name(args->buffer_names, args->nbuffers, args->ignored[i])))
            return symc_fail(SYMMCOLL_ERR_INVALID,
                "reducer: expected names of parameters or buffers in "
                "args.ignored, found \"%s\"",
                args->ignored[i] != NULL ? args->ignored[i] : "");
    return SYMMCOLL_OK;
}

/* ---- at creation ---- */

/* Returns whether two tensors are the same elements in the same order. */
static bool is_same(const struct symc_param *a, const struct symc_param *b)
{
    const struct symmcoll_tensor *one = &a->tensor, *other = &b->tensor;
    size_t nbytes = (size_t)one->ndim * sizeof(one->shape[0]);

    return a->count > 0 && one->data == other->data &&
           one->dtype == other->dtype && one->ndim == other->ndim &&
           memcmp(one->shape, other->shape, nbytes) == 0 &&
           memcmp(one->strides, other->strides, nbytes) == 0;
}

/* Finds the parameter that is the same tensor (found); found is nparams if
 * there is none.  Errors: INVALID (a parameter shares memory with the tensor,
 * but is not the same). */
static symmcoll_status_t find_same(const struct symmcoll_reducer *reducer,
    const struct symc_param *param, int *found)
{
    char text[SYMC_PARAM_TEXT], other[SYMC_PARAM_TEXT];

    for (int i = 0; i < reducer->nparams; i++) {
        const struct symc_param *before = &reducer->params[i];

        if (is_same(before, param)) {
            *found = i;
            return SYMMCOLL_OK;
        }
        if (symc_params_overlap(before, param))
            return symc_fail(SYMMCOLL_ERR_INVALID,
                "reducer: %s shares memory with %s: expected parameters apart, "
                "or the same type, shape and strides twice",
                symc_number_text(reducer, param->number, text),
                symc_number_text(reducer, before->number, other));
    }
    *found = reducer->nparams;
    return SYMMCOLL_OK;
}

symmcoll_status_t symc_check_memory(const struct symmcoll_reducer *reducer,
    const struct symmcoll_tensor *tensor, const char *text)
{
    const struct symmcoll_tensor *first = &reducer->params[0].tensor;
    char other[SYMC_PARAM_TEXT], where[SYMC_PARAM_TEXT + 16];
    char expected[SYMC_MEMORY_TEXT], found[SYMC_MEMORY_TEXT];

    if (tensor->device != first->device ||
        tensor->device_index != first->device_index)
        return symc_fail(SYMMCOLL_ERR_INVALID,
            "reducer: %s: expected %s, as of %s, found %s", text,
            symc_site_format(first, expected),
            symc_number_text(reducer, reducer->params[0].number, other),
            symc_site_format(tensor, found));
    snprintf(where, sizeof(where), "reducer: %s", text);
    return symc_site_check(where, reducer->group, tensor);
}

static symmcoll_status_t take_number(struct symmcoll_reducer *reducer,
    const struct symmcoll_tensor *params, int number,
    const struct symmcoll_reducer_args *args)
{
    struct symc_number *entry = &reducer->numbers[number];
    struct symc_param *param = &reducer->params[reducer->nparams];
    const char *name = args->names != NULL ? args->names[number] : NULL;
    char text[SYMC_PARAM_TEXT];
    symmcoll_status_t status;

    reducer->nnumbers = number + 1;
    entry->param = -1;
    if (name != NULL && (entry->name = symc_strdup(name)) == NULL)
        return SYMMCOLL_ERR_NO_MEMORY;
    if (symc_is_ignored(args, name))
        return SYMMCOLL_OK;
    symc_number_text(reducer, number, text);
    status = symc_param_init(param, params, number, true, text);
    if (status != SYMMCOLL_OK)
        return status;
    status = symc_check_memory(reducer, &param->tensor, text);
    if (status != SYMMCOLL_OK)
        return status;
    status = find_same(reducer, param, &entry->param);
    if (status != SYMMCOLL_OK)
        return status;
    if (entry->param == reducer->nparams)
        reducer->nparams++;
    entry->wanted = 1;
    reducer->params[entry->param].wanted++;
    return SYMMCOLL_OK;
}

symmcoll_status_t symc_numbers_take(struct symmcoll_reducer *reducer,
    const struct symmcoll_tensor *params, int nparams,
    const struct symmcoll_reducer_args *args)
{
    size_t n = (size_t)nparams;

    reducer->numbers = symc_alloc(n, sizeof(*reducer->numbers));
    reducer->params = symc_alloc(n, sizeof(*reducer->params));
    reducer->arrival = symc_alloc(n, sizeof(*reducer->arrival));
    reducer->pieces = symc_alloc(n, sizeof(*reducer->pieces));
    if (reducer->numbers == NULL || reducer->params == NULL ||
        reducer->arrival == NULL || reducer->pieces == NULL)
        return SYMMCOLL_ERR_NO_MEMORY;
    for (int i = 0; i < nparams; i++) {
        symmcoll_status_t status = take_number(reducer, params, i, args);

        if (status != SYMMCOLL_OK)
            return status;
    }
    if (reducer->nparams == 0)
        return symc_fail(SYMMCOLL_ERR_INVALID,
            "reducer: expected a parameter that is not in args.ignored, found "
            "%d that are",
            nparams);
    return SYMMCOLL_OK;
}

void symc_numbers_free(struct symmcoll_reducer *reducer)
{
    for (int i = 0; i < reducer->nnumbers; i++)
        free(reducer->numbers[i].name);
    free(reducer->numbers);
    free(reducer->params);
    free(reducer->arrival);
    free(reducer->pieces);
}
