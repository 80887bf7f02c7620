/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Sends and receives between two ranks of a group, and what consists of them.
 *
 * A receive matches a message of the same group, sender and tag; messages that
 * match the same receives are received in the order in which they were sent.
 * Sends and receives do not wait for collectives, nor collectives for them.
 *
 *   group    borrowed; must outlive the work
 *   buf      count elements of dtype each, in host memory or of a CUDA device, on
 *            both sides alike; the library's until the operation has ended
 *   count    elements, not bytes; 0 is valid
 *   peer     the group's number of another rank
 *   tag      any number, the same on both sides
 *   call     timeout, label, stream; NULL for the defaults
 *   work     out: release with symmcoll_work_free(); NULL makes the call block
 *
 * Of device memory a message is after what the stream of each side has when it calls.
 * It has ended when it is there: the host waits, a call as well as a wait for a work,
 * and what any stream has later is after it.  A stream cannot be captured.
 *
 * A send has ended when its buffer may be changed.  Up to 88 bytes that is at
 * once, and up to 8 KiB where fewer than 8 messages of that size have not been
 * received by that peer; larger ones, and those of device memory, end when the
 * receive has taken them.  A
 * rank keeps up to 4096 messages of each sender that it has not received, and
 * there is room for 64 more; then sends wait.
 *
 * Errors: INVALID, UNSUPPORTED (a stream that is captured, no module for devices),
 * NO_MEMORY (also of the device), SYSTEM (no thread), DEVICE (of a call that asks how
 * far the stream is) on this rank alone; MISMATCH
 * where count, dtype or the kind of memory differ: the message is dropped, no buffer
 * has changed, and the group is usable; a sender whose send has not ended gets it
 * too; TIMEOUT, PEER, CANCELED and DEVICE (what the driver said), which fail the
 * group; ABORTED in a group that had failed before.
 * INTERNAL: a stray store has changed the message.
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

/* One send or receive of a batch.  Numbers are ABI. */
enum symmcoll_pair_kind {
    SYMMCOLL_PAIR_SEND = 1,
    SYMMCOLL_PAIR_RECV = 2
};

struct symmcoll_pair_op {
    size_t size; /* sizeof(struct symmcoll_pair_op) */
    enum symmcoll_pair_kind kind;
    enum symmcoll_dtype dtype;
    void *buf; /* a send reads it only */
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
 * Start several sends and receives at once, in their order, with one work, which
 * ends when all have: with OK, or the error of the first that failed.  All are
 * checked before any is started.  They take one sequence number.
 *
 * ops  count of them, at least one, as far apart as the first one's size; copied
 *
 * Source: torch.distributed.batch_isend_irecv.  Manual: symmcoll_batch(3).
 */
SYMMCOLL_CHECKED
symmcoll_status_t symmcoll_batch(struct symmcoll_group *group,
    const struct symmcoll_pair_op *ops, size_t count,
    const struct symmcoll_call *call, struct symmcoll_work **work);

/*
 * Each rank sends its elements to another one: those of rank r to dst_of[r].
 * Every rank of the group calls it, with the same destinations.
 *
 * out, in  count elements, not overlapping
 * dst_of   of each rank, each once (else INVALID, on all ranks); its own number
 *          is valid
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
