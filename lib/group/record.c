/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Calls that create groups, in the flight recorder and in the note that
 * explains a rank's exit: one entry per call, however many rounds it has.
 */
#include "group/group.h"

#include <string.h>

struct symc_trace_entry *symc_group_record(
    struct symmcoll_world *world, const struct symc_group_call *call)
{
    struct symc_op op = {.kind = call->kind,
        .dtype = SYMMCOLL_UINT8,
        .count = call->nbytes,
        .elem = 1,
        .seq = call->seq,
        .issued = call->issued,
        .timeout_ns = call->timeout_ns};

    if (call->name != NULL)
        memcpy(op.label, call->name, strnlen(call->name, sizeof(op.label) - 1));
    return symc_trace_start(&world->trace, call->trace, &op);
}

void symc_group_record_end(struct symmcoll_group *parent, enum symc_kind kind,
    struct symc_trace_entry *entry, symmcoll_status_t status)
{
    struct symc_op op = {.kind = kind};

    if (status < 0)
        symc_error_set_call(parent->name, kind, 0);
    if (status == SYMMCOLL_ERR_MISMATCH)
        symc_trace_set_number(&parent->world->trace, entry,
            atomic_load(&parent->runner.seq[SYMC_COUNT_COLLECTIVE]));
    symc_trace_end(&parent->world->trace, entry, status == SYMMCOLL_OK);
    if (symc_members_failed(&parent->runner.members))
        return;
    if (status != SYMMCOLL_OK && parent->runner.size > 1) {
        symc_members_note(&parent->runner.members, status, &op);
        atomic_fetch_or(&parent->runner.at_end, SYMC_AT_END_NOTED);
    } else if ((atomic_fetch_and(
                    &parent->runner.at_end, ~(uint32_t)SYMC_AT_END_NOTED) &
                   SYMC_AT_END_NOTED) != 0) {
        symc_members_withdraw_note(&parent->runner.members);
    }
}
