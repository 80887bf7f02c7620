/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Objects: byte strings whose length the receivers do not have in advance.  The
 * program serialises its data; the library copies the bytes without looking
 * into them.
 *
 * All these calls block.  Each consists of collectives, or of sends and
 * receives, of the lengths and of the bytes.
 *
 *   group  borrowed
 *   most   limit, in bytes, on what this rank accepts from one other rank in a
 *          call; 0 is SYMMCOLL_OBJECT_MOST.  Beyond it nothing is received
 *   call   timeout of each step, label; NULL for the defaults
 *
 * The data of received objects is allocated by the library: release it with
 * symmcoll_objects_free().  Their previous members are overwritten.  After an
 * error that follows the check of the arguments they are empty.
 *
 * Errors: INVALID (arguments, on this rank alone; a length above the limit),
 * NO_MEMORY, and those of the collectives.  If one of the first two keeps a
 * rank from receiving, the others get MISMATCH, whose detail names that rank
 * and says that it passed 0.
 */
#ifndef SYMMCOLL_OBJECT_H
#define SYMMCOLL_OBJECT_H

#include <symmcoll/types.h>

SYMMCOLL_BEGIN_DECLS

struct symmcoll_group;

/* The default limit: 1 GiB. */
#define SYMMCOLL_OBJECT_MOST ((size_t)1 << 30)

struct symmcoll_object {
    void *data;    /* only read if the object is sent; may be NULL if empty */
    size_t nbytes; /* 0 is valid */
    uint64_t type; /* for the program's use; sent with the object */
};

/*
 * Collects the objects of all ranks on every rank, by two all_gathers: of the
 * lengths, and of the bytes, padded to the longest.
 * outs  out: one object for each rank of the group, in the order of ranks
 * Source: torch.distributed.all_gather_object.
 * Manual: symmcoll_all_gather_object(3).
 */
SYMMCOLL_CHECKED
symmcoll_status_t symmcoll_all_gather_object(struct symmcoll_group *group,
    struct symmcoll_object *outs, const struct symmcoll_object *in, size_t most,
    const struct symmcoll_call *call);

/*
 * Collects the objects of all ranks at the root, by an all_gather of the
 * lengths and a gather of the bytes.
 * outs  out: one object for each rank of the group, in the order of ranks, at
 *       the root; NULL elsewhere
 * Source: torch.distributed.gather_object.
 */
SYMMCOLL_CHECKED
symmcoll_status_t symmcoll_gather_object(struct symmcoll_group *group,
    struct symmcoll_object *outs, const struct symmcoll_object *in, int root,
    size_t most, const struct symmcoll_call *call);

/*
 * Copies n objects of the root to all ranks, by two broadcasts.
 * objects  n objects, read at the root, out elsewhere
 * n        at least 1, the same on all ranks
 * Source: torch.distributed.broadcast_object_list.
 */
SYMMCOLL_CHECKED
symmcoll_status_t symmcoll_broadcast_object_list(struct symmcoll_group *group,
    struct symmcoll_object *objects, size_t n, int root, size_t most,
    const struct symmcoll_call *call);

/*
 * Sends each rank one of the root's objects, by a broadcast of the greatest
 * length and two scatters.
 * out  out: this rank's object
 * ins  one object for each rank at the root; NULL elsewhere
 * Source: torch.distributed.scatter_object_list.
 */
SYMMCOLL_CHECKED
symmcoll_status_t symmcoll_scatter_object_list(struct symmcoll_group *group,
    struct symmcoll_object *out, const struct symmcoll_object *ins, int root,
    size_t most, const struct symmcoll_call *call);

/*
 * Sends n objects to another rank, which calls symmcoll_recv_object_list() with
 * the same n and tag.  They travel as two messages, which a symmcoll_recv()
 * with this tag would match too: use a tag for objects only.
 * Source: torch.distributed.send_object_list.
 */
SYMMCOLL_CHECKED
symmcoll_status_t symmcoll_send_object_list(struct symmcoll_group *group,
    const struct symmcoll_object *objects, size_t n, int peer, int64_t tag,
    const struct symmcoll_call *call);

/*
 * Receives n objects that a rank sent with symmcoll_send_object_list().
 * objects  out: n objects
 * peer     the sender, or SYMMCOLL_ANY_SOURCE; all objects are from one rank
 * source   out: the sender; NULL: not wanted
 * Source: torch.distributed.recv_object_list.
 */
SYMMCOLL_CHECKED
symmcoll_status_t symmcoll_recv_object_list(struct symmcoll_group *group,
    struct symmcoll_object *objects, size_t n, int peer, int64_t tag,
    int *source, size_t most, const struct symmcoll_call *call);

/* Releases the data of n received objects, and makes them empty; NULL is valid.
 */
SYMMCOLL_API
void symmcoll_objects_free(struct symmcoll_object *objects, size_t n);

SYMMCOLL_END_DECLS

#endif
