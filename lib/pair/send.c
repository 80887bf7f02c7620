/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * send and recv.
 */
#include "coll/coll.h"
#include "pair/pair.h"
#include "run/call.h"

#include <symmcoll/pair.h>

/* Checks that the peer of a send or receive is another member, or for a
 * receive, any source. where names the call. */
static symmcoll_status_t check_peer(
    const struct symmcoll_group *group, const char *where, bool sends, int peer)
{
    bool any = peer == SYMMCOLL_ANY_SOURCE;

    if (symc_group_size(group) < 2)
        return symc_fail(SYMMCOLL_ERR_INVALID,
            "%s: expected a group of two ranks or more, found one", where);
    if (peer == symc_group_rank(group))
        return symc_fail(SYMMCOLL_ERR_INVALID,
            "%s: expected another rank than this one, found %d", where, peer);
    if (peer < 0 || peer >= symc_group_size(group)) {
        if (!sends && any)
            return SYMMCOLL_OK;
        return symc_fail(SYMMCOLL_ERR_INVALID,
            "%s: expected a peer of 0 to %d%s, found %d", where,
            symc_group_size(group) - 1, sends ? "" : ", or SYMMCOLL_ANY_SOURCE",
            peer);
    }
    return SYMMCOLL_OK;
}

symmcoll_status_t symc_coll_check_pair(
    struct symmcoll_group *group, struct symc_op *op)
{
    const char *where = symc_kind_name(op->kind);
    size_t largest;
    symmcoll_status_t status =
        check_peer(group, where, op->kind == SYMC_SEND, op->peer);

    if (status != SYMMCOLL_OK)
        return status;
    largest = op->memory == SYMC_MEMORY_HOST
                  ? SYMC_PAIR_LARGEST
                  : (SYMC_PAIR_LARGEST / SYMC_PAIR_CHUNK - 1) *
                        symc_group_config(group)->cuda_message_chunk;
    if (op->count * op->elem > largest)
        return symc_fail(SYMMCOLL_ERR_INVALID,
            "%s: expected a message of at most %zu bytes, found %zu", where,
            largest, op->count * op->elem);
    return op->memory == SYMC_MEMORY_HOST ? status
                                          : symc_group_place_pair(group, op);
}

static symmcoll_status_t run(struct symmcoll_group *group, struct symc_op *op,
    const struct symmcoll_call *call, int *source, struct symmcoll_work **work)
{
    symmcoll_status_t status = symc_coll_prepare(group, op, call);

    if (status == SYMMCOLL_OK)
        status = symc_coll_check_pair(group, op);
    if (status != SYMMCOLL_OK)
        return symc_coll_refuse(status, work);
    status = symc_group_pair(group, op, source, work);
    symc_run_put_sequence(
        call, op, work != NULL && status == SYMMCOLL_OK ? *work : NULL);
    return status;
}

symmcoll_status_t symmcoll_send(struct symmcoll_group *group, const void *buf,
    size_t count, enum symmcoll_dtype dtype, int peer, int64_t tag,
    const struct symmcoll_call *call, struct symmcoll_work **work)
{
    struct symc_op made;

    if (call == NULL && work == NULL &&
        symc_group_send_small(group, buf, count, dtype, peer, tag))
        return SYMMCOLL_OK;
    made = (struct symc_op){.kind = SYMC_SEND,
        .dtype = dtype,
        .peer = peer,
        .count = count,
        .in = buf,
        .tag = tag};
    return run(group, &made, call, NULL, work);
}

symmcoll_status_t symmcoll_recv(struct symmcoll_group *group, void *buf,
    size_t count, enum symmcoll_dtype dtype, int peer, int64_t tag, int *source,
    const struct symmcoll_call *call, struct symmcoll_work **work)
{
    struct symc_op made = {.kind = SYMC_RECV,
        .dtype = dtype,
        .peer = peer,
        .count = count,
        .out = buf,
        .tag = tag};

    return run(group, &made, call, source, work);
}
