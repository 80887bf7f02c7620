/* SPDX-License-Identifier: BSD-3-Clause */
/* Tests the names of ranks in messages. */
#include "base/ranks.h"
#include "t/tap.h"

#include <string.h>

#define SIZE 6

static const int shifted[SIZE] = {0, 4, 5, 6, 7, 9};
static const struct symc_ranks usual = {.group = "0", .size = SIZE};
static const struct symc_ranks other = {"dp", shifted, SIZE};

static bool rank_is(
    const struct symc_ranks *ranks, int rank, pid_t pid, const char *expected)
{
    char text[SYMC_RANK_TEXT];

    symc_format_rank(ranks, rank, pid, text);
    if (strcmp(text, expected) == 0)
        return true;
    diag("expected \"%s\", found \"%s\"", expected, text);
    return false;
}

/* Checks the list of ranks; "x" marks a listed one. */
static bool members_are(
    const struct symc_ranks *ranks, const char *marks, const char *expected)
{
    bool listed[SIZE] = {false};
    char text[96];

    for (int r = 0; r < SIZE; r++)
        listed[r] = marks[r] == 'x';
    symc_format_members(ranks, listed, text, sizeof(text));
    if (strcmp(text, expected) == 0)
        return true;
    diag("expected \"%s\", found \"%s\"", expected, text);
    return false;
}

int main(void)
{
    plan(6);
    ok(rank_is(&usual, 2, SYMC_NO_PID, "rank 2") &&
            rank_is(&usual, 2, 123, "rank 2 (pid 123)"),
        "a rank with one number has no brackets for it");
    ok(rank_is(&other, 2, SYMC_NO_PID, "rank 5 (2 in group dp)"),
        "one with two is called by the world's, and the group's in brackets");
    ok(rank_is(&other, 2, 123, "rank 5 (2 in group dp, pid 123)"),
        "beside its process");
    ok(rank_is(&other, 0, 123, "rank 0 (pid 123)"),
        "where both are the same that is not said twice");
    ok(members_are(&usual, "x.xxx.", "ranks 0 and 2-4") &&
            members_are(&other, "x.....", "rank 0"),
        "several with one number each");
    ok(members_are(
           &other, ".x.xxx", "ranks 4, 6, 7 and 9 (1 and 3-5 in group dp)") &&
            members_are(&other, ".x....", "rank 4 (1 in group dp)"),
        "several with two");
    return done_testing();
}
