/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Counts the driver calls of an operation that moves many rows, whether with
 * one call for many rows, or with copies.
 */
#include "t/symm_mem/device.h"

#include "t/cuda/kernels.h"

#include <symmcoll/symm_exchange.h>

#define RANKS 3
#define ROWS ((size_t)40) /* of each rank */
#define COLUMNS ((size_t)(4 * RANKS))
#define NBYTES (ROWS * COLUMNS * RANKS * sizeof(int32_t))

/* The numbers of copies of rows, and of bytes, enqueued in this process. */
struct calls {
    uint64_t planes, copies;
};

static struct calls count_calls(void)
{
    return (struct calls){
        fake_calls("cuMemcpy2DAsync"), fake_calls("cuMemcpyAsync")};
}

/* Checks the number of copies since `before`. */
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

/* Returns an element of the whole matrix, of which each rank has ROWS rows at
 * first. */
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

/* Changes the division to columns and back, with one copy of rows from each
 * rank. */
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

#define PUSHED ((size_t)1000) /* rows of each rank, for three launches */
#define ROW ((size_t)3)       /* elements */

/* Returns the number, over all ranks, of a row at its destination. */
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

/* ---- low contention ---- */

#define OWN ((size_t)600) /* elements of each rank: two chunks of a reduction */
#define STAGED ((size_t)4096 / RANKS / 16 * 4 /* device_begin() */)
_Static_assert(OWN > STAGED && OWN < 2 * STAGED, "it takes two pieces");

static int32_t element_of(int rank, size_t i)
{
    return (int32_t)((size_t)rank * 100000 + i);
}

static void write_elements(const struct joined *it, size_t count)
{
    static int32_t made[OWN * RANKS];

    for (size_t i = 0; i < count; i++)
        made[i] = element_of(it->rank, i);
    device_write(it->data, made, count * sizeof(*made));
}

/* Overwrites this rank's buffer as soon as the operation has ended, when the
 * other ranks must have stopped reading it. */
static bool spoil(const struct joined *it)
{
    return HOLDS(cuMemsetD8Async((CUdeviceptr)(uintptr_t)it->data, 0xee,
                     it->nbytes, it->stream) == CUDA_SUCCESS);
}

static bool has_gathered(const void *device)
{
    static int32_t found[OWN * RANKS];
    bool right = true;

    device_read(found, device, sizeof(found));
    for (size_t i = 0; i < OWN * RANKS; i++)
        right = right && found[i] == element_of((int)(i / OWN), i % OWN);
    return HOLDS(right);
}

static int gathers_by_copies(struct symmcoll_group *group, int rank)
{
    struct joined it;
    struct calls before;
    bool right = begin_joined(&it, group, rank, OWN * sizeof(int32_t));
    void *out = device_alloc(OWN * RANKS * sizeof(int32_t));
    int pulls = kernels_runs("symc_pull");

    write_elements(&it, OWN);
    right = right && OK(symmcoll_symm_barrier(it.handle, 0, -1));
    before = count_calls();
    right = right && OK(symmcoll_symm_low_contention_all_gather(
                         it.handle, 0, out, OWN, SYMMCOLL_INT32, NULL));
    right = HOLDS(took(before, 0, RANKS)) && spoil(&it) && right;
    device_wait(it.stream);
    right = HOLDS(kernels_runs("symc_pull") == pulls) && right;
    right = right && has_gathered(out);
    device_free(out);
    return end_joined(&it, right);
}

static bool has_sums(const struct joined *it, const void *device)
{
    static int32_t found[OWN];
    bool right = true;

    device_read(found, device, sizeof(found));
    for (size_t i = 0; i < OWN; i++) {
        int32_t sum = 0;

        for (int r = 0; r < RANKS; r++)
            sum += element_of(r, (size_t)it->rank * OWN + i);
        right = right && found[i] == sum;
    }
    return HOLDS(right);
}

static int scatters_by_copies(struct symmcoll_group *group, int rank)
{
    struct joined it;
    struct calls before;
    bool right = begin_joined(&it, group, rank, OWN * RANKS * sizeof(int32_t));
    void *out = device_alloc(OWN * sizeof(int32_t));
    int sums = kernels_runs("symc_reduce_rows_i32"),
        others = kernels_runs("symc_reduce_scatter_i32");

    write_elements(&it, OWN * RANKS);
    right = right && OK(symmcoll_symm_barrier(it.handle, 0, -1));
    before = count_calls();
    right = right && OK(symmcoll_symm_low_contention_reduce_scatter(it.handle,
                         0, out, OWN, SYMMCOLL_INT32, SYMMCOLL_SUM, NULL));
    right = HOLDS(took(before, 0, 2 * RANKS)) && spoil(&it) && right;
    device_wait(it.stream);
    right = HOLDS(kernels_runs("symc_reduce_rows_i32") == sums + 2) &&
            HOLDS(kernels_runs("symc_reduce_scatter_i32") == others) && right;
    right = right && has_sums(&it, out);
    device_free(out);
    return end_joined(&it, right);
}

int main(void)
{
    device_begin();
    ok(ranks_run(RANKS, pushes),
        "rows with places of their own take one kernel for 448 of them");
    ok(ranks_run(RANKS, reshards),
        "a matrix that is divided otherwise takes one call for each rank");
    ok(ranks_run(RANKS, gathers_by_copies),
        "all_gather of low contention takes a copy for each rank and no kernel");
    ok(ranks_run(RANKS, scatters_by_copies),
        "reduce_scatter of low contention copies, and then adds up");
    return done_testing();
}
