/* SPDX-License-Identifier: BSD-3-Clause */
/* Tests recordings of functional calls. */
#include "t/functional/made.h"

#include <string.h>

#define ROOM 8

static struct symmcoll_f_record records[ROOM];

static int begin(struct symmcoll_world *world, int count)
{
    for (int i = 0; i < ROOM; i++)
        records[i] = (struct symmcoll_f_record)SYMMCOLL_F_RECORD_INIT;
    return OK(symmcoll_f_record_begin(world, records, count));
}

/* Checks that a record is of that call, on that input. */
static int is_call(int at, const char *name, int from)
{
    if (strcmp(records[at].name, name) == 0 && records[at].from == from)
        return 1;
    diag("record %d: expected %s from %d, found %s from %d", at, name, from,
        records[at].name, records[at].from);
    return 0;
}

/* Records a call, its wait and the calls after it. */
static int traces(struct symmcoll_world *world)
{
    struct symmcoll_group *all = symmcoll_world_group(world);
    float ones[8] = {1, 1, 1, 1, 1, 1, 1, 1};
    struct symmcoll_tensor in =
        SYMMCOLL_TENSOR_SHAPE(ones, SYMMCOLL_FLOAT32, 2, 4);
    struct symmcoll_tensor sum = SYMMCOLL_TENSOR_INIT,
                           parts = SYMMCOLL_TENSOR_INIT;
    int count = -1, good;

    good =
        begin(world, ROOM) &&
        OK(symmcoll_f_all_reduce(all, &in, SYMMCOLL_SUM, NULL, &sum, NULL)) &&
        OK(symmcoll_f_wait(world, &sum, -1)) &&
        OK(symmcoll_f_all_gather(all, &sum, 1, NULL, &parts, NULL)) &&
        OK(symmcoll_f_wait(world, &parts, -1)) &&
        OK(symmcoll_f_record_end(world, &count)) &&
        OK(symmcoll_f_wait(world, &parts, -1)) && count == 4 &&
        is_call(0, "f_all_reduce", -1) && is_call(1, "f_wait", 0) &&
        is_call(2, "f_all_gather", 1) && is_call(3, "f_wait", 2) &&
        strcmp(records[0].group, symmcoll_group_name(all)) == 0 &&
        records[0].dtype == SYMMCOLL_FLOAT32 && records[0].op == SYMMCOLL_SUM &&
        records[0].dim == -1 && records[2].dim == 1 &&
        records[2].in_ndim == 2 && records[2].in_shape[1] == 4 &&
        records[2].out_shape[1] == 4 * symmcoll_group_size(all);
    symmcoll_f_free(world, &sum);
    symmcoll_f_free(world, &parts);
    return good;
}

static int traces_ranks(struct symmcoll_group *group, int rank)
{
    /* Ranks that are threads share the records: only one of them records. */
    if (symmcoll_group_size(group) > 1 && rank != 0) {
        float ones[8] = {1, 1, 1, 1, 1, 1, 1, 1};
        struct symmcoll_tensor in =
            SYMMCOLL_TENSOR_SHAPE(ones, SYMMCOLL_FLOAT32, 2, 4);
        struct symmcoll_tensor sum = SYMMCOLL_TENSOR_INIT,
                               parts = SYMMCOLL_TENSOR_INIT;
        int good =
            OK(symmcoll_f_all_reduce(
                group, &in, SYMMCOLL_SUM, NULL, &sum, NULL)) &&
            OK(symmcoll_f_all_gather(group, &sum, 1, NULL, &parts, NULL)) &&
            waits(group, &parts);

        release(group, &sum);
        release(group, &parts);
        return good;
    }
    return traces(group->world);
}

/* Checks that a pending input is waited for by the call that uses it. */
static int implicit_waits(struct symmcoll_group *group, int rank)
{
    float ones[2] = {1, 1};
    struct symmcoll_tensor in = SYMMCOLL_TENSOR_FLAT(ones, 2, SYMMCOLL_FLOAT32);
    struct symmcoll_tensor a = SYMMCOLL_TENSOR_INIT, b = SYMMCOLL_TENSOR_INIT;
    int count = -1, good;

    (void)rank;
    good =
        begin(group->world, ROOM) &&
        OK(symmcoll_f_all_reduce(group, &in, SYMMCOLL_SUM, NULL, &a, NULL)) &&
        OK(symmcoll_f_all_reduce(group, &a, SYMMCOLL_SUM, NULL, &b, NULL)) &&
        waits(group, &b) && OK(symmcoll_f_record_end(group->world, &count)) &&
        count == 4 && is_call(1, "f_wait", 0) &&
        is_call(2, "f_all_reduce", 1) && is_call(3, "f_wait", 2);
    release(group, &a);
    release(group, &b);
    return good;
}

/* Checks one call and one wait each for an all_to_all and its gradient. */
static int gradients_too(struct symmcoll_group *group, int rank)
{
    float ones[2] = {1, 1};
    const size_t splits[1] = {2};
    struct symmcoll_tensor in = SYMMCOLL_TENSOR_FLAT(ones, 2, SYMMCOLL_FLOAT32);
    struct symmcoll_tensor a = SYMMCOLL_TENSOR_INIT, b = SYMMCOLL_TENSOR_INIT;
    struct symmcoll_adjoint *adjoint = NULL;
    int count = -1, good;

    (void)rank;
    good =
        begin(group->world, ROOM) &&
        OK(symmcoll_f_all_to_all(
            group, &in, splits, splits, NULL, &a, &adjoint)) &&
        waits(group, &a) && OK(symmcoll_adjoint_run(adjoint, &a, NULL, &b)) &&
        waits(group, &b) && OK(symmcoll_f_record_end(group->world, &count)) &&
        count == 4 && is_call(0, "f_all_to_all", -1) &&
        is_call(1, "f_wait", 0) && is_call(2, "adjoint_run", 1) &&
        is_call(3, "f_wait", 2) && b.data != NULL;
    release(group, &a);
    release(group, &b);
    symmcoll_adjoint_free(adjoint);
    return good;
}

/* Checks that records which do not fit are counted. */
static int counts_more(struct symmcoll_group *group, int rank)
{
    float ones[2] = {1, 1};
    struct symmcoll_tensor in = SYMMCOLL_TENSOR_FLAT(ones, 2, SYMMCOLL_FLOAT32);
    struct symmcoll_tensor out =
        SYMMCOLL_TENSOR_FLAT(ones, 2, SYMMCOLL_FLOAT32);
    int count = -1, good = begin(group->world, 2);

    (void)rank;
    for (int i = 0; i < 3; i++)
        good = good &&
               OK(symmcoll_f_all_reduce(
                   group, &in, SYMMCOLL_MAX, NULL, &out, NULL)) &&
               waits(group, &out);
    return good && OK(symmcoll_f_record_end(group->world, &count)) &&
           count > 2 && records[2].name[0] == '\0' &&
           symmcoll_f_record_end(group->world, &count) ==
               SYMMCOLL_ERR_INVALID &&
           symmcoll_f_record_begin(group->world, NULL, 2) ==
               SYMMCOLL_ERR_INVALID &&
           symmcoll_f_record_begin(NULL, records, 2) == SYMMCOLL_ERR_INVALID &&
           symmcoll_f_record_begin(group->world, records, 0) ==
               SYMMCOLL_ERR_INVALID;
}

/* Passes records of unlike sizes, of which the distance between them allows
 * only one. */
static int sizes_differ(struct symmcoll_group *group, int rank)
{
    struct symmcoll_f_record unlike[2] = {
        SYMMCOLL_F_RECORD_INIT, SYMMCOLL_F_RECORD_INIT};

    (void)rank;
    unlike[1].size += 64;
    return symmcoll_f_record_begin(group->world, unlike, 2) ==
               SYMMCOLL_ERR_INVALID &&
           strstr(symmcoll_last_error(), "as the first, found") != NULL;
}

/* Uses eight ranks, seven of which do not exist. */
static int traces_without_peers(struct symmcoll_group *group, int rank)
{
    struct symmcoll_fake_args args = SYMMCOLL_FAKE_ARGS_INIT;
    struct symmcoll_world *world = NULL;
    int good;

    (void)group;
    (void)rank;
    args.world_size = 8;
    good = OK(symmcoll_fake_world(&args, &world)) && traces(world);
    return symmcoll_finalize(world) == SYMMCOLL_OK && good;
}

int main(void)
{
    plan(8);
    ok(ranks_run(2, traces_ranks),
        "processes: calls, waits and what they take are recorded (F42)");
    ok(threads_run(2, traces_ranks),
        "threads: calls, waits and what they take are recorded (F42)");
    ok(ranks_run(1, implicit_waits), "waits of calls are recorded, too (F42)");
    ok(ranks_run(1, gradients_too),
        "a call and its gradient are one record and one wait each (F42)");
    ok(ranks_run(1, counts_more), "what does not fit is counted");
    ok(ranks_run(1, sizes_differ), "records of unlike sizes are refused");
    ok(ranks_run(1, traces_without_peers),
        "ranks that are not there are recorded alike (F41 F42)");
    ok(threads_run(1, traces_ranks), "a recording may follow another world's");
    return done_testing();
}
