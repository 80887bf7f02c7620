/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Tests the log of ranks that wait in symmcoll_init(): the missing ranks, one
 * line for all, after increasing pauses. Here ranks start after their lines
 * have been read.
 */
#include "t/ranks.h"
#include "t/store/helpers.h"
#include "t/tap.h"

#include <fcntl.h>
#include <stdio.h>

#define FIRST_MS 40 /* before the first line */

/* Ranks that are started one by one, and their log. */
struct job {
    int size;
    const char *method; /* NULL: env:// */
    char name[64];
    int pipe[2];
    FILE *log;
    char line[512]; /* the latest */
    pid_t latest;
    int started;
};

static void begin(struct job *job, int size, const char *method)
{
    *job = (struct job){.size = size, .method = method};
    snprintf(job->name, sizeof(job->name), "%s", ranks_unique_name());
    if (pipe2(job->pipe, O_CLOEXEC) != 0)
        exit(1);
    job->log = fdopen(job->pipe[0], "r");
}

static int run_rank(const struct job *job, int rank)
{
    struct symmcoll_init_args args = SYMMCOLL_INIT_ARGS_INIT;
    struct symmcoll_world *world = NULL;

    args.name = job->name;
    args.init_method = job->method;
    args.rank = rank;
    args.world_size = job->size;
    args.timeout = 100;
    return symmcoll_init(&args, &world) == SYMMCOLL_OK &&
           symmcoll_finalize(world) == SYMMCOLL_OK;
}

static void start(struct job *job, int rank)
{
    fflush(NULL);
    job->latest = fork();
    if (job->latest == 0) {
        alarm(120);
        dup2(job->pipe[1], STDERR_FILENO);
        _exit(run_rank(job, rank) ? 0 : 1);
    }
    job->started++;
}

/* Reads until a line has a text, and returns the line; NULL: end of the log. */
static const char *await_line(struct job *job, const char *text)
{
    while (fgets(job->line, sizeof(job->line), job->log) != NULL) {
        if (strstr(job->line, text) != NULL)
            return job->line;
    }
    return NULL;
}

/* Returns the time in a line, in seconds. */
static double time_of(const char *line)
{
    const char *after = line != NULL ? strstr(line, "after ") : NULL;

    return after != NULL ? strtod(after + 6, NULL) : -1;
}

/* Checks that all started ranks have joined. */
static int end(struct job *job)
{
    int good = 1, status;

    close(job->pipe[1]);
    for (int i = 0; i < job->started; i++)
        good &=
            wait(&status) > 0 && WIFEXITED(status) && WEXITSTATUS(status) == 0;
    return good;
}

static void one_rank_is_missing(void)
{
    struct job job;
    const char *line;
    double first, second;
    int lowest;

    begin(&job, 4, NULL);
    start(&job, 0);
    start(&job, 3);
    start(&job, 1);
    line = await_line(&job, "3 of 4 ranks have joined, missing: rank 2");
    lowest = line != NULL &&
             strstr(line, "symmcoll [rank 0]: warning: init") == line;
    first = time_of(line);
    line = await_line(&job, "3 of 4 ranks have joined, missing: rank 2");
    lowest = lowest && line != NULL && strstr(line, "[rank 0]") != NULL;
    second = time_of(line);
    /* The times are rounded to three digits. */
    ok(first >= 0.99 * FIRST_MS / 1e3 &&
            second - first >= 0.95 * 2 * FIRST_MS / 1e3,
        "a rank says who is missing, and again after twice as long (R31)");
    start(&job, 2);
    ok(end(&job), "ranks that have waited join when the last one comes");
    while ((line = await_line(&job, "missing")) != NULL)
        lowest = lowest && strstr(line, "[rank 0]") != NULL;
    ok(lowest, "the lowest rank that is there says it for all (R31)");
    fclose(job.log);
}

static void rank_0_is_missing(const char *method, const char *text)
{
    struct job job;
    const char *line;

    begin(&job, 2, method);
    start(&job, 1);
    line = await_line(&job, text);
    ok(line != NULL && strstr(line, "symmcoll [rank 1]: warning: init: after"),
        "%s: a rank says that rank 0 is missing (R31)",
        method != NULL ? "file://" : "env://");
    start(&job, 0);
    ok(end(&job), "%s: and joins when it comes",
        method != NULL ? "file://" : "env://");
    fclose(job.log);
}

/* Rank 0 listens and is stopped: another rank connects to it. */
static void rank_0_is_stopped(void)
{
    struct job job;
    char text[80];
    const char *line;
    pid_t first;

    begin(&job, 2, NULL);
    start(&job, 0);
    line = await_line(&job, "missing: rank 1");
    first = job.latest;
    kill(first, SIGSTOP);
    waitpid(first, NULL, WUNTRACED);
    start(&job, 1);
    snprintf(text, sizeof(text), "rank 0 (pid %d) has not answered yet", first);
    line = line != NULL ? await_line(&job, text) : NULL;
    ok(line != NULL && strstr(line, "[rank 1]: warning: init: after") != NULL,
        "a rank says that rank 0 does not answer (R31)");
    kill(first, SIGCONT);
    ok(end(&job), "and joins when it does");
    fclose(job.log);
}

int main(void)
{
    char text[16], url[4200];

    alarm(200);
    plan(9);
    snprintf(text, sizeof(text), "%dms", FIRST_MS);
    setenv("SYMMCOLL_LOG_PROGRESS", text, 1);
    ranks_environment();
    one_rank_is_missing();
    rank_0_is_missing(NULL, "rank 0 cannot be reached yet");
    snprintf(url, sizeof(url), "file://%s", scratch_path());
    rank_0_is_missing(url, "rank 0 has not stored its rendezvous yet");
    rank_0_is_stopped();
    return done_testing();
}
