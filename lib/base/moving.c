/* SPDX-License-Identifier: BSD-3-Clause */
/* Sums and copies in chunks. */
#include "base/moving.h"

/* small enough to be read again from the cache */
#define WARM ((size_t)16 * 1024)

static char *target_at(
    const struct symc_moving *moving, const struct symc_targets *targets, int i)
{
    return moving->exposed[(targets->first + i) % moving->size].out;
}

/* Reduces elements [at, at + count) into all targets: into two in one pass,
 * then copies the first of them to the others. */
static void reduce_chunk(const struct symc_moving *moving,
    const struct symc_targets *targets, size_t at, size_t count, bool streaming)
{
    size_t skip = at * moving->op->elem, nbytes = count * moving->op->elem;
    char *first = target_at(moving, targets, 0) + skip;
    char *second =
        targets->count > 1 ? target_at(moving, targets, 1) + skip : NULL;

    for (int r = 0; r < moving->size; r++)
        moving->sources[r] = moving->exposed[r].in + skip;
    symc_reduce(moving->reduction, first, second, moving->sources, moving->size,
        count, streaming);
    for (int i = 2; i < targets->count; i++)
        symc_copy(target_at(moving, targets, i) + skip, first, nbytes, false);
}

static bool may_step(const struct symc_moving *moving, int rank, size_t nbytes)
{
    return moving->step == NULL || moving->step(moving->state, rank, nbytes);
}

bool symc_moving_reduce(const struct symc_moving *moving,
    struct symc_targets targets, size_t lo, size_t hi, bool streaming)
{
    size_t elem = moving->op->elem;
    size_t most = (targets.count > 2 ? WARM : SYMC_MOVING_CHUNK) / elem;

    if (streaming)
        *moving->streamed = true;
    while (lo < hi) {
        size_t count = hi - lo < most ? hi - lo : most;

        if (!may_step(moving, moving->size, count * elem))
            return false;
        reduce_chunk(moving, &targets, lo, count, streaming);
        lo += count;
    }
    return true;
}

bool symc_moving_copy(const struct symc_moving *moving, int rank, void *out,
    const void *in, size_t nbytes, bool streaming)
{
    if (out == in)
        return true;
    if (streaming)
        *moving->streamed = true;
    for (size_t at = 0; at < nbytes; at += SYMC_MOVING_CHUNK) {
        size_t count =
            nbytes - at < SYMC_MOVING_CHUNK ? nbytes - at : SYMC_MOVING_CHUNK;

        if (!may_step(moving, rank, count))
            return false;
        symc_copy((char *)out + at, (const char *)in + at, count, streaming);
    }
    return true;
}
