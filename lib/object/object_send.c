/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Objects between two ranks: a message with the lengths and one with the bytes.
 * Both sides exchange the second message even if the first failed, so that no
 * message remains for a later receive to match.
 */
#include "object/object_many.h"
#include "run/work.h"

#include <symmcoll/pair.h>
#include <symmcoll/work.h>

#include <math.h>
#include <stdlib.h>

symmcoll_status_t symmcoll_send_object_list(struct symmcoll_group *group,
    const struct symmcoll_object *objects, size_t n, int peer, int64_t tag,
    const struct symmcoll_call *call)
{
    struct symc_object_call it = {.group = group,
        .call = call,
        .where = "send_object_list",
        .most = (size_t)INT64_MAX};
    symmcoll_status_t status = symc_objects_begin(&it, objects, n, peer, true);
    symmcoll_status_t last;
    int64_t *lengths;
    size_t total;
    char *packed;

    if (status != SYMMCOLL_OK)
        return status;
    lengths = symc_object_alloc(&it, n, sizeof(*lengths));
    if (lengths == NULL)
        return symc_object_end(&it, SYMMCOLL_OK);
    symc_objects_lengths(lengths, objects, n);
    total = symc_objects_total(&it, lengths, n, symc_group_rank(group));
    packed = symc_object_alloc(&it, 1, total);
    if (packed == NULL) {
        free(lengths);
        return symc_object_end(&it, SYMMCOLL_OK);
    }
    symc_objects_pack(packed, objects, n);
    status =
        symmcoll_send(group, lengths, n, SYMMCOLL_INT64, peer, tag, call, NULL);
    if (status == SYMMCOLL_OK || status == SYMMCOLL_ERR_MISMATCH) {
        last = symmcoll_send(
            group, packed, total, SYMMCOLL_UINT8, peer, tag, call, NULL);
        status = last != SYMMCOLL_OK ? last : status;
    }
    free(packed);
    free(lengths);
    return symc_object_end(&it, status);
}

/* Receives the lengths. source (out): the sender, also if the lengths do not
 * match. */
static symmcoll_status_t receive_lengths(struct symc_object_call *it,
    int64_t *lengths, size_t n, int peer, int64_t tag, int *source)
{
    struct symmcoll_work *work;
    symmcoll_status_t status;

    *source = peer;
    if (peer != SYMMCOLL_ANY_SOURCE)
        return symmcoll_recv(it->group, lengths, n, SYMMCOLL_INT64, peer, tag,
            NULL, it->call, NULL);
    status = symmcoll_recv(it->group, lengths, n, SYMMCOLL_INT64, peer, tag,
        NULL, it->call, &work);
    if (status != SYMMCOLL_OK)
        return status;
    status = symmcoll_work_wait(work, (double)INFINITY);
    *source = work->pair.source < 0
                  ? -1
                  : symmcoll_group_rank_of(it->group, work->pair.source);
    symmcoll_work_free(work);
    return status;
}

/* Receives the bytes; with a problem, an empty message. */
static symmcoll_status_t receive_bytes(struct symc_object_call *it,
    struct symmcoll_object *objects, size_t n, int source, int64_t tag,
    const int64_t *lengths)
{
    size_t total = symc_objects_total(it, lengths, n, source);
    char *packed = symc_object_alloc(it, 1, total);
    symmcoll_status_t status;

    symc_objects_make(it, objects, n, lengths);
    status = symc_object_end(
        it, symmcoll_recv(it->group, packed,
                it->problem.status == SYMMCOLL_OK ? total : 0, SYMMCOLL_UINT8,
                source, tag, NULL, it->call, NULL));
    if (status == SYMMCOLL_OK)
        symc_objects_unpack(objects, n, packed);
    else
        symmcoll_objects_free(objects, n);
    free(packed);
    return status;
}

symmcoll_status_t symmcoll_recv_object_list(struct symmcoll_group *group,
    struct symmcoll_object *objects, size_t n, int peer, int64_t tag,
    int *source, size_t most, const struct symmcoll_call *call)
{
    struct symc_object_call it = {.group = group,
        .call = call,
        .where = "recv_object_list",
        .most = most};
    symmcoll_status_t status = symc_objects_begin(
        &it, objects, n, peer == SYMMCOLL_ANY_SOURCE ? 0 : peer, false);
    int64_t *lengths;
    int from;

    if (status != SYMMCOLL_OK)
        return status;
    lengths = symc_object_alloc(&it, n, sizeof(*lengths));
    if (lengths == NULL)
        return symc_object_end(&it, SYMMCOLL_OK);
    status = receive_lengths(&it, lengths, n, peer, tag, &from);
    if (status == SYMMCOLL_ERR_MISMATCH && from >= 0)
        symc_object_refuse(&it, status);
    if (status == SYMMCOLL_OK || it.problem.status != SYMMCOLL_OK)
        status = receive_bytes(&it, objects, n, from, tag, lengths);
    if (status == SYMMCOLL_OK && source != NULL)
        *source = from;
    free(lengths);
    return status;
}
