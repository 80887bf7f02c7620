/* SPDX-License-Identifier: BSD-3-Clause */
/* All ranks of a job except one, which fails. */
#ifndef T_WORLD_OTHERS_H
#define T_WORLD_OTHERS_H

#include "t/tap.h"
#include "t/world/faults.h"

/* Waits until these ranks have reached a step; false: timed out. */
static inline bool others_await(
    const struct faults_job *job, int victim, int step)
{
    bool come = true;

    for (int r = 0; r < job->size; r++)
        come = (r == victim || faults_await(job, r, step)) && come;
    return come;
}

/* Checks that the first note of each names the victim and its signal. */
static inline bool others_know_death(const struct faults_job *job, int victim)
{
    bool told = true;
    char name[64];

    faults_name(job, victim, name);
    for (int r = 0; r < job->size; r++)
        told = (r == victim ||
                   faults_said(faults_told(job, r, 0), SYMMCOLL_ERR_PEER, name,
                       "killed by SIGKILL", NULL)) &&
               told;
    return told;
}

/* Starts ranks, and kills the victim when all have reached step 1.  Checks that the
 * others reach step 2, with a first note that names the victim and its signal, and
 * leave nothing. */
static inline bool others_survive(
    int size, int victim, faults_fn body, const void *arg)
{
    struct faults_job job;
    bool told;

    faults_start(&job, size, body, arg);
    told = faults_await_all(&job, 1);
    faults_signal(&job, victim, SIGKILL);
    told = others_await(&job, victim, 2) && told;
    told = others_know_death(&job, victim) && told;
    return faults_finish(&job, 1u << victim) && told;
}

/* Creates a group of all ranks except the victim, on every rank; NULL on the
 * victim. */
static inline struct symmcoll_group *others_group(
    const struct faults_rank *self, int victim)
{
    struct symmcoll_group_args args = SYMMCOLL_GROUP_ARGS_INIT;
    struct symmcoll_group *group = NULL;
    int ranks[FAULTS_RANKS];

    for (int r = 0; r < self->size; r++) {
        if (r != victim)
            ranks[args.nranks++] = r;
    }
    args.ranks = ranks;
    if (symmcoll_group_create(self->world, &args, &group) < 0)
        diag("rank %d: %s", self->rank, symmcoll_last_error());
    return group;
}

#endif
