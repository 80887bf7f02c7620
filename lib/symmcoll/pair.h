/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Send and receive between two ranks of a group, batches and permutations.
 *
 * A receive matches a message of the same group, sender and tag.  Messages that
 * match the same receives are received in the order in which they were sent.
 * Sends and receives are not ordered with collectives: neither waits for the
 * other.
 *
 *   group    borrowed; must outlive the work
 *   buf      count elements of dtype each, in host memory or on a CUDA device,
 *            on both sides alike; the library's until the operation has ended
 *   count    elements, not bytes; 0 is valid
 *   peer     the group's number of another rank
 *   tag      any number, the same on both sides
 *   call     timeout, label, stream; NULL for the defaults
 *   work     out: release with symmcoll_work_free(); NULL makes the call block
 *
 * Device memory: the transfer starts after the work that each side's stream
 * holds at the call.  The operation ends when the data has arrived: the host
 * waits for that, in a blocking call as in symmcoll_work_wait(), so work that
 * is enqueued later on any stream runs after it.  A capturing stream is
 * UNSUPPORTED.
 *
 * A send ends when its buffer may be reused.  Up to 88 bytes, that is at once;
 * up to 8 KiB, at once if fewer than 8 messages of that size to that peer are
 * unreceived.  Larger messages, and all messages of device memory, end when the
 * receive has taken them.  A rank stores up to 4096 unreceived messages of each
 * sender, and 64 more fit in the queue between them; further sends wait.
 *
 * Errors on this rank alone: INVALID, UNSUPPORTED (a capturing stream, no
 * module for devices), NO_MEMORY (also of the device), SYSTEM (a thread cannot
 * be created), DEVICE (querying the stream at the call failed).  MISMATCH, if
 * count, dtype or the kind of memory differ between the sides: the message is
 * dropped, no buffer is changed and the group remains usable; a sender whose
 * send has not ended gets it too.  TIMEOUT, PEER, CANCELED and DEVICE (with the
 * driver's error) fail the group; ABORTED is returned in a group that had
 * failed before.  INTERNAL: the memory of the message was overwritten.
 * symmcoll_finalize() returns MISMATCH if messages have not been received.
 */
#ifndef SYMMCOLL_PAIR_H
#define SYMMCOLL_PAIR_H

#include <symmcoll/types.h>

SYMMCOLL_BEGIN_DECLS

struct symmcoll_group;
struct symmcoll_work;

/* As the peer of a receive: any sender. */
#define SYMMCOLL_ANY_SOURCE (-1)

/*
 * Sends elements to a rank.
 * Source: torch.distributed.send, isend.     Manual: symmcoll_send(3).
 */
SYMMCOLL_CHECKED
symmcoll_status_t symmcoll_send(struct symmcoll_group *group, const void *buf,
    size_t count, enum symmcoll_dtype dtype, int peer, int64_t tag,
    const struct symmcoll_call *call, struct symmcoll_work **work);

/*
 * Receives elements from one rank or, with SYMMCOLL_ANY_SOURCE, from any: then
 * senders are served in turn, and the messages of each in order.
 *
 * source  out: the group's number of the sender, when the receive has ended;
 *         like buf, the library's until then; NULL: not wanted.  For a work,
 *         symmcoll_work_source() returns it too
 *
 * Source: torch.distributed.recv, irecv.     Manual: symmcoll_recv(3).
 */
SYMMCOLL_CHECKED
symmcoll_status_t symmcoll_recv(struct symmcoll_group *group, void *buf,
    size_t count, enum symmcoll_dtype dtype, int peer, int64_t tag, int *source,
    const struct symmcoll_call *call, struct symmcoll_work **work);

/* One send or receive of a batch.  Numbers are ABI. */
enum symmcoll_pair_kind {
    SYMMCOLL_PAIR_SEND = 1,
    SYMMCOLL_PAIR_RECV = 2
};

struct symmcoll_pair_op {
    size_t size; /* sizeof(struct symmcoll_pair_op) */
    enum symmcoll_pair_kind kind;
    enum symmcoll_dtype dtype;
    void *buf; /* only read by a send */
    size_t count;
    int peer;
    int64_t tag;
};
#define SYMMCOLL_PAIR_OP_INIT                                                  \
    {                                                                          \
        sizeof(struct symmcoll_pair_op), SYMMCOLL_PAIR_SEND, SYMMCOLL_FLOAT32, \
            NULL, 0, 0, 0                                                      \
    }

/*
 * Starts several sends and receives in their order, with one work, which ends
 * when all have: with OK, or with the error of the first that failed.  All
 * arguments are checked before any operation starts.  A batch takes one
 * sequence number.
 *
 * ops    count operations; the first one's size is the distance between them;
 *        copied
 * count  1 or more
 *
 * Source: torch.distributed.batch_isend_irecv.  Manual: symmcoll_batch(3).
 */
SYMMCOLL_CHECKED
symmcoll_status_t symmcoll_batch(struct symmcoll_group *group,
    const struct symmcoll_pair_op *ops, size_t count,
    const struct symmcoll_call *call, struct symmcoll_work **work);

/*
 * Sends each rank's elements to another rank: those of rank r to dst_of[r].
 * Every rank of the group calls it, with the same destinations.
 *
 * out, in  count elements, not overlapping
 * dst_of   one destination for each rank, each rank once (else INVALID, on all
 *          ranks); a rank may send to itself
 *
 * Source: torch.distributed._functional_collectives.permute_tensor.
 * Manual: symmcoll_permute(3).
 */
SYMMCOLL_CHECKED
symmcoll_status_t symmcoll_permute(struct symmcoll_group *group, void *out,
    const void *in, size_t count, enum symmcoll_dtype dtype, const int *dst_of,
    const struct symmcoll_call *call, struct symmcoll_work **work);

SYMMCOLL_END_DECLS

#endif
