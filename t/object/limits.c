/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Tests objects that are refused: above a limit, with impossible lengths, or
 * in calls that differ. All ranks get an error, and the group remains usable.
 */
#include "../coll/data.h"
#include "../tap.h"
#include "object.h"

#include <string.h>

#define RANKS 3

static bool is_usable(struct symmcoll_group *group)
{
    return object_ok(symmcoll_barrier(group, NULL, NULL));
}

/* The object of rank 1 is longer than all accept. */
static int all_refuse(struct symmcoll_group *group, int rank)
{
    struct symmcoll_object in = object_make(rank == 1 ? 11 : 3, rank);
    struct symmcoll_object outs[RANKS];
    const char *text = "expected at most 10 bytes of rank 1, found 11";
    bool right =
        object_fails(symmcoll_all_gather_object(group, outs, &in, 10, NULL),
            SYMMCOLL_ERR_INVALID, text) &&
        object_fails(symmcoll_gather_object(
                         group, rank == 0 ? outs : NULL, &in, 0, 10, NULL),
            SYMMCOLL_ERR_INVALID, text) &&
        (rank != 0 || (outs[0].data == NULL && outs[2].nbytes == 0));

    if (rank != 1)
        symmcoll_objects_free(&in, 1);
    right =
        right &&
        object_fails(symmcoll_broadcast_object_list(group, &in, 1, 1, 10, NULL),
            SYMMCOLL_ERR_INVALID, text) &&
        is_usable(group);
    symmcoll_objects_free(&in, 1);
    return right;
}

/* Rank 2 accepts less than the others, whose errors name it. */
static int one_refuses(struct symmcoll_group *group, int rank)
{
    struct symmcoll_object in = object_make(100, rank);
    struct symmcoll_object own = object_make(100, rank);
    struct symmcoll_object outs[RANKS], ins[RANKS], out;
    size_t most = rank == 2 ? 99 : 0;
    symmcoll_status_t expected =
        rank == 2 ? SYMMCOLL_ERR_INVALID : SYMMCOLL_ERR_MISMATCH;
    const char *text =
        rank == 2 ? "expected at most 99 bytes of rank 0" : "rank 2 passed 0";
    bool right;

    for (int r = 0; r < RANKS; r++)
        ins[r] = in;
    right =
        object_fails(symmcoll_all_gather_object(group, outs, &in, most, NULL),
            expected, text) &&
        object_fails(symmcoll_gather_object(
                         group, rank == 0 ? outs : NULL, &in, 0, most, NULL),
            expected, text) &&
        object_fails(symmcoll_scatter_object_list(
                         group, &out, rank == 0 ? ins : NULL, 0, most, NULL),
            expected, text) &&
        out.data == NULL && is_usable(group);
    if (rank != 0)
        symmcoll_objects_free(&own, 1);
    right = right &&
            object_fails(
                symmcoll_broadcast_object_list(group, &own, 1, 0, most, NULL),
                expected, text) &&
            is_usable(group);
    symmcoll_objects_free(&own, 1);
    symmcoll_objects_free(&in, 1);
    return right;
}

/* Checks that the limit of a list applies to its sum, which must not overflow
 * either. */
static int sums_are_limited(struct symmcoll_group *group, int rank)
{
    char byte = 1;
    struct symmcoll_object two[2] = {{NULL, 0, 0}, {NULL, 0, 0}};
    struct symmcoll_object parts[RANKS] = {{NULL, 0, 0}};
    bool right;

    if (rank == 0)
        two[0] = two[1] = (struct symmcoll_object){&byte, SIZE_MAX / 2, 0};
    right = object_fails(
        symmcoll_broadcast_object_list(group, two, 2, 0, SIZE_MAX / 2, NULL),
        SYMMCOLL_ERR_INVALID, "of rank 0, found -1");
    if (rank == 0)
        two[0].nbytes = SIZE_MAX;
    parts[0] = two[0];
    right = right && object_fails(symmcoll_broadcast_object_list(
                                      group, two, 2, 0, SIZE_MAX, NULL),
                         SYMMCOLL_ERR_INVALID, "of rank 0, found -1");
    right =
        right && object_fails(symmcoll_scatter_object_list(group, &two[1],
                                  rank == 0 ? parts : NULL, 0, SIZE_MAX, NULL),
                     SYMMCOLL_ERR_INVALID, "of rank 0, found -1");
    return right && is_usable(group);
}

/* Passes lists of different lengths, and invalid arguments. */
static int arguments(struct symmcoll_group *group, int rank)
{
    struct symmcoll_object list[RANKS] = {{NULL, 0, 0}}, outs[RANKS];
    struct symmcoll_object bad = {NULL, 5, 0};
    bool right =
        object_fails(symmcoll_broadcast_object_list(
                         group, list, rank == 1 ? 2 : 3, 0, 0, NULL),
            SYMMCOLL_ERR_MISMATCH, "rank 1 passed 2") &&
        object_fails(symmcoll_gather_object(
                         group, rank == 0 ? NULL : outs, list, 0, 0, NULL),
            SYMMCOLL_ERR_INVALID, "expected outs at rank 0 alone") &&
        object_fails(symmcoll_scatter_object_list(
                         group, outs, rank == 0 ? NULL : list, 0, 0, NULL),
            SYMMCOLL_ERR_INVALID, "ins at rank 0 alone") &&
        object_fails(symmcoll_all_gather_object(group, outs, &bad, 0, NULL),
            SYMMCOLL_ERR_INVALID, "expected data of 5 bytes, found NULL") &&
        object_fails(symmcoll_all_gather_object(group, NULL, list, 0, NULL),
            SYMMCOLL_ERR_INVALID, "expected outs") &&
        object_fails(symmcoll_gather_object(group, outs, list, RANKS, 0, NULL),
            SYMMCOLL_ERR_INVALID, "expected a rank of 0 to 2, found 3") &&
        object_fails(symmcoll_broadcast_object_list(group, list, 0, 0, 0, NULL),
            SYMMCOLL_ERR_INVALID, "expected one object or more") &&
        object_fails(symmcoll_all_gather_object(NULL, outs, list, 0, NULL),
            SYMMCOLL_ERR_INVALID, "expected a group");

    symmcoll_objects_free(NULL, 3);
    return right && symmcoll_group_sequence(group) == 1;
}

/* Regions refuse objects, because they would keep memory of the call. */
static int not_in_a_region(struct symmcoll_group *group, int rank)
{
    struct symmcoll_object in = {NULL, 0, 0}, outs[RANKS];

    (void)rank;
    return object_ok(symmcoll_coalesce_begin(group)) &&
           object_fails(symmcoll_all_gather_object(group, outs, &in, 0, NULL),
               SYMMCOLL_ERR_INVALID, "expected no open region") &&
           object_ok(symmcoll_coalesce_end(group, NULL, NULL)) &&
           symmcoll_group_sequence(group) == 0;
}

int main(void)
{
    both_run(RANKS, all_refuse,
        "C77: an object above the limit is refused by all ranks");
    both_run(RANKS, one_refuses,
        "C77: a rank that cannot receive is named to the others");
    both_run(RANKS, sums_are_limited,
        "C77: lengths that cannot be are refused by all ranks");
    both_run(RANKS, arguments, "C71 C72 C73: arguments are checked");
    both_run(RANKS, not_in_a_region, "objects are not part of a region");
    return done_testing();
}
