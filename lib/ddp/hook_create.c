/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Creates and frees built-in hooks with their state.
 */
#include "ddp/hook_state.h"

#include <symmcoll/group.h>

#include <stdio.h>
#include <stdlib.h>

static const struct symmcoll_hook_args default_args = SYMMCOLL_HOOK_ARGS_INIT;
static const struct symc_sized args_kind = {.name = "args",
    .macro = "SYMMCOLL_HOOK_ARGS_INIT",
    .defaults = &default_args,
    .nbytes = sizeof(default_args),
    .least = offsetof(struct symmcoll_hook_args, start)};

/* ---- options ---- */

static const char *const option_names[SYMC_HOOK_OPTIONS] = {"start", "subgroup",
    "no_local_average", "ratio", "step", "inner", "powersgd"};

/* Returns whether the caller has set an option. */
static bool is_set(
    const struct symmcoll_hook_args *args, enum symc_hook_option option)
{
    switch (option) {
    case SYMC_HOOK_START:
        return args->start != 0;
    case SYMC_HOOK_SUBGROUP:
        return args->subgroup != NULL;
    case SYMC_HOOK_NO_LOCAL_AVERAGE:
        return args->no_local_average != 0;
    case SYMC_HOOK_RATIO:
        return args->ratio != 0.0;
    case SYMC_HOOK_STEP:
        return args->step != NULL || args->step_arg != NULL;
    case SYMC_HOOK_INNER:
        return args->inner != NULL;
    default:
        return args->powersgd != NULL;
    }
}

/* Finds a hook by its name.  Errors: INVALID, with all names. */
static symmcoll_status_t find_kind(
    const char *name, const struct symc_hook_kind **kind)
{
    char names[256] = "";
    size_t length = 0;

    for (const struct symc_hook_kind *at = symc_hook_kinds; at->name != NULL;
         at++) {
        if (name != NULL && strcmp(at->name, name) == 0) {
            *kind = at;
            return SYMMCOLL_OK;
        }
        length += (size_t)snprintf(names + length, sizeof(names) - length,
            "%s%s", length > 0 ? ", " : "", at->name);
    }
    return symc_fail(SYMMCOLL_ERR_INVALID,
        "hook_create: expected a name of %s, found %s%s%s", names,
        name != NULL ? "\"" : "", name != NULL ? name : "NULL",
        name != NULL ? "\"" : "");
}

/* Fills in defaults and checks the values. */
static symmcoll_status_t check_args(struct symmcoll_hook *hook)
{
    struct symmcoll_hook_args *args = &hook->args;
    unsigned options = hook->kind->options;

    for (int o = 0; o < SYMC_HOOK_OPTIONS; o++)
        if ((options >> o & 1) == 0 && is_set(args, (enum symc_hook_option)o))
            return symc_fail(SYMMCOLL_ERR_INVALID,
                "hook_create: expected no %s for %s, found one",
                option_names[o], hook->kind->name);
    if (args->start < 0)
        return symc_fail(SYMMCOLL_ERR_INVALID,
            "hook_create: expected a start of at least 0, found %d",
            args->start);
    if (args->start == 0)
        args->start = hook->kind->start;
    if (!(args->ratio >= 0.0 && args->ratio <= 1.0))
        return symc_fail(SYMMCOLL_ERR_INVALID,
            "hook_create: expected a ratio above 0 and up to 1, found %g",
            args->ratio);
    if (args->ratio == 0.0)
        args->ratio = 0.01;
    if ((options >> SYMC_HOOK_STEP & 1) != 0 && args->step == NULL)
        return symc_fail(SYMMCOLL_ERR_INVALID,
            "hook_create: expected a function step for %s, found NULL",
            hook->kind->name);
    return SYMMCOLL_OK;
}

/* Takes the caller's options. */
static symmcoll_status_t take_args(
    struct symmcoll_hook *hook, const struct symmcoll_hook_args *given)
{
    symmcoll_status_t status =
        symc_sized_read(&args_kind, "hook_create", given, &hook->args);

    if (status == SYMMCOLL_OK)
        status = find_kind(hook->args.name, &hook->kind);
    if (status == SYMMCOLL_OK)
        status = check_args(hook);
    if (status != SYMMCOLL_OK)
        return status;
    hook->inner.hook = symmcoll_hook_all_reduce;
    hook->inner.size = sizeof(hook->inner);
    if (hook->args.inner != NULL)
        status = symc_hook_read_wrapped(
            "hook_create", hook->args.inner, &hook->inner);
    hook->args.name = hook->kind->name;
    hook->args.inner = NULL;
    return status;
}

/* ---- creation ---- */

symmcoll_status_t symc_hook_compare(const char *where,
    struct symmcoll_group *group, const struct symmcoll_hook *hook,
    symmcoll_status_t own)
{
    static const char *const names[] = {
        "number of the hook in symmcoll_hook_name()", "start", "ratio", "flags",
        "number of passes"};
    double values[5] = {0};

    if (own == SYMMCOLL_OK) {
        values[0] = (double)(hook->kind - symc_hook_kinds);
        values[1] = hook->args.start;
        values[2] = hook->args.ratio;
        values[3] = (hook->args.subgroup != NULL) +
                    2 * (hook->args.no_local_average != 0) +
                    4 * (hook->inner.hook_end != NULL);
        values[4] = (double)hook->passes;
    }
    return symc_hook_agree(where, group, names, values, 5, own);
}

/* Makes a hook (out) without its PowerSGD. */
static symmcoll_status_t make_hook(const struct symmcoll_hook_args *args,
    struct symmcoll_hook *const *place, struct symmcoll_hook **made)
{
    if (args == NULL || place == NULL)
        return symc_fail(SYMMCOLL_ERR_INVALID,
            "hook_create: expected args and a place for the hook, found NULL");
    *made = symc_alloc(1, sizeof(**made));
    return *made != NULL ? take_args(*made, args) : SYMMCOLL_ERR_NO_MEMORY;
}

symmcoll_status_t symmcoll_hook_create(struct symmcoll_group *group,
    const struct symmcoll_hook_args *args, struct symmcoll_hook **hook)
{
    struct symmcoll_hook *made = NULL;
    symmcoll_status_t status;

    if (group == NULL)
        return symc_fail(
            SYMMCOLL_ERR_INVALID, "hook_create: expected a group, found NULL");
    status = make_hook(args, hook, &made);
    status = symc_hook_compare("hook_create", group, made, status);
    if (status == SYMMCOLL_OK && made != NULL &&
        (made->kind->options >> SYMC_HOOK_POWERSGD & 1) != 0)
        status = symmcoll_powersgd_create(
            group, made->args.powersgd, &made->powersgd);
    if (status != SYMMCOLL_OK || made == NULL || hook == NULL) {
        symmcoll_hook_free(made);
        return status;
    }
    made->args.powersgd = NULL;
    *hook = made;
    return SYMMCOLL_OK;
}

void symmcoll_hook_free(struct symmcoll_hook *hook)
{
    if (hook == NULL)
        return;
    for (int b = 0; b < hook->nbuckets; b++)
        symc_encoded_free(&hook->buckets[b]);
    free(hook->buckets);
    symmcoll_powersgd_free(hook->powersgd);
    free(hook);
}
