/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Tests that calls on symmetric memory preserve the thread's cancellation
 * state, and that a forked child does not affect its parent's memory.
 */
#include "t/symm_mem/symm.h"

#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>

/* ---- cancellation ---- */

/* Checks the cancellation state, and prints the call that changed it. */
static bool is_state(int wanted, const char *call, int line)
{
    int found, ignored;

    pthread_setcancelstate(wanted, &found);
    if (found == wanted)
        return true;
    diag("line %d: %s: expected cancellation %s afterwards", line, call,
        wanted == PTHREAD_CANCEL_ENABLE ? "enabled" : "disabled");
    pthread_setcancelstate(wanted, &ignored);
    return false;
}

/* A call that must succeed, one that must fail, and one without a status. */
#define GOOD(call) (OK(call) && is_state(state, #call, __LINE__))
#define BAD(call) \
    (HOLDS((call) != SYMMCOLL_OK) && is_state(state, #call, __LINE__))
#define BARE(call) ((call), is_state(state, #call, __LINE__))

static bool keep_state_of_memory(
    struct symmcoll_world *world, int rank, int state)
{
    struct symmcoll_symm_pool_info info = SYMMCOLL_SYMM_POOL_INFO_INIT;
    struct symmcoll_tensor tensor =
        SYMMCOLL_TENSOR_FLAT(NULL, 4, SYMMCOLL_FLOAT32);
    struct symmcoll_symm_pool *pool = NULL, *own = NULL;
    void *data = NULL, *none = NULL;

    (void)rank;
    return GOOD(symmcoll_symm_alloc(world, 64, NULL, &data)) &&
           GOOD(symmcoll_symm_free(world, data)) &&
           GOOD(symmcoll_symm_alloc_tensor(world, NULL, &tensor)) &&
           GOOD(symmcoll_symm_free(world, tensor.data)) &&
           BAD(symmcoll_symm_import(world, -1, 0, 64, NULL, &none)) &&
           BAD(symmcoll_symm_register(world, &data, sizeof(data), NULL)) &&
           BAD(symmcoll_symm_deregister(world, &data)) &&
           GOOD(symmcoll_symm_default_pool(world, &pool)) &&
           GOOD(symmcoll_symm_pool_create(world, NULL, &own)) &&
           GOOD(symmcoll_symm_pool_alloc(own, 64, &data)) &&
           GOOD(symmcoll_symm_free(world, data)) &&
           GOOD(symmcoll_symm_pool_alloc_tensor(own, &tensor)) &&
           GOOD(symmcoll_symm_free(world, tensor.data)) &&
           GOOD(symmcoll_symm_pool_get_info(own, &info)) &&
           GOOD(symmcoll_symm_pool_trim(own)) &&
           GOOD(symmcoll_symm_pool_free(own)) &&
           BAD(symmcoll_symm_pool_free(pool));
}

static bool keep_state_of_handles(
    struct symmcoll_group *group, int rank, int state)
{
    struct symmcoll_world *world = symmcoll_group_world(group);
    struct symmcoll_symm *handle = NULL, *same = NULL, *workspace = NULL;
    struct symmcoll_symm_plan *plan = NULL;
    void *data = NULL;
    bool good = GOOD(symmcoll_symm_alloc(world, 64, NULL, &data)) &&
                GOOD(symmcoll_symm_rendezvous(group, data, NULL, &handle)) &&
                GOOD(symmcoll_symm_get(group, data, &same)) &&
                GOOD(symmcoll_symm_put_signal(handle, 1 - rank, 0, -1)) &&
                GOOD(symmcoll_symm_wait_signal(handle, 1 - rank, 0, -1)) &&
                GOOD(symmcoll_symm_barrier(handle, 0, -1)) &&
                GOOD(symmcoll_symm_workspace(group, 64, NULL, &workspace)) &&
                BAD(symmcoll_symm_plan_create(handle, NULL, NULL, &plan)) &&
                GOOD(symmcoll_symm_barrier(handle, 0, -1)) &&
                BARE(symmcoll_symm_release(workspace)) &&
                BARE(symmcoll_symm_release(handle));

    return good && GOOD(symmcoll_symm_free(world, data));
}

static int calls_keep_the_state(struct symmcoll_group *group, int rank)
{
    static const int states[] = {PTHREAD_CANCEL_ENABLE, PTHREAD_CANCEL_DISABLE};
    bool good = true;
    int before;

    for (int i = 0; i < 2; i++) {
        pthread_setcancelstate(states[i], &before);
        good = keep_state_of_memory(
                   symmcoll_group_world(group), rank, states[i]) &&
               keep_state_of_handles(group, rank, states[i]) && good;
        pthread_setcancelstate(before, NULL);
    }
    return good;
}

/* ---- children ---- */

/* Checks that memory which a child releases is still usable by its parent and
 * the other ranks. */
static int a_child_releases_nothing(struct symmcoll_group *group, int rank)
{
    struct symmcoll_symm *handle = NULL, *again = NULL;
    int *data, *theirs, status = 1;
    void *memory = NULL;
    bool good = join(group, 64, &memory, &handle);
    pid_t child;

    if (!good)
        return 0;
    data = memory;
    *data = rank + 11;
    child = fork();
    if (child == 0) {
        for (int i = 0; i < 3; i++)
            symmcoll_symm_release(handle);
        _exit(symmcoll_symm_free(symmcoll_group_world(group), memory) ==
                      SYMMCOLL_OK
                  ? 1
                  : 0);
    }
    good = HOLDS(child > 0) && HOLDS(waitpid(child, &status, 0) == child) &&
           HOLDS(status == 0) && OK(symmcoll_symm_barrier(handle, 0, -1)) &&
           OK(symmcoll_symm_buffer(handle, 1 - rank, 0, 4, (void **)&theirs)) &&
           HOLDS(*theirs == 12 - rank) &&
           OK(symmcoll_symm_rendezvous(group, memory, NULL, &again)) &&
           HOLDS(again == handle) && OK(symmcoll_symm_barrier(handle, 0, -1));
    symmcoll_symm_release(again);
    return part(group, memory, handle) && good;
}

int main(void)
{
    plan(3);
    groups_both(2, calls_keep_the_state,
        "calls leave it as it is whether their thread can be cancelled");
    ok(ranks_run(2, a_child_releases_nothing),
        "a forked child releases nothing of its parent's");
    return done_testing();
}
