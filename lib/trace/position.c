/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Formats the latest operation of a rank, alive or dead, as a phrase for
 * messages.
 */
#include "trace/view.h"

#include <stdio.h>
#include <string.h>

/* Finds the latest entry in flight, or the latest of all if none is. */
static bool find_latest(
    const struct symc_trace_view *view, struct symc_trace_copy *latest)
{
    struct symc_trace_copy copy;
    bool found = false;
    bool latest_runs = false;

    for (uint32_t slot = 0; slot < view->capacity; slot++) {
        bool runs;

        if (!symc_trace_view_entry(view, slot, &copy))
            continue;
        runs = copy.state <= SYMC_TRACE_STARTED;
        if (found &&
            (runs < latest_runs ||
                (runs == latest_runs && copy.record_id < latest->record_id)))
            continue;
        *latest = copy;
        latest_runs = runs;
        found = true;
    }
    return found;
}

bool symc_trace_is_idle(const struct symc_trace_ring *ring, size_t nbytes)
{
    struct symc_trace_view view;
    struct symc_trace_copy latest;

    return symc_trace_view_open(&view, ring, nbytes) != SYMMCOLL_OK ||
           view.capacity == 0 || !find_latest(&view, &latest) ||
           latest.state > SYMC_TRACE_STARTED;
}

const char *symc_trace_position(const struct symc_trace_ring *ring,
    size_t nbytes, const char *named, char *buffer, size_t buffer_nbytes)
{
    static const char *const how[] = {
        [SYMC_TRACE_SCHEDULED] = "before",
        [SYMC_TRACE_STARTED] = "in",
        [SYMC_TRACE_COMPLETED] = "after",
        [SYMC_TRACE_FAILED] = "after failed",
        [SYMC_TRACE_CAPTURED] = "after captured",
    };
    struct symc_trace_view view;
    struct symc_trace_copy latest = {0};
    struct symc_trace_group_copy group;
    char op[SYMC_OP_TEXT];
    bool again;

    if (buffer_nbytes == 0)
        return "";
    buffer[0] = '\0';
    if (symc_trace_view_open(&view, ring, nbytes) != SYMMCOLL_OK ||
        view.capacity == 0)
        return buffer;
    if (!find_latest(&view, &latest)) {
        snprintf(buffer, buffer_nbytes, "before its first operation");
        return buffer;
    }
    (void)symc_trace_view_group_of(&view, &latest, &group);
    again = named != NULL && strcmp(group.name, named) == 0;
    symc_op_format(
        (enum symc_kind)latest.kind, latest.seq, latest.label, op, sizeof(op));
    snprintf(buffer, buffer_nbytes, "%s %s%s%s", how[latest.state], op,
        again ? "" : " of group ", again ? "" : group.name);
    symc_make_printable(buffer);
    return buffer;
}
