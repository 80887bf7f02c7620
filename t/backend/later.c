/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Tests a backend of host memory that only begins an operation at its start
 * and whose members share no memory: calls, works, the library's own rounds,
 * and the comparison of operations on device memory. later_faults.c tests
 * failures.
 */
#include "later.h"

#define MANY 20 /* works, more than can be issued */

static int kinds(struct symmcoll_group *group, int rank)
{
    int size = symmcoll_group_size(group), root = size - 1;
    float mine[2] = {(float)rank, 1}, all[2 * 4] = {0}, out[2] = {0};
    int right = is_later(group);

    right &= say(symmcoll_barrier(group, NULL, NULL) == SYMMCOLL_OK, "barrier");
    right &= say(
        symmcoll_all_reduce(group, out, mine, 2, F32, SUM, NULL, NULL) ==
                SYMMCOLL_OK &&
            out[0] == (float)(size * (size - 1) / 2) && out[1] == (float)size,
        "all_reduce");
    right &= say(symmcoll_all_gather(group, all, mine, 2, F32, NULL, NULL) ==
                         SYMMCOLL_OK &&
                     all[2 * root] == (float)root && all[2 * root + 1] == 1,
        "all_gather");
    right &= say(symmcoll_broadcast(group, mine, 2, F32, root, NULL, NULL) ==
                         SYMMCOLL_OK &&
                     mine[0] == (float)root,
        "broadcast");
    right &= say(symmcoll_reduce(group, rank == 0 ? out : NULL, mine, 1, F32,
                     SUM, 0, NULL, NULL) == SYMMCOLL_OK &&
                     (rank != 0 || out[0] == (float)(size * root)),
        "reduce");
    return right && symmcoll_group_sequence(group) == 5;
}

/* Starts more works than can be issued; the last is waited for first. */
static int works(struct symmcoll_group *group, int rank)
{
    struct symmcoll_work *made[MANY] = {NULL};
    float in[MANY], out[MANY] = {0};
    int right = is_later(group);

    for (int i = 0; i < MANY && right; i++) {
        in[i] = (float)(rank + i);
        right = say(symmcoll_all_reduce(group, &out[i], &in[i], 1, F32, SUM,
                        NULL, &made[i]) == SYMMCOLL_OK,
            "a work");
    }
    for (int i = MANY - 1; i >= 0 && right; i--) {
        int size = symmcoll_group_size(group);

        right = say(symmcoll_work_wait(made[i], 60) == SYMMCOLL_OK &&
                        out[i] == (float)(size * (size - 1) / 2 + size * i),
            "its end");
        symmcoll_work_free(made[i]);
    }
    return right && say(sum_host(group, rank) == SYMMCOLL_OK, "a call");
}

/* Works without a waiter are completed by the attendant. */
static int released(struct symmcoll_group *group, int rank)
{
    float in = (float)rank, out = -1;
    struct symmcoll_work *work;
    int size = symmcoll_group_size(group);

    if (!say(symmcoll_all_reduce(group, &out, &in, 1, F32, SUM, NULL, &work) ==
                 SYMMCOLL_OK,
            "a work"))
        return 0;
    symmcoll_work_free(work);
    return say(symmcoll_group_drain(group, 60) == SYMMCOLL_OK, "drain") &&
           out == (float)(size * (size - 1) / 2);
}

static int mismatch(struct symmcoll_group *group, int rank)
{
    float in[2] = {1, 1}, out[2] = {0};
    struct symmcoll_work *work = NULL;
    int right = ended(symmcoll_all_reduce(group, out, in, rank == 1 ? 2 : 1,
                          F32, SUM, NULL, NULL),
                    SYMMCOLL_ERR_MISMATCH, "differs from rank 0") &&
                say(symmcoll_all_reduce(group, out, in, rank == 1 ? 2 : 1, F32,
                        SUM, NULL, &work) == SYMMCOLL_OK,
                    "a work");

    right = right && ended(symmcoll_work_wait(work, 60), SYMMCOLL_ERR_MISMATCH,
                         "differs from rank 0");
    symmcoll_work_free(work);
    return right && out[0] == 0 &&
           say(sum_host(group, rank) == SYMMCOLL_OK, "after it");
}

static int lacks(struct symmcoll_group *group, int rank)
{
    float in[8] = {0}, out[8] = {0};

    return ended(symmcoll_all_to_all(group, out, in, 1, F32, NULL, NULL),
               SYMMCOLL_ERR_UNSUPPORTED, "all_to_all: fake_host has small") &&
           say(sum_host(group, rank) == SYMMCOLL_OK, "after it");
}

/* Rounds create groups; each has sockets of its own. */
static int groups(struct symmcoll_group *group, int rank)
{
    struct symmcoll_group *made = NULL, *half = NULL;
    int right = say(symmcoll_group_create(symmcoll_group_world(group), NULL,
                        &made) == SYMMCOLL_OK,
                    "a group") &&
                is_later(made) &&
                say(symmcoll_group_split(group, rank % 2, rank, NULL, &half) ==
                        SYMMCOLL_OK,
                    "a split");

    right = right && say(sum_host(made, rank) == SYMMCOLL_OK, "its sum") &&
            say(sum_host(half, rank / 2) == SYMMCOLL_OK, "the half's");
    (void)symmcoll_group_free(half);
    return right && say(symmcoll_group_free(made) == SYMMCOLL_OK, "free") &&
           say(sum_host(group, rank) == SYMMCOLL_OK, "after them");
}

/* Operations on device memory are compared here: the first opens its backend in
 * rounds; later ones are started when the comparison has ended. */
static int devices(struct symmcoll_group *group, int rank)
{
    float *at = device(rank);
    struct symmcoll_work *made[3] = {NULL};
    int right = say(sum_device(group, at, rank, NULL) == SYMMCOLL_OK &&
                        at[1] == expected_sum(group),
        "the first");

    for (int i = 0; i < 3 && right; i++)
        right =
            say(sum_device(group, at + 8 * i, rank, &made[i]) == SYMMCOLL_OK,
                "a work");
    for (int i = 0; i < 3 && right; i++) {
        right = say(symmcoll_work_wait(made[i], 60) == SYMMCOLL_OK &&
                        at[8 * i + 1] == expected_sum(group),
            "its end");
        symmcoll_work_free(made[i]);
    }
    right = right && ended(symmcoll_all_reduce(group, at + 8, at,
                               rank == 1 ? 2 : 1, F32, SUM, NULL, NULL),
                         SYMMCOLL_ERR_MISMATCH, "differs from rank 0");
    return right && say(sum_host(group, rank) == SYMMCOLL_OK, "host") &&
           say(atomic_load(&control()->strange) == 0, "no rule broken");
}

/* The second preparation of an operation on device memory fails on a member:
 * the rounds of prepare() run on this backend. */
static int prepares(struct symmcoll_group *group, int rank)
{
    struct symmcoll_call call = SYMMCOLL_CALL_INIT;
    float *at = device(rank);

    call.label = "useful";
    at[0] = 1;
    return say(symmcoll_all_reduce(
                   group, at + 1, at, 1, F32, SUM, &call, NULL) == SYMMCOLL_OK,
               "prepared") &&
           at[1] == (float)symmcoll_group_size(group) &&
           say(atomic_load(&control()->prepared) > 0, "prepare() ran");
}

int main(void)
{
    use_later_host();
    /* Makes calls without a work return after the data has moved. */
    setenv("SYMMCOLL_ERRORS_BLOCKING_WAIT", "on", 1);
    for (int n = 2; n <= 4; n++) {
        on_both(n, kinds, "calls end when all members have come");
        on_both(n, works, "works end in the order of issue");
    }
    on_both(2, released, "a work without a waiter ends");
    on_both(3, mismatch, "a mismatch is found at the end, by all");
    on_both(2, lacks, "an error of start() is only the call's");
    on_both(4, groups, "groups are created in rounds that end later");
    on_both(3, devices, "operations on device memory are compared");
    on_both(3, prepares, "a device's preparation has such rounds");
    return done_testing();
}
