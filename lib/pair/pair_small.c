/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A small blocking send, from the call to the peer's cache line: its message is
 * written before anything else is done, and the recorder's entry while it
 * travels.  A small blocking receive is in pair.c, for what it does before its
 * message is there costs nothing; symc_pairs_recv_small() is its end.
 *
 * What holds of the long way holds of both:
 *
 *   order      under the lock of the rank's sends and receives; a send takes a
 *              slot only where none that waits could have it, and a receive the
 *              next message of its peer only where none of that is kept and
 *              nothing of this rank waits
 *   matching   by group, space and tag; a message that differs in any of these,
 *              in count or in type goes the long way
 *   failures   a group that has failed, a bad argument and a call on the callback
 *              thread go the long way, which says what is wrong; no number has
 *              been taken by then (C6)
 *   waiting    none: a send that finds no room, and a receive whose message does
 *              not come in a moment, are started and wait as any other, with
 *              their deadline, the watch for deaths, and all others moved forward
 *   recorder   the same entry, with its number, peer, times and end
 */
#include "base/dtype.h"
#include "pair/pair.h"

/* Whether the long way would accept the call, too, and do no more than to send
 * so many bytes.  Whatever may be wrong is looked at there; so is a peer that is
 * this rank, for it has no ring to itself. */
static inline bool is_usual(
    struct symmcoll_group *group, const void *buf, size_t nbytes, int peer)
{
    return peer >= 0 && peer < group->size && (buf != NULL || nbytes == 0) &&
           !group->world->inspects &&
           symc_registry_is_hosts(&group->world->registry, buf) &&
           group->world->fake == NULL &&
           atomic_load_explicit(
               &group->members.stopped, memory_order_acquire) == 0 &&
           !symc_group_tells(group) &&
           !symc_callbacks_inside_queue(
               &group->queue->origin->callbacks, group->queue);
}

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
        .seq = symc_group_next_pair(group),
        .timeout_ns =
            atomic_load_explicit(&group->timeout_ns, memory_order_relaxed)};
    struct symc_trace_entry *entry = symc_group_record_pair(group, &op);

    symc_trace_complete(entry, symc_ticks());
}

bool symc_group_send_small(struct symmcoll_group *group, const void *buf,
    size_t count, enum symmcoll_dtype dtype, int peer, int64_t tag)
{
    const struct symc_dtype *type = symc_dtype_find(dtype);
    struct symc_pair_envelope envelope;
    struct symc_pairs *pairs;
    bool sent;

    if (group == NULL || *group->alive != 1 || type == NULL ||
        count > SYMC_PAIR_SMALL / type->size ||
        !is_usual(group, buf, count * type->size, peer))
        return false;
    envelope = (struct symc_pair_envelope){.key = group->pairs.key,
        .tag = tag,
        .count = count,
        .dtype = (uint8_t)dtype,
        .space = SYMC_PAIR_USER};
    pairs = group->world->pairs;
    symc_pairs_enter(pairs);
    sent = symc_pairs_send_small(
        pairs, group->global[peer], &envelope, buf, count * type->size);
    if (sent)
        record(group, buf, &envelope, type->size, peer);
    symc_pairs_leave(pairs);
    return sent;
}
