/* SPDX-License-Identifier: BSD-3-Clause */
/* Overlapping groups, and shrinking them after the fault. */
#include "t/chaos/chaos.h"
#include "t/world/faults.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define KNOWN \
    30.0 /* seconds until all ranks have detected a death, however
                    * busy the machine is */

static symmcoll_status_t create(
    struct chaos_rank *self, int first, int last, struct symmcoll_group **group)
{
    struct symmcoll_group_args args = SYMMCOLL_GROUP_ARGS_INIT;
    int ranks[CHAOS_RANKS];

    args.ranks = ranks;
    /* The order of the list differs from that of the group. */
    for (int r = last; r >= first; r--)
        ranks[args.nranks++] = r;
    return symmcoll_group_create(self->world, &args, group);
}

symmcoll_status_t chaos_make_groups(struct chaos_rank *self)
{
    int size = self->drawn->size;
    symmcoll_status_t status = create(self, 1, size - 1, &self->groups[1]);

    if (status == SYMMCOLL_OK)
        status = create(self, 0, size - 2, &self->groups[2]);
    /* Larger numbers first. */
    if (status == SYMMCOLL_OK)
        status = symmcoll_group_split(self->groups[0], self->rank % 2,
            -self->rank, NULL, &self->groups[3]);
    return status;
}

symmcoll_status_t chaos_give_up(struct chaos_rank *self,
    symmcoll_status_t status, char *detail, size_t nbytes)
{
    double until = faults_now() + KNOWN;
    char lack[64];

    if (self->reason[0] != '\0')
        snprintf(detail, nbytes, "%s", self->reason);
    /* A group without the victim was left; the world's group has the cause. */
    while (
        self->spared && chaos_is_fatal(self->drawn) && faults_now() < until) {
        status = symmcoll_group_error(self->groups[0]);
        snprintf(detail, nbytes, "%s", symmcoll_last_error());
        if (status != SYMMCOLL_OK)
            break;
        usleep(1000);
    }
    for (int g = 1; g < CHAOS_GROUPS; g++)
        if (self->groups[g] != NULL)
            symmcoll_group_abort(self->groups[g], detail);
    snprintf(
        lack, sizeof(lack), "rank %d lacks something", self->drawn->victim);
    if (!chaos_has_no_end(self->drawn))
        symmcoll_group_abort(self->groups[0], lack);
    return status;
}

/* ---- the remaining ranks ---- */

/* Creates a group of the same members, with calls of these only. */
static symmcoll_status_t make_local(
    struct chaos_rank *self, struct symmcoll_group *left)
{
    struct symmcoll_group_args args = SYMMCOLL_GROUP_ARGS_INIT;
    struct symmcoll_group *made = NULL;
    int ranks[CHAOS_RANKS];
    symmcoll_status_t status;

    args.ranks = ranks;
    args.nranks = symmcoll_group_size(left);
    args.flags = SYMMCOLL_GROUP_LOCAL;
    args.timeout = 20;
    for (int r = 0; r < args.nranks; r++)
        ranks[r] = symmcoll_group_global_rank(left, r);
    status = symmcoll_group_create(self->world, &args, &made);
    if (status == SYMMCOLL_OK)
        status = chaos_operate_all(self, made);
    return status;
}

static symmcoll_status_t go_on(struct chaos_rank *self)
{
    struct symmcoll_shrink_args args = SYMMCOLL_SHRINK_ARGS_INIT;
    struct symmcoll_group *left = NULL;
    symmcoll_status_t status;

    args.timeout = 20;
    if (self->drawn->fault == CHAOS_FREEZE) {
        args.exclude = &self->drawn->victim;
        args.nexclude = 1;
    }
    status = symmcoll_group_shrink(
        self->groups[0], &args, &left, &self->line->left_last);
    if (status != SYMMCOLL_OK)
        return status;
    self->line->left_size = symmcoll_group_size(left);
    status = chaos_operate_all(self, left);
    if (status == SYMMCOLL_OK)
        status = make_local(self, left);
    /* No rank leaves before all have learned that. */
    if (status == SYMMCOLL_OK)
        status = symmcoll_barrier(left, NULL, NULL);
    return status;
}

void chaos_go_on(struct chaos_rank *self)
{
    struct chaos_line *line = self->line;
    symmcoll_status_t status;

    if (self->rank == self->drawn->victim)
        return;
    status = go_on(self);
    if (status != SYMMCOLL_OK)
        snprintf(line->left_detail, sizeof(line->left_detail), "%s",
            self->reason[0] != '\0' ? self->reason : symmcoll_last_error());
    line->left = status;
}
