/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What the members of a group have made together, see prepare(), for groups that
 * are made of it.
 */
#ifndef SYMC_BACKEND_ADMIN_H
#define SYMC_BACKEND_ADMIN_H

#include "base/base.h"

struct symc_core;

/* A group that is made of another one, as a member of that sees it. */
struct symc_heir {
    const struct symc_core
        *core;      /* its own; NULL: this rank needs nothing, for it
                                     is in none, or alone */
    int color;      /* that its members alone have */
    int rank, size; /* in it */
    int64_t timeout_ns;
};

/*
 * prepare() of the new group takes what is made here by core->inherit().  It may
 * be lost on a member at any time: then all of them make their own.
 */
struct symc_admin_ops {
    /* Under the ticket: whether there is something to split, which all members
     * find alike. */
    bool (*can_split)(void *state);
    /* Collective, under the ticket, as prepare(), while no operation runs: split
     * it; made (out) is the new group's part, NULL where this rank has none.  Of an
     * error all members are told: then no part is left, and what was to be split
     * may have to be made again. */
    symmcoll_status_t (*split)(
        void *state, const struct symc_heir *heir, void **made);
    /* The group has failed, and a new one is made of its members but these ranks of it:
     * what that may take; NULL: nothing.  This rank's alone. */
    void *(*hand_on)(void *state, const int *excluded, int count);
    /* Nobody takes it; the new group's core is still there. */
    void (*drop)(void *made);
};

#endif
