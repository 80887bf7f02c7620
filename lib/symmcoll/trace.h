/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The flight recorder: the latest operations of each rank, in shared memory
 * that outlives the rank.  Manual: symmcoll_trace_dump(3).
 */
#ifndef SYMMCOLL_TRACE_H
#define SYMMCOLL_TRACE_H

#include <symmcoll/types.h>

SYMMCOLL_BEGIN_DECLS

struct symmcoll_world;

enum symmcoll_trace_flags {
    SYMMCOLL_TRACE_ONLY_ACTIVE = 1,   /* only unfinished operations */
    SYMMCOLL_TRACE_NO_COLLECTIVES = 2 /* no operations, only the groups */
};

/*
 * Writes this rank's flight recorder to a file, as JSON or, with the setting
 * trace.format, as a Python pickle.
 *
 * path   NULL: the setting trace.dump_file followed by the rank's number, or a
 *        file in the user's cache folder if that setting is empty
 * flags  of enum symmcoll_trace_flags
 *
 * The file appears complete or not at all.  Errors: INVALID, NO_MEMORY, SYSTEM.
 * Source: torch._C._distributed_c10d._dump_nccl_trace_json.
 */
SYMMCOLL_CHECKED
symmcoll_status_t symmcoll_trace_dump(
    struct symmcoll_world *world, const char *path, uint32_t flags);

SYMMCOLL_END_DECLS

#endif
