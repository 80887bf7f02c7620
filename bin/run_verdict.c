/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The rank that failed first, which is not always the first to be reaped: a
 * process with much memory takes long to end, and its peers, which detect its
 * death at once, may exit earlier.  So the verdict is made when all ranks have
 * ended: by the failures that ranks have recorded, then by how they ended.
 */
#include "run.h"

#include "segment/liveness.h"

#include <stdio.h>
#include <string.h>
#include <sys/wait.h>

const char *run_describe_end(
    const struct run_rank *rank, char *buffer, size_t nbytes)
{
    char how[40];

    symc_liveness_format_exit(
        WIFEXITED(rank->status) ? WEXITSTATUS(rank->status) : 0,
        WIFSIGNALED(rank->status) ? WTERMSIG(rank->status) : 0, how,
        sizeof(how));
    snprintf(buffer, nbytes, "rank %d (pid %d) %s%s", rank->number,
        (int)rank->pid, how,
        WIFSIGNALED(rank->status) && WCOREDUMP(rank->status) ? " (core dumped)"
                                                             : "");
    return buffer;
}

/* Returns whether a rank ended with an error, not because an operation
 * failed. */
static bool is_cause(const struct run_rank *rank)
{
    return rank->status != 0 && !rank->failed && !rank->ours;
}

/* Returns whether a rank exited with status 0 but without finalize. */
static bool is_deserter(const struct run_rank *rank)
{
    return rank->status == 0 && rank->left;
}

/* Returns whether a rank was killed, not by the launcher, after an operation
 * had failed. */
static bool is_killed(const struct run_rank *rank)
{
    return WIFSIGNALED(rank->status) && !rank->ours;
}

static bool is_failed(const struct run_rank *rank)
{
    return rank->status != 0 && !rank->ours;
}

static bool is_any(const struct run_rank *rank)
{
    return rank->status != 0;
}

/* Returns the first rank to end among those of a kind. */
static const struct run_rank *find_first(
    const struct run_job *job, bool (*is_kind)(const struct run_rank *))
{
    const struct run_rank *first = NULL;

    for (int i = 0; i < job->options->ranks; i++) {
        const struct run_rank *rank = &job->ranks[i];

        if (is_kind(rank) && (first == NULL || rank->order < first->order))
            first = rank;
    }
    return first;
}

static int exit_status(const struct run_rank *rank)
{
    return WIFSIGNALED(rank->status) ? 128 + WTERMSIG(rank->status)
                                     : WEXITSTATUS(rank->status);
}

static bool is_survivor(const struct run_rank *rank)
{
    return rank->status == 0 && rank->resumed;
}

bool run_has_survivors(const struct run_job *job)
{
    return find_first(job, is_survivor) != NULL;
}

/* Appends the ranks that went on after the failure in the line. */
static void add_survivors(const struct run_job *job, char *line, size_t nbytes)
{
    bool went_on[RUN_RANKS_MAX];
    char ranks[128];
    size_t used = strlen(line);

    if (!run_has_survivors(job))
        return;
    for (int i = 0; i < job->options->ranks; i++)
        went_on[i] = is_survivor(&job->ranks[i]);
    symc_format_named_ranks(went_on, job->options->ranks, ranks, sizeof(ranks));
    snprintf(line + used, nbytes - used, "; %s went on and ended with status 0",
        ranks);
}

/* Returns the exit status and a line on the failure alone. */
static int find_failure(const struct run_job *job, char *line, size_t nbytes)
{
    static bool (*const kinds[])(const struct run_rank *) = {
        is_cause, is_deserter, is_killed, is_failed, is_any};
    const struct run_rank *failed = find_first(job, is_any);
    const struct run_rank *culprit = NULL;
    char end[64];

    if (failed == NULL)
        return 0;
    if (run_cause_find(job, line, nbytes)) {
        culprit = find_first(job, is_failed);
        return exit_status(culprit != NULL ? culprit : failed);
    }
    for (size_t i = 0; culprit == NULL; i++)
        culprit = find_first(job, kinds[i]);
    if (job->missing[0] != '\0' && culprit->failed && !is_killed(culprit)) {
        snprintf(line, nbytes, "%s", job->missing);
        return exit_status(culprit);
    }
    snprintf(line, nbytes, "%s%s%s%s",
        run_describe_end(culprit, end, sizeof(end)),
        is_deserter(culprit) ? " without symmcoll_finalize()" : "",
        culprit->position[0] != '\0' ? " " : "", culprit->position);
    if (culprit->status != 0)
        failed = culprit;
    return exit_status(failed);
}

int run_verdict(const struct run_job *job, char *line, size_t nbytes)
{
    int status = find_failure(job, line, nbytes);

    if (status != 0)
        add_survivors(job, line, nbytes);
    return status;
}
