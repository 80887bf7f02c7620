/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Tests a group that is released while a backend still uses its buffers: the
 * end of the world reports them, unless the backend has finished with them by
 * then.
 */
#include "../attempts.h"
#include "modules.h"

#include <sys/wait.h>

#define SIZE 2
#define KEEPER 0

static double short_time; /* the timeout */

/* Starts an operation in a new group with which the keeper's backend never
 * finishes, and releases the group. */
static bool leave_one(struct symmcoll_world *world, int rank, char *name)
{
    struct symmcoll_group *group;
    float *at = device(rank);
    symmcoll_status_t status;

    if (!say(symmcoll_group_create(world, NULL, &group) == SYMMCOLL_OK,
            "a group") ||
        !say(sum_device(group, at, rank, NULL) == SYMMCOLL_OK, "before") ||
        symmcoll_group_set_timeout(group, short_time) != SYMMCOLL_OK)
        return false;
    strcpy(name, symmcoll_group_name(group));
    atomic_store(&control()->keeps, KEEPER);
    status = sum_device(group, at, rank, NULL);
    if (!ended(status, SYMMCOLL_ERR_TIMEOUT, "has not completed it"))
        return false;
    status = symmcoll_group_free(group);
    if (rank != KEEPER)
        return say(status == SYMMCOLL_OK, "its release");
    return ended(status, SYMMCOLL_ERR_DEVICE,
        "still owns the buffers of all_reduce seq 2 on the default stream");
}

/* Releases a group with a kept operation. arg NULL: the backend keeps it to
 * the end. */
static int release_a_group(int rank, int size, void *arg)
{
    struct symmcoll_world *world;
    char name[96] = "", text[160];
    symmcoll_status_t status;

    (void)size;
    if (symmcoll_init(NULL, &world) != SYMMCOLL_OK)
        return 1;
    if (!leave_one(world, rank, name) ||
        !say(sum_host(symmcoll_world_group(world), rank) == SYMMCOLL_OK,
            "after it"))
        return 1;
    if (arg != NULL)
        atomic_store(&control()->keeps, -1);
    status = symmcoll_finalize(world);
    if (rank != KEEPER || arg != NULL)
        return say(status == SYMMCOLL_OK, "finalize") ? 0 : 1;
    snprintf(
        text, sizeof(text), "group %s: backend fake_module still owns", name);
    return ended(status, SYMMCOLL_ERR_DEVICE, text) ? 0 : 1;
}

static bool release_with(double seconds, void *arg)
{
    int statuses[SIZE];

    short_time = seconds;
    if (!ranks_spawn(SIZE, release_a_group, arg, statuses))
        return false;
    for (int r = 0; r < SIZE; r++) {
        if (!WIFEXITED(statuses[r]) || WEXITSTATUS(statuses[r]) != 0)
            return false;
    }
    return true;
}

int main(void)
{
    plan(2);
    use_modules_of_tests();
    setenv("SYMMCOLL_ERRORS_BLOCKING_WAIT", "on", 1);
    ok(attempts_hold(release_with, 0.3, NULL),
        "finalize tells what a group that was released has left to a backend");
    ok(attempts_hold(release_with, 0.3, &(int){1}),
        "but not what the backend has let go of since");
    return done_testing();
}
