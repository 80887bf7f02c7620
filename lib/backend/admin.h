/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Passing on what the members of a group have made with prepare() to groups
 * that are made from the group.
 */
#ifndef SYMC_BACKEND_ADMIN_H
#define SYMC_BACKEND_ADMIN_H

#include "base/base.h"

struct symc_core;

/* A group that is made from another one, from the view of a member of the
 * latter. */
struct symc_heir {
    /* Of the new group; NULL: this rank is in no new group, or alone in one. */
    const struct symc_core *core;
    int color;      /* equal on the new group's members, and unique */
    int rank, size; /* in the new group */
    int64_t timeout_ns;
};

/*
 * prepare() of the new group takes what is made here through core->inherit().
 * A member may lose it at any time: then all members make it themselves.
 */
struct symc_admin_ops {
    /* Returns whether there is something to split, equally on all members.
     * Called under the ticket. */
    bool (*can_split)(void *state);
    /* Collective, under the ticket like prepare(), while no operation runs:
     * splits it. made (out) is the new group's part, NULL if this rank has
     * none.  An error is sent to all members: then no part remains, and what
     * was to be split may have to be made again. */
    symmcoll_status_t (*split)(
        void *state, const struct symc_heir *heir, void **made);
    /* Returns what a group of this failed group's members, without the excluded
     * ranks, may take over, or NULL.  Local. */
    void *(*hand_on)(void *state, const int *excluded, int count);
    /* Frees a part that was not taken.  The new group's core still exists. */
    void (*drop)(void *made);
};

#endif
