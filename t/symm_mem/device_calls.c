/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * How many calls of the driver an operation takes that moves many rows: none of
 * them is a call of its own.
 */
#include "t/symm_mem/device.h"

#include "t/cuda/kernels.h"

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

/* ---- push_rows ---- */

#define PUSHED ((size_t)1000) /* rows of each rank: of three launches */
#define ROW ((size_t)3)       /* elements */

/* The number of a row, of all ranks', that it is at in one of them. */
static size_t row_of(int rank, size_t i)
{
    return (size_t)rank * PUSHED + (i * 7 + 3) % PUSHED;
}

static int receiver_of(int rank, size_t i)
{
    return (int)((i + (size_t)rank) % RANKS);
}

static bool has_rows(const struct joined *it)
{
    static int32_t found[RANKS * PUSHED * ROW];
    bool right = true;

    device_read(found, it->data, sizeof(found));
    for (int r = 0; r < RANKS; r++)
        for (size_t i = 0; i < PUSHED; i++)
            if (receiver_of(r, i) == it->rank)
                right = right && found[row_of(r, i) * ROW + 2] ==
                                     (int32_t)(row_of(r, i) * ROW + 2);
    return HOLDS(right);
}

static int pushes(struct symmcoll_group *group, int rank)
{
    static int32_t rows[PUSHED * ROW];
    static int ranks[PUSHED];
    static size_t to[PUSHED];
    struct joined it;
    struct calls before;
    int launches = kernels_runs("symc_push_rows");
    bool right =
        begin_joined(&it, group, rank, RANKS * PUSHED * ROW * sizeof(*rows));
    void *in = device_alloc(sizeof(rows));

    for (size_t i = 0; i < PUSHED; i++) {
        ranks[i] = receiver_of(rank, i);
        to[i] = row_of(rank, i);
        for (size_t k = 0; k < ROW; k++)
            rows[i * ROW + k] = (int32_t)(to[i] * ROW + k);
    }
    device_write(in, rows, sizeof(rows));
    before = count_calls();
    right = right && OK(symmcoll_symm_push_rows(it.handle, 0, RANKS * PUSHED,
                         in, PUSHED, ROW, SYMMCOLL_INT32, ranks, to, NULL));
    right = HOLDS(took(before, 0, 0)) && right;
    device_wait(it.stream);
    launches = kernels_runs("symc_push_rows") - launches;
    right = HOLDS(launches == 3) && has_rows(&it) && right;
    device_free(in);
    return end_joined(&it, right);
}

int main(void)
{
    device_begin();
    ok(ranks_run(RANKS, pushes),
        "rows with places of their own take one kernel for 448 of them");
    ok(ranks_run(RANKS, reshards),
        "a matrix that is divided otherwise takes one call for each rank");
    return done_testing();
}
