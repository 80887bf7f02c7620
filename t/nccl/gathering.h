/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Members of a group that are threads of one process, for tests of the
 * functions that a group's backend calls: they gather as members do while a
 * backend is opened.
 */
#ifndef T_NCCL_GATHERING_H
#define T_NCCL_GATHERING_H

#include "cuda/nccl/nccl_comm.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define SIZE 4 /* members at most */

static struct {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    int arrived, size;
    int refused; /* the status of a refusing member; 0: none */
    char text[SYMC_DETAIL_MAX];
    unsigned char told[2][SIZE][SYMC_GATHER_MOST];
    _Atomic int gone; /* a member, and 1 */
} group = {
    .lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER};

struct member {
    struct symc_core core;
    struct symc_ranks ranks;
    struct symc_nccl nccl;
    struct symc_cuda_comm *comm;
    int rank;
    int rounds;
    int64_t timeout_ns;
    symmcoll_status_t status;
    char text[SYMC_DETAIL_MAX];
};

/* Marks a member as failed: the members that gather get its error. */
static void refuse(symmcoll_status_t status, const char *text)
{
    pthread_mutex_lock(&group.lock);
    if (group.refused == 0) {
        group.refused = status;
        (void)snprintf(group.text, sizeof(group.text), "%s", text);
    }
    pthread_cond_broadcast(&group.changed);
    pthread_mutex_unlock(&group.lock);
}

static symmcoll_status_t gather(
    void *context, const void *mine, void *all, size_t nbytes)
{
    struct member *member = context;
    int round = member->rounds++, refused;

    pthread_mutex_lock(&group.lock);
    memcpy(group.told[round % 2][member->rank], mine, nbytes);
    group.arrived++;
    pthread_cond_broadcast(&group.changed);
    while (group.arrived < (round + 1) * group.size && group.refused == 0)
        pthread_cond_wait(&group.changed, &group.lock);
    refused =
        group.arrived < (round + 1) * group.size ? group.refused : SYMMCOLL_OK;
    for (int r = 0; r < group.size; r++)
        memcpy(
            (char *)all + (size_t)r * nbytes, group.told[round % 2][r], nbytes);
    pthread_mutex_unlock(&group.lock);
    return refused == 0 ? SYMMCOLL_OK
                        : symc_fail((symmcoll_status_t)refused, "a member: %s",
                              group.text);
}

static _Atomic int counted; /* communicators, of all members */

static void add_ranks(void *context, const bool *ranks)
{
    const struct member *member = context;

    (void)symc_error_add_ranks(&member->ranks, ranks);
}

static bool failed(void *context, int member)
{
    (void)context;
    return member >= 0 && atomic_load(&group.gone) == member + 1;
}

static struct symc_cuda_comm *_Atomic doomed; /* NULL: none */

static int64_t now(void)
{
    struct timespec at;

    if (doomed != NULL)
        symc_cuda_comm_abort(atomic_exchange(&doomed, NULL));
    clock_gettime(CLOCK_MONOTONIC, &at);
    return (int64_t)at.tv_sec * SYMC_NS_PER_S + at.tv_nsec;
}

static enum symc_wait_end wait_for(void *context, const _Atomic uint64_t *word,
    uint64_t target, int member, struct symc_wait_budget *budget)
{
    (void)context;
    (void)word;
    (void)target;
    (void)member;
    while (now() < budget->deadline_ns)
        usleep(20);
    return SYMC_WAIT_EXPIRED;
}

static void say(
    void *context, enum symc_log_level level, const char *format, ...)
{
    (void)context;
    (void)level;
    (void)format;
}

#endif
