/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Objects: bytes of any length, which the ranks that receive them need not know
 * before.  An object is what the program has made of its data; the library
 * copies the bytes, and does not look into them.
 *
 * All these calls block, and consist of collectives, or of sends and receives,
 * of the lengths and of the bytes.
 *
 *   group  borrowed
 *   most   bytes that this rank accepts from one other rank in a call; 0 is
 *          SYMMCOLL_OBJECT_MOST.  Where that is exceeded, nothing is received
 *   call   timeout of each step, label; NULL for the defaults
 *
 * Objects that are received have memory of the library's, to be released by
 * symmcoll_objects_free(); what was in them before is overwritten, and after an
 * error that follows the checks of the arguments they are empty.
 *
 * Errors: INVALID (arguments, on this rank alone; a length above the limit),
 * NO_MEMORY; where another rank cannot receive for one of these, MISMATCH, which
 * names it and says that it passed 0; and those of the collectives.
 */
#ifndef SYMMCOLL_OBJECT_H
#define SYMMCOLL_OBJECT_H

#include <symmcoll/types.h>

SYMMCOLL_BEGIN_DECLS

struct symmcoll_group;

/* The limit where none is passed: 1 GiB. */
#define SYMMCOLL_OBJECT_MOST ((size_t)1 << 30)

struct symmcoll_object {
    void *data; /* read only where the object is sent; may be NULL if empty */
    size_t nbytes; /* 0 is valid */
    uint64_t type; /* what it is, for the program; sent with it */
};

/*
 * Collect the objects of all ranks on every rank.  Two all_gathers: of the
 * lengths, and of the bytes, padded to the longest.
 * outs  out: as many as the group has ranks, in their order; own one included
 * Source: torch.distributed.all_gather_object.
 * Manual: symmcoll_all_gather_object(3).
 */
SYMMCOLL_CHECKED
symmcoll_status_t symmcoll_all_gather_object(struct symmcoll_group *group,
    struct symmcoll_object *outs, const struct symmcoll_object *in, size_t most,
    const struct symmcoll_call *call);

/*
 * Collect them at the root.  An all_gather of the lengths and a gather.
 * outs  out: as above at the root; NULL elsewhere
 * Source: torch.distributed.gather_object.
 */
SYMMCOLL_CHECKED
symmcoll_status_t symmcoll_gather_object(struct symmcoll_group *group,
    struct symmcoll_object *outs, const struct symmcoll_object *in, int root,
    size_t most, const struct symmcoll_call *call);

/*
 * Copy the root's n objects to all ranks.  Two broadcasts.
 * objects  n of them, at least 1 and the same number on all ranks; read at the
 *          root, out elsewhere
 * Source: torch.distributed.broadcast_object_list.
 */
SYMMCOLL_CHECKED
symmcoll_status_t symmcoll_broadcast_object_list(struct symmcoll_group *group,
    struct symmcoll_object *objects, size_t n, int root, size_t most,
    const struct symmcoll_call *call);

/*
 * Send each rank one of the root's objects.  A broadcast of the greatest length,
 * and two scatters.
 * out  out: this rank's object
 * ins  one for each rank at the root; NULL elsewhere
 * Source: torch.distributed.scatter_object_list.
 */
SYMMCOLL_CHECKED
symmcoll_status_t symmcoll_scatter_object_list(struct symmcoll_group *group,
    struct symmcoll_object *out, const struct symmcoll_object *ins, int root,
    size_t most, const struct symmcoll_call *call);

/*
 * Send n objects to another rank, which receives them by
 * symmcoll_recv_object_list() with the same n and tag.  Two messages, which a
 * receive of the same tag would match: use a tag for objects alone.
 * Source: torch.distributed.send_object_list.
 */
SYMMCOLL_CHECKED
symmcoll_status_t symmcoll_send_object_list(struct symmcoll_group *group,
    const struct symmcoll_object *objects, size_t n, int peer, int64_t tag,
    const struct symmcoll_call *call);

/*
 * Receive them.
 * objects  out: n of them
 * peer     the sender, or SYMMCOLL_ANY_SOURCE; all are from one rank
 * source   out: the sender; NULL: not asked for
 * Source: torch.distributed.recv_object_list.
 */
SYMMCOLL_CHECKED
symmcoll_status_t symmcoll_recv_object_list(struct symmcoll_group *group,
    struct symmcoll_object *objects, size_t n, int peer, int64_t tag,
    int *source, size_t most, const struct symmcoll_call *call);

/* Release the memory of n objects that were received, and empty them; NULL is
 * valid. */
SYMMCOLL_API
void symmcoll_objects_free(struct symmcoll_object *objects, size_t n);

SYMMCOLL_END_DECLS

#endif
