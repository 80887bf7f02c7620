/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Functions of built-in hooks with a state: to compare states over the ranks, and to
 * save and load them.
 */
#ifndef SYMC_DDP_HOOK_STATE_H
#define SYMC_DDP_HOOK_STATE_H

#include "ddp/reducer.h"

#include <string.h>

/* ---- hook_agree.c ---- */

#define SYMC_HOOK_TERMS 10 /* most values that ranks compare */

/* Compares n values with those of rank 0, whose names are in the detail of an
 * error; own: the status of this rank, without which values is not read.
 * Collective: an error on one rank is returned on every rank. */
symmcoll_status_t symc_hook_agree(const char *where,
    struct symmcoll_group *group, const char *const *names,
    const double *values, int n, symmcoll_status_t own);

/* Checks that a bucket is in host memory and of float32, float16 or bfloat16.
 * Errors: UNSUPPORTED. */
symmcoll_status_t symc_hook_check_floats(
    const char *where, const struct symmcoll_bucket *bucket);

/* ---- saved states ---- */

/* Copies bytes to at, and returns their end. */
static inline char *symc_saved_put(char *at, const void *from, size_t nbytes)
{
    if (nbytes > 0)
        memcpy(at, from, nbytes);
    return at + nbytes;
}

/* The bytes of a saved state that have not been read. */
struct symc_saved {
    const char *at;
    size_t nbytes;
};

/* Copies the next count elements; returns whether there were as many. */
static inline bool symc_saved_take(
    struct symc_saved *saved, void *to, uint64_t count, size_t size)
{
    if (count > saved->nbytes / size)
        return false;
    if (count > 0)
        memcpy(to, saved->at, count * size);
    saved->at += count * size;
    saved->nbytes -= count * size;
    return true;
}

#endif
