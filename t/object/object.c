/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Tests objects in collectives: the received objects are those sent, in groups
 * of all ranks and of some.
 */
#include "object.h"
#include "../coll/data.h"
#include "../tap.h"

#include <stdlib.h>
#include <string.h>

/* Returns the length of rank r's object in a round; every third one is
 * empty. */
static size_t length_of(int r, int round)
{
    static const size_t lengths[] = {1, 7, 100, 9000, 300000};

    return (r + round) % 3 == 2 ? 0 : lengths[round] + (size_t)r;
}

static int all_gather(struct symmcoll_group *group, int rank)
{
    size_t size = (size_t)symmcoll_group_size(group);
    struct symmcoll_object *outs = calloc(size, sizeof(*outs));
    bool right = outs != NULL;

    for (int round = 0; right && round < 5; round++) {
        struct symmcoll_object in = object_make(length_of(rank, round), rank);
        uint64_t before = symmcoll_group_sequence(group);

        right =
            object_ok(symmcoll_all_gather_object(group, outs, &in, 0, NULL)) &&
            symmcoll_group_sequence(group) == before + 2;
        for (int r = 0; right && r < (int)size; r++)
            right = object_is(&outs[r], length_of(r, round), r);
        symmcoll_objects_free(outs, size);
        symmcoll_objects_free(&in, 1);
    }
    free(outs);
    return right;
}

static bool gather_at(struct symmcoll_group *group, int root, int round)
{
    size_t size = (size_t)symmcoll_group_size(group);
    int rank = symmcoll_group_rank(group);
    struct symmcoll_object in = object_make(length_of(rank, round), rank);
    struct symmcoll_object *outs =
        rank == root ? calloc(size, sizeof(*outs)) : NULL;
    uint64_t before = symmcoll_group_sequence(group);
    bool right =
        object_ok(symmcoll_gather_object(group, outs, &in, root, 0, NULL)) &&
        symmcoll_group_sequence(group) == before + 2;

    for (int r = 0; right && outs != NULL && r < (int)size; r++)
        right = object_is(&outs[r], length_of(r, round), r);
    symmcoll_objects_free(outs, size);
    symmcoll_objects_free(&in, 1);
    free(outs);
    return right;
}

static int gather(struct symmcoll_group *group, int rank)
{
    bool right = true;

    (void)rank;
    for (int round = 0; right && round < 5; round++)
        right = gather_at(group, round % symmcoll_group_size(group), round);
    return right;
}

#define MANY 3

static bool broadcast_from(struct symmcoll_group *group, int root, int round)
{
    int rank = symmcoll_group_rank(group);
    struct symmcoll_object objects[MANY] = {{NULL, 0, 0}};
    uint64_t before = symmcoll_group_sequence(group);
    bool right;

    for (int i = 0; rank == root && i < MANY; i++)
        objects[i] = object_make(length_of(i, round), i);
    right = object_ok(symmcoll_broadcast_object_list(
                group, objects, MANY, root, 0, NULL)) &&
            symmcoll_group_sequence(group) == before + 2;
    for (int i = 0; right && i < MANY; i++)
        right = object_is(&objects[i], length_of(i, round), i);
    symmcoll_objects_free(objects, MANY);
    return right;
}

static int broadcast(struct symmcoll_group *group, int rank)
{
    bool right = true;

    (void)rank;
    for (int round = 0; right && round < 5; round++)
        right =
            broadcast_from(group, round % symmcoll_group_size(group), round);
    return right;
}

static bool scatter_from(struct symmcoll_group *group, int root, int round)
{
    size_t size = (size_t)symmcoll_group_size(group);
    int rank = symmcoll_group_rank(group);
    struct symmcoll_object out = {NULL, 0, 0};
    struct symmcoll_object *ins =
        rank == root ? calloc(size, sizeof(*ins)) : NULL;
    uint64_t before = symmcoll_group_sequence(group);
    bool right;

    for (int r = 0; ins != NULL && r < (int)size; r++)
        ins[r] = object_make(length_of(r, round), r);
    right = object_ok(symmcoll_scatter_object_list(
                group, &out, ins, root, 0, NULL)) &&
            symmcoll_group_sequence(group) == before + 3 &&
            object_is(&out, length_of(rank, round), rank);
    symmcoll_objects_free(&out, 1);
    symmcoll_objects_free(ins, size);
    free(ins);
    return right;
}

static int scatter(struct symmcoll_group *group, int rank)
{
    bool right = true;

    (void)rank;
    for (int round = 0; right && round < 5; round++)
        right = scatter_from(group, round % symmcoll_group_size(group), round);
    return right;
}

/* Creates this rank's half of four ranks, with its last rank as the root. */
static struct symmcoll_group *make_half(struct symmcoll_group *all, int rank)
{
    struct symmcoll_group_args args = SYMMCOLL_GROUP_ARGS_INIT;
    static const int halves[2][2] = {{0, 1}, {2, 3}};
    struct symmcoll_group *half[2] = {NULL, NULL};

    for (int h = 0; h < 2; h++) {
        args.ranks = halves[h];
        args.nranks = 2;
        if (!object_ok(symmcoll_group_create(
                symmcoll_group_world(all), &args, &half[h])))
            return NULL;
    }
    symmcoll_group_free(half[1 - rank / 2]);
    return half[rank / 2];
}

static int half_gathers(struct symmcoll_group *all, int rank)
{
    struct symmcoll_group *half = make_half(all, rank);
    bool right = half != NULL && gather_at(half, 1, 2);

    return symmcoll_group_free(half) == SYMMCOLL_OK && right;
}

static int half_broadcasts(struct symmcoll_group *all, int rank)
{
    struct symmcoll_group *half = make_half(all, rank);
    bool right = half != NULL && broadcast_from(half, 1, 2);

    return symmcoll_group_free(half) == SYMMCOLL_OK && right;
}

static int half_scatters(struct symmcoll_group *all, int rank)
{
    struct symmcoll_group *half = make_half(all, rank);
    bool right = half != NULL && scatter_from(half, 1, 2);

    return symmcoll_group_free(half) == SYMMCOLL_OK && right;
}

int main(void)
{
    both_run(1, all_gather, "C70: one rank gathers its object");
    both_run(3, all_gather, "C70: all ranks gather objects in two all_gathers");
    both_run(3, gather, "C72: a root gathers objects, after their lengths");
    both_run(4, broadcast, "C71: a root broadcasts a list of objects");
    both_run(3, scatter, "C73: a root scatters objects");
    both_run(4, half_gathers, "C72 C76: halves gather objects at their last");
    both_run(
        4, half_broadcasts, "C71 C76: halves broadcast objects of their last");
    both_run(4, half_scatters, "C73 C76: halves scatter objects of their last");
    return done_testing();
}
