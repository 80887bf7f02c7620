/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Expansion of designators of a group: lists of ranks, a group, or a mesh.
 */
#include "group/group.h"

#include <string.h>

static const struct symmcoll_designator no_designator =
    SYMMCOLL_DESIGNATOR_INIT;
static const struct symc_sized designator_kind = {.name = "designator",
    .macro = "SYMMCOLL_DESIGNATOR_INIT",
    .defaults = &no_designator,
    .nbytes = sizeof(no_designator),
    .least = sizeof(no_designator.size)};
static const struct symmcoll_mesh no_mesh = SYMMCOLL_MESH_INIT;
static const struct symc_sized mesh_kind = {.name = "mesh",
    .macro = "SYMMCOLL_MESH_INIT",
    .defaults = &no_mesh,
    .nbytes = sizeof(no_mesh),
    .least = sizeof(no_mesh.size)};

static const char where[] = "designator_expand";

/* The ranks and tag that a designator stands for. */
struct expansion {
    const char *tag;
    int *ranks;
    int nranks;
    int nrun;
};

static symmcoll_status_t expand_lists(const struct symmcoll_world *world,
    const struct symmcoll_lists *lists, struct expansion *expansion)
{
    symmcoll_status_t status;
    int sum = 0;

    if (lists->ranks == NULL || lists->sizes == NULL || lists->count < 1)
        return symc_fail(SYMMCOLL_ERR_INVALID,
            "%s: expected one list of ranks or more, found %s", where,
            lists->count < 1 ? "none" : "NULL");
    for (int i = 0; i < lists->count; i++) {
        if (lists->sizes[i] != lists->sizes[0])
            return symc_fail(SYMMCOLL_ERR_INVALID,
                "%s: expected lists of one length, found %d ranks in list 0 "
                "and %d in list %d",
                where, lists->sizes[0], lists->sizes[i], i);
        status =
            symc_group_check_length(where, lists->sizes, i, &sum, world->size);
        if (status != SYMMCOLL_OK)
            return status;
    }
    expansion->nranks = sum;
    expansion->nrun = lists->sizes[0];
    memcpy(expansion->ranks, lists->ranks, (size_t)sum * sizeof(int));
    return symc_group_check_ranks(where, expansion->ranks, sum, world->size);
}

static void expand_group(
    const struct symmcoll_group *group, struct expansion *expansion)
{
    expansion->tag = group->tag;
    expansion->nranks = expansion->nrun = group->runner.size;
    memcpy(expansion->ranks, group->runner.global,
        (size_t)group->runner.size * sizeof(*group->runner.global));
}

/* Checks a mesh and finds the index of this rank in it. */
static symmcoll_status_t measure_mesh(const struct symmcoll_world *world,
    const struct symmcoll_mesh *mesh, int *own)
{
    long count = 1;
    symmcoll_status_t status;

    if (mesh->ranks == NULL || mesh->shape == NULL || mesh->ndim < 1)
        return symc_fail(SYMMCOLL_ERR_INVALID,
            "%s: expected a mesh with ranks, a shape and a dimension, found "
            "none",
            where);
    for (int d = 0; d < mesh->ndim; d++) {
        if (mesh->shape[d] < 1 || mesh->shape[d] > world->size / count)
            return symc_fail(SYMMCOLL_ERR_INVALID,
                "%s: expected a mesh of at most %d ranks, found %d in "
                "dimension %d",
                where, world->size, mesh->shape[d], d);
        count *= mesh->shape[d];
    }
    status =
        symc_group_check_ranks(where, mesh->ranks, (int)count, world->size);
    if (status != SYMMCOLL_OK)
        return status;
    for (*own = 0; *own < count; ++*own) {
        if (mesh->ranks[*own] == world->rank)
            return SYMMCOLL_OK;
    }
    return symc_fail(SYMMCOLL_ERR_INVALID,
        "%s: expected this rank, %d, in the mesh", where, world->rank);
}

static symmcoll_status_t expand_mesh(const struct symmcoll_world *world,
    const struct symmcoll_mesh *given, int dim, struct expansion *expansion)
{
    struct symmcoll_mesh mesh;
    symmcoll_status_t status = symc_sized_read(&mesh_kind, where, given, &mesh);
    int own = 0, step = 1;

    if (status == SYMMCOLL_OK)
        status = measure_mesh(world, &mesh, &own);
    if (status != SYMMCOLL_OK)
        return status;
    if (dim < 0 && mesh.ndim > 1)
        return symc_fail(SYMMCOLL_ERR_INVALID,
            "%s: expected a mesh of one dimension or a dim, found a mesh of %d "
            "dimensions",
            where, mesh.ndim);
    if (dim >= mesh.ndim)
        return symc_fail(SYMMCOLL_ERR_INVALID,
            "%s: expected a dim of 0 to %d, found %d", where, mesh.ndim - 1,
            dim);
    if (dim < 0)
        dim = 0;
    for (int d = mesh.ndim - 1; d > dim; d--)
        step *= mesh.shape[d];
    /* the first rank of this rank's line */
    own -= own / step % mesh.shape[dim] * step;
    expansion->nranks = expansion->nrun = mesh.shape[dim];
    for (int i = 0; i < mesh.shape[dim]; i++)
        expansion->ranks[i] = mesh.ranks[own + i * step];
    return SYMMCOLL_OK;
}

static symmcoll_status_t expand(const struct symmcoll_world *world,
    const struct symmcoll_designator *given, struct expansion *expansion)
{
    int forms =
        (given->lists != NULL) + (given->group != NULL) + (given->mesh != NULL);
    symmcoll_status_t status = SYMMCOLL_OK;

    if (forms != 1)
        return symc_fail(SYMMCOLL_ERR_INVALID,
            "%s: expected one of lists, group and mesh, found %d of them",
            where, forms);
    expansion->tag = "";
    if (given->lists != NULL)
        status = expand_lists(world, given->lists, expansion);
    else if (given->group != NULL)
        expand_group(given->group, expansion);
    else
        status = expand_mesh(world, given->mesh, given->dim, expansion);
    if (given->tag != NULL && given->tag[0] != '\0')
        expansion->tag = given->tag;
    return status;
}

symmcoll_status_t symmcoll_designator_expand(struct symmcoll_world *world,
    const struct symmcoll_designator *designator, const char **tag, int *ranks,
    int *nranks, int *nrun)
{
    struct symmcoll_designator copy;
    struct expansion expansion = {.ranks = ranks};
    symmcoll_status_t status;

    if (world == NULL || designator == NULL || tag == NULL || ranks == NULL ||
        nranks == NULL || nrun == NULL)
        return symc_fail(SYMMCOLL_ERR_INVALID,
            "%s: expected a world, a designator and places, found NULL", where);
    status = symc_sized_read(&designator_kind, where, designator, &copy);
    if (status == SYMMCOLL_OK)
        status = expand(world, &copy, &expansion);
    if (status != SYMMCOLL_OK)
        return status;
    *tag = expansion.tag;
    *nranks = expansion.nranks;
    *nrun = expansion.nrun;
    return SYMMCOLL_OK;
}
