/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Comparison of the numbers that members exchanged in a round of their group.
 */
#include "base/ranks.h"
#include "symm_mem/symm_mem.h"

#include <stdio.h>
#include <string.h>

/* Returns a member's number. */
static uint64_t value_of(const struct symc_symm_values *values, int member)
{
    uint64_t value;

    memcpy(&value,
        (const char *)values->all + (size_t)member * values->nbytes +
            values->member,
        sizeof(value));
    return value;
}

static bool are_alike(const void *values, int a, int b)
{
    return value_of(values, a) == value_of(values, b);
}

/* Lists each value once, with the ranks that have it. */
static void list_values(const struct symmcoll_group *group,
    const struct symc_symm_values *values, char *buffer, size_t nbytes)
{
    size_t used = 0;

    for (int r = 0; r < symc_group_size(group) && used + 48 < nbytes; r++) {
        bool listed[SYMC_RANKS_MAX] = {false}, seen = false;
        uint64_t value = value_of(values, r);
        char ranks[128];

        for (int q = 0; q < symc_group_size(group); q++) {
            listed[q] = value_of(values, q) == value;
            seen = seen || (q < r && listed[q]);
        }
        if (seen)
            continue;
        used += (size_t)snprintf(buffer + used, nbytes - used,
            "%s%s passed %llu%s", used > 0 ? ", " : "",
            symc_format_members(
                symc_group_ranks(group), listed, ranks, sizeof(ranks)),
            (unsigned long long)value, values->unit);
    }
}

symmcoll_status_t symc_symm_compare(
    const struct symmcoll_group *group, const struct symc_symm_values *values)
{
    char text[384];

    for (int r = 1; r < symc_group_size(group); r++) {
        if (value_of(values, r) == value_of(values, 0))
            continue;
        list_values(group, values, text, sizeof(text));
        (void)symc_fail(SYMMCOLL_ERR_MISMATCH, "%s: %s: %s (group %s)",
            values->where, values->name, text, symc_group_name(group));
        return symc_error_add_odd(symc_group_ranks(group), are_alike, values);
    }
    return SYMMCOLL_OK;
}
