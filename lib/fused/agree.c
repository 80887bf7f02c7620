/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Words that the ranks publish when a fused operation begins: a digest of the
 * arguments, and the place of the rank's chunks. One small all_gather carries
 * them, so that waits, deadlines, dead ranks and the flight recorder work as in
 * any collective.
 */
#include "fused/fused.h"

#include "base/nan.h"
#include "coll/own.h"
#include "config/config.h"

#include <symmcoll/work.h>

#include <math.h>
#include <stdio.h>
#include <string.h>

/* ---- comparison of arguments ---- */

void symc_fused_compare(struct symc_fused_args *args, int64_t number)
{
    uint64_t mixed =
        (args->digest ^ (uint64_t)number) * UINT64_C(0x9e3779b97f4a7c15);

    args->digest = mixed ^ mixed >> 29;
}

void symc_fused_compare_shape(
    struct symc_fused_args *args, const struct symmcoll_tensor *tensor)
{
    symc_fused_compare(args, tensor->ndim);
    symc_fused_compare(args, (int64_t)tensor->dtype);
    for (int d = 0; d < tensor->ndim; d++)
        symc_fused_compare(args, tensor->shape[d]);
}

/* Returns the digest with the operation's name, which differs for each
 * operation. */
static uint64_t digest_of(const struct symc_fused_args *args)
{
    struct symc_fused_args all = {.digest = args->digest};

    for (const char *at = args->name; *at != '\0'; at++)
        symc_fused_compare(&all, *at);
    return all.digest;
}

void symc_fused_describe(struct symc_fused_args *args, const char *format, ...)
{
    size_t used = strlen(args->text);
    va_list list;

    va_start(list, format);
    vsnprintf(args->text + used, sizeof(args->text) - used, format, list);
    va_end(list);
}

void symc_fused_describe_shape(
    struct symc_fused_args *args, const struct symmcoll_tensor *tensor)
{
    for (int d = 0; d < tensor->ndim; d++)
        symc_fused_describe(
            args, "%s%lld", d > 0 ? ", " : "[", (long long)tensor->shape[d]);
    symc_fused_describe(args, "] of %s", symmcoll_dtype_name(tensor->dtype));
}

static symmcoll_status_t gather_words(struct symc_fused *fused,
    const struct symmcoll_call *call, struct symmcoll_work **work)
{
    return symc_coll_gather_own(fused->group, fused->all, &fused->mine,
        sizeof(fused->mine), call, work);
}

symmcoll_status_t symc_fused_publish(struct symc_fused *fused,
    const struct symc_fused_args *args, const struct symmcoll_call *call,
    struct symmcoll_work **work)
{
    bool waits = work == NULL || symc_group_size(fused->group) == 1;
    symmcoll_status_t status;

    fused->mine.digest = digest_of(args);
    fused->mine.plain = fused->in_plain || symc_fused_is_alone(fused);
    /* an all_gather of one rank has ended at once */
    if (work != NULL)
        *work = NULL;
    status = gather_words(fused, call, waits ? NULL : work);
    /* A rank without a thread or memory for a work waits instead, which needs
     * neither, so that the others do not wait for it. */
    if (work != NULL && !waits && *work == NULL &&
        (status == SYMMCOLL_ERR_SYSTEM || status == SYMMCOLL_ERR_NO_MEMORY))
        status = gather_words(fused, call, NULL);
    if (status == SYMMCOLL_OK)
        symc_fused_use_half(fused);
    return status;
}

static bool have_same_digest(const void *words, int a, int b)
{
    const struct symc_fused_word *all = words;

    return all[a].digest == all[b].digest;
}

/* Returns MISMATCH, after every rank has published the text of its
 * arguments. */
static symmcoll_status_t name_difference(struct symc_fused *fused,
    const struct symc_fused_args *args, const struct symmcoll_call *call)
{
    struct symmcoll_group *group = fused->group;
    struct symc_fused_args described = *args;
    char mine[sizeof(args->text) + 32] = "";
    char *all = symc_fused_take(fused, SYMC_FUSED_PACKED,
        sizeof(mine) * (size_t)symc_group_size(group));
    char *first = all, *other = all;
    symmcoll_status_t status;
    int rank = 0;

    if (all == NULL)
        return SYMMCOLL_ERR_NO_MEMORY;
    if (args->describe != NULL)
        args->describe(args->context, &described);
    snprintf(mine, sizeof(mine), "%s of %s", args->name, described.text);
    status = symc_coll_gather_own(group, all, mine, sizeof(mine), call, NULL);
    if (status != SYMMCOLL_OK)
        return status;
    while (rank + 1 < symc_group_size(group) &&
           strncmp(first, other, sizeof(mine)) == 0)
        other = all + (size_t)++rank * sizeof(mine);
    (void)symc_fail(SYMMCOLL_ERR_MISMATCH,
        "%s: arguments differ: rank 0 passed %.*s, rank %d passed %.*s",
        args->name, (int)sizeof(mine), first, rank, (int)sizeof(mine), other);
    return symc_error_add_odd(
        symc_group_ranks(group), have_same_digest, fused->all);
}

/* Returns the error for another rank's status. A function of the caller may
 * have returned any number, which becomes CANCELED. */
static symmcoll_status_t fail_of(const struct symc_fused *fused,
    const struct symc_fused_args *args, int rank)
{
    const struct symmcoll_group *group = fused->group;
    int32_t found = fused->all[rank].status;
    bool known = found < 0 && found >= SYMMCOLL_ERR_INTERNAL;
    symmcoll_status_t status =
        known ? (symmcoll_status_t)found : SYMMCOLL_ERR_CANCELED;
    char who[SYMC_RANK_TEXT];

    symc_format_rank(symc_group_ranks(group), rank, SYMC_NO_PID, who);
    if (known)
        (void)symc_fail(status, "%s: %s cannot go on: %s (group %s, seq %llu)",
            args->name, who, symmcoll_status_name(status),
            symc_group_name(group),
            (unsigned long long)symmcoll_group_sequence(group));
    else
        (void)symc_fail(status,
            "%s: %s cannot go on: its function returned %d (group %s, seq "
            "%llu)",
            args->name, who, (int)found, symc_group_name(group),
            (unsigned long long)symmcoll_group_sequence(group));
    return symc_error_add_reporter(symc_group_ranks(group), rank);
}

symmcoll_status_t symc_fused_collect(struct symc_fused *fused,
    const struct symc_fused_args *args, const struct symmcoll_call *call,
    struct symmcoll_work *work, bool *plain)
{
    struct symc_error own;
    symmcoll_status_t status = SYMMCOLL_OK;

    *plain = false;
    symc_error_keep(&own, (symmcoll_status_t)fused->mine.status);
    if (work != NULL)
        status = symmcoll_work_wait(work, INFINITY);
    symmcoll_work_free(work);
    if (status != SYMMCOLL_OK)
        return status;
    if (own.status != SYMMCOLL_OK)
        return symc_error_return(&own);
    for (int r = 0; r < symc_group_size(fused->group); r++) {
        if (fused->all[r].status != SYMMCOLL_OK)
            return fail_of(fused, args, r);
    }
    for (int r = 0; r < symc_group_size(fused->group); r++) {
        if (fused->all[r].digest != fused->mine.digest)
            return name_difference(fused, args, call);
        *plain = *plain || fused->all[r].plain != 0;
    }
    return SYMMCOLL_OK;
}

symmcoll_status_t symc_fused_confirm(struct symc_fused *fused,
    const struct symc_fused_args *args, const struct symmcoll_call *call,
    symmcoll_status_t status)
{
    struct symc_error own;
    symmcoll_status_t others;
    bool plain;

    symc_error_keep(&own, status);
    fused->mine = (struct symc_fused_word){.status = (int32_t)status};
    others = symc_fused_publish(fused, args, call, NULL);
    if (others == SYMMCOLL_OK)
        others = symc_fused_collect(fused, args, call, NULL, &plain);
    return status == SYMMCOLL_OK ? others : symc_error_return(&own);
}

symmcoll_status_t symc_fused_inspect(const struct symc_fused *fused,
    const char *where, const char *what, enum symmcoll_dtype dtype,
    const void *data, size_t count)
{
    struct symmcoll_group *group = fused->group;
    int64_t setting = symc_group_config(group)->errors_nan_check;
    size_t first = 0, found = 0;
    char who[SYMC_RANK_TEXT];

    if (setting != SYMC_NAN_CHECK_OFF && count > 0)
        found = symc_nan_count(data, count, dtype, &first);
    if (found == 0)
        return SYMMCOLL_OK;
    symc_format_rank(
        symc_group_ranks(group), symc_group_rank(group), SYMC_NO_PID, who);
    if (setting == SYMC_NAN_CHECK_ERROR)
        return symc_fail(SYMMCOLL_ERR_INVALID,
            "%s of group %s: %s: expected numbers, found element %zu of %s NaN "
            "(%zu, of %zu)",
            where, symc_group_name(group), who, first, what, found, count);
    symc_logf(&symc_group_world(group)->log, SYMC_LOG_WARN,
        "%s of group %s: %s: element %zu of %s is NaN (%zu, of %zu)", where,
        symc_group_name(group), who, first, what, found, count);
    return SYMMCOLL_OK;
}

symmcoll_status_t symc_fused_inspect_tensor(struct symc_fused *fused,
    const char *where, const char *what, const struct symmcoll_tensor *tensor)
{
    struct symc_f_view view = symc_f_view_of(tensor);
    size_t count = (size_t)symc_fused_count(tensor, tensor->ndim);
    size_t elem = symmcoll_dtype_size(tensor->dtype);
    void *copy;

    if (symc_group_config(fused->group)->errors_nan_check == SYMC_NAN_CHECK_OFF)
        return SYMMCOLL_OK;
    if (symc_f_view_is_contiguous(&view))
        return symc_fused_inspect(
            fused, where, what, tensor->dtype, tensor->data, count);
    copy = symc_fused_take(fused, SYMC_FUSED_PACKED, count * elem);
    if (copy == NULL)
        return SYMMCOLL_ERR_NO_MEMORY;
    symc_f_view_copy(&view, tensor->data, copy, elem);
    return symc_fused_inspect(fused, where, what, tensor->dtype, copy, count);
}
