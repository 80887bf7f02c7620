/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Exchanges the calls of all ranks within a join, so that a rank without more
 * inputs makes the calls of the others, and ranks that make different calls get
 * an error.  uneven.c begins and ends a join.
 */
#include "ddp/reducer.h"

#include <symmcoll/collectives.h>
#include <symmcoll/group.h>

#include <string.h>

/* Makes an open coalescing region of the thread refuse the collective. */
static const struct symmcoll_call outside = SYMMCOLL_CALL_INIT;

static const char *name_call(const struct symc_join_call *call)
{
    return call->kind == SYMC_JOIN_BEGIN ? "begins a pass" : "calls forward";
}

/* Fails because two ranks with inputs make different calls. */
static symmcoll_status_t report_difference(
    const struct symmcoll_join *join, int rank, int first)
{
    const struct symc_join_call *one = &join->calls[rank];
    const struct symc_join_call *other = &join->calls[first];

    return symc_fail(SYMMCOLL_ERR_MISMATCH,
        "join: rank %d %s of reducer %lld with sync %lld, rank %d %s of reducer "
        "%lld with sync %lld",
        rank, name_call(one), (long long)one->reducer, (long long)one->sync,
        first, name_call(other), (long long)other->reducer,
        (long long)other->sync);
}

/* Returns the lowest rank in a state; the size of the group: none. */
static int find_state(const struct symmcoll_join *join, int64_t state)
{
    int r = 0, size = symmcoll_group_size(join->group);

    while (r < size && join->calls[r].state != state)
        r++;
    return r;
}

/* Compares the calls of all ranks, and counts the ranks with inputs. */
static symmcoll_status_t compare(struct symmcoll_join *join)
{
    int size = symmcoll_group_size(join->group);
    int first = find_state(join, SYMC_JOIN_ACTIVE);
    int ended = find_state(join, SYMC_JOIN_ENDED);
    int failed = find_state(join, SYMC_JOIN_FAILED);

    if (failed < size)
        return symc_fail(SYMMCOLL_ERR_CANCELED,
            "join: rank %d has ended it within a pass or after an error",
            failed);
    if (join->stops_early && first < size && ended < size)
        return symc_fail(
            SYMMCOLL_ERR_CANCELED, "join: rank %d has no more inputs", ended);
    join->nactive = 0;
    for (int r = first; r < size; r++) {
        if (join->calls[r].state != SYMC_JOIN_ACTIVE)
            continue;
        if (memcmp(&join->calls[r], &join->calls[first],
                sizeof(*join->calls)) != 0)
            return report_difference(join, r, first);
        join->nactive++;
        join->source = r;
    }
    return SYMMCOLL_OK;
}

symmcoll_status_t symc_join_exchange(struct symmcoll_join *join,
    const struct symc_join_call *own, struct symc_join_call *call)
{
    symmcoll_status_t status;

    if (join->error.status != SYMMCOLL_OK)
        return symc_error_return(&join->error);
    status = symmcoll_all_gather(join->group, join->calls, own,
        sizeof(*own) / sizeof(int64_t), SYMMCOLL_INT64, &outside, NULL);
    if (status == SYMMCOLL_OK)
        status = compare(join);
    symc_error_keep(&join->error, status);
    if (status == SYMMCOLL_OK && join->nactive > 0)
        *call = join->calls[join->source];
    return status;
}

symmcoll_status_t symc_join_check_stream(
    struct symmcoll_reducer *reducer, const char *where)
{
    symmcoll_status_t status = symc_take_stream(reducer, where);

    if (status == SYMMCOLL_OK && reducer->captured)
        status = symc_fail(SYMMCOLL_ERR_UNSUPPORTED,
            "%s: expected a stream that is not captured, within a join, found "
            "it is",
            where);
    return status;
}

/* Fails if another reducer of the join is in a pass: a rank without inputs makes
 * passes one after another. */
static symmcoll_status_t check_others(
    const struct symmcoll_reducer *reducer, const char *where)
{
    const struct symmcoll_join *join = reducer->join;

    for (int i = 0; i < join->nreducers; i++)
        if (join->reducers[i] != reducer &&
            join->reducers[i]->backward != SYMC_BACKWARD_NONE)
            return symc_fail(SYMMCOLL_ERR_INVALID,
                "%s: expected no other reducer of the join in a pass, found "
                "reducer %d in one",
                where, i);
    return SYMMCOLL_OK;
}

symmcoll_status_t symc_join_take_turn(
    struct symmcoll_reducer *reducer, enum symc_join_kind kind, int sync)
{
    struct symmcoll_join *join = reducer->join;
    struct symc_join_call call = {
        .state = SYMC_JOIN_ACTIVE, .kind = kind, .sync = sync != 0};
    const char *where =
        kind == SYMC_JOIN_BEGIN ? "reducer_begin" : "reducer_forward";
    symmcoll_status_t status;

    if (join == NULL)
        return SYMMCOLL_OK;
    if (join->error.status != SYMMCOLL_OK)
        return symc_error_return(&join->error);
    /* What this rank refuses alone is refused before the other ranks wait. */
    status = check_others(reducer, where);
    if (status == SYMMCOLL_OK)
        status = symc_join_check_stream(reducer, where);
    if (status != SYMMCOLL_OK)
        return status;
    while (join->reducers[call.reducer] != reducer)
        call.reducer++;
    status = symc_join_exchange(join, &call, &call);
    if (status == SYMMCOLL_OK && kind == SYMC_JOIN_BEGIN)
        reducer->factor = symc_hook_factor(
            reducer, join->divides_by_active ? join->nactive : reducer->size);
    return status;
}
