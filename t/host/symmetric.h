/* SPDX-License-Identifier: BSD-3-Clause */
/* Symmetric buffers for tests of collectives. */
#ifndef T_HOST_SYMMETRIC_H
#define T_HOST_SYMMETRIC_H

#include "../tap.h"

#include <symmcoll.h>

#include <stdlib.h>

struct symmetric {
    struct symmcoll_world *world;
    unsigned char *at;
};

/* Returns a symmetric buffer of nbytes bytes that all ranks of the group open.
 * Ends the process on failure. */
static inline struct symmetric symmetric_open(
    struct symmcoll_group *group, size_t nbytes)
{
    struct symmetric made = {.world = symmcoll_group_world(group)};
    struct symmcoll_symm *handle;
    void *at;

    if (symmcoll_symm_alloc(made.world, nbytes, NULL, &at) != SYMMCOLL_OK ||
        symmcoll_symm_rendezvous(group, at, NULL, &handle) != SYMMCOLL_OK) {
        diag("%s", symmcoll_last_error());
        abort();
    }
    symmcoll_symm_release(handle);
    made.at = at;
    return made;
}

/* Frees the buffer, without the other ranks. */
static inline void symmetric_close(struct symmetric *made)
{
    if (symmcoll_symm_free(made->world, made->at) != SYMMCOLL_OK)
        abort();
    made->at = NULL;
}

#endif
