/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * How large arenas are: limits of the process, and ranks that differ.
 */
#include "t/sanitized.h"
#include "t/segment/arenas.h"

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
