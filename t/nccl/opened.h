/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Communicators of members that are threads, with the stand-in: they gather as
 * members of a group do while a backend is opened.
 */
#ifndef T_NCCL_OPENED_H
#define T_NCCL_OPENED_H

#include "t/nccl/fake_nccl.h"
#include "t/nccl/gathering.h"
#include "t/segment/child.h"
#include "t/tap.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdatomic.h>

static struct fake_nccl *fake;
static struct member members[SIZE];

static inline int load(int size)
{
    const char *folder = getenv("T_BUILDDIR");
    const struct symc_nccl *nccl;
    char path[4096];

    (void)snprintf(path, sizeof(path), "%s/t/nccl/.libs/libnccl.so.2",
        folder != NULL ? folder : ".");
    if (symc_nccl_load(symc_fail, path, &nccl) != SYMMCOLL_OK)
        return 0;
    alarm(60); /* ends an endless wait */
    fake = dlsym(dlopen(path, RTLD_NOW), "fake_nccl");
    group.size = size;
    for (int r = 0; r < size; r++)
        members[r] = (struct member){.nccl = *nccl,
            .rank = r,
            .timeout_ns = SYMC_NEVER,
            .core = {.group = &members[r],
                .name = "a group",
                .ranks = &members[r].ranks,
                .fail = symc_fail,
                .add_ranks = add_ranks,
                .log = say,
                .gather = gather,
                .communicators = &counted,
                .failed = failed,
                .wait = wait_for,
                .now = now}};
    return fake != NULL;
}

static inline void *open_one(void *arg)
{
    struct member *member = arg;
    struct symc_nccl_config config;

    symc_nccl_config_init(&member->nccl, &config);
    member->status = symc_cuda_comm_open(&member->nccl, &config, &member->core,
        (struct symc_cuda_where){.context = NULL},
        symc_cuda_until(&member->core, member->timeout_ns), member->rank,
        group.size, &member->comm);
    if (member->status != SYMMCOLL_OK) {
        (void)snprintf(
            member->text, sizeof(member->text), "%s", symmcoll_last_error());
        refuse(member->status, member->text);
    }
    return NULL;
}

static inline void *close_one(void *arg)
{
    struct member *member = arg;

    symc_cuda_comm_close(member->comm, member->timeout_ns);
    member->comm = NULL;
    return NULL;
}

/* Runs a body on the first n members at once. */
static inline int all_do(void *(*body)(void *), int n)
{
    pthread_t threads[SIZE];

    for (int r = 0; r < n; r++)
        if (pthread_create(&threads[r], NULL, body, &members[r]) != 0)
            return 0;
    for (int r = 0; r < n; r++)
        pthread_join(threads[r], NULL);
    return 1;
}

static inline int opened(void)
{
    int right = all_do(open_one, group.size);

    for (int r = 0; r < group.size; r++) {
        if (members[r].status != SYMMCOLL_OK)
            diag("rank %d: %s", r, members[r].text);
        right &= members[r].status == SYMMCOLL_OK && members[r].comm != NULL &&
                 symc_cuda_comm_test(members[r].comm) == SYMMCOLL_OK;
    }
    return right;
}

/* Waits until communicators have ended by themselves. */
static inline int none_is_left(void)
{
    for (int i = 0; i < 20000 && atomic_load(&fake->live) != 0; i++)
        usleep(500);
    return atomic_load(&fake->live) == 0;
}

static inline int ended(int destroyed, int aborted)
{
    (void)none_is_left();
    if (atomic_load(&fake->destroyed) == destroyed &&
        atomic_load(&fake->aborted) == aborted && atomic_load(&fake->live) == 0)
        return 1;
    diag("%d are destroyed, %d aborted, %d left", atomic_load(&fake->destroyed),
        atomic_load(&fake->aborted), atomic_load(&fake->live));
    return 0;
}

#endif
