/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Runs cases, one test point for each.
 *
 *   CHAOS_SEED  seed of the first case, 1 by default; the others count up
 *   CHAOS_N     number of cases; default: as many as run in some seconds
 *   CHAOS_LOAD  number of processes that keep the processors busy
 */
#include "t/chaos/chaos.h"
#include "t/ranks.h"
#include "t/tap.h"
#include "t/world/faults.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#define SLOWER (SANITIZED ? 4 : 1)
#define CASES 20                        /* without CHAOS_N */
#define BOUND (120.0 * SLOWER * slower) /* of one case, in seconds */
#define TIMEOUT_INIT (6 * SLOWER * slower)
#define TIMEOUT_FREEZE (2 * SLOWER * slower)
#define STOPPED 0.05 /* seconds from stop to continue */
#define SAID_NBYTES (1 << 20)

static int slower = 1; /* by which times are longer */
static char folder[4096];
static char board_path[4200], said_path[4200];
static bool own_network;

/* A running case. */
struct run {
    struct chaos_board *board;
    struct chaos_ends ends;
    pid_t pids[CHAOS_RANKS]; /* 0: reaped, or none */
    pid_t launcher;
    double stopped_at;
};

static void rest(void)
{
    usleep(500);
}

/* ---- starting ---- */

static void set_seconds(const char *name, int seconds)
{
    char text[32];

    snprintf(text, sizeof(text), "%ds", seconds);
    setenv(name, text, 1);
}

_Noreturn static void execute(const struct chaos_case *drawn)
{
    const char *build = getenv("T_BUILDDIR");
    char launcher[4200], size[16], self[4096] = "";
    ssize_t n = readlink("/proc/self/exe", self, sizeof(self) - 1);
    int fd = open(said_path, O_WRONLY | O_CREAT | O_APPEND, 0600);

    if (n < 0 || fd < 0)
        _exit(9);
    dup2(fd, STDOUT_FILENO);
    dup2(fd, STDERR_FILENO);
    close(fd);
    if (!drawn->launcher) {
        execl(self, self, "--rank", board_path, (char *)NULL);
        _exit(9);
    }
    snprintf(launcher, sizeof(launcher), "%.4000s/bin/symmcoll-run",
        build != NULL ? build : ".");
    snprintf(size, sizeof(size), "%d", drawn->size);
    execl(launcher, launcher, "-n", size, "--grace", "30", self, "--rank",
        board_path, (char *)NULL);
    _exit(9);
}

static pid_t start(const struct chaos_case *drawn, int rank)
{
    pid_t parent = getpid();
    pid_t pid = fork();

    if (pid != 0)
        return pid;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent)
        _exit(9);
    if (rank >= 0)
        ranks_environment_rank(rank, drawn->size);
    execute(drawn);
}

static void start_all(struct run *run)
{
    const struct chaos_case *drawn = &run->board->drawn;

    ranks_environment();
    set_seconds("SYMMCOLL_TIMEOUTS_INIT", TIMEOUT_INIT);
    set_seconds("SYMMCOLL_TIMEOUTS_COLLECTIVE",
        drawn->fault == CHAOS_FREEZE ? TIMEOUT_FREEZE : (int)BOUND / 4);
    /* Some of the buffers have memfds, which are exchanged. */
    setenv("SYMMCOLL_SYMM_MEM_MEMFD_MIN", "64KiB", 1);
    if (drawn->launcher)
        run->launcher = start(drawn, -1);
    for (int r = 0; r < drawn->size && !drawn->launcher; r++)
        run->pids[r] = start(drawn, r);
}

/* ---- following ---- */

/* Waits for ended ranks; true when all have ended. */
static bool reap(struct run *run)
{
    int status;
    pid_t pid;
    bool all = true;

    while ((pid = waitpid(-1, &status, WNOHANG)) > 0) {
        for (int r = 0; r < CHAOS_RANKS; r++) {
            if (run->pids[r] != pid)
                continue;
            run->pids[r] = 0;
            run->ends.ranks[r] = status;
        }
        if (pid == run->launcher) {
            run->launcher = 0;
            run->ends.launcher = status;
        }
    }
    for (int r = 0; r < CHAOS_RANKS; r++)
        all = all && run->pids[r] == 0;
    return all && run->launcher == 0;
}

/* Continues a stopped victim: soon, or after the others have ended. */
static void look_at_stopped(struct run *run)
{
    struct chaos_board *board = run->board;
    const struct chaos_line *victim = &board->lines[board->drawn.victim];
    bool due = true;

    if (atomic_load(&victim->stopping) == 0)
        return;
    if (run->stopped_at == 0)
        run->stopped_at = faults_now();
    if (board->drawn.fault == CHAOS_STOP)
        due = faults_now() - run->stopped_at > STOPPED;
    for (int r = 0; r < board->drawn.size && board->drawn.fault != CHAOS_STOP;
         r++)
        due = due && (r == board->drawn.victim ||
                         atomic_load(&board->lines[r].ended) != 0);
    /* Repeats the signal: the rank may not have stopped yet. */
    if (due)
        kill(atomic_load(&victim->pid), SIGCONT);
}

/* Kills all descendants of this process. */
static void kill_children(void)
{
    DIR *all = opendir("/proc");
    struct dirent *entry;

    while (all != NULL && (entry = readdir(all)) != NULL) {
        char path[300], text[512] = "";
        const char *at;
        int parent = 0;
        FILE *file;

        snprintf(path, sizeof(path), "/proc/%.20s/stat", entry->d_name);
        file = atoi(entry->d_name) > 0 ? fopen(path, "r") : NULL;
        if (file == NULL)
            continue;
        at =
            fgets(text, sizeof(text), file) != NULL ? strrchr(text, ')') : NULL;
        fclose(file);
        if (at != NULL && sscanf(at + 1, " %*c %d", &parent) == 1 &&
            parent == (int)getpid()) {
            diag("a process is left: %.200s", text);
            kill(atoi(entry->d_name), SIGKILL);
        }
    }
    if (all != NULL)
        closedir(all);
}

/* Wait until nothing is left of the case: not of orphans either. */
static bool await_nothing(double seconds)
{
    double until = faults_now() + seconds;
    pid_t pid;

    while ((pid = waitpid(-1, NULL, WNOHANG)) >= 0 && faults_now() < until)
        if (pid == 0)
            rest();
    if (pid < 0)
        return true;
    while (waitpid(-1, NULL, WNOHANG) >= 0) {
        kill_children();
        rest();
    }
    return false;
}

static bool follow(struct run *run)
{
    double until = faults_now() + BOUND;
    bool all;

    while (!(all = reap(run)) && faults_now() < until) {
        look_at_stopped(run);
        rest();
    }
    for (int r = 0; r < run->board->drawn.size && !all; r++) {
        const struct chaos_line *line = &run->board->lines[r];

        diag("after %.0f s rank %d (pid %d) has completed %d operations and "
             "%s: %s %s",
            BOUND, r, atomic_load(&line->pid), atomic_load(&line->completed),
            atomic_load(&line->ended) != 0 ? "ended" : "not ended",
            symmcoll_status_name(line->status), line->detail);
    }
    return all;
}

/* ---- a case ---- */

static char *read_said(void)
{
    char *text = calloc(1, SAID_NBYTES);
    int fd = open(said_path, O_RDONLY | O_CLOEXEC);

    if (fd >= 0 && text != NULL && read(fd, text, SAID_NBYTES - 1) < 0)
        text[0] = '\0';
    if (fd >= 0)
        close(fd);
    return text;
}

/* Removes the files of the case: dumps, and the incomplete one of a rank that
 * died while it wrote it. */
static bool clear_folder(const struct chaos_case *drawn)
{
    DIR *dir = opendir(folder);
    struct dirent *entry;
    bool good = true;

    while (dir != NULL && (entry = readdir(dir)) != NULL) {
        char path[4096 + 300];
        int rank, length = 0;

        if (entry->d_name[0] == '.' && strlen(entry->d_name) < 3)
            continue;
        snprintf(path, sizeof(path), "%s/%s", folder, entry->d_name);
        unlink(path);
        if (strcmp(entry->d_name, "board") == 0 ||
            strcmp(entry->d_name, "said") == 0 || chaos_has_no_end(drawn) ||
            drawn->fault == CHAOS_LIMIT || drawn->fault == CHAOS_CLOSE)
            continue;
        if (sscanf(entry->d_name, "dump_%d.c%*d-%*d%n", &rank, &length) != 1 ||
            entry->d_name[length] != '\0') {
            diag("a file is left: %s", entry->d_name);
            good = false;
        }
    }
    if (dir != NULL)
        closedir(dir);
    return good;
}

static struct chaos_board *make_board(uint64_t seed, int number)
{
    int fd = open(board_path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    struct chaos_board *board = MAP_FAILED;

    if (fd >= 0 && ftruncate(fd, sizeof(*board)) == 0)
        board = mmap(
            NULL, sizeof(*board), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (board == MAP_FAILED) {
        diag("%s: %s", board_path, strerror(errno));
        exit(1);
    }
    close(fd);
    chaos_draw(seed, &board->drawn);
    board->slower = slower;
    snprintf(
        board->world, sizeof(board->world), "c%d-%d", (int)getpid(), number);
    return board;
}

static bool run_case(uint64_t seed, int number, char *text, size_t nbytes)
{
    struct run run = {.board = make_board(seed, number)};
    bool good;

    chaos_describe(&run.board->drawn, text, nbytes);
    start_all(&run);
    good = follow(&run);
    good = await_nothing(good ? 30.0 * SLOWER : 0) && good;
    run.ends.said = read_said();
    if (good)
        good = chaos_judge(run.board, &run.ends);
    good = chaos_is_clean(run.board, own_network) && good;
    good = clear_folder(&run.board->drawn) && good;
    if (!good)
        diag("%s; again with CHAOS_SEED=%llu CHAOS_N=1; what was printed:\n%s",
            text, (unsigned long long)seed, run.ends.said);
    free(run.ends.said);
    munmap(run.board, sizeof(*run.board));
    return good;
}

/* Runs a case, and repeats a failing one with longer times if it depends on
 * time: the machine may have delayed a rank that was to arrive before a
 * timeout. */
static bool run_unhurried(uint64_t seed, int number, char *text, size_t nbytes)
{
    struct chaos_case drawn;
    bool good = run_case(seed, number, text, nbytes);

    chaos_draw(seed, &drawn);
    while (!good && slower < 20 &&
           (drawn.fault == CHAOS_FREEZE || drawn.moment == CHAOS_INIT)) {
        slower *= 5;
        good = run_case(seed, number, text, nbytes);
    }
    slower = 1;
    return good;
}

/* ---- the program ---- */

/* Starts processes that spin until this one has ended, and are not its
 * children. */
static void add_load(int count)
{
    int fds[2];

    if (count <= 0 || pipe2(fds, O_CLOEXEC | O_NONBLOCK) != 0)
        return;
    for (int i = 0; i < count; i++) {
        pid_t pid = fork();

        if (pid == 0 && fork() == 0) {
            char byte;

            close(fds[1]);
            while (read(fds[0], &byte, 1) < 0)
                for (volatile int n = 0; n < 1000000; n++)
                    ;
            _exit(0);
        }
        if (pid == 0)
            _exit(0);
        waitpid(pid, NULL, 0);
    }
    close(fds[0]);
}

static int number_of(const char *name, int missing)
{
    const char *text = getenv(name);

    return text != NULL ? atoi(text) : missing;
}

static void prepare(void)
{
    const char *build = getenv("T_BUILDDIR");
    char prefix[4200];

    snprintf(folder, sizeof(folder), "%.4000s/t/scratch/chaos.XXXXXX",
        build != NULL ? build : ".");
    if (mkdtemp(folder) == NULL) {
        diag("%s: %s", folder, strerror(errno));
        exit(1);
    }
    snprintf(prefix, sizeof(prefix), "%s/dump_", folder);
    setenv("SYMMCOLL_TRACE_DUMP_FILE", prefix, 1);
    snprintf(board_path, sizeof(board_path), "%s/board", folder);
    snprintf(said_path, sizeof(said_path), "%s/said", folder);
    add_load(number_of("CHAOS_LOAD", 0));
    own_network = unshare(CLONE_NEWNET) == 0;
    prctl(PR_SET_CHILD_SUBREAPER, 1);
}

int main(int argc, char **argv)
{
    int seed = number_of("CHAOS_SEED", 1);
    int count = number_of("CHAOS_N", CASES);

    if (argc == 3 && strcmp(argv[1], "--rank") == 0)
        return chaos_be_rank(argv[2]);
    if (argc == 2 && strcmp(argv[1], "--linger") == 0) {
        usleep(200000);
        return 6;
    }
    prepare();
    plan(count);
    for (int i = 0; i < count; i++) {
        char text[160];
        bool good =
            run_unhurried((uint64_t)seed + (uint64_t)i, i, text, sizeof(text));

        ok(good, "%s", text);
    }
    rmdir(folder);
    return done_testing();
}
