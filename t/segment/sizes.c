/* SPDX-License-Identifier: BSD-3-Clause */
/* Tests the size of arenas: process limits, and ranks that differ. */
#include "segment/memory.h"
#include "t/sanitized.h"
#include "t/segment/arenas.h"

#include <alloca.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

/* ---- limits ---- */

static void set_limit(int resource, rlim_t value)
{
    struct rlimit limit = {value, value};

    if (setrlimit(resource, &limit) != 0)
        exit(1);
}

static int small_files(void *arg)
{
    (void)arg;
    set_limit(RLIMIT_FSIZE, (rlim_t)4 << 20);
    return symc_arena_choose_nbytes(1 << 20, 4) == (size_t)4 << 20 &&
           symc_arena_choose_nbytes(8 << 20, 4) == (size_t)8 << 20;
}

static int small_space(void *arg)
{
    size_t chosen;

    (void)arg;
    set_limit(RLIMIT_AS, (rlim_t)1 << 30);
    chosen = symc_arena_choose_nbytes(1 << 20, 4);
    return chosen > (size_t)32 << 20 && chosen <= (size_t)128 << 20 &&
           chosen % SYMC_PAGE == 0 &&
           symc_arena_choose_nbytes(1 << 20, 4096) == (size_t)1 << 20;
}

/* Reads the lowest address of the main thread's stack, and the size of this
 * process's address space; false: /proc does not have it. */
static bool read_space(uintptr_t *stack, size_t *nbytes)
{
    FILE *file = fopen("/proc/self/maps", "r");
    uintptr_t begin, end;
    char line[512];

    *stack = 0;
    *nbytes = 0;
    while (file != NULL && fgets(line, sizeof(line), file) != NULL) {
        if (sscanf(line, "%" SCNxPTR "-%" SCNxPTR, &begin, &end) != 2)
            continue;
        *nbytes += end - begin;
        if (strstr(line, "[stack]") != NULL)
            *stack = begin;
    }
    if (file != NULL)
        fclose(file);
    return *stack != 0;
}

/* Runs with 10,000 bytes of stack left, and no address space to extend it. */
static int little_stack(void *arg)
{
    char here;
    uintptr_t stack;
    size_t nbytes;
    volatile char *fill;
    bool group;

    (void)arg;
    if (!read_space(&stack, &nbytes) || (uintptr_t)&here < stack + 20000)
        return 1;
    set_limit(RLIMIT_AS, nbytes);
    fill = alloca((uintptr_t)&here - stack - 10000);
    fill[0] = 1;
    return symc_memory_available(&group) > 0;
}

static void test_limits(void)
{
    size_t usual = symc_arena_choose_nbytes(4096, 2);

    ok(usual >= (size_t)1 << 30 && usual % SYMC_PAGE == 0 &&
            symc_arena_choose_nbytes(4096, 4096) < usual,
        "an arena is large, and less so the more ranks there are");
    ok(run_child(small_files, NULL),
        "RLIMIT_FSIZE makes it smaller, down to what is needed");
    if (SANITIZED)
        skip(1, "the sanitizer needs the address space");
    else
        ok(run_child(small_space, NULL), "so does RLIMIT_AS");
    if (SANITIZED)
        skip(1, "the sanitizer needs the stack");
    else
        ok(run_child(little_stack, NULL),
            "where RLIMIT_AS leaves no more stack, what is available is read "
            "within 10,000 bytes");
}

static void test_different_sizes(void)
{
    struct symc_offer offer;

    begin_rank(0, ARENA);
    begin_rank(1, ARENA / 4);
    begin_rank(2, ARENA);
    for (int r = 0; r < RANKS; r++)
        connect_rank(r, false);
    ok(symc_segment_offer(&ranks[0].segments, ARENA / 2, 0, &offer) ==
                SYMMCOLL_ERR_NO_MEMORY &&
            symc_segment_offer(&ranks[0].segments, ARENA / 8, 0, &offer) ==
                SYMMCOLL_OK,
        "what one rank cannot map nobody offers");
    symc_segment_withdraw(&ranks[0].segments, &offer);
    end(false);
}

int main(void)
{
    test_different_sizes();
    test_limits();
    return done_testing();
}
