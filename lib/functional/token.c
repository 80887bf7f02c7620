/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Tokens for the way back: shapes and arguments of a call.
 */
#include "functional/functional.h"

#include <stdlib.h>
#include <string.h>

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
    *adjoint = made;
    return SYMMCOLL_OK;
}

void symmcoll_adjoint_free(struct symmcoll_adjoint *adjoint)
{
    free(adjoint);
}
