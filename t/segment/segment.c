/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Tests segments: which rank uses which bytes. generations.c tests when bytes
 * are reused, and damage by a peer.
 */
#include "t/sanitized.h"
#include "t/segment/arenas.h"

#include <dirent.h>
#include <sys/mman.h>
#include <sys/stat.h>

static void test_sharing(const char *how)
{
    struct symc_segment *first[RANKS], *second[RANKS];
    bool apart = true, seen = true, zero = true;

    make_all(10000, first);
    make_all(5000, second);
    for (int r = 0; r < RANKS; r++) {
        ptrdiff_t between = second[r]->at[r] - first[r]->at[r];

        apart = apart && (between >= 10000 || between <= -5000) &&
                (uintptr_t)first[r]->at[r] % SYMC_PAGE == 0 &&
                (uintptr_t)second[r]->at[r] % SYMC_PAGE == 0;
        zero = zero && is_filled(first[r]->at[r], 10000, 0);
        memset(first[r]->at[r], r + 1, 10000);
    }
    for (int r = 0; r < RANKS; r++) {
        for (int p = 0; p < RANKS; p++)
            seen = seen && is_filled(first[r]->at[p], 10000, p + 1) &&
                   is_filled(second[r]->at[p], 5000, 0);
    }
    ok(apart, "%s: parts are on pages and do not overlap", how);
    ok(zero && seen, "%s: they begin as zeros, and all see all", how);
    for (int r = 0; r < RANKS; r++) {
        symc_segment_leave(first[r]);
        symc_segment_leave(second[r]);
    }
}

static void test_smallest(const char *how)
{
    struct symc_offer all[RANKS];
    struct symc_segment *made[RANKS];
    bool agreed = true;

    for (int r = 0; r < RANKS; r++)
        must(symc_segment_offer(
            &ranks[r].segments, (size_t)(RANKS - r) * 8192, 0, &all[r]));
    accept_all(all, made);
    for (int r = 0; r < RANKS; r++) {
        agreed = agreed && made[r]->nbytes == 8192;
        symc_segment_leave(made[r]);
    }
    ok(agreed, "%s: all have as much as the smallest offer", how);
}

/* ---- finding ---- */

static void test_find(const char *how)
{
    struct symc_segment *made[RANKS], *other[RANKS], *found;
    struct symc_segments *mine = &ranks[1].segments;
    size_t offset = 0;
    bool good = true;
    int rank = -1;

    make_all(8192, made);
    make_all(4096, other);
    for (int p = 0; p < RANKS; p++) {
        found =
            symc_segment_find(mine, made[1]->at[p] + 100, 50, &rank, &offset);
        good = good && found == made[1] && rank == p && offset == 100;
        found = symc_segment_find(mine, other[1]->at[p], 4096, &rank, &offset);
        good = good && found == other[1] && rank == p && offset == 0;
    }
    ok(good, "%s: an address is found with segment, rank and offset", how);
    ok(symc_segment_find(mine, made[1]->at[0] + 8000, 193, &rank, &offset) ==
                NULL &&
            symc_segment_find(mine, &good, 1, &rank, &offset) == NULL &&
            symc_segment_find(mine, NULL, 1, &rank, &offset) == NULL,
        "%s: what is not all in one part is in none", how);
    symc_segment_leave(made[1]);
    ok(symc_segment_find(mine, made[0]->at[0], 1, &rank, &offset) == NULL &&
            symc_segment_find(mine, other[1]->at[2], 1, &rank, &offset) ==
                other[1],
        "%s: what has been left is not found", how);
    symc_segment_leave(made[0]);
    symc_segment_leave(made[2]);
    for (int r = 0; r < RANKS; r++)
        symc_segment_leave(other[r]);
}

static void test_elsewhere(const char *how)
{
    struct symc_offer all[RANKS];
    struct symc_segment *made[2];
    bool good = true;

    for (int r = 0; r < 2; r++)
        must(symc_segment_offer(&ranks[r].segments, 8192, 0, &all[r]));
    all[2] = (struct symc_offer){0};
    for (int r = 0; r < 2; r++) {
        must(symc_segment_accept(
            &ranks[r].segments, all_ranks, r, RANKS, all, &made[r]));
        good = good && made[r]->at[2] == NULL && made[r]->at[0] != NULL &&
               made[r]->nbytes == 8192;
    }
    for (int r = 0; r < 2; r++)
        symc_segment_leave(made[r]);
    ok(good && symc_segments_reap(&ranks[0].segments) == 0,
        "%s: a member on another machine has no bytes, and keeps none", how);
}

/* ---- many ---- */

static int count_lines(const char *path)
{
    FILE *file = fopen(path, "r");
    int lines = 0;

    for (int c; file != NULL && (c = fgetc(file)) != EOF;)
        lines += c == '\n';
    if (file != NULL)
        fclose(file);
    return lines;
}

static int count_fds(void)
{
    DIR *dir = opendir("/proc/self/fd");
    int count = 0;

    while (dir != NULL && readdir(dir) != NULL)
        count++;
    if (dir != NULL)
        closedir(dir);
    return count;
}

#define MANY 1000

static void test_many(const char *how)
{
    static struct symc_segment *made[MANY][RANKS];
    int fds = count_fds(), maps = count_lines("/proc/self/maps"), rank;
    bool good = true;
    size_t offset;

    for (int i = 0; i < MANY; i++) {
        make_all(4096, made[i]);
        memset(made[i][i % RANKS]->at[i % RANKS], i, 4096);
    }
    /* A sanitizer has its own mappings. */
    ok(count_fds() == fds &&
            (SANITIZED || count_lines("/proc/self/maps") <= maps + 8),
        "%s: %d segments need no descriptor and no mapping", how, MANY);
    for (int i = 0; i < MANY; i++) {
        for (int r = 0; r < RANKS; r++)
            good = good &&
                   is_filled(made[i][r]->at[i % RANKS], 4096, (char)i) &&
                   symc_segment_find(&ranks[r].segments, made[i][r]->at[0],
                       4096, &rank, &offset) == made[i][r];
    }
    ok(good, "%s: each has bytes of its own", how);
    for (int i = 0; i < MANY; i++) {
        for (int r = 0; r < RANKS; r++)
            symc_segment_leave(made[i][r]);
    }
    for (int r = 0; r < RANKS; r++)
        good = symc_segments_reap(&ranks[r].segments) == 0 && good;
    ok(good, "%s: all are taken back", how);
}

static void test_full(const char *how)
{
    static struct symc_offer offers[SYMC_SEGMENTS_MAX + 1];
    struct symc_segments *mine = &ranks[0].segments;
    struct symc_offer one;
    int count = 0;

    ok(failed_with(symc_segment_offer(mine, ARENA, 0, &one),
           SYMMCOLL_ERR_NO_MEMORY, "64 MiB requested"),
        "%s: more than the arena has is refused, with both sizes", how);
    while (count <= SYMC_SEGMENTS_MAX &&
           symc_segment_offer(mine, 1, 0, &offers[count]) == SYMMCOLL_OK)
        count++;
    ok(count == SYMC_SEGMENTS_MAX &&
            failed_with(SYMMCOLL_ERR_NO_MEMORY, SYMMCOLL_ERR_NO_MEMORY,
                "at most 4096 at once"),
        "%s: so is more than the table has", how);
    for (int i = 0; i < count; i++)
        symc_segment_withdraw(mine, &offers[i]);
    ok(symc_segment_offer(mine, ARENA - ranks[0].own.layout.nbytes, 0, &one) ==
            SYMMCOLL_OK,
        "%s: what has been taken back is whole again", how);
    symc_segment_withdraw(mine, &one);
}

/* ---- segments with their own memfds ---- */

static void test_memfd(const char *how)
{
    const size_t nbytes = (size_t)1 << 21;
    struct symc_segment *made[RANKS];
    int own[RANKS], fds[RANKS], before = count_fds(), rank = -1;
    bool good = true, seen = true;
    size_t offset = 0;
    struct stat info;

    for (int r = 0; r < RANKS; r++)
        must(symc_segment_create("symmcoll:test", nbytes, &own[r]));
    for (int r = 0; r < RANKS; r++) {
        for (int p = 0; p < RANKS; p++)
            fds[p] = dup(own[p]);
        must(symc_segment_import(
            &ranks[r].segments, all_ranks, r, RANKS, fds, nbytes, &made[r]));
        good = symc_segment_reserve(made[r], 4096, 8192, "a test") ==
                   SYMMCOLL_OK &&
               fstat(own[r], &info) == 0 && info.st_blocks == 16 && good;
        memset(made[r]->at[r] + 4096, r + 1, 8192);
    }
    for (int p = 0; p < RANKS; p++)
        seen = seen && is_filled(made[0]->at[p] + 4096, 8192, p + 1) &&
               symc_segment_find(&ranks[0].segments, made[0]->at[p] + 4096, 1,
                   &rank, &offset) == made[0] &&
               rank == p && offset == 4096;
    ok(good && seen, "%s: a large one has memfds of its own, backed as asked",
        how);
    ok(failed_with(symc_segment_reserve(made[0], nbytes, 1, "a test"),
           SYMMCOLL_ERR_INVALID, "expected a part of"),
        "%s: nothing is reserved outside of it", how);
    for (int r = 0; r < RANKS; r++) {
        symc_segment_leave(made[r]);
        close(own[r]);
    }
    ok(count_fds() == before, "%s: who leaves closes them", how);
    fds[0] = memfd_create("unsealed", MFD_CLOEXEC);
    fds[1] = fds[2] = -1;
    ok(failed_with(symc_segment_import(&ranks[0].segments, all_ranks, 0, RANKS,
                       fds, 4096, &made[0]),
           SYMMCOLL_ERR_INVALID, "sealed") &&
            count_fds() == before,
        "%s: what nobody has sealed is refused, and closed", how);
}

static void test_all(const char *how)
{
    test_sharing(how);
    test_smallest(how);
    test_find(how);
    test_elsewhere(how);
    test_many(how);
    test_full(how);
    test_memfd(how);
}

int main(void)
{
    run_both(test_all);
    return done_testing();
}
