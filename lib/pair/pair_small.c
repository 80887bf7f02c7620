/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The fast path of a small blocking send, from the call to the peer's cache line:
 * the message is written before anything else is done, and the recorder's entry
 * while it travels.  A small blocking receive is in pair.c, since its work before
 * the message arrives costs no time; it ends with symc_pairs_recv_small().
 *
 * Both keep the rules of symc_group_pair(), the general path:
 *
 *   order      under the lock of the rank's sends and receives; a send takes a
 *              slot only if no waiting send could use it, and a receive takes the
 *              next message of its peer only if no earlier one is kept and no
 *              receive of this rank waits
 *   matching   by group, space and tag; a message that differs in one of these,
 *              in count or in type takes the general path
 *   failures   a failed group, an invalid argument and a call on the callback
 *              thread take the general path, which returns the error; no number
 *              has been taken by then (C6)
 *   waiting    none: a send without a free slot, and a receive without a message
 *              after a short poll, are started and wait on the general path, with
 *              their deadline, the detection of dead peers and progress of the
 *              rank's other operations
 *   recorder   the same entry, with its number, peer, times and end
 */
#include "base/dtype.h"
#include "pair/pair.h"

/* Returns whether symc_group_pair() would accept the call, and only send nbytes. A
 * call that may be invalid takes the general path, and so does a send to this rank
 * itself, which has no ring to itself. */
static inline bool is_usual(
    struct symmcoll_group *group, const void *buf, size_t nbytes, int peer)
{
    return peer >= 0 && peer < symc_group_size(group) &&
           (buf != NULL || nbytes == 0) && !symc_group_world(group)->inspects &&
           symc_registry_is_hosts(&symc_group_world(group)->registry, buf) &&
           symc_group_world(group)->fake == NULL &&
           !symc_group_has_stopped(group) &&
           !symc_run_notifies(symc_group_runner(group)) &&
           !symc_queue_in_callback(symc_group_queue(group));
}

/* Records a send that has ended. */
static void record(struct symmcoll_group *group, const void *buf,
    const struct symc_pair_envelope *envelope, size_t elem, int peer)
{
    const struct symc_op op = {.kind = SYMC_SEND,
        .dtype = (enum symmcoll_dtype)envelope->dtype,
        .peer = peer,
        .count = envelope->count,
        .in = buf,
        .elem = (uint16_t)elem,
        .tag = envelope->tag,
        .seq = symc_run_next_pair(symc_group_runner(group)),
        .timeout_ns = symc_group_timeout(group)};
    struct symc_trace_entry *entry =
        symc_run_record_pair(symc_group_runner(group), &op);

    symc_trace_complete(entry, symc_ticks());
}

bool symc_group_send_small(struct symmcoll_group *group, const void *buf,
    size_t count, enum symmcoll_dtype dtype, int peer, int64_t tag)
{
    const struct symc_dtype *type = symc_dtype_find(dtype);
    struct symc_pair_envelope envelope;
    struct symc_pairs *pairs;
    bool sent;

    if (group == NULL || !symc_group_is_usable(group) || type == NULL ||
        count > SYMC_PAIR_SMALL / type->size ||
        !is_usual(group, buf, count * type->size, peer))
        return false;
    envelope = (struct symc_pair_envelope){.key = symc_group_pair_key(group),
        .tag = tag,
        .count = count,
        .dtype = (uint8_t)dtype,
        .space = SYMC_PAIR_USER};
    pairs = symc_group_world(group)->pairs;
    symc_pairs_enter(pairs);
    sent = symc_pairs_send_small(pairs, symc_group_global(group)[peer],
        &envelope, buf, count * type->size);
    if (sent)
        record(group, buf, &envelope, type->size, peer);
    symc_pairs_leave(pairs);
    return sent;
}
