/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Segments: who uses which bytes, and when they are used again.  Most points
 * have all ranks in this thread, each with an arena of its own, so that what
 * happens first is certain; they are done with ranks that map each other as
 * processes do and with ranks that share one mapping as threads do.
 */
#include "../sanitized.h"
#include "../tap.h"
#include "child.h"

#include "segment/memory.h"
#include "segment/segment.h"

#include <dirent.h>
#include <sched.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>

#define RANKS 3
#define ARENA ((size_t)64 << 20)
#define TRACE 4096

struct rank {
    struct symc_block_view own;
    int fd;
    struct symc_peer peers[RANKS];
    struct symc_segments segments;
};

static struct rank ranks[RANKS];
static const int all_ranks[RANKS] = {0, 1, 2};

static void must(symmcoll_status_t status)
{
    if (status == SYMMCOLL_OK)
        return;
    diag("%s", symmcoll_last_error());
    exit(1);
}

/* Make a rank's arena. */
static void begin_rank(int r, size_t nbytes)
{
    struct rank *rank = &ranks[r];

    must(symc_block_create(
        "test", r, RANKS, TRACE, TRACE, nbytes, &rank->own, &rank->fd));
    must(symc_segments_open(&rank->segments, r, RANKS, &rank->own, rank->fd));
}

/* Let a rank have the arenas of all, its own included. */
static void connect_rank(int r, bool threads)
{
    struct rank *rank = &ranks[r];

    for (int p = 0; p < RANKS; p++) {
        struct symc_peer *peer = &rank->peers[p];
        size_t nbytes = ranks[p].own.mapped;

        *peer = (struct symc_peer){.pid = getpid(), .pidfd = -1};
        if (p == r)
            peer->view = rank->own;
        else if (threads)
            must(symc_block_borrow(ranks[p].own.block, p, nbytes, &peer->view));
        else
            must(symc_block_map(ranks[p].fd, p, nbytes, nbytes, &peer->view));
        peer->mine = !threads;
    }
    symc_segments_connect(&rank->segments, rank->peers);
}

static void begin(bool threads)
{
    for (int r = 0; r < RANKS; r++)
        begin_rank(r, ARENA);
    for (int r = 0; r < RANKS; r++)
        connect_rank(r, threads);
}

static void end(bool threads)
{
    for (int r = 0; r < RANKS; r++) {
        symc_segments_close(&ranks[r].segments);
        for (int p = 0; p < RANKS; p++) {
            if (p != r && !threads)
                symc_block_unmap(&ranks[r].peers[p].view);
        }
    }
    for (int r = 0; r < RANKS; r++) {
        symc_block_unmap(&ranks[r].own);
        close(ranks[r].fd);
    }
}

/* ---- making one ---- */

static void offer_all(size_t nbytes, struct symc_offer all[RANKS])
{
    for (int r = 0; r < RANKS; r++)
        must(symc_segment_offer(&ranks[r].segments, nbytes, nbytes, &all[r]));
}

static void accept_all(
    const struct symc_offer all[RANKS], struct symc_segment *made[RANKS])
{
    for (int r = 0; r < RANKS; r++)
        must(symc_segment_accept(
            &ranks[r].segments, all_ranks, r, RANKS, all, &made[r]));
}

static void make_all(size_t nbytes, struct symc_segment *made[RANKS])
{
    struct symc_offer all[RANKS];

    offer_all(nbytes, all);
    accept_all(all, made);
}

static bool is_filled(const char *at, size_t nbytes, int value)
{
    for (size_t i = 0; i < nbytes; i++) {
        if (at[i] != value)
            return false;
    }
    return true;
}

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

/* ---- using bytes again ---- */

static long blocks_of(int r)
{
    struct stat info;

    return fstat(ranks[r].fd, &info) == 0 ? (long)info.st_blocks : -1;
}

static void test_reuse(const char *how)
{
    struct symc_segment *made[RANKS], *other[RANKS];
    long before = blocks_of(0), used;
    char *at;
    bool kept;

    make_all(1 << 20, made);
    at = made[0]->at[0];
    memset(at, 7, 1 << 20);
    used = blocks_of(0);
    symc_segment_leave(made[0]);
    symc_segment_leave(made[1]);
    kept = symc_segments_reap(&ranks[0].segments) == 1 &&
           symc_segments_reap(&ranks[1].segments) == 1;
    make_all(1 << 20, other);
    ok(kept && other[0]->at[0] != at && blocks_of(0) >= used &&
            is_filled(made[2]->at[0], 1 << 20, 7),
        "%s: what one member has not left is not used again", how);
    symc_segment_leave(made[2]);
    ok(symc_segments_reap(&ranks[0].segments) == 0 &&
            blocks_of(0) == before + (used - before),
        "%s: what all have left releases its memory", how);
    for (int r = 0; r < RANKS; r++)
        symc_segment_leave(other[r]);
    for (int r = 0; r < RANKS; r++)
        symc_segments_reap(&ranks[r].segments);
    ok(blocks_of(0) == before, "%s: in the end nothing is backed", how);
    make_all(1 << 20, made);
    ok(made[0]->at[0] == at && is_filled(at, 1 << 20, 0),
        "%s: the same bytes are used again, and are zeros", how);
    for (int r = 0; r < RANKS; r++)
        symc_segment_leave(made[r]);
}

/* Rank 1 finds that all have left before rank 0 looks, and uses its part for
 * something else: its entry is of a later generation then. */
static void test_later_generation(const char *how)
{
    struct symc_segment *made[RANKS], *pair[2];
    struct symc_offer offers[2];
    static const int members[2] = {1, 2};

    make_all(8192, made);
    for (int r = 0; r < RANKS; r++)
        symc_segment_leave(made[r]);
    for (int i = 0; i < 2; i++)
        must(symc_segment_offer(
            &ranks[members[i]].segments, 8192, 8192, &offers[i]));
    for (int i = 0; i < 2; i++)
        must(symc_segment_accept(
            &ranks[members[i]].segments, members, i, 2, offers, &pair[i]));
    ok(symc_segments_reap(&ranks[0].segments) == 0,
        "%s: a peer that uses its part again has found that all have left",
        how);
    for (int i = 0; i < 2; i++)
        symc_segment_leave(pair[i]);
}

static void test_death(const char *how)
{
    struct symc_segment *made[RANKS];
    bool kept;

    make_all(8192, made);
    symc_segment_leave(made[0]);
    symc_segment_leave(made[1]);
    kept = symc_segments_reap(&ranks[0].segments) == 1;
    atomic_store(&ranks[2].own.block->liveness, SYMC_LIVENESS_DIED);
    ok(kept && symc_segments_reap(&ranks[0].segments) == 0,
        "%s: what only the dead have not left is used again", how);
    atomic_store(&ranks[2].own.block->liveness, SYMC_LIVENESS_NONE);
    symc_segment_leave(made[2]);
}

/* An agreement that two ranks have given up, and a third has not heard of. */
static void test_late(const char *how)
{
    struct symc_offer old[RANKS];
    struct symc_segment *made[RANKS], *late;

    offer_all(8192, old);
    symc_segment_withdraw(&ranks[0].segments, &old[0]);
    symc_segment_withdraw(&ranks[1].segments, &old[1]);
    make_all(8192, made);
    for (int r = 0; r < RANKS; r++)
        memset(made[r]->at[r], 'n', 8192);
    ok(failed_with(symc_segment_accept(
                       &ranks[2].segments, all_ranks, 2, RANKS, old, &late),
           SYMMCOLL_ERR_INVALID, "of generation"),
        "%s: who is late is refused an offer that has been taken back", how);
    for (int r = 0; r < RANKS; r++)
        symc_segment_leave(made[r]);
    for (int r = 0; r < RANKS; r++)
        symc_segments_reap(&ranks[r].segments);
    ok(symc_segments_reap(&ranks[2].segments) == 0,
        "%s: and does not keep what it offered itself", how);
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

/* ---- what peers write ---- */

static bool is_refused(const struct symc_offer *changed)
{
    struct symc_offer all[RANKS];
    struct symc_segment *made;
    symmcoll_status_t status;

    offer_all(8192, all);
    symc_segment_withdraw(&ranks[0].segments, &all[0]);
    symc_segment_withdraw(&ranks[2].segments, &all[2]);
    all[0].nbytes = 0;
    all[2] = *changed;
    status = symc_segment_accept(
        &ranks[1].segments, all_ranks, 1, RANKS, all, &made);
    if (status == SYMMCOLL_OK)
        symc_segment_leave(made);
    return status == SYMMCOLL_ERR_INVALID;
}

static void test_wild_offers(const char *how)
{
    const uint64_t head = ranks[2].own.layout.nbytes;
    const struct symc_offer wild[] = {{0, 8192, 4096},
        {head - 4096, 8192, 4096}, {head + 8, 8192, 4096}, {ARENA, 8192, 4096},
        {ARENA - 4096, 8192, 4096}, {UINT64_MAX - 4095, 8192, 4096},
        {head, UINT64_MAX, 4096}, {head, ARENA, 4096}, {head, 8192, 0},
        {head, 8192, UINT64_MAX}, {UINT64_MAX, UINT64_MAX, UINT64_MAX}};
    bool good = true;

    for (size_t i = 0; i < sizeof(wild) / sizeof(*wild); i++) {
        if (!is_refused(&wild[i])) {
            diag("wild offer %zu was not refused", i);
            good = false;
        }
    }
    ok(good, "%s: an offer of what a peer does not have is refused", how);
}

static void test_wild_table(const char *how)
{
    static const uint64_t words[] = {0, 1, UINT64_MAX, UINT64_MAX >> 1,
        SYMC_SEGMENT_LEFT, UINT64_C(0x0101010101010101)};
    bool good = true;

    for (size_t i = 0; i < sizeof(words) / sizeof(*words); i++) {
        struct symc_segment *made[RANKS];

        make_all(8192, made);
        symc_segment_leave(made[0]);
        symc_segment_leave(made[1]);
        for (int e = 0; e < SYMC_SEGMENTS_MAX; e++)
            atomic_store(&ranks[2].own.block->segments[e], words[i]);
        /* Of one entry in 4096 it may be a later generation. */
        if ((words[i] ^ made[2]->offers[2].generation) % SYMC_SEGMENTS_MAX != 0)
            good = symc_segments_reap(&ranks[0].segments) == 1 && good;
        symc_segment_leave(made[2]);
        good = symc_segments_reap(&ranks[0].segments) == 0 && good;
    }
    ok(good, "%s: what a stray store leaves in a table is no leaving", how);
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
    int kept[RANKS];
    bool good = true;
    size_t offset;

    /* What was made with wild offers is kept until that peer has died. */
    for (int r = 0; r < RANKS; r++)
        kept[r] = symc_segments_reap(&ranks[r].segments);
    for (int i = 0; i < MANY; i++) {
        make_all(4096, made[i]);
        memset(made[i][i % RANKS]->at[i % RANKS], i, 4096);
    }
    /* A sanitizer maps what it needs for itself. */
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
        good = symc_segments_reap(&ranks[r].segments) == kept[r] && good;
    ok(good, "%s: all are taken back", how);
}

static void test_full(const char *how)
{
    static struct symc_offer offers[SYMC_SEGMENTS_MAX + 1];
    struct symc_segments *mine = &ranks[0].segments;
    struct symc_offer one;
    int count = 0;

    ok(failed_with(symc_segment_offer(mine, ARENA, 0, &one),
           SYMMCOLL_ERR_NO_MEMORY, "64 MiB asked for"),
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

/* ---- memfds of their own ---- */

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
    static const char *const modes[] = {"processes", "threads"};

    for (int threads = 0; threads < 2; threads++) {
        const char *how = modes[threads];

        begin(threads != 0);
        test_sharing(how);
        test_smallest(how);
        test_reuse(how);
        test_later_generation(how);
        test_death(how);
        test_late(how);
        test_find(how);
        test_wild_offers(how);
        test_elsewhere(how);
        test_many(how);
        test_full(how);
        test_memfd(how);
        test_wild_table(how);
        end(threads != 0);
    }
    test_different_sizes();
    test_limits();
    return done_testing();
}
