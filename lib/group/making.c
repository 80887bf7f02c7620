/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The request of a call that creates groups, as a digest, as text and as plans;
 * and the reason if the groups cannot be created.
 */
#include "group/making.h"

#include "base/digest.h"
#include "base/ranks.h"

#include <stdio.h>
#include <string.h>

/* ---- the request ---- */

static int count_ranks(const struct symc_partition *partition)
{
    int count = 0;

    for (int i = 0; i < partition->count; i++)
        count += partition->sizes[i];
    return count;
}

uint64_t symc_making_key(const struct symc_making *making)
{
    const struct symc_partition *partition = making->partition;
    const struct symc_group_options *options = making->options;
    struct symc_digest digest = SYMC_DIGEST_INIT;

    if (partition != NULL) {
        symc_digest_add_bytes(&digest, "sizes", partition->sizes,
            (size_t)partition->count * sizeof(*partition->sizes));
        symc_digest_add_bytes(&digest, "ranks", partition->ranks,
            (size_t)count_ranks(partition) * sizeof(*partition->ranks));
    }
    symc_digest_add(
        &digest, options->name != NULL ? "name" : "number", options->name);
    symc_digest_add(
        &digest, options->tag != NULL ? "tag" : "no tag", options->tag);
    return digest.a;
}

const char *symc_group_format_ranks(
    const int *ranks, int nranks, bool unsorted, char *buffer, size_t nbytes)
{
    bool listed[SYMC_RANKS_MAX] = {false};
    size_t used = 0;
    int r;

    if (!unsorted) {
        for (r = 0; r < nranks; r++)
            listed[ranks[r]] = true;
        symc_format_named_ranks(listed, SYMC_RANKS_MAX, buffer, nbytes);
        return buffer;
    }
    for (r = 0; r < nranks && used + 40 < nbytes; r++)
        used += (size_t)snprintf(buffer + used, nbytes - used, "%s%d",
            r == 0 ? "ranks " : ", ", ranks[r]);
    snprintf(buffer + used, nbytes - used, "%s in this order",
        r < nranks ? ", ..." : "");
    return buffer;
}

/* Formats the request: "ranks 0, 2-3 with name dp". */
static void describe(
    const struct symc_making *making, char *buffer, size_t nbytes)
{
    const struct symc_partition *partition = making->partition;
    const int *ranks = partition != NULL ? partition->ranks : NULL;
    size_t used = 0;

    if (partition == NULL)
        used = (size_t)snprintf(buffer, nbytes, "a color");
    for (int i = 0;
         partition != NULL && i < partition->count && used + 16 < nbytes; i++) {
        char text[160];

        symc_group_format_ranks(ranks, partition->sizes[i],
            making->options->unsorted, text, sizeof(text));
        ranks += partition->sizes[i];
        used += (size_t)snprintf(
            buffer + used, nbytes - used, "%s%s", i > 0 ? " and " : "", text);
    }
    if (used < nbytes)
        used += (size_t)snprintf(buffer + used, nbytes - used, "%s%s",
            making->options->name != NULL ? " with name " : " without a name",
            making->options->name != NULL ? making->options->name : "");
    if (used < nbytes && making->options->tag != NULL)
        snprintf(
            buffer + used, nbytes - used, ", tag %s", making->options->tag);
}

void symc_making_plan(const struct symc_making *making, int index,
    const int *ranks, struct symc_group_plan *plan)
{
    const struct symc_group_options *options = making->options;
    const struct symmcoll_group *parent = making->parent;
    char name[SYMC_GROUP_NAME + 16];

    *plan = (struct symc_group_plan){.global = ranks,
        .size = making->partition->sizes[index],
        .rank = index == making->own ? making->own_rank : -1,
        .timeout_ns = options->timeout_ns};
    if (options->desc != NULL)
        snprintf(plan->desc, sizeof(plan->desc), "%s", options->desc);
    else
        snprintf(plan->desc, sizeof(plan->desc), "%.64s:split:%u", parent->desc,
            (unsigned int)atomic_load(&parent->splits));
    if (options->name != NULL && making->partition->count == 1)
        snprintf(name, sizeof(name), "%s", options->name);
    else if (options->name != NULL)
        snprintf(name, sizeof(name), "%s.%d", options->name, index);
    if (options->tag != NULL)
        snprintf(plan->tag, sizeof(plan->tag), "user:%s", options->tag);
    symc_group_plan_name(parent->world, parent, plan,
        parent->children + 1 + (uint32_t)index,
        options->name != NULL ? name : NULL);
}

/* ---- the reason of a failure ---- */

/* Returns whether two members of the parent have passed the same. */
static bool pass_alike(const void *verdicts, int a, int b)
{
    const struct symc_verdict *all = verdicts;

    return strncmp(all[a].text, all[b].text, sizeof(all[a].text)) == 0;
}

/* Reports the differing requests, each once, with its ranks. */
static symmcoll_status_t fail_mismatch(
    const struct symmcoll_group *parent, const char *where)
{
    const struct symc_verdict *all = parent->runner.verdicts;
    char values[384] = "", ranks[128];
    size_t used = 0;

    for (int r = 0; r < parent->runner.size && used + 32 < sizeof(values);
         r++) {
        bool listed[SYMC_RANKS_MAX] = {false}, seen = false;

        for (int q = 0; q < parent->runner.size; q++) {
            listed[q] = pass_alike(all, q, r);
            seen = seen || (q < r && listed[q]);
        }
        if (seen)
            continue;
        used += (size_t)snprintf(values + used, sizeof(values) - used,
            "%s%s passed %.*s", used > 0 ? ", " : "",
            symc_format_members(
                &parent->runner.members.ranks, listed, ranks, sizeof(ranks)),
            (int)sizeof(all[r].text), all[r].text);
    }
    (void)symc_fail(SYMMCOLL_ERR_MISMATCH, "%s: groups differ: %s (group %s)",
        where, values, parent->name);
    return symc_error_add_odd(&parent->runner.members.ranks, pass_alike, all);
}

symmcoll_status_t symc_making_explain(
    struct symc_making *making, symmcoll_status_t own)
{
    struct symmcoll_group *parent = making->parent;
    const struct symc_verdict *all = parent->runner.verdicts;
    struct symc_verdict mine = {.status = own};
    char who[SYMC_RANK_TEXT];
    symmcoll_status_t status;

    if (own != SYMMCOLL_OK)
        snprintf(mine.text, sizeof(mine.text), "%s", symmcoll_last_error());
    else
        describe(making, mine.text, sizeof(mine.text));
    status = symc_run_round(&parent->runner, making->options->kind, &mine,
        parent->runner.verdicts, sizeof(mine), making->timeout_ns);
    if (status != SYMMCOLL_OK)
        return status;
    for (int r = 0; r < parent->runner.size; r++) {
        if (all[r].status == SYMMCOLL_OK)
            continue;
        (void)symc_fail((symmcoll_status_t)all[r].status, "%s: %s: %.*s",
            making->options->where,
            symc_format_rank(
                &parent->runner.members.ranks, r, SYMC_NO_PID, who),
            (int)sizeof(all[r].text), all[r].text);
        return symc_error_add_reporter(&parent->runner.members.ranks, r);
    }
    return fail_mismatch(parent, making->options->where);
}
