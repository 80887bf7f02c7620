/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The table of algorithms, searched from the top, and the choice among them.
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
    size_t chunk; /* as set; a staging slot may be larger */
    size_t stream_min;
    int64_t reduce_run;
    bool direct;
    bool symmetric;
};

struct symc_host_settings symc_host_settings_get(
    const struct symc_settings *settings);

/* The parts of an algorithm that can be issued and ended later: see issued.c. */
struct symc_resumable {
    /* Returns how many recent operations peers may still be reading:
     * SYMC_LINES or SYMC_AREAS; 0: this operation runs to its end. */
    uint64_t (*depth)(const struct symc_host *host, const struct symc_op *op);
    /* Publishes; there is room.  Returns true if a peer has failed a group. */
    bool (*publish)(struct symc_host *host, const struct symc_op *op);
    /* Compares the lines, which are all there, and makes this rank's result. */
    symmcoll_status_t (*end)(struct symc_host *host, const struct symc_op *op);
};

struct symc_algorithm {
    const char *name;
    const char *help; /* one line */
    /* Returns whether it serves a kind; NULL: it serves all. */
    bool (*serves)(const struct symc_kind_info *info);
    uint16_t apart;      /* of SYMC_TRAITS_APART: serves only kinds with them */
    bool threads_only;   /* ranks must be threads of one process */
    bool symmetric_only; /* buffers of all ranks must be symmetric */
    bool small_only;     /* contributions up to host.small_max */
    const struct symc_resumable *resumable; /* NULL: it runs to its end */
    symmcoll_status_t (*run)(struct symc_host *host, const struct symc_op *op);
};

/*
 * Returns the entry for an operation of `size` ranks, the same on all of them; NULL if
 * there is none.  Whether the buffers are symmetric on all ranks is known only after the
 * ranks are synchronised: symc_host_large() finds it out, and the entry for it serves
 * descriptions only.
 */
const struct symc_algorithm *symc_host_select(
    const struct symc_host_settings *settings, bool threads, bool symmetric,
    int size, const struct symc_op *op);

#endif
