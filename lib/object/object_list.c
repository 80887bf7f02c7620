/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Lists of objects: broadcast_object_list and scatter_object_list.
 */
#include "object/object.h"
#include "object/object_many.h"

#include <stdlib.h>
#include <string.h>

/* ---- broadcast ---- */

/* Broadcasts the bytes of the root's objects; all ranks have the lengths. */
static symmcoll_status_t broadcast_bytes(struct symc_object_call *it,
    struct symmcoll_object *objects, size_t n, int root, const int64_t *lengths)
{
    bool is_root = symc_group_rank(it->group) == root;
    size_t total = symc_objects_total(it, lengths, n, root);
    char *packed = symc_object_alloc(it, 1, total);
    symmcoll_status_t status;

    if (is_root && it->problem.status == SYMMCOLL_OK)
        symc_objects_pack(packed, objects, n);
    if (!is_root)
        symc_objects_make(it, objects, n, lengths);
    status =
        symc_object_end(it, symmcoll_broadcast(it->group, packed,
                                it->problem.status == SYMMCOLL_OK ? total : 0,
                                SYMMCOLL_UINT8, root, it->call, NULL));
    if (!is_root && status == SYMMCOLL_OK)
        symc_objects_unpack(objects, n, packed);
    if (!is_root && status != SYMMCOLL_OK)
        symmcoll_objects_free(objects, n);
    free(packed);
    return status;
}

symmcoll_status_t symmcoll_broadcast_object_list(struct symmcoll_group *group,
    struct symmcoll_object *objects, size_t n, int root, size_t most,
    const struct symmcoll_call *call)
{
    struct symc_object_call it = {.group = group,
        .call = call,
        .where = "broadcast_object_list",
        .most = most};
    bool is_root = group != NULL && symc_group_rank(group) == root;
    symmcoll_status_t status =
        symc_objects_begin(&it, objects, n, root, is_root);
    int64_t *lengths;

    if (status != SYMMCOLL_OK)
        return status;
    lengths = symc_object_alloc(&it, n, sizeof(*lengths));
    if (lengths != NULL && is_root)
        symc_objects_lengths(lengths, objects, n);
    status = symc_object_end(
        &it, symmcoll_broadcast(group, lengths, lengths != NULL ? n : 0,
                 SYMMCOLL_INT64, root, call, NULL));
    if (status == SYMMCOLL_OK)
        status = broadcast_bytes(&it, objects, n, root, lengths);
    free(lengths);
    return status;
}

/* ---- scatter ---- */

/* Data that the root scatters: the greatest length, and all objects padded to
 * it. */
struct parts {
    int64_t longest; /* -1: there is an object that cannot be sent */
    int64_t *lengths;
    char *packed;
};

/* Lists the lengths of the objects to scatter, and finds the greatest. */
static void measure(struct symc_object_call *it,
    const struct symmcoll_object *ins, struct parts *parts)
{
    size_t size = (size_t)symc_group_size(it->group);

    parts->lengths = symc_object_alloc(it, size, sizeof(*parts->lengths));
    for (size_t r = 0; parts->lengths != NULL && r < size; r++) {
        int64_t length = symc_object_length(ins[r].nbytes);

        parts->lengths[r] = length;
        if (length < 0)
            parts->longest = -1;
        else if (parts->longest >= 0 && length > parts->longest)
            parts->longest = length;
    }
}

/* Packs the objects, each padded to the same length. */
static void pack(struct symc_object_call *it, const struct symmcoll_object *ins,
    struct parts *parts, size_t padded)
{
    size_t size = (size_t)symc_group_size(it->group);

    parts->packed = symc_object_alloc(it, size, padded);
    for (size_t r = 0; parts->packed != NULL && r < size; r++)
        symc_object_pack(parts->packed + r * padded, &ins[r]);
}

/* Receives an object into memory of the greatest length. */
static symmcoll_status_t scatter_padded(struct symc_object_call *it,
    struct symmcoll_object *out, const struct symmcoll_object *ins, int root,
    struct parts *parts)
{
    size_t longest = symc_object_read(it, parts->longest, root);
    size_t padded = longest + SYMC_OBJECT_HEAD;
    char *own = symc_object_alloc(it, 1, padded);
    int64_t length = 0;
    symmcoll_status_t status;

    if (ins != NULL)
        pack(it, ins, parts, padded);
    symc_object_make(it, out, longest);
    status =
        symc_object_end(it, symmcoll_scatter(it->group, own, parts->packed,
                                it->problem.status == SYMMCOLL_OK ? padded : 0,
                                SYMMCOLL_UINT8, root, it->call, NULL));
    if (status != SYMMCOLL_OK)
        goto free_own;
    status = symmcoll_scatter(it->group, &length, parts->lengths, 1,
        SYMMCOLL_INT64, root, it->call, NULL);
    if (status != SYMMCOLL_OK)
        goto free_own;
    if (length < 0 || (size_t)length > longest) {
        status = symc_fail(SYMMCOLL_ERR_INVALID,
            "scatter_object_list: expected at most %zu bytes of rank %d, found "
            "%lld",
            longest, root, (long long)length);
        goto free_own;
    }
    out->nbytes = (size_t)length;
    symc_object_unpack(out, own);
    if (length == 0) {
        free(out->data);
        out->data = NULL;
    }

free_own:
    free(own);
    return status;
}

symmcoll_status_t symmcoll_scatter_object_list(struct symmcoll_group *group,
    struct symmcoll_object *out, const struct symmcoll_object *ins, int root,
    size_t most, const struct symmcoll_call *call)
{
    struct symc_object_call it = {.group = group,
        .call = call,
        .where = "scatter_object_list",
        .most = most};
    struct parts parts = {0, NULL, NULL};
    symmcoll_status_t status = symc_object_begin(&it, root);

    if (status != SYMMCOLL_OK)
        return status;
    if (out == NULL || (ins != NULL) != (symc_group_rank(group) == root))
        return symc_fail(SYMMCOLL_ERR_INVALID,
            "scatter_object_list: expected out, and ins at rank %d alone, "
            "found %s at rank %d",
            root, out == NULL ? "out NULL" : (ins == NULL ? "ins NULL" : "ins"),
            symc_group_rank(group));
    for (int r = 0; ins != NULL && r < symc_group_size(group); r++) {
        status = symc_object_check(&it, &ins[r]);
        if (status != SYMMCOLL_OK)
            return status;
    }
    if (ins != NULL)
        measure(&it, ins, &parts);
    status = symc_object_end(&it, symmcoll_broadcast(group, &parts.longest,
                                      it.problem.status == SYMMCOLL_OK ? 1 : 0,
                                      SYMMCOLL_INT64, root, call, NULL));
    if (status == SYMMCOLL_OK) {
        *out = (struct symmcoll_object){NULL, 0, 0};
        status = scatter_padded(&it, out, ins, root, &parts);
        if (status != SYMMCOLL_OK)
            symmcoll_objects_free(out, 1);
    }
    free(parts.lengths);
    free(parts.packed);
    return status;
}
