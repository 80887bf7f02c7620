/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Tests dumps on request: a FIFO for each rank, and files that already exist.
 */
#include "t/ranks.h"
#include "t/tap.h"
#include "t/trace/json.h"

#include <symmcoll.h>

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static char folder[256];

/* Returns a path in the test's folder; valid until the next call but one. */
static const char *within(const char *name, int rank, const char *end)
{
    static char path[2][512];
    static int turn;

    turn ^= 1;
    snprintf(
        path[turn], sizeof(path[turn]), "%s/%s%d%s", folder, name, rank, end);
    return path[turn];
}

static int is_fifo(int rank)
{
    struct stat info;

    return stat(within("ask_", rank, ".pipe"), &info) == 0 &&
           S_ISFIFO(info.st_mode) && (info.st_mode & 0777) == 0600;
}

static int ask(int rank, const char *words)
{
    int fd =
        open(within("ask_", rank, ".pipe"), O_WRONLY | O_NONBLOCK | O_CLOEXEC);
    int good = fd >= 0 && write(fd, words, strlen(words)) > 0;

    if (fd >= 0)
        close(fd);
    return good;
}

/* Waits for a dump, which appears complete; the program's alarm ends an
 * endless wait. */
static char *await_dump(int rank)
{
    static char text[1 << 20];
    FILE *file;
    size_t n;

    while ((file = fopen(within("dump_", rank, ""), "r")) == NULL)
        usleep(1000);
    n = fread(text, 1, sizeof(text) - 1, file);
    text[n] = '\0';
    fclose(file);
    return text;
}

static int is_there(const char *path)
{
    return access(path, F_OK) == 0;
}

/* Requests a dump of rank 1, which waits in a barrier. */
static int ask_the_other(void)
{
    const char *text;
    int good = ask(1, "a dump, please\n");

    text = good ? await_dump(1) : "";
    good = good && json_is_valid(text) &&
           json_is(text, "nccl_comm_state/symmcoll/rank", "\"1\"") &&
           json_is(text, "nccl_comm_state/symmcoll/reason", "\"on request\"") &&
           json_find(text, "entries/0/record_id") != NULL &&
           !is_there(within("dump_", 0, ""));
    if (!good)
        diag("rank 1's dump: %.200s", text);
    /* Repeats the request after removing the first dump. */
    unlink(within("dump_", 1, ""));
    good = good && ask(1, "x");
    return good && json_is_valid(await_dump(1));
}

static int run_rank(int rank, int size, void *arg)
{
    struct symmcoll_world *world = NULL;
    int good;

    (void)arg;
    alarm(200);
    ranks_environment_rank(rank, size);
    good = symmcoll_init(NULL, &world) == SYMMCOLL_OK && is_fifo(rank) &&
           symmcoll_barrier(symmcoll_world_group(world), NULL, NULL) ==
               SYMMCOLL_OK;
    if (good && rank == 0)
        good = ask_the_other();
    good = good &&
           symmcoll_barrier(symmcoll_world_group(world), NULL, NULL) ==
               SYMMCOLL_OK &&
           symmcoll_finalize(world) == SYMMCOLL_OK &&
           !is_there(within("ask_", rank, ".pipe"));
    if (!good)
        diag("rank %d: %s", rank, symmcoll_last_error());
    return good ? 0 : 1;
}

static int spawn(raw_rank_fn body)
{
    int statuses[2];

    return ranks_spawn(2, body, NULL, statuses) && statuses[0] == 0 &&
           statuses[1] == 0;
}

/* Checks that rank 0 logs a warning with a text. Its standard error is
 * redirected to a file. */
static int start_with_warning(int rank, int size, void *arg)
{
    struct symmcoll_world *world = NULL;
    char line[1024] = "";
    FILE *log = tmpfile();
    int saved = dup(STDERR_FILENO), good;

    ranks_environment_rank(rank, size);
    dup2(fileno(log), STDERR_FILENO);
    good = symmcoll_init(NULL, &world) == SYMMCOLL_OK &&
           symmcoll_finalize(world) == SYMMCOLL_OK;
    dup2(saved, STDERR_FILENO);
    rewind(log);
    if (fgets(line, sizeof(line), log) == NULL)
        line[0] = '\0';
    fclose(log);
    if (rank == 0)
        good = good && strstr(line, "warning: trace.dump_pipe") != NULL &&
               strstr(line, arg) != NULL;
    if (!good)
        diag("rank %d: %s", rank, line);
    return good ? 0 : 1;
}

static int warns(const char *text)
{
    int statuses[2];

    return ranks_spawn(2, start_with_warning, (void *)text, statuses) &&
           statuses[0] == 0 && statuses[1] == 0;
}

static int a_living_fifo_stays(void)
{
    const char *path = within("ask_", 0, ".pipe");
    int fd = mkfifo(path, 0600) == 0
                 ? open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC)
                 : -1;
    int good =
        fd >= 0 && warns("expected a FIFO without a reader") && ask(0, "x");
    char byte;

    good = good && read(fd, &byte, 1) == 1;
    if (fd >= 0)
        close(fd);
    unlink(within("ask_", 0, ".pipe"));
    return good;
}

int main(void)
{
    const char *build = getenv("T_BUILDDIR");
    FILE *file;

    plan(5);
    snprintf(folder, sizeof(folder), "%s%s/request-%ld",
        build != NULL ? build : "/tmp", build != NULL ? "/t/scratch" : "",
        (long)getpid());
    if (mkdir(folder, 0700) != 0)
        diag("%s cannot be made", folder);
    setenv("SYMMCOLL_TRACE_DUMP_FILE", within("dump_", 0, ""), 1);
    *strrchr(getenv("SYMMCOLL_TRACE_DUMP_FILE"), '0') = '\0';
    setenv("SYMMCOLL_TRACE_DUMP_PIPE", within("ask_", 0, ""), 1);
    *strrchr(getenv("SYMMCOLL_TRACE_DUMP_PIPE"), '0') = '\0';
    setenv("SYMMCOLL_LOG_LEVEL", "off", 1);
    ok(spawn(run_rank),
        "a rank that is asked through its FIFO writes its record (X24)");
    if (mkfifo(within("ask_", 0, ".pipe"), 0644) != 0)
        diag("no FIFO can be made");
    unlink(within("dump_", 1, ""));
    ok(spawn(run_rank), "a FIFO that an earlier run left is replaced (X24)");
    file = fopen(within("ask_", 0, ".pipe"), "w");
    if (file != NULL)
        fclose(file);
    setenv("SYMMCOLL_LOG_LEVEL", "warn", 1);
    ok(warns("expected a FIFO of this user") &&
            is_there(within("ask_", 0, ".pipe")),
        "another file in its place stays, and a line says so (X24)");
    unlink(within("ask_", 0, ".pipe"));
    ok(a_living_fifo_stays(),
        "a FIFO that another process reads stays, and a line says so (X24)");
    unlink(within("dump_", 1, ""));
    setenv("SYMMCOLL_TRACE_BUFFER_SIZE", "0", 1);
    ok(warns("trace.buffer_size is 0"),
        "a line says that no dump can be asked for without a record (X24)");
    rmdir(folder);
    return done_testing();
}
