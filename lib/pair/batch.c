/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Several sends and receives at once: batch, and permute, in which each rank
 * sends to one rank and receives from one.
 */
#include "base/cancel.h"
#include "coll/coll.h"
#include "group/site.h"
#include "pair/pair.h"

#include <symmcoll/pair.h>

#include <stdio.h>
#include <string.h>
#include <time.h>

#define OWN_NAP_NS 20000 /* interval between two queries of a device */

static const struct symmcoll_pair_op default_op = SYMMCOLL_PAIR_OP_INIT;
/* The struct has had all its members since its first version, so none can be
 * missing. */
static const struct symc_sized op_kind = {.name = "operation",
    .macro = "SYMMCOLL_PAIR_OP_INIT",
    .defaults = &default_op,
    .nbytes = sizeof(default_op),
    .least = sizeof(default_op)};

/* Checks one operation of a batch, which the caller has filled in. In errors
 * and records the call's name replaces a missing label. */
static symmcoll_status_t check(struct symmcoll_group *group, struct symc_op *op,
    const char *where, const struct symmcoll_call *call)
{
    symmcoll_status_t status = symc_coll_prepare(group, op, call);

    if (status == SYMMCOLL_OK)
        status = symc_coll_check_pair(group, op);
    if (op->label[0] == '\0')
        strncpy(op->label, where, sizeof(op->label) - 1);
    return status;
}

/* Puts the name of the call before the error of a failed check. */
static symmcoll_status_t fail_call(const char *where, symmcoll_status_t status)
{
    return status >= 0 ? status : symc_error_prefix(status, "%s", where);
}

static struct symc_op make_op(const struct symmcoll_pair_op *given)
{
    bool sends = given->kind == SYMMCOLL_PAIR_SEND;

    return (struct symc_op){.kind = sends ? SYMC_SEND : SYMC_RECV,
        .dtype = given->dtype,
        .peer = given->peer,
        .count = given->count,
        .in = sends ? given->buf : NULL,
        .out = sends ? NULL : given->buf,
        .tag = given->tag};
}

static symmcoll_status_t check_list(struct symmcoll_group *group,
    const struct symmcoll_pair_op *ops, size_t count)
{
    if (group == NULL)
        return symc_fail(
            SYMMCOLL_ERR_INVALID, "batch: expected a group, found NULL");
    if (ops == NULL || count == 0)
        return symc_fail(SYMMCOLL_ERR_INVALID,
            "batch: expected one operation or more, found none");
    return SYMMCOLL_OK;
}

/* Reads an operation of the list. */
static symmcoll_status_t read_op(
    const struct symmcoll_pair_op *ops, size_t index, struct symc_op *op)
{
    struct symmcoll_pair_op given;
    symmcoll_status_t status =
        symc_sized_read_at(&op_kind, "batch", ops, index, &given);

    if (status != SYMMCOLL_OK)
        return status;
    if (given.kind != SYMMCOLL_PAIR_SEND && given.kind != SYMMCOLL_PAIR_RECV)
        return symc_fail(SYMMCOLL_ERR_INVALID,
            "batch: operation %zu: expected a send or a receive, found %d",
            index, (int)given.kind);
    *op = make_op(&given);
    return SYMMCOLL_OK;
}

symmcoll_status_t symmcoll_batch(struct symmcoll_group *group,
    const struct symmcoll_pair_op *ops, size_t count,
    const struct symmcoll_call *call, struct symmcoll_work **work)
{
    symmcoll_status_t status = check_list(group, ops, count);
    struct symc_batch *batch;

    if (status != SYMMCOLL_OK)
        return status;
    batch = symc_batch_create(group, count, SYMC_PAIR_USER);
    if (batch == NULL)
        return SYMMCOLL_ERR_NO_MEMORY;
    for (size_t i = 0; i < count && status == SYMMCOLL_OK; i++) {
        char where[40];

        status = read_op(ops, i, symc_batch_op(batch, i));
        if (status != SYMMCOLL_OK)
            break;
        snprintf(where, sizeof(where), "batch: operation %zu", i);
        status = fail_call(
            where, check(group, symc_batch_op(batch, i), "batch", call));
    }
    if (status == SYMMCOLL_OK)
        return symc_batch_start(batch, call, work);
    symc_batch_free(batch);
    return symc_coll_refuse(status, work);
}

/* ---- permute ---- */

/* Checks that each rank occurs once; source (out): the rank that sends to this
 * one. */
static symmcoll_status_t check_permutation(
    const struct symmcoll_group *group, const int *dst_of, int *source)
{
    *source = -1;
    if (dst_of == NULL)
        return symc_fail(SYMMCOLL_ERR_INVALID,
            "permute: expected a destination for each rank, found NULL");
    for (int r = 0; r < symc_group_size(group); r++) {
        if (dst_of[r] < 0 || dst_of[r] >= symc_group_size(group))
            return symc_fail(SYMMCOLL_ERR_INVALID,
                "permute: expected a destination of 0 to %d for rank %d, found "
                "%d",
                symc_group_size(group) - 1, r, dst_of[r]);
        for (int s = 0; s < r; s++) {
            if (dst_of[s] == dst_of[r])
                return symc_fail(SYMMCOLL_ERR_INVALID,
                    "permute: expected each rank once, found %d of ranks %d "
                    "and %d",
                    dst_of[r], s, r);
        }
        if (dst_of[r] == symc_group_rank(group))
            *source = r;
    }
    return SYMMCOLL_OK;
}

/* Makes and checks the two operations of a permute, the send first. No receive
 * of the program matches them. A rank may send to itself, and then also in
 * place. */
static symmcoll_status_t check_ends(struct symmcoll_group *group,
    const struct symc_op *both, int dst, int source,
    const struct symmcoll_call *call, struct symc_op ends[2])
{
    uintptr_t out = (uintptr_t)both->out, in = (uintptr_t)both->in;
    bool own = source == symc_group_rank(group);
    char memories[2][SYMC_MEMORY_TEXT];
    size_t nbytes;

    for (int i = 0; i < 2; i++) {
        struct symc_op *op = &ends[i];
        symmcoll_status_t status;

        *op = *both;
        op->kind = i == 0 ? SYMC_SEND : SYMC_RECV;
        op->peer = i == 0 ? dst : source;
        op->in = i == 0 ? both->in : NULL;
        op->out = i == 0 ? NULL : both->out;
        status = own ? symc_coll_prepare(group, op, call)
                     : check(group, op, "permute", call);
        if (status == SYMMCOLL_OK && own && op->memory != SYMC_MEMORY_HOST)
            status = symc_group_place_pair(group, op);
        if (status != SYMMCOLL_OK)
            return fail_call("permute", status);
    }
    if (own && both->count > 0 &&
        (ends[0].memory != ends[1].memory || ends[0].device != ends[1].device))
        return symc_fail(SYMMCOLL_ERR_INVALID,
            "permute: expected out and in of a rank that sends to itself in one "
            "memory, found in at %p in %s and out at %p in %s",
            both->in,
            symc_memory_format(ends[0].memory, ends[0].device, memories[0]),
            both->out,
            symc_memory_format(ends[1].memory, ends[1].device, memories[1]));
    nbytes = both->count * ends[0].elem;
    if (out < in + nbytes && in < out + nbytes && !(own && out == in))
        return symc_fail(SYMMCOLL_ERR_INVALID,
            "permute: expected out and in (%zu bytes each) apart, found out at "
            "byte %td of in",
            nbytes, (ptrdiff_t)(out - in));
    return SYMMCOLL_OK;
}

/* Waits until the stream of a site has reached its present position. Ends when
 * the group fails or the operation's timeout expires. */
static symmcoll_status_t await_stream(struct symmcoll_group *group,
    const struct symc_op *op, const struct symc_site *site)
{
    const int64_t deadline = symc_deadline_ns(symc_now_ns(), op->timeout_ns);
    const struct timespec nap = {.tv_nsec = OWN_NAP_NS};
    void *mark = NULL;
    int64_t ns = 0;
    symmcoll_status_t status = symc_site_mark(site, &mark);

    if (status == SYMMCOLL_OK)
        status = symc_site_elapsed(site, mark, mark, &ns);
    while (status == SYMMCOLL_IN_PROGRESS) {
        if (symc_members_failed(symc_group_members(group)))
            status = symc_members_status(symc_group_members(group), op);
        else if (symc_now_ns() >= deadline)
            status = symc_fail(SYMMCOLL_ERR_TIMEOUT,
                "permute: expected stream %p to have come to it in %.3g s, found "
                "that what it had before has not ended",
                op->stream, (double)op->timeout_ns / (double)SYMC_NS_PER_S);
        else if (nanosleep(&nap, NULL) == 0)
            status = symc_site_elapsed(site, mark, mark, &ns);
    }
    symc_site_unmark(site, mark);
    return status;
}

/* Copies what a rank sends to itself on a device; the copy has ended on return,
 * like a message of another rank. Nothing is enqueued before the stream is
 * idle, so that a timeout changes nothing. */
static symmcoll_status_t copy_on_device(struct symmcoll_group *group,
    const struct symc_op *op, const void *in, size_t nbytes)
{
    int cancel = symc_cancel_disable();
    struct symc_site *site = NULL;
    symmcoll_status_t status = symc_site_open(
        "permute", group, op->device, op->stream, op->out, false, &site);

    if (status != SYMMCOLL_OK)
        goto close_site;
    status = await_stream(group, op, site);
    if (status != SYMMCOLL_OK)
        goto close_site;
    status = symc_site_move(site, op->out, in, nbytes);
    if (status != SYMMCOLL_OK)
        goto close_site;
    status = await_stream(group, op, site);

close_site:
    symc_site_close(site);
    symc_cancel_restore(cancel);
    return status;
}

/* Copies what a rank sends to itself, in any memory. On an error frees the
 * work, which has ended. */
static symmcoll_status_t copy_own(struct symmcoll_group *group,
    const struct symc_op *op, const void *in, struct symmcoll_work **work)
{
    size_t nbytes = op->count * op->elem;
    symmcoll_status_t status;
    struct symc_error error;

    if (op->out == in || nbytes == 0)
        return SYMMCOLL_OK;
    if (op->memory == SYMC_MEMORY_HOST) {
        memcpy(op->out, in, nbytes);
        return SYMMCOLL_OK;
    }
    status = copy_on_device(group, op, in, nbytes);
    if (status == SYMMCOLL_OK || work == NULL)
        return status;
    symc_error_keep(&error, status);
    symmcoll_work_free(*work);
    *work = NULL;
    return symc_error_return(&error);
}

symmcoll_status_t symmcoll_permute(struct symmcoll_group *group, void *out,
    const void *in, size_t count, enum symmcoll_dtype dtype, const int *dst_of,
    const struct symmcoll_call *call, struct symmcoll_work **work)
{
    struct symc_op both = {
        .dtype = dtype, .count = count, .out = out, .in = in};
    struct symc_op ends[2];
    struct symc_batch *batch;
    symmcoll_status_t status;
    int source;
    bool own;

    if (group == NULL)
        return symc_fail(
            SYMMCOLL_ERR_INVALID, "permute: expected a group, found NULL");
    if (!symc_group_is_usable(group))
        return symc_coll_refuse(symc_group_refuse(group, SYMC_SEND), work);
    status = check_permutation(group, dst_of, &source);
    if (status == SYMMCOLL_OK)
        status = check_ends(
            group, &both, dst_of[symc_group_rank(group)], source, call, ends);
    if (status != SYMMCOLL_OK)
        return status;
    own = source == symc_group_rank(group);
    batch = symc_batch_create(group, own ? 0 : 2, SYMC_PAIR_PERMUTE);
    if (batch == NULL)
        return SYMMCOLL_ERR_NO_MEMORY;
    for (size_t i = 0; i < 2 && !own; i++)
        *symc_batch_op(batch, i) = ends[i];
    /* After the start: a refused call writes nothing. */
    status = symc_batch_start(batch, call, work);
    return status == SYMMCOLL_OK && own ? copy_own(group, &ends[1], in, work)
                                        : status;
}
