/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * all_gather_object and gather_object. All ranks exchange the lengths first, so
 * that each can compute the padded length and allocate its memory before the
 * bytes arrive.
 */
#include "object/object.h"

#include <stdlib.h>
#include <string.h>

/* Exchanges the lengths of all ranks' objects; the caller frees them. */
static symmcoll_status_t exchange_lengths(struct symc_object_call *it,
    const struct symmcoll_object *in, int64_t **lengths)
{
    size_t size = (size_t)symc_group_size(it->group);
    int64_t own = symc_object_length(in->nbytes);
    symmcoll_status_t status;

    *lengths = symc_object_alloc(it, size, sizeof(**lengths));
    status = symc_object_end(it, symmcoll_all_gather(it->group, *lengths, &own,
                                     it->problem.status == SYMMCOLL_OK ? 1 : 0,
                                     SYMMCOLL_INT64, it->call, NULL));
    if (status == SYMMCOLL_OK)
        return status;
    free(*lengths);
    *lengths = NULL;
    return status;
}

/* Returns the greatest length, with an object's head. */
static size_t find_padded(struct symc_object_call *it, const int64_t *lengths)
{
    size_t most = 0;

    for (int r = 0; r < symc_group_size(it->group); r++) {
        size_t nbytes = symc_object_read(it, lengths[r], r);

        most = nbytes > most ? nbytes : most;
    }
    return most + SYMC_OBJECT_HEAD; /* lengths have 63 bits: no overflow */
}

/* Allocates memory for all objects; without memory, there is a problem. */
static void make_all(struct symc_object_call *it, struct symmcoll_object *outs,
    const int64_t *lengths)
{
    for (int r = 0; r < symc_group_size(it->group); r++)
        symc_object_make(it, &outs[r], (size_t)lengths[r]);
}

/* Exchanges the bytes. Ranks with outs receive them; root -1: all ranks do. */
static symmcoll_status_t exchange_bytes(struct symc_object_call *it,
    struct symmcoll_object *outs, const struct symmcoll_object *in, int root,
    const int64_t *lengths)
{
    size_t size = (size_t)symc_group_size(it->group);
    size_t padded = find_padded(it, lengths);
    char *own = symc_object_alloc(it, 1, padded);
    char *all = outs != NULL ? symc_object_alloc(it, size, padded) : NULL;
    symmcoll_status_t status;

    if (outs != NULL && it->problem.status == SYMMCOLL_OK)
        make_all(it, outs, lengths);
    if (it->problem.status == SYMMCOLL_OK)
        symc_object_pack(own, in);
    else
        padded = 0;
    status = root < 0 ? symmcoll_all_gather(it->group, all, own, padded,
                            SYMMCOLL_UINT8, it->call, NULL)
                      : symmcoll_gather(it->group, all, own, padded,
                            SYMMCOLL_UINT8, root, it->call, NULL);
    status = symc_object_end(it, status);
    for (size_t r = 0; status == SYMMCOLL_OK && outs != NULL && r < size; r++)
        symc_object_unpack(&outs[r], all + r * padded);
    free(own);
    free(all);
    return status;
}

static symmcoll_status_t gather(struct symc_object_call *it,
    struct symmcoll_object *outs, const struct symmcoll_object *in, int root)
{
    int64_t *lengths;
    symmcoll_status_t status = exchange_lengths(it, in, &lengths);

    if (status != SYMMCOLL_OK)
        return status;
    if (outs != NULL)
        memset(outs, 0, (size_t)symc_group_size(it->group) * sizeof(*outs));
    status = exchange_bytes(it, outs, in, root, lengths);
    if (status != SYMMCOLL_OK && outs != NULL)
        symmcoll_objects_free(outs, (size_t)symc_group_size(it->group));
    free(lengths);
    return status;
}

symmcoll_status_t symmcoll_all_gather_object(struct symmcoll_group *group,
    struct symmcoll_object *outs, const struct symmcoll_object *in, size_t most,
    const struct symmcoll_call *call)
{
    struct symc_object_call it = {.group = group,
        .call = call,
        .where = "all_gather_object",
        .most = most};
    symmcoll_status_t status = symc_object_begin(&it, 0);

    if (status == SYMMCOLL_OK)
        status = symc_object_check(&it, in);
    if (status != SYMMCOLL_OK)
        return status;
    if (outs == NULL)
        return symc_fail(SYMMCOLL_ERR_INVALID,
            "all_gather_object: expected outs, found NULL");
    return gather(&it, outs, in, -1);
}

symmcoll_status_t symmcoll_gather_object(struct symmcoll_group *group,
    struct symmcoll_object *outs, const struct symmcoll_object *in, int root,
    size_t most, const struct symmcoll_call *call)
{
    struct symc_object_call it = {
        .group = group, .call = call, .where = "gather_object", .most = most};
    symmcoll_status_t status = symc_object_begin(&it, root);

    if (status == SYMMCOLL_OK)
        status = symc_object_check(&it, in);
    if (status != SYMMCOLL_OK)
        return status;
    if ((outs != NULL) != (symc_group_rank(group) == root))
        return symc_fail(SYMMCOLL_ERR_INVALID,
            "gather_object: expected outs at rank %d alone, found %s at rank "
            "%d",
            root, outs != NULL ? "some" : "NULL", symc_group_rank(group));
    return gather(&it, outs, in, root);
}
