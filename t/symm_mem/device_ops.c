/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Tests that every operation on symmetric device memory has the same bits as
 * on symmetric host memory, in the buffers and in its result: with 1 to 4
 * ranks, odd counts and several types; also captured in a graph that is
 * launched again.
 */
#include "t/cuda/mapped.h"
#include "t/sanitized.h"
#include "t/symm_mem/device_every.h"

#include "group/group.h"

#define RANKS 4

/* ---- memory of the program ---- */

/* Returns the offset of a rank's memory, different on each rank. */
static size_t offset_of(const struct test *it)
{
    return 16 * (size_t)(it->rank + 1);
}

static void *make_allocated(const struct test *it, size_t nbytes)
{
    return (char *)device_alloc(offset_of(it) + nbytes) + offset_of(it);
}

static void free_allocated(const struct test *it, void *data)
{
    device_free((char *)data - offset_of(it));
}

static struct mapped mapped[RANKS];

static void *make_mapped(const struct test *it, size_t nbytes)
{
    mapped[it->rank] =
        map_pages(it->rank, (offset_of(it) + nbytes) / PAGE + 1, true);
    return (char *)(uintptr_t)mapped[it->rank].at + offset_of(it);
}

static void free_mapped(const struct test *it, void *data)
{
    (void)data;
    unmap_pages(&mapped[it->rank]);
}

/* ---- all operations ---- */

static int every_operation(struct symmcoll_group *group, int rank)
{
    static const size_t counts[] = {1, 7, 130, 1003};
    static const enum symmcoll_dtype types[] = {
        SYMMCOLL_FLOAT32, SYMMCOLL_BFLOAT16, SYMMCOLL_INT32, SYMMCOLL_FLOAT64};
    struct test it;
    bool right = sides_begin(&it, group, rank);
    int round = 0;

    for (size_t i = 0; every[i].name != NULL && right; i++) {
        for (size_t c = 0; c < LENGTH(counts) && right;
             c += THREADS_CHECKED ? 2 : 1) {
            it.count = counts[c];
            it.dtype = types[(i + c) % LENGTH(types)];
            right = sides_run(&it, &every[i], round += 4);
        }
    }
    return sides_end(&it, right);
}

/* ---- graphs ---- */

static int graphs(struct symmcoll_group *group, int rank)
{
    struct test it;
    bool right = sides_begin(&it, group, rank);

    it.count = 131;
    it.dtype = F32;
    for (size_t i = 0; every[i].name != NULL && right; i++)
        right =
            sides_replay(&it, &every[i], 2, 1) && sides_run(&it, &every[i], 1);
    return sides_end(&it, right);
}

/* ThreadSanitizer identifies a signal by its address, and each rank maps the
 * signals of all at its own addresses. For memory that all threads have at one
 * address it would report accesses without synchronisation. */
#if defined(__SANITIZE_THREAD__)
#define SEES_SIGNALS 0
#else
#define SEES_SIGNALS 1
#endif

static void on_allocated(int n, rank_fn body, const char *what)
{
    ok(ranks_run(n, body), "%s (%d processes)", what, n);
    if (SEES_SIGNALS)
        ok(threads_run(n, body), "%s (%d threads)", what, n);
    else
        skip(1, "ThreadSanitizer does not see signals by two addresses");
}

int main(void)
{
    device_begin();
    setenv("SYMMCOLL_CUDA_STAGING", "16KiB", 1);
    for (int n = 1; n <= MOST_THREADS(RANKS); n++)
        on_both(n, every_operation,
            "every operation has the bits that it has on the host");
    on_both(3, graphs, "and captured in a graph that is started twice");
    on_both(3, sides_factors, "factors of each rank, and complex numbers");
    on_both(
        2, sides_intra_node, "intra_node_all_reduce in one shot and in two");
    sides_make = make_allocated;
    sides_free = free_allocated;
    on_allocated(
        3, every_operation, "and on registered memory of cuMemAlloc() (S13)");
    on_allocated(2, graphs, "and captured there");
    sides_make = make_mapped;
    sides_free = free_mapped;
    on_both(3, every_operation, "and on mapped memory (S13)");
    return done_testing();
}
