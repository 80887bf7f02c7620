/* SPDX-License-Identifier: BSD-3-Clause */
/* Tests objects from one rank to another. */
#include "../coll/data.h"
#include "../tap.h"
#include "object.h"

#include <stdlib.h>
#include <string.h>

#define MANY 3

static bool send_list(struct symmcoll_group *group, size_t nbytes, int peer)
{
    int rank = symmcoll_group_rank(group);
    struct symmcoll_object objects[MANY];
    bool right;

    for (int i = 0; i < MANY; i++)
        objects[i] =
            object_make(i == 1 ? 0 : nbytes + (size_t)i, 10 * rank + i);
    right = object_ok(
        symmcoll_send_object_list(group, objects, MANY, peer, 7, NULL));
    symmcoll_objects_free(objects, MANY);
    return right;
}

static bool receive_list(
    struct symmcoll_group *group, size_t nbytes, int peer, int *source)
{
    struct symmcoll_object objects[MANY];
    bool right = object_ok(symmcoll_recv_object_list(
        group, objects, MANY, peer, 7, source, 0, NULL));

    for (int i = 0; right && i < MANY; i++)
        right = object_is(
            &objects[i], i == 1 ? 0 : nbytes + (size_t)i, 10 * *source + i);
    if (right)
        symmcoll_objects_free(objects, MANY);
    return right;
}

static int lists_are_sent(struct symmcoll_group *group, int rank)
{
    static const size_t lengths[] = {1, 60, 5000, 200000};
    bool right = true;

    for (int i = 0; right && i < 4; i++) {
        int source = -1;

        right = rank == 0 ? send_list(group, lengths[i], 1)
                          : receive_list(group, lengths[i], 0, &source) &&
                                source == 0;
    }
    return right;
}

/* All other ranks send at once; the messages of one are not mixed with
 * another's. */
static int any_source(struct symmcoll_group *group, int rank)
{
    int size = symmcoll_group_size(group), from[8] = {0};
    bool right = true;

    for (int round = 0; rank != 0 && right && round < 20; round++)
        right = send_list(group, 40, 0);
    for (int i = 0; rank == 0 && right && i < 20 * (size - 1); i++) {
        int source = -1;

        right = receive_list(group, 40, SYMMCOLL_ANY_SOURCE, &source) &&
                source > 0 && source < size;
        from[right ? source : 0]++;
    }
    for (int r = 1; rank == 0 && right && r < size; r++)
        right = from[r] == 20;
    return right;
}

static int pair_of_a_subgroup(struct symmcoll_group *all, int rank)
{
    struct symmcoll_group_args args = SYMMCOLL_GROUP_ARGS_INIT;
    static const int pair[] = {1, 3};
    struct symmcoll_group *group = NULL;
    int source = -1;
    bool right;

    args.ranks = pair;
    args.nranks = 2;
    if (!object_ok(
            symmcoll_group_create(symmcoll_group_world(all), &args, &group)))
        return 0;
    right = rank % 2 == 0 ||
            (rank == 1 ? send_list(group, 500, 1)
                       : receive_list(group, 500, 0, &source) && source == 0);
    return symmcoll_group_free(group) == SYMMCOLL_OK && right;
}

/* Checks that a refused list is discarded, and that the next one is
 * received. */
static bool refuses(struct symmcoll_group *group, int peer)
{
    struct symmcoll_object objects[MANY + 1];
    int source = -1;

    return object_fails(symmcoll_recv_object_list(
                            group, objects, MANY, peer, 7, NULL, 99, NULL),
               SYMMCOLL_ERR_INVALID, "expected at most 99 bytes of rank 0") &&
           objects[0].data == NULL &&
           object_fails(symmcoll_recv_object_list(
                            group, objects, MANY + 1, peer, 7, NULL, 0, NULL),
               SYMMCOLL_ERR_MISMATCH, "rank 0") &&
           receive_list(group, 50, peer, &source) && source == 0;
}

/* Sends messages with lengths for which the sends end before the refusal. */
static int refused_ones_are_dropped(struct symmcoll_group *group, int rank)
{
    bool right = true;

    for (int round = 0; right && round < 2; round++)
        right = rank == 0
                    ? send_list(group, 50, 1) && send_list(group, 50, 1) &&
                          send_list(group, 50, 1)
                    : refuses(group, round == 0 ? 0 : SYMMCOLL_ANY_SOURCE);
    return right;
}

/* A send with this many lengths waits for its receive, and gets an error; the
 * bytes are still sent, because they are received. */
#define LONG ((size_t)40000)

static int long_ones_are_dropped(struct symmcoll_group *group, int rank)
{
    struct symmcoll_object *objects = calloc(LONG + 1, sizeof(*objects));
    symmcoll_status_t status;
    int source = -1;
    bool right = objects != NULL;

    if (right && rank == 0) {
        status = symmcoll_send_object_list(group, objects, LONG, 1, 7, NULL);
        right = object_fails(status, SYMMCOLL_ERR_MISMATCH, "rank 1");
    } else if (right) {
        status = symmcoll_recv_object_list(
            group, objects, LONG + 1, 0, 7, NULL, 0, NULL);
        right = object_fails(status, SYMMCOLL_ERR_MISMATCH, "rank 0");
    }
    free(objects);
    return right && (rank == 0 ? send_list(group, 50, 1)
                               : receive_list(group, 50, 0, &source));
}

static int arguments(struct symmcoll_group *group, int rank)
{
    struct symmcoll_object none = {NULL, 0, 0}, bad = {NULL, 1, 0};
    int peer = 1 - rank;

    return object_fails(
               symmcoll_send_object_list(group, &bad, 1, peer, 0, NULL),
               SYMMCOLL_ERR_INVALID, "expected data of 1 bytes, found NULL") &&
           object_fails(
               symmcoll_send_object_list(group, &none, 0, peer, 0, NULL),
               SYMMCOLL_ERR_INVALID, "expected one object or more") &&
           object_fails(symmcoll_send_object_list(group, &none, 1, 2, 0, NULL),
               SYMMCOLL_ERR_INVALID, "expected a rank of 0 to 1, found 2") &&
           object_fails(symmcoll_recv_object_list(
                            group, NULL, 1, peer, 0, NULL, 0, NULL),
               SYMMCOLL_ERR_INVALID, "found NULL");
}

int main(void)
{
    both_run(2, lists_are_sent, "C74: a list of objects is sent and received");
    both_run(3, any_source, "C74: all of a list is from one sender");
    both_run(4, pair_of_a_subgroup, "C74 C76: peers are ranks of the group");
    both_run(2, refused_ones_are_dropped,
        "C77: a list that is refused does not disturb the next");
    both_run(2, long_ones_are_dropped,
        "C74: a list of another length does not disturb the next");
    both_run(2, arguments, "C74: arguments are checked");
    return done_testing();
}
