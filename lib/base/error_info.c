/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What a program reads of the thread's error without its text.
 */
#include "base/base.h"
#include "base/kind.h"

/* Writes the members of a set to an array of `room`, which may be NULL.
 * Returns their number. */
static int write_ranks(const uint64_t *set, int *array, int room)
{
    int count = 0;

    for (int r = 0; r < SYMC_RANKS_MAX; r++) {
        if (!symc_error_is_in(set, r))
            continue;
        if (array != NULL && count < room)
            array[count] = r;
        count++;
    }
    return count;
}

static const struct symmcoll_error_info no_info = SYMMCOLL_ERROR_INFO_INIT;
static const struct symc_sized info_kind = {.name = "info",
    .macro = "SYMMCOLL_ERROR_INFO_INIT",
    .defaults = &no_info,
    .nbytes = sizeof(no_info),
    .least = sizeof(no_info.size)};

symmcoll_status_t symmcoll_error_info(struct symmcoll_error_info *info)
{
    struct symmcoll_error_info found;
    struct symc_error last = {.status = SYMMCOLL_OK};
    symmcoll_status_t status;

    if (info == NULL)
        return symc_fail(
            SYMMCOLL_ERR_INVALID, "error_info: expected an info, found NULL");
    status = symc_sized_read(&info_kind, "error_info", info, &found);
    if (status != SYMMCOLL_OK)
        return status;
    symc_error_keep(&last, symc_error_status());
    found.nranks = 0;
    if (last.ranked) {
        found.nranks = write_ranks(last.ranks, found.ranks, found.max_ranks);
        (void)write_ranks(last.world, found.world_ranks, found.max_ranks);
    }
    found.status = last.status;
    found.category = symmcoll_status_category(last.status);
    found.cause = last.cause != SYMMCOLL_OK ? last.cause : last.status;
    found.kind = (enum symmcoll_kind)last.kind;
    found.sequence = last.seq;
    found.operation =
        symc_kind_is_known(last.kind) ? symc_kind_name(last.kind) : "";
    found.group = symc_error_group();
    return symc_sized_write(&info_kind, "error_info", &found, info);
}
