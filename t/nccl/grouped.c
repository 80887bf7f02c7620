/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Tests calls by a thread of the program that is in a group of NCCL's calls,
 * with the stand-ins for the driver and for NCCL: they are refused, and that
 * group is unchanged.
 */
#include "t/nccl/by.h"
#include "t/nccl/exchanged.h"

#include "group/group.h"

#include <string.h>
#include <unistd.h>

#define GROUPED "between the program's ncclGroupStart() and ncclGroupEnd()"

/* Calls a function of the program's NCCL without parameters; the library stays
 * open. */
static int call(const char *name)
{
    static void *library;
    int (*function)(void);
    void *found;

    if (library == NULL)
        library = dlopen(getenv("SYMMCOLL_CUDA_NCCL"), RTLD_NOW);
    found = library != NULL ? dlsym(library, name) : NULL;
    if (found == NULL)
        return -1;
    memcpy(&function, &found, sizeof(function));
    return function();
}

static int start(void)
{
    return say(call("ncclGroupStart") == 0, "a group begins");
}

/* Checks that the group was the outermost one and has ended. */
static int stop(void)
{
    return say(call("ncclGroupEnd") == 0, "the group ends") &&
           say(call("ncclGroupEnd") == 5, "and there is no other one");
}

static int exchanges(struct symmcoll_group *group)
{
    return say(exchange(group) == SYMMCOLL_OK, "an exchange");
}

/* Checks the refusal; the other ranks wait for the next call. */
static int is_refused(struct symmcoll_group *group, int rank)
{
    int right;

    device_use(rank);
    right = exchanges(group);
    if (rank == 1)
        right = start() &&
                ended(exchange(group), SYMMCOLL_ERR_INVALID,
                    "all_to_all_v: expected no group of NCCL's calls around "
                    "it, found a thread of rank 1 " GROUPED) &&
                stop() && right;
    right = exchanges(group) && right;
    atexit(check_nccl);
    return right;
}

static int so_is_a_sum(struct symmcoll_group *group, int rank)
{
    const struct collective sum = {
        .kind = SYMC_ALL_REDUCE, .dtype = SYMMCOLL_INT32, .count = ELEMENTS};
    struct symmcoll_call to = SYMMCOLL_CALL_INIT;
    int32_t *at;
    int right;

    device_use(rank);
    to.stream = device_stream();
    at = device_alloc(ELEMENTS * sizeof(*at));
    right = right_by(group, rank, &sum, true);
    if (rank == 1)
        right = start() &&
                ended(collective_call(group, &sum, at, at, &to, NULL),
                    SYMMCOLL_ERR_INVALID, GROUPED) &&
                stop() && right;
    right = right_by(group, rank, &sum, true) && right;
    device_end_stream(to.stream);
    device_free(at);
    atexit(check_nccl);
    return right;
}

/* Refuses the call that would create the communicator, when all members have
 * arrived: they do without, but the next call creates it. */
static int the_first_goes_without(struct symmcoll_group *group, int rank)
{
    int right = 1;

    device_use(rank);
    if (rank == 1)
        right = start();
    right = exchanges_without(group, SYMMCOLL_ERR_INVALID, GROUPED) && right;
    if (rank == 1)
        right = stop() && right;
    right =
        say(atomic_load(&find_nccl()->begun) == 0, "nothing is made") && right;
    right = exchanges(group) && exchanges(group) && right;
    atexit(check_nccl);
    return right;
}

/* Checks that creation is retried some times, and then no more. */
static int a_mistake_that_lasts(struct symmcoll_group *group, int rank)
{
    int right = 1;

    device_use(rank);
    if (rank == 1)
        right = start();
    for (int i = 0; i < 8; i++)
        right =
            exchanges_without(group, SYMMCOLL_ERR_INVALID, GROUPED) && right;
    if (rank == 1)
        right = stop() && right;
    right = exchanges_without(group, SYMMCOLL_ERR_INVALID, GROUPED) && right;
    atexit(check_nccl);
    return right;
}

/* Checks that communicators end by themselves after a while. */
static int is_released(struct symmcoll_group *group, int rank)
{
    const struct fake_nccl *fake = find_nccl();
    struct symmcoll_group *made = NULL;
    int right;

    device_use(rank);
    right =
        say(symmcoll_group_split(group, 0, rank, NULL, &made) == SYMMCOLL_OK,
            "a group") &&
        exchanges(made);
    right =
        start() && symmcoll_group_free(made) == SYMMCOLL_OK && stop() && right;
    for (int i = 0; i < 20000 && atomic_load(&fake->live) != 0; i++)
        usleep(500);
    atexit(check_nccl);
    return say(atomic_load(&fake->finalized) == 0, "nothing is finalized") &&
           right;
}

/* Checks that a communicator that was split off and is not used ends, too. */
static int what_is_split_off_is_released(struct symmcoll_group *group, int rank)
{
    const struct fake_nccl *fake = find_nccl();
    struct symmcoll_group *made = NULL;
    int right;

    device_use(rank);
    right =
        exchanges(group) &&
        say(symmcoll_group_split(group, 0, rank, NULL, &made) == SYMMCOLL_OK,
            "a group") &&
        say(atomic_load(&fake->split) == 1, "a communicator") && start() &&
        symmcoll_group_free(made) == SYMMCOLL_OK && stop();
    for (int i = 0; i < 20000 && atomic_load(&fake->live) != 1; i++)
        usleep(500);
    atexit(check_nccl);
    return say(atomic_load(&fake->live) == 1, "it has ended") &&
           say(atomic_load(&fake->finalized) == 0, "nothing is finalized") &&
           right;
}

/* Checks that the new group creates its own communicator, as without a
 * split. */
static int is_not_split(struct symmcoll_group *group, int rank)
{
    struct symmcoll_group *made = NULL;
    int right;

    device_use(rank);
    right = exchanges(group);
    right = (rank != 1 || start()) && right;
    right =
        say(symmcoll_group_split(group, 0, rank, NULL, &made) == SYMMCOLL_OK,
            "a group") &&
        right;
    right =
        (rank != 1 || stop()) && exchanges(made) && exchanges(group) && right;
    right =
        say(atomic_load(&find_nccl()->split) == 0, "nothing is split") && right;
    atexit(check_nccl);
    return symmcoll_group_free(made) == SYMMCOLL_OK && right;
}

/* Checks that an NCCL which answers the query otherwise is not queried again,
 * and one that would log it not at all. */
static int asked; /* by each communicator */

static int is_not_asked(struct symmcoll_group *group, int rank)
{
    struct fake_nccl *fake = find_nccl();
    int right;

    device_use(rank);
    atomic_store(&fake->simulates, 1);
    right = exchanges(group) && exchanges(group);
    atexit(check_nccl);
    return say(atomic_load(&fake->simulated) == asked, "it is not asked") &&
           right;
}

int main(void)
{
    device_begin();
    name_nccl();
    unsetenv("NCCL_DEBUG"); /* set by the user, in the environment or in a
                             * file */
    setenv("NCCL_CONF_FILE", "/dev/null", 1);
    setenv("SYMMCOLL_CUDA_NCCL_MIN", "4", 1);
    ok(ranks_run(SIZE, is_refused),
        "an exchange inside of a group of NCCL's calls is refused, and the next is not");
    ok(ranks_run(SIZE, so_is_a_sum), "so is what else NCCL does");
    ok(ranks_run(SIZE, the_first_goes_without),
        "where that is the first one of a group all go without, and the next is NCCL's");
    ok(ranks_run(SIZE, a_mistake_that_lasts),
        "a group that is never called elsewhere goes without for good");
    ok(ranks_run(SIZE, is_released),
        "a group that is released there has its communicator aborted");
    setenv("SYMMCOLL_CUDA_NCCL_SPLIT", "on", 1);
    ok(ranks_run(SIZE, what_is_split_off_is_released),
        "so has one that was split off and is not used");
    ok(ranks_run(SIZE, is_not_split), "one that is split there has none");
    unsetenv("SYMMCOLL_CUDA_NCCL_SPLIT");
    asked = 1;
    ok(ranks_run(SIZE, is_not_asked),
        "NCCL that does not tell is not asked again");
    asked = 0;
    setenv("NCCL_DEBUG", "WARN", 1);
    ok(ranks_run(SIZE, is_not_asked),
        "nor one that would write a warning for each question");
    return done_testing();
}
