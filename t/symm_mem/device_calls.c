/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * How many calls of the driver an operation takes that moves many rows: none of
 * them is a call of its own.
 */
#include "t/symm_mem/device.h"

#include <symmcoll/symm_exchange.h>

#define RANKS 3
#define ROWS ((size_t)40) /* of each rank */
#define COLUMNS ((size_t)(4 * RANKS))
#define NBYTES (ROWS * COLUMNS * RANKS * sizeof(int32_t))

/* Copies of rows, and of bytes, that were enqueued in this process. */
struct calls {
    uint64_t planes, copies;
};

static struct calls count_calls(void)
{
    return (struct calls){
        fake_calls("cuMemcpy2DAsync"), fake_calls("cuMemcpyAsync")};
}

/* Whether there have been so many since. */
static bool took(struct calls before, uint64_t planes, uint64_t copies)
{
    const struct calls now = count_calls();

    if (now.planes - before.planes == planes &&
        now.copies - before.copies == copies)
        return true;
    diag("%d copies of rows and %d others, not %d and %d",
        (int)(now.planes - before.planes), (int)(now.copies - before.copies),
        (int)planes, (int)copies);
    return false;
}

/* ---- reshard ---- */

/* Element of the whole matrix, of which each rank has ROWS rows at first. */
static int32_t whole(size_t row, size_t column)
{
    return (int32_t)(row * 1000 + column);
}

static bool is_divided(const struct joined *it, const void *device)
{
    static int32_t found[ROWS * COLUMNS];
    const size_t columns = COLUMNS / RANKS;
    bool right = true;

    device_read(found, device, sizeof(found));
    for (size_t i = 0; i < ROWS * RANKS * columns; i++)
        right =
            right && found[i] == whole(i / columns,
                                     (size_t)it->rank * columns + i % columns);
    return HOLDS(right);
}

static bool is_own(const struct joined *it, const void *device)
{
    static int32_t found[ROWS * COLUMNS];
    bool right = true;

    device_read(found, device, sizeof(found));
    for (size_t i = 0; i < ROWS * COLUMNS; i++)
        right = right &&
                found[i] ==
                    whole((size_t)it->rank * ROWS + i / COLUMNS, i % COLUMNS);
    return HOLDS(right);
}

/* By columns, and back; from each rank one copy of rows. */
static int reshards(struct symmcoll_group *group, int rank)
{
    static int32_t own[ROWS * COLUMNS];
    struct joined it;
    struct calls before;
    bool right = begin_joined(&it, group, rank, NBYTES);
    void *out = device_alloc(sizeof(own));

    for (size_t i = 0; i < ROWS * COLUMNS; i++)
        own[i] = whole((size_t)rank * ROWS + i / COLUMNS, i % COLUMNS);
    device_write(it.data, own, sizeof(own));
    right = right && OK(symmcoll_symm_barrier(it.handle, 0, -1));
    before = count_calls();
    right = right && OK(symmcoll_symm_reshard(it.handle, 0, out, ROWS, COLUMNS,
                         0, 1, SYMMCOLL_INT32, NULL));
    right = HOLDS(took(before, RANKS, 0)) && right;
    device_wait(it.stream);
    right = right && is_divided(&it, out);
    device_read(own, out, sizeof(own));
    device_write(it.data, own, sizeof(own));
    before = count_calls();
    right = right && OK(symmcoll_symm_reshard(it.handle, 0, out, ROWS * RANKS,
                         COLUMNS / RANKS, 1, 0, SYMMCOLL_INT32, NULL));
    right = HOLDS(took(before, RANKS, 0)) && right;
    device_wait(it.stream);
    right = right && is_own(&it, out);
    device_free(out);
    return end_joined(&it, right);
}

int main(void)
{
    device_begin();
    ok(ranks_run(RANKS, reshards),
        "a matrix that is divided otherwise takes one call for each rank");
    return done_testing();
}
