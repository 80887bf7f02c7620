/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Runs randomly drawn collectives one after another, in a group of all ranks
 * and in one of some of them, on buffers at random places of symmetric and
 * private memory. After each collective every byte of this memory must be as
 * expected, on every rank.
 *
 *   STRESS_CASES   number of collectives, 150 by default
 *   STRESS_SEED    seed of the random numbers, 1 by default
 */
#include "stress.h"
#include "../tap.h"

#include <stdlib.h>
#include <string.h>

#define CASES 150
#define RENEWED_IN 40 /* cases: an allocation is freed, and another made */

uint32_t stress_draw(struct stress_random *random, uint32_t n)
{
    random->state = random->state * UINT64_C(6364136223846793005) +
                    UINT64_C(1442695040888963407);
    return (uint32_t)((random->state >> 33) % n);
}

static int number_of(const char *name, int otherwise)
{
    const char *text = getenv(name);

    return text == NULL ? otherwise : atoi(text);
}

/* ---- memory ---- */

static void open_region(struct stress_memory *memory, int region)
{
    memory->made[region] = symmetric_open(memory->group, STRESS_REGION);
    memory->at[region] = memory->made[region].at;
    memset(memory->expected[region], 0, STRESS_REGION);
}

static void open_memory(
    struct stress_memory *memory, struct symmcoll_group *group)
{
    *memory = (struct stress_memory){.group = group,
        .rank = symmcoll_group_rank(group),
        .size = symmcoll_group_size(group)};
    for (int i = 0; i <= STRESS_PRIVATE; i++) {
        memory->expected[i] = calloc(1, STRESS_REGION);
        if (memory->expected[i] == NULL)
            abort();
    }
    for (int i = 0; i < STRESS_PRIVATE; i++)
        open_region(memory, i);
    memory->at[STRESS_PRIVATE] = calloc(1, STRESS_REGION);
    if (memory->at[STRESS_PRIVATE] == NULL)
        abort();
}

static void close_memory(struct stress_memory *memory)
{
    for (int i = 0; i < STRESS_PRIVATE; i++)
        symmetric_close(&memory->made[i]);
    free(memory->at[STRESS_PRIVATE]);
    for (int i = 0; i <= STRESS_PRIVATE; i++)
        free(memory->expected[i]);
}

void *stress_place(struct stress_memory *memory, struct stress_case *it,
    int region, size_t count)
{
    size_t gap = it->shifted ? stress_draw(it->mine, 40) * it->elem : 64;
    size_t at = memory->used[region] + gap;

    at = (at + it->elem - 1) / it->elem * it->elem;
    memory->used[region] = at + count * it->elem;
    if (memory->used[region] > STRESS_REGION)
        abort();
    return memory->at[region] + at;
}

/* Returns the place of the expected contents of these bytes. */
static unsigned char *expected_at(
    const struct stress_memory *memory, const void *data)
{
    uintptr_t at = (uintptr_t)data;

    for (int i = 0; i <= STRESS_PRIVATE; i++) {
        uintptr_t begin = (uintptr_t)memory->at[i];

        if (at >= begin && at - begin <= STRESS_REGION)
            return memory->expected[i] + (at - begin);
    }
    abort();
}

void stress_expect(const struct stress_memory *memory,
    const struct stress_case *it, void *at, size_t first, size_t count,
    int rank)
{
    data_fill(expected_at(memory, at), it->dtype, first, count, rank, it->seed);
}

void stress_expect_sum(const struct stress_memory *memory,
    const struct stress_case *it, void *at, size_t first, size_t count)
{
    data_reduce(expected_at(memory, at), it->dtype, it->op, first, count,
        memory->size, 16, it->seed);
}

void stress_fill(const struct stress_memory *memory,
    const struct stress_case *it, void *at, size_t first, size_t count)
{
    data_fill(at, it->dtype, first, count, memory->rank, it->seed);
    memcpy(expected_at(memory, at), at, count * it->elem);
}

static bool is_as_expected(const struct stress_memory *memory)
{
    for (int i = 0; i <= STRESS_PRIVATE; i++) {
        if (!data_is_same("a region of memory", memory->at[i],
                memory->expected[i], STRESS_REGION)) {
            diag("rank %d: region %d", memory->rank, i);
            return false;
        }
    }
    return true;
}

/* ---- a case ---- */

enum scheme {
    ALIKE,         /* all ranks in the same regions */
    ALIKE_AS_WELL, /* more often */
    ALL_PRIVATE,
    ONE_PRIVATE, /* one rank's input, or result, or both */
    EACH_APART,  /* each rank in regions of its own choice */
    OUT_PRIVATE
};

static void draw_regions(
    struct stress_case *it, struct stress_random *common, int rank, int size)
{
    enum scheme scheme = (enum scheme)stress_draw(common, OUT_PRIVATE + 1);
    int one = (int)stress_draw(common, (uint32_t)size);

    it->in_region = (int)stress_draw(common, STRESS_PRIVATE);
    it->out_region = (int)stress_draw(common, STRESS_PRIVATE);
    if (scheme == ALL_PRIVATE)
        it->in_region = it->out_region = STRESS_PRIVATE;
    if (scheme == EACH_APART) {
        it->in_region = (int)stress_draw(it->mine, STRESS_PRIVATE + 1);
        it->out_region = (int)stress_draw(it->mine, STRESS_PRIVATE + 1);
    }
    if (scheme == OUT_PRIVATE ||
        (scheme == ONE_PRIVATE && one == rank && stress_draw(it->mine, 2)))
        it->out_region = STRESS_PRIVATE;
    if (scheme == ONE_PRIVATE && one == rank && stress_draw(it->mine, 2))
        it->in_region = STRESS_PRIVATE;
}

static struct stress_case draw_case(const struct stress_memory *memory,
    struct stress_random *common, struct stress_random *mine, unsigned seed)
{
    static const enum symmcoll_dtype dtypes[] = {SYMMCOLL_FLOAT32,
        SYMMCOLL_BFLOAT16, SYMMCOLL_INT32, SYMMCOLL_UINT8, SYMMCOLL_FLOAT64};
    struct stress_case it = {.seed = seed, .mine = mine};
    size_t most;

    it.dtype = dtypes[stress_draw(common, LENGTH(dtypes))];
    it.elem = symmcoll_dtype_size(it.dtype);
    it.kind = (int)stress_draw(common, (uint32_t)stress_kinds);
    it.op = stress_draw(common, 3) > 0 ? SYMMCOLL_SUM : SYMMCOLL_MAX;
    most = STRESS_ELEMENTS / (size_t)memory->size;
    it.count = stress_draw(common, 2) ? stress_draw(common, (uint32_t)most)
                                      : stress_draw(common, 3000) % most;
    it.root = (int)stress_draw(common, (uint32_t)memory->size);
    it.in_place = stress_draw(common, 3) == 0;
    it.shifted = stress_draw(common, 2) == 0;
    it.spread = stress_draw(common, 3) == 0;
    it.async = stress_draw(common, 4) == 0;
    draw_regions(&it, common, memory->rank, memory->size);
    return it;
}

/* Run one, and look at all bytes. */
static bool run_case(struct stress_memory *memory, struct stress_random *common,
    struct stress_random *mine, unsigned seed)
{
    struct stress_case it = draw_case(memory, common, mine, seed);
    struct symmcoll_work *work = NULL;
    symmcoll_status_t status;
    bool right;

    memset(memory->used, 0, sizeof(memory->used));
    status = stress_table[it.kind].run(memory, &it, it.async ? &work : NULL);
    if (status == SYMMCOLL_OK && work != NULL)
        status = symmcoll_work_wait(work, -1);
    symmcoll_work_free(work);
    if (status != SYMMCOLL_OK)
        diag("%s", symmcoll_last_error());
    right = status == SYMMCOLL_OK && is_as_expected(memory);
    if (!right)
        diag("rank %d of %d, case %u: %s of %zu elements of %s, input in "
             "region %d, result in %d%s%s%s, root %d",
            memory->rank, memory->size, seed, stress_table[it.kind].name,
            it.count, symmcoll_dtype_name(it.dtype), it.in_region,
            it.out_region, it.in_place ? ", in place" : "",
            it.shifted ? ", shifted" : "", it.spread ? ", spread" : "",
            it.root);
    if (right && stress_draw(common, RENEWED_IN) == 0) {
        int region = (int)stress_draw(common, STRESS_PRIVATE);

        symmetric_close(&memory->made[region]);
        open_region(memory, region);
    }
    return right;
}

/* ---- bodies ---- */

static int keeps_every_byte(struct symmcoll_group *group, int rank)
{
    int cases = number_of("STRESS_CASES", CASES);
    uint64_t seed = (uint64_t)number_of("STRESS_SEED", 1);
    struct stress_random common = {seed},
                         mine = {seed * 1000003 + (uint64_t)rank};
    struct symmcoll_group *some = NULL;
    struct stress_memory memory[2];
    bool right = true;
    int color = rank == 0 && symmcoll_group_size(group) > 2;

    if (symmcoll_group_split(group, color, 0, NULL, &some) != SYMMCOLL_OK)
        return 0;
    open_memory(&memory[0], group);
    open_memory(&memory[1], some);
    for (unsigned i = 0; right && i < (unsigned)cases; i++) {
        /* A draw common to all ranks, independent of their own draws. */
        struct stress_random drawn = {stress_draw(&common, UINT32_MAX)};
        bool in_some = stress_draw(&drawn, 3) == 0;

        if (!in_some || memory[1].size > 1)
            right = run_case(&memory[in_some], &drawn, &mine, i);
    }
    close_memory(&memory[0]);
    close_memory(&memory[1]);
    return right && symmcoll_group_free(some) == SYMMCOLL_OK;
}

int main(void)
{
    static const int sizes[] = {2, 4};

    plan(8);
    for (size_t i = 0; i < LENGTH(sizes); i++)
        both_run(sizes[i], keeps_every_byte,
            "collectives drawn at random write what they should, nothing else");
    /* The drawn sizes are small; these settings make them many steps, and
     * streamed: */
    setenv("SYMMCOLL_HOST_CHUNK", "4KiB", 1);
    setenv("SYMMCOLL_HOST_STREAM_MIN", "0", 1);
    for (size_t i = 0; i < LENGTH(sizes); i++)
        both_run(sizes[i], keeps_every_byte,
            "in small steps and with non-temporal stores, too");
    return done_testing();
}
