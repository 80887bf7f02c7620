/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The rank that others wait for when a job is interrupted, from the flight
 * recorders of running ranks.
 */
#include "run.h"

#include "trace/view.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The call that a rank of a world is waiting in. */
struct wait {
    struct symc_trace_view view;
    bool readable; /* the rank runs and `view` is its recorder */
    bool any;      /* an operation is in flight; the oldest is `call` */
    struct symc_trace_copy call;
    struct symc_trace_group_copy group;
    int64_t since_ns; /* wall-clock time of that call */
};

static void read_wait(const struct run_seat *seat, struct wait *wait)
{
    struct symc_trace_copy copy;

    wait->readable =
        seat->view.block != NULL && seat->rank->running &&
        symc_trace_view_open(&wait->view, symc_block_trace(&seat->view),
            seat->view.layout.trace_nbytes) == SYMMCOLL_OK &&
        wait->view.capacity > 0;
    if (!wait->readable)
        return;
    for (uint32_t slot = 0; slot < wait->view.capacity; slot++) {
        if (!symc_trace_view_entry(&wait->view, slot, &copy) ||
            copy.state > SYMC_TRACE_STARTED ||
            (wait->any && copy.record_id > wait->call.record_id))
            continue;
        wait->call = copy;
        wait->any = true;
    }
    wait->any = wait->any && symc_trace_view_group_of(
                                 &wait->view, &wait->call, &wait->group);
    wait->since_ns = symc_trace_view_wall_ns(&wait->view, wait->call.created);
}

static bool is_of_pair(const struct wait *wait)
{
    return symc_kinds[wait->call.kind].counter == SYMC_COUNT_P2P;
}

static bool is_same_group(const struct wait *a, const struct wait *b)
{
    return strcmp(a->group.name, b->group.name) == 0;
}

/* Returns whether a rank has called the collective that another rank waits
 * in. */
static bool has_come(const struct wait *wait, const struct wait *waiter)
{
    struct symc_trace_group_copy group;

    for (unsigned int i = 0; i < wait->view.groups; i++)
        if (symc_trace_view_group(&wait->view, i, &group) && group.freed == 0 &&
            strcmp(group.name, waiter->group.name) == 0)
            return group.started >= waiter->call.seq;
    return false;
}

/* Finds the ranks missing from a waiter's operation.  Returns whether there is
 * one; *outside: one of them is in no operation at all. */
static bool find_late(
    const struct wait *waits, int size, int waiter, bool *late, bool *outside)
{
    const struct wait *wait = &waits[waiter];
    bool any = false;

    *outside = false;
    memset(late, 0, (size_t)size * sizeof(*late));
    for (uint32_t m = 0; wait->any && m < wait->group.size; m++) {
        int64_t r = symc_trace_view_rank(&wait->group, m);

        if (r < 0 || r >= size || r == waiter || !waits[r].readable)
            continue;
        if (is_of_pair(wait))
            late[r] = (int64_t)m == wait->call.root &&
                      !(waits[r].any && is_of_pair(&waits[r]) &&
                          is_same_group(&waits[r], wait) &&
                          waits[r].call.root == wait->group.rank);
        else
            late[r] = !has_come(&waits[r], wait);
        any = any || late[r];
        *outside = *outside || (late[r] && !waits[r].any);
    }
    return any;
}

/* Appends text.  Returns the bytes used afterwards. */
static size_t append(char *line, size_t nbytes, size_t used, const char *text)
{
    int n = snprintf(line + used, nbytes - used, "%s", text);

    return used + (size_t)n < nbytes ? used + (size_t)n : nbytes - 1;
}

/* Formats "ranks 0 and 2 waited 12.3 s in barrier seq 3 of group 0": all ranks
 * waiting in the same operation as `waiter`. */
static void describe_waiters(
    const struct wait *waits, int size, int waiter, char *line, size_t nbytes)
{
    const struct wait *first = &waits[waiter];
    int64_t since_ns = first->since_ns;
    bool waited[RUN_RANKS_MAX] = {false};
    char ranks[128], op[SYMC_OP_TEXT];

    for (int i = 0; i < size; i++) {
        waited[i] = i == waiter || (waits[i].any && !is_of_pair(first) &&
                                       !is_of_pair(&waits[i]) &&
                                       is_same_group(&waits[i], first) &&
                                       waits[i].call.seq == first->call.seq);
        if (waited[i] && waits[i].since_ns < since_ns)
            since_ns = waits[i].since_ns;
    }
    symc_format_named_ranks(waited, size, ranks, sizeof(ranks));
    symc_op_format((enum symc_kind)first->call.kind, first->call.seq,
        first->call.label, op, sizeof(op));
    snprintf(line, nbytes, "%s waited %.1f s in %s of group %s", ranks,
        (double)(symc_wall_ns() - since_ns) / (double)SYMC_NS_PER_S, op,
        first->group.name);
}

/* Appends "; rank 1 had not come, outside of any operation (after barrier seq 2
 * of group 0)", once for all late ranks at one position. */
static void describe_late(const struct run_world *world,
    const struct wait *waits, int size, bool *late, char *line, size_t nbytes)
{
    char(*positions)[SYMC_TRACE_POSITION] =
        symc_alloc((size_t)size, sizeof(*positions));
    size_t used = strlen(line);

    if (positions == NULL)
        return;
    for (int i = 0; i < size; i++)
        if (late[i])
            symc_trace_position(symc_block_trace(&world->seats[i].view),
                world->seats[i].view.layout.trace_nbytes, NULL, positions[i],
                sizeof(positions[i]));
    for (int i = 0; i < size; i++) {
        bool here[RUN_RANKS_MAX] = {false};
        char ranks[128], text[SYMC_TRACE_POSITION + 192];

        if (!late[i])
            continue;
        for (int j = i; j < size; j++) {
            here[j] = late[j] && waits[j].any == waits[i].any &&
                      strcmp(positions[j], positions[i]) == 0;
            late[j] = late[j] && !here[j];
        }
        symc_format_named_ranks(here, size, ranks, sizeof(ranks));
        snprintf(text, sizeof(text),
            waits[i].any ? "; %s had not come, %s"
                         : "; %s had not come, outside of any operation (%s)",
            ranks, positions[i]);
        used = append(line, nbytes, used, text);
    }
    free(positions);
}

/* Implements run_late_find() for one world. */
static bool find_in_world(
    const struct run_world *world, char *line, size_t nbytes)
{
    int size = world->size < RUN_RANKS_MAX ? world->size : RUN_RANKS_MAX;
    struct wait *waits = symc_alloc((size_t)size, sizeof(*waits));
    bool late[RUN_RANKS_MAX];
    bool outside = false;
    int found = -1;

    if (waits == NULL)
        return false;
    for (int i = 0; i < size; i++)
        read_wait(&world->seats[i], &waits[i]);
    for (int i = 0; i < size && !outside; i++)
        if (find_late(waits, size, i, late, &outside) && (found < 0 || outside))
            found = i;
    if (found >= 0) {
        (void)find_late(waits, size, found, late, &outside);
        describe_waiters(waits, size, found, line, nbytes);
        describe_late(world, waits, size, late, line, nbytes);
        symc_make_printable(line);
    }
    free(waits);
    return found >= 0;
}

bool run_late_find(const struct run_job *job, char *line, size_t nbytes)
{
    for (const struct run_world *at = job->worlds; at != NULL; at = at->next)
        if (find_in_world(at, line, nbytes))
            return true;
    line[0] = '\0';
    return false;
}
