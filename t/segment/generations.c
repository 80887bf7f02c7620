/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Tests the reuse of a segment's bytes: only when all members have left it,
 * even if members have died, are late, or have written invalid values.
 */
#include "t/segment/arenas.h"

#include <sys/stat.h>

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

/* Rank 1 finds that all have left before rank 0 checks, and reuses its part:
 * its entry then has a later generation. */
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

/* Tests an agreement that two ranks have given up, and of which a third has
 * not learned. */
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

/* ---- values written by peers ---- */

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
        /* One entry in 4096 may look like a later generation. */
        if ((words[i] ^ made[2]->offers[2].generation) % SYMC_SEGMENTS_MAX != 0)
            good = symc_segments_reap(&ranks[0].segments) == 1 && good;
        symc_segment_leave(made[2]);
        good = symc_segments_reap(&ranks[0].segments) == 0 && good;
    }
    ok(good, "%s: what a stray store leaves in a table is no leaving", how);
}

static void test_all(const char *how)
{
    test_reuse(how);
    test_later_generation(how);
    test_death(how);
    test_late(how);
    test_wild_offers(how);
    test_wild_table(how);
}

int main(void)
{
    run_both(test_all);
    return done_testing();
}
