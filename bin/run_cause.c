/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The first failure according to the ranks' failure records.  A rank exits when
 * it learns of a failure, so the first to end need not have failed first; but
 * the records in the blocks outlive their ranks and have the time of each
 * failure.
 */
#include "run.h"

#include "segment/liveness.h"
#include "world/failure.h"

#include <stdio.h>
#include <string.h>
#include <sys/wait.h>

/* Copies a rank's record of its world's group.  Returns false if there is
 * none. */
static bool read_record(
    const struct run_seat *seat, struct symc_failure *record)
{
    return seat->view.block != NULL &&
           seat->view.first.nbytes >= SYMC_FAILURE_ROOM &&
           symc_failure_read(symc_block_first(&seat->view), record);
}

/* Copies a rank's record of the first failure in any other group.  Returns
 * false if there is none. */
static bool read_other(const struct run_seat *seat, struct symc_failure *record)
{
    return seat->view.block != NULL &&
           seat->view.first.nbytes >= SYMC_FAILURE_ROOM &&
           symc_failure_read_other(symc_block_first(&seat->view), record);
}

/* Returns whether a rank of a world has died, not by the launcher or because of
 * a failure.  Failures of the other ranks' groups follow from that. */
static bool any_died(const struct run_world *world)
{
    for (int i = 0; i < world->size; i++) {
        const struct run_rank *rank = world->seats[i].rank;

        if (rank != NULL && !rank->running && !rank->ours &&
            (WIFSIGNALED(rank->status) || (rank->status != 0 && !rank->failed)))
            return true;
    }
    return false;
}

/* Returns whether a record is of a group that was shrunk without a failure.
 * Its ranks go on, so it is not the reason of an end. */
static bool is_shrunk(const struct symc_failure *record)
{
    return record->status == SYMMCOLL_ERR_CANCELED &&
           strstr(record->text, " shrinks group ") != NULL;
}

/* Finds the earliest record of any group.  Returns its world, or NULL. */
static const struct run_world *find_first(
    const struct run_job *job, struct symc_failure *first)
{
    const struct run_world *found = NULL;

    for (const struct run_world *at = job->worlds; at != NULL; at = at->next) {
        bool died = any_died(at);

        for (int i = 0; i < 2 * at->size; i++) {
            const struct run_seat *seat = &at->seats[i / 2];
            struct symc_failure record;
            bool any = i % 2 == 0 ? read_record(seat, &record)
                                  : !died && read_other(seat, &record);

            if (!any || is_shrunk(&record) ||
                (found != NULL && record.at_ns >= first->at_ns))
                continue;
            *first = record;
            found = at;
        }
    }
    return found;
}

/* Replaces the " and " of a list: "ranks 0, 2 and 3" becomes "ranks 0, 2,
 * 3". */
static void drop_and(char *ranks)
{
    char *at = strstr(ranks, " and ");

    if (at != NULL) {
        memcpy(at, ", ", 2);
        memmove(at + 2, at + 5, strlen(at + 5) + 1);
    }
}

/* Formats "rank 1 did not come to all_reduce seq 2 (timed out on ranks 0, 2,
 * 3)". Returns false if the record lists no rank. */
static bool describe_timeout(const struct run_world *world,
    const struct symc_failure *record, char *line, size_t nbytes)
{
    bool late[RUN_RANKS_MAX] = {false}, waited[RUN_RANKS_MAX] = {false};
    int size = world->size < RUN_RANKS_MAX ? world->size : RUN_RANKS_MAX;
    char missing[128], others[128], op[SYMC_OP_TEXT];
    bool usual = strcmp(world->name, SYMC_WORLD_DEFAULT) == 0;
    bool any = false;

    for (int i = 0; i < size; i++) {
        struct symc_failure own;

        late[i] = symc_failure_is_late(record, i);
        waited[i] = !late[i] && read_record(&world->seats[i], &own) &&
                    own.status == SYMMCOLL_ERR_TIMEOUT;
        any = any || late[i];
    }
    if (!any)
        return false;
    symc_format_named_ranks(late, size, missing, sizeof(missing));
    symc_format_named_ranks(waited, size, others, sizeof(others));
    drop_and(others);
    symc_op_format((enum symc_kind)record->kind, record->seq, record->label, op,
        sizeof(op));
    snprintf(line, nbytes, "%s did not come to %s%s%s%s (timed out on %s)",
        missing, op, usual ? "" : " of group ", usual ? "" : world->name,
        usual ? "" : "/0", others);
    symc_make_printable(line);
    return true;
}

/* Returns whether a rank was killed during an operation. */
static bool is_killed_within(const struct run_rank *rank)
{
    return WIFSIGNALED(rank->status) && strncmp(rank->position, "in ", 3) == 0;
}

/*
 * Finds the earliest note of a rank that ended with an error: none of its
 * operations succeeded afterwards, so the note explains its end.  Returns false
 * if there is none.
 */
static bool find_note(const struct run_job *job, struct symc_failure *first)
{
    bool any = false;

    for (const struct run_world *at = job->worlds; at != NULL; at = at->next) {
        for (int i = 0; i < at->size; i++) {
            const struct run_seat *seat = &at->seats[i];
            struct symc_failure note;

            if (seat->view.block == NULL || seat->rank->status == 0 ||
                seat->rank->ours ||
                seat->view.first.nbytes < SYMC_FAILURE_ROOM ||
                is_killed_within(seat->rank) ||
                !symc_failure_read_note(symc_block_first(&seat->view), &note) ||
                (any && note.at_ns >= first->at_ns))
                continue;
            *first = note;
            any = true;
        }
    }
    return any;
}

bool run_cause_find(const struct run_job *job, char *line, size_t nbytes)
{
    struct symc_failure first, note;
    const struct run_world *world = find_first(job, &first);
    bool noted = find_note(job, &note);

    if (noted && (world == NULL || note.at_ns < first.at_ns))
        first = note;
    else if (world == NULL || (first.status == SYMMCOLL_ERR_PEER &&
                                  !symc_liveness_is_left_in(first.text)))
        return false; /* the launcher's information about a death is better */
    if (world != NULL && first.status == SYMMCOLL_ERR_TIMEOUT &&
        describe_timeout(world, &first, line, nbytes))
        return true;
    snprintf(line, nbytes, "%.*s", SYMC_FAILURE_TEXT, first.text);
    symc_make_printable(line);
    return line[0] != '\0';
}
