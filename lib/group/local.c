/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Creation of a group with local synchronisation: only its members call, and
 * agree in two rounds.  In the first each member offers its part; in the second
 * it confirms that it could open the group.
 */
#include "base/digest.h"
#include "group/agreement.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void describe(const struct symc_partition *partition,
    const struct symc_group_options *options, char *buffer, size_t nbytes)
{
    const char *name = options->name, *tag = options->tag;
    char ranks[160];

    symc_group_format_ranks(partition->ranks, partition->sizes[0],
        options->unsorted, ranks, sizeof(ranks));
    snprintf(buffer, nbytes, "the group of %s%s%s%s%s", ranks,
        name != NULL ? " with name " : "", name != NULL ? name : "",
        tag != NULL ? " with tag " : "", tag != NULL ? tag : "");
}

/* Makes the digest of the request: ranks, name and tag, and how often they were
 * requested before.  On NO_MEMORY it is still what the others look this rank up
 * by. */
static symmcoll_status_t make_base(struct symmcoll_world *world,
    const struct symc_partition *partition,
    const struct symc_group_options *options, struct symc_digest *digest)
{
    symmcoll_status_t status;
    uint64_t count;

    *digest = (struct symc_digest)SYMC_DIGEST_INIT;
    symc_digest_add_bytes(digest, "local", partition->ranks,
        (size_t)partition->sizes[0] * sizeof(*partition->ranks));
    symc_digest_add(
        digest, options->name != NULL ? "name" : "number", options->name);
    if (options->tag != NULL)
        symc_digest_add(digest, "tag", options->tag);
    status = symc_proposal_count(&world->proposals, digest->a, &count);
    symc_digest_add_bytes(digest, "count", &count, sizeof(count));
    return status;
}

static void make_plan(const struct symc_agreement *agreement,
    const struct symc_group_options *options, struct symc_group_plan *plan)
{
    struct symmcoll_world *world = agreement->world;
    char name[SYMC_GROUP_ID + 1];

    *plan = (struct symc_group_plan){.global = agreement->global,
        .size = agreement->size,
        .rank = agreement->rank,
        .timeout_ns = options->timeout_ns};
    snprintf(plan->desc, sizeof(plan->desc), "%s",
        options->desc != NULL ? options->desc : "undefined");
    if (options->tag != NULL)
        snprintf(plan->tag, sizeof(plan->tag), "user:%s", options->tag);
    snprintf(name, sizeof(name), "%016" PRIx64, agreement->base);
    symc_group_plan_name(world, world->all, plan, 0,
        options->name != NULL ? options->name : name);
    /* The number is unlike those of other groups. */
    snprintf(plan->id, sizeof(plan->id), "%.*s", SYMC_GROUP_ID - 1, name);
}

/* A group being created, with what must be undone on failure. */
struct local {
    struct symc_agreement *agreement;
    struct symc_group_plan plan;
    struct symc_group_part part;
    struct symc_offer *offers; /* offers of all members */
    bool offered;
    struct symmcoll_group *made;
};

static symmcoll_status_t offer(
    struct local *local, const struct symc_group_options *options)
{
    struct symc_agreement *agreement = local->agreement;
    struct symmcoll_world *world = agreement->world;
    symmcoll_status_t status;

    if (symc_group_find_name(world, local->plan.name) != NULL)
        return symc_fail(SYMMCOLL_ERR_INVALID,
            "%s: expected a new name, found that there is a group %s already",
            agreement->where, local->plan.name);
    local->offers = symc_alloc((size_t)agreement->size, sizeof(*local->offers));
    if (local->offers == NULL)
        return SYMMCOLL_ERR_NO_MEMORY;
    local->part =
        symc_world_take_part(world, agreement->size, options->staging);
    status = symc_segment_offer(&world->segments, local->part.nbytes,
        local->part.staging, &agreement->mine.offer);
    local->offered = status == SYMMCOLL_OK;
    if (!local->offered)
        symc_world_return_staging(
            world, local->part.nbytes - local->part.staging);
    return status;
}

/* Offers, opens, and confirms. */
static symmcoll_status_t agree(
    struct local *local, const struct symc_group_options *options)
{
    struct symc_agreement *agreement = local->agreement;
    symmcoll_status_t status = offer(local, options);

    if (status == SYMMCOLL_OK)
        status = symc_agreement_round(agreement);
    if (status != SYMMCOLL_OK)
        return status;
    for (int m = 0; m < agreement->size; m++)
        local->offers[m] = agreement->all[m].offer;
    local->offered = false; /* the group owns the offer from here on */
    status = symc_group_open(agreement->world, &local->plan, &local->part,
        local->offers, &local->made);
    return status == SYMMCOLL_OK ? symc_agreement_round(agreement) : status;
}

/* Undoes a failed creation; the error detail is kept. */
static void take_back(struct local *local, int64_t trace)
{
    struct symc_agreement *agreement = local->agreement;
    struct symmcoll_world *world = agreement->world;

    if (local->offered) {
        symc_segment_abandon(&world->segments, &agreement->mine.offer);
        symc_world_return_staging(
            world, local->part.nbytes - local->part.staging);
    }
    if (local->made != NULL)
        (void)symc_group_end(local->made);
    else
        symc_trace_remove_group(&world->trace, trace);
}

/* Creates the group.  The call is recorded in the new group's name, as no other
 * rank knows of it. */
static symmcoll_status_t make(struct symc_agreement *agreement,
    const struct symc_group_options *options, int64_t wait_ns,
    struct symmcoll_group **group)
{
    struct symmcoll_world *world = agreement->world;
    struct local local = {.agreement = agreement};
    struct symc_group_call call = {.kind = options->kind,
        .name = options->name,
        .issued = symc_ticks(),
        .nbytes = sizeof(agreement->mine.offer),
        .timeout_ns = wait_ns};
    struct symc_trace_entry *record;
    struct symc_error error;
    symmcoll_status_t status;

    make_plan(agreement, options, &local.plan);
    call.trace = symc_trace_add_group(&world->trace, local.plan.name,
        local.plan.desc, local.plan.rank, local.plan.size, local.plan.global);
    local.plan.trace = &call.trace;
    record = symc_group_record(world, &call);
    status = agree(&local, options);
    symc_trace_end(&world->trace, record, status == SYMMCOLL_OK);
    free(local.offers);
    if (status == SYMMCOLL_OK) {
        *group = local.made;
        return SYMMCOLL_OK;
    }
    symc_error_set_call(NULL, options->kind, 0);
    symc_error_keep(&error, status);
    take_back(&local, call.trace);
    return symc_error_return(&error);
}

static int find_rank(const struct symc_partition *partition, int global)
{
    for (int r = 0; r < partition->sizes[0]; r++) {
        if (partition->ranks[r] == global)
            return r;
    }
    return -1;
}

symmcoll_status_t symc_group_create_local(struct symmcoll_world *world,
    const struct symc_partition *partition,
    const struct symc_group_options *options, int64_t wait_ns,
    struct symmcoll_group **group)
{
    struct symc_agreement agreement = {.world = world,
        .where = options->where,
        .global = partition->ranks,
        .size = partition->sizes[0],
        .slot = -1,
        .rank = find_rank(partition, world->rank),
        .seconds = (double)wait_ns / (double)SYMC_NS_PER_S,
        .deadline_ns = symc_deadline_ns(symc_now_ns(), wait_ns)};
    struct symc_digest digest;
    symmcoll_status_t status;

    *group = NULL;
    describe(
        partition, options, agreement.mine.text, sizeof(agreement.mine.text));
    if (agreement.rank < 0)
        return symc_fail(SYMMCOLL_NOT_MEMBER,
            "%s: expected a call of members only, found rank %d, which is not "
            "in %s",
            options->where, world->rank, agreement.mine.text);
    status = make_base(world, partition, options, &digest);
    agreement.base = digest.a;
    if (status == SYMMCOLL_OK)
        status = options->refused;
    if (status != SYMMCOLL_OK)
        goto end_agreement;
    status = symc_agreement_begin(&agreement);
    if (status != SYMMCOLL_OK)
        goto end_agreement;
    status = make(&agreement, options, wait_ns, group);

end_agreement:
    symc_agreement_end(&agreement, status);
    return status;
}

symmcoll_status_t symc_group_find_or_create_local(struct symmcoll_world *world,
    const struct symc_partition *partition,
    const struct symc_group_options *options, int64_t wait_ns,
    struct symmcoll_group **group)
{
    struct symc_group_claim claim = {.tag = options->tag,
        .ranks = partition->ranks,
        .nranks = partition->sizes[0]};
    symmcoll_status_t status;

    *group = symc_group_find_or_claim(world, &claim);
    if (*group != NULL)
        return SYMMCOLL_OK;
    status = symc_group_create_local(world, partition, options, wait_ns, group);
    symc_group_end_claim(world, &claim);
    return status;
}
