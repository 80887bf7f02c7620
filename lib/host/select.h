/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Which algorithm serves which operation: a table, searched from the top.
 */
#ifndef SYMC_HOST_SELECT_H
#define SYMC_HOST_SELECT_H

#include "backend/backend.h"
#include "base/op.h"

#include <stdbool.h>
#include <stddef.h>

struct symc_host;

/* The settings of this backend. */
struct symc_host_settings {
    size_t small_max;
    size_t chunk; /* as set; a slot may be larger */
    size_t stream_min;
    int64_t reduce_run;
    bool direct;
    bool symmetric;
};

struct symc_host_settings symc_host_settings_get(
    const struct symc_settings *settings);

/* An operation that can be issued and end later: see issued.c. */
struct symc_resumable {
    /* How many operations of before the peers must have finished reading:
     * SYMC_LINES or SYMC_AREAS; 0: this one runs to its end. */
    uint64_t (*depth)(const struct symc_host *host, const struct symc_op *op);
    /* Where there is room: publish.  True where a peer has failed a group. */
    bool (*publish)(struct symc_host *host, const struct symc_op *op);
    /* When all lines are there: compare, and make this rank's result. */
    symmcoll_status_t (*end)(struct symc_host *host, const struct symc_op *op);
};

struct symc_algorithm {
    const char *name;
    const char *help; /* one line */
    /* Which kinds it serves; NULL: all. */
    bool (*serves)(const struct symc_kind_info *info);
    uint16_t apart;      /* of SYMC_TRAITS_APART: those kinds, and no others */
    bool threads_only;   /* ranks must be threads of one process */
    bool symmetric_only; /* buffers of all ranks must be symmetric */
    bool small_only;     /* contributions up to host.small_max */
    const struct symc_resumable *resumable; /* NULL: it runs to its end */
    symmcoll_status_t (*run)(struct symc_host *host, const struct symc_op *op);
};

/*
 * The entry for an operation of so many ranks, the same on all of them; NULL
 * where there is none.  Whether the buffers are symmetric on all ranks is known
 * only when the ranks are synchronised: symc_host_large() finds that out, and the
 * entry for it is for people to read.
 */
const struct symc_algorithm *symc_host_select(
    const struct symc_host_settings *settings, bool threads, bool symmetric,
    int size, const struct symc_op *op);

#endif
