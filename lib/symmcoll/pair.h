/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Sends and receives between two ranks of a group, and what consists of them.
 *
 * A receive matches a message of the same group, sender and tag; messages that
 * match the same receives are received in the order in which they were sent.
 * Sends and receives do not wait for collectives, nor collectives for them.
 *
 *   group    borrowed; must outlive the work
 *   buf      count elements of dtype each, in host memory; the library's until
 *            the operation has ended
 *   count    elements, not bytes; 0 is valid
 *   peer     the group's number of another rank
 *   tag      any number, the same on both sides
 *   call     timeout, label; NULL for the defaults
 *   work     out: release with symmcoll_work_free(); NULL makes the call block
 *
 * A send has ended when its buffer may be changed.  Up to 88 bytes that is at
 * once, and up to 8 KiB where fewer than 8 messages of that size have not been
 * received by that peer; larger ones end when the receive has taken them.  A
 * rank keeps up to 4096 messages of each sender that it has not received, and
 * there is room for 64 more; then sends wait.
 *
 * Errors: INVALID, UNSUPPORTED (a backend of device memory without it),
 * NO_MEMORY, SYSTEM (no thread for a work) on this rank alone; MISMATCH where
 * count or dtype differ: the message is dropped, no buffer has changed, and the
 * group is usable; a sender whose send has not ended gets it too; TIMEOUT, PEER
 * and CANCELED, which fail the group; ABORTED in a group that had failed before.
 * symmcoll_finalize() returns MISMATCH where messages have not been received.
 */
#ifndef SYMMCOLL_PAIR_H
#define SYMMCOLL_PAIR_H

#include <symmcoll/types.h>

SYMMCOLL_BEGIN_DECLS

struct symmcoll_group;
struct symmcoll_work;

/* A peer of a receive: whoever sends. */
#define SYMMCOLL_ANY_SOURCE (-1)

/*
 * Send to a rank.
 * Source: torch.distributed.send, isend.     Manual: symmcoll_send(3).
 */
SYMMCOLL_CHECKED
symmcoll_status_t symmcoll_send(struct symmcoll_group *group, const void *buf,
    size_t count, enum symmcoll_dtype dtype, int peer, int64_t tag,
    const struct symmcoll_call *call, struct symmcoll_work **work);

/*
 * Receive from a rank, or from any: then senders take turns, and those of one
 * sender are in order.
 *
 * source  out, the number of the rank it is from, once the receive has ended;
 *         as buf the library's until then; NULL: not asked for.  Of a work
 *         symmcoll_work_source() returns it too.
 *
 * Source: torch.distributed.recv, irecv.     Manual: symmcoll_recv(3).
 */
SYMMCOLL_CHECKED
symmcoll_status_t symmcoll_recv(struct symmcoll_group *group, void *buf,
    size_t count, enum symmcoll_dtype dtype, int peer, int64_t tag, int *source,
    const struct symmcoll_call *call, struct symmcoll_work **work);

SYMMCOLL_END_DECLS

#endif
