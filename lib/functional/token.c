/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Tokens of backward calls: shapes and arguments of the forward call.
 */
#include "functional/functional.h"

#include <stdlib.h>
#include <string.h>

void symmcoll_adjoint_free(struct symmcoll_adjoint *adjoint)
{
    if (adjoint == NULL)
        return;
    free(adjoint->splits);
    free(adjoint->dst_of);
    free(adjoint);
}

/* Saves the splits, exchanged: the backward call sends what was received. */
static bool keep_splits(
    const struct symc_f_spec *spec, struct symmcoll_adjoint *adjoint)
{
    size_t size;

    if (spec->in_splits == NULL)
        return true;
    size = (size_t)symc_group_size(spec->group);
    adjoint->splits = symc_alloc(2 * size, sizeof(*adjoint->splits));
    if (adjoint->splits == NULL)
        return false;
    memcpy(adjoint->splits, spec->in_splits, size * sizeof(size_t));
    memcpy(adjoint->splits + size, spec->out_splits, size * sizeof(size_t));
    return true;
}

/* Saves the inverse permutation. */
static bool keep_destinations(
    const struct symc_f_spec *spec, struct symmcoll_adjoint *adjoint)
{
    if (spec->dst_of == NULL)
        return true;
    adjoint->dst_of = symc_alloc(
        (size_t)symc_group_size(spec->group), sizeof(*adjoint->dst_of));
    if (adjoint->dst_of == NULL)
        return false;
    for (int r = 0; r < symc_group_size(spec->group); r++)
        adjoint->dst_of[spec->dst_of[r]] = r;
    return true;
}

symmcoll_status_t symc_f_adjoint_create(const struct symc_f_spec *spec,
    const struct symc_f_step *steps, int n, struct symmcoll_adjoint **adjoint)
{
    struct symmcoll_adjoint *made = symc_alloc(
        1, sizeof(*made) + (size_t)n * (sizeof(made->ends[0]) + sizeof(int)));

    if (made == NULL)
        return SYMMCOLL_ERR_NO_MEMORY;
    made->name = spec->name;
    made->kind = spec->kind;
    made->group = spec->group;
    made->op = spec->op;
    made->root = spec->root;
    made->n = n;
    if (spec->dims != NULL) {
        made->dims = (int *)(void *)&made->ends[n];
        memcpy(made->dims, spec->dims, (size_t)n * sizeof(int));
    }
    for (int i = 0; i < n; i++) {
        made->ends[i].in = steps[i].in;
        made->ends[i].out = steps[i].out;
        made->ends[i].in.data = made->ends[i].out.data = NULL;
    }
    if (!keep_splits(spec, made) || !keep_destinations(spec, made)) {
        symmcoll_adjoint_free(made);
        return SYMMCOLL_ERR_NO_MEMORY;
    }
    *adjoint = made;
    return SYMMCOLL_OK;
}
