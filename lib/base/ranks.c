/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Ranks as text, see ranks.h.
 */
#include "base/ranks.h"

#include <stdio.h>
#include <string.h>

static int in_world(const struct symc_ranks *ranks, int rank)
{
    return ranks->global != NULL ? ranks->global[rank] : rank;
}

const char *symc_format_rank(
    const struct symc_ranks *ranks, int rank, pid_t pid, char *buffer)
{
    char member[SYMC_RANK_TEXT - 64] = "", process[SYMC_PID_TEXT] = "";
    int number = in_world(ranks, rank);

    if (number != rank)
        snprintf(member, sizeof(member), "%d in group %s", rank, ranks->group);
    if (pid != SYMC_NO_PID)
        symc_format_pid(pid, process);
    if (member[0] == '\0' && process[0] == '\0')
        snprintf(buffer, SYMC_RANK_TEXT, "rank %d", number);
    else
        snprintf(buffer, SYMC_RANK_TEXT, "rank %d (%s%s%s)", number, member,
            member[0] != '\0' && process[0] != '\0' ? ", " : "", process);
    return buffer;
}

const char *symc_format_members(const struct symc_ranks *ranks,
    const bool *listed, char *buffer, size_t nbytes)
{
    bool world[SYMC_RANKS_MAX] = {false};
    bool differ = false;
    int end = 0;
    size_t used;

    for (int r = 0; r < ranks->size; r++) {
        int number = in_world(ranks, r);

        if (!listed[r] || number < 0 || number >= SYMC_RANKS_MAX)
            continue;
        world[number] = true;
        end = number >= end ? number + 1 : end;
        differ = differ || number != r;
    }
    symc_format_named_ranks(world, end, buffer, nbytes);
    used = strlen(buffer);
    if (differ && used + 16 < nbytes) {
        char members[96];

        symc_format_ranks(listed, ranks->size, members, sizeof(members));
        snprintf(buffer + used, nbytes - used, " (%s in group %s)", members,
            ranks->group);
    }
    return buffer;
}
