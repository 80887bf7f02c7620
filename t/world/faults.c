/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The test's side of faults.h: the board, the starting and ending of ranks,
 * and the resources that they may leave behind. The ranks' own side is in
 * faults_rank.c.
 */
#include "t/world/faults.h"
#include "t/ranks.h"
#include "t/tap.h"
#include "t/trace/json.h"

#include <dirent.h>
#include <errno.h>
#include <stdarg.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static char folder[PATH_MAX];
static char latest[64]; /* name of the latest job's world */

double faults_now(void)
{
    struct timespec time;

    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + (double)time.tv_nsec / 1e9;
}

void faults_rest(void)
{
    const struct timespec pause = {.tv_nsec = 200000};

    nanosleep(&pause, NULL);
}

/* ---- the scratch folder ---- */

void faults_begin(void)
{
    const char *build = getenv("T_BUILDDIR");
    char prefix[PATH_MAX + 8];

    snprintf(folder, sizeof(folder), "%.4000s/faults.XXXXXX",
        build != NULL ? build : "/tmp");
    if (mkdtemp(folder) == NULL) {
        diag("%s: %s", folder, strerror(errno));
        exit(1);
    }
    snprintf(prefix, sizeof(prefix), "%s/dump_", folder);
    setenv("SYMMCOLL_TRACE_DUMP_FILE", prefix, 1);
}

const char *faults_folder(void)
{
    return folder;
}

bool faults_clear_dumps(int most)
{
    DIR *dir = opendir(folder);
    struct dirent *entry;
    bool good = dir != NULL;
    int found = 0;

    while (dir != NULL && (entry = readdir(dir)) != NULL) {
        char path[PATH_MAX + 256];
        int rank, pid, number, length = 0;

        if (entry->d_name[0] == '.')
            continue;
        /* Worlds with a name have it after the rank. */
        if ((sscanf(entry->d_name, "dump_%d.t-%d-%d%n", &rank, &pid, &number,
                 &length) != 3 &&
                sscanf(entry->d_name, "dump_%d%n", &rank, &length) != 1) ||
            entry->d_name[length] != '\0') {
            diag("left in the folder of dumps: %s", entry->d_name);
            good = false;
        }
        found++;
        snprintf(path, sizeof(path), "%s/%s", folder, entry->d_name);
        unlink(path);
    }
    if (dir != NULL)
        closedir(dir);
    if (found > most)
        diag("expected at most %d dumps, found %d", most, found);
    return good && found <= most;
}

void faults_end(void)
{
    faults_clear_dumps(INT_MAX);
    rmdir(folder);
}

bool faults_dumped(int rank, const char *text)
{
    char path[PATH_MAX + 128];
    double until = faults_now() + FAULTS_WAIT_MAX;
    FILE *file = NULL;
    char *data = NULL;
    size_t used = 0;
    bool good = false;

    snprintf(path, sizeof(path), "%s/dump_%d%s%s", folder, rank,
        latest[0] != '\0' ? "." : "", latest);
    while (file == NULL && faults_now() < until) {
        file = fopen(path, "r");
        if (file == NULL)
            faults_rest();
    }
    if (file != NULL)
        data = calloc(1, 4 << 20);
    if (data != NULL)
        used = fread(data, 1, (4 << 20) - 1, file);
    if (used > 0)
        good = json_is_valid(data) && (text == NULL || strstr(data, text));
    if (!good)
        diag("%s: %s", path,
            used == 0             ? "is missing"
            : json_is_valid(data) ? "does not hold what it should"
                                  : "is no JSON");
    free(data);
    if (file != NULL)
        fclose(file);
    return good;
}

/* ---- starting ---- */

static _Noreturn void be_rank(struct faults_job *job, pid_t parent, int rank,
    faults_fn body, const void *arg)
{
    struct faults_rank self = {.board = job->board,
        .line = &job->board->lines[rank],
        .rank = rank,
        .size = job->size,
        .world_name = job->world_name,
        .arg = arg};

    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent)
        _exit(1);
    dup2(STDERR_FILENO, STDOUT_FILENO);
    ranks_environment_rank(rank, job->size);
    exit(body(&self));
}

void faults_start(
    struct faults_job *job, int size, faults_fn body, const void *arg)
{
    pid_t parent = getpid();

    *job = (struct faults_job){.size = size};
    job->board = mmap(NULL, sizeof(*job->board), PROT_READ | PROT_WRITE,
        MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (size > FAULTS_RANKS || job->board == MAP_FAILED) {
        diag("no room for %d ranks", size);
        exit(1);
    }
    snprintf(
        job->world_name, sizeof(job->world_name), "%s", ranks_unique_name());
    snprintf(latest, sizeof(latest), "%s", job->world_name);
    ranks_environment();
    fflush(NULL);
    for (int r = 0; r < size; r++) {
        job->pids[r] = fork();
        if (job->pids[r] == 0)
            be_rank(job, parent, r, body, arg);
        if (job->pids[r] < 0) {
            diag("fork of rank %d: %s", r, strerror(errno));
            exit(1);
        }
        job->running[r] = job->pids[r];
    }
}

/* ---- following ---- */

void faults_open(struct faults_job *job, int step)
{
    atomic_store(&job->board->gate, step);
}

bool faults_await(const struct faults_job *job, int rank, int step)
{
    double until = faults_now() + FAULTS_WAIT_MAX;

    while (atomic_load(&job->board->lines[rank].step) < step) {
        if (faults_now() > until) {
            diag("rank %d did not come to step %d", rank, step);
            return false;
        }
        faults_rest();
    }
    return true;
}

bool faults_await_all(const struct faults_job *job, int step)
{
    for (int r = 0; r < job->size; r++) {
        if (!faults_await(job, r, step))
            return false;
    }
    return true;
}

/* Reads the start of a file of a thread; "": not readable. */
static void read_task(
    pid_t pid, const char *task, const char *name, char *text, size_t nbytes)
{
    char path[128];
    FILE *file;
    size_t got = 0;

    snprintf(
        path, sizeof(path), "/proc/%d/task/%.20s/%s", (int)pid, task, name);
    file = fopen(path, "r");
    if (file != NULL) {
        got = fread(text, 1, nbytes - 1, file);
        fclose(file);
    }
    text[got] = '\0';
}

/* Returns whether a thread sleeps, rather than pauses before it retries
 * something, such as a connect. A sanitizer's own thread only pauses. */
static bool task_waits(pid_t pid, const char *task)
{
    char stat[512], call[64];
    const char *end;
    bool ours;

    read_task(pid, task, "stat", stat, sizeof(stat));
    read_task(pid, task, "wchan", call, sizeof(call));
    end = strrchr(stat, ')');
    ours = atoi(task) == (int)pid || strstr(stat, "(symc-") != NULL;
    return end != NULL && end[1] == ' ' && end[2] == 'S' &&
           (!ours || strstr(call, "nanosleep") == NULL);
}

/* Returns whether a thread is stopped or has ended. */
static bool task_is_stopped(pid_t pid, const char *task)
{
    char stat[512];
    const char *end;

    read_task(pid, task, "stat", stat, sizeof(stat));
    end = strrchr(stat, ')');
    return end == NULL || strchr("TZX", end[2]) != NULL;
}

/* Returns whether a predicate is true for all threads of a process; false if
 * there are none. */
static bool all_tasks(pid_t pid, bool (*is)(pid_t pid, const char *task))
{
    char path[64];
    struct dirent *entry;
    bool good = true;
    DIR *dir;

    snprintf(path, sizeof(path), "/proc/%d/task", (int)pid);
    dir = opendir(path);
    if (dir == NULL)
        return false;
    while (good && (entry = readdir(dir)) != NULL) {
        if (entry->d_name[0] != '.')
            good = is(pid, entry->d_name);
    }
    closedir(dir);
    return good;
}

bool faults_await_asleep(const struct faults_job *job, int rank, int step)
{
    double until = faults_now() + FAULTS_WAIT_MAX;
    int times = 0; /* in a row, to exclude a short sleep */

    if (!faults_await(job, rank, step))
        return false;
    while (times < 5) {
        times = all_tasks(job->pids[rank], task_waits) ? times + 1 : 0;
        if (faults_now() > until) {
            diag("rank %d does not sleep", rank);
            return false;
        }
        faults_rest();
    }
    return true;
}

void faults_reap(struct faults_job *job, int rank)
{
    double until = faults_now() + FAULTS_WAIT_MAX;
    pid_t pid = job->running[rank];

    if (pid <= 0)
        return;
    while (waitpid(pid, &job->statuses[rank], WNOHANG) != pid) {
        if (faults_now() > until) {
            diag("rank %d still runs: killed", rank);
            kill(pid, SIGKILL);
            waitpid(pid, &job->statuses[rank], 0);
            break;
        }
        faults_rest();
    }
    job->running[rank] = 0;
}

void faults_signal(struct faults_job *job, int rank, int sig)
{
    double until;

    job->killed_at = faults_now();
    until = job->killed_at + FAULTS_WAIT_MAX;
    kill(job->pids[rank], sig);
    /* A thread other than the one that handles the signal may keep running. */
    while (sig == SIGSTOP && !all_tasks(job->pids[rank], task_is_stopped) &&
           faults_now() < until)
        faults_rest();
}

void faults_await_death(const struct faults_job *job, int rank)
{
    siginfo_t ended;

    waitid(P_PID, (id_t)job->pids[rank], &ended, WEXITED | WNOWAIT);
}

bool faults_kill_is_known(struct faults_job *job, int victim)
{
    bool right = true;

    for (int r = 0; r < job->size; r++) {
        if (r != victim)
            faults_reap(job, r);
    }
    for (int r = 0; r < job->size; r++) {
        const struct faults_note *note = faults_told(job, r, 0);
        char who[64];

        if (r == victim)
            continue;
        right = faults_said(note, SYMMCOLL_ERR_PEER,
                    faults_name(job, victim, who), "killed by SIGKILL", NULL) &&
                note->at - job->killed_at < FAULTS_KNOWN && right;
    }
    return right;
}

/* ---- remaining resources ---- */

/* Returns whether a link or a mapping of one of our processes refers to the
 * job's memory. */
static bool is_held(const char *pid, const char *mark)
{
    char path[300], line[PATH_MAX + 512];
    struct dirent *entry;
    bool held = false;
    FILE *maps;
    DIR *dir;

    snprintf(path, sizeof(path), "/proc/%.20s/fd", pid);
    dir = opendir(path);
    while (dir != NULL && (entry = readdir(dir)) != NULL) {
        ssize_t n;

        snprintf(
            path, sizeof(path), "/proc/%.20s/fd/%.200s", pid, entry->d_name);
        n = readlink(path, line, sizeof(line) - 1);
        line[n > 0 ? n : 0] = '\0';
        held = held || strstr(line, mark) != NULL;
    }
    if (dir != NULL)
        closedir(dir);
    snprintf(path, sizeof(path), "/proc/%.20s/maps", pid);
    maps = fopen(path, "r");
    while (maps != NULL && fgets(line, sizeof(line), maps) != NULL)
        held = held || strstr(line, mark) != NULL;
    if (maps != NULL)
        fclose(maps);
    if (held)
        diag("process %s still holds %s", pid, mark);
    return held;
}

static bool has_socket(const char *rendezvous)
{
    FILE *file = fopen("/proc/net/unix", "r");
    char line[512];
    bool found = false;

    while (file != NULL && fgets(line, sizeof(line), file) != NULL)
        found = found || strstr(line, rendezvous) != NULL;
    if (file != NULL)
        fclose(file);
    if (found)
        diag("a socket is left: %s", rendezvous);
    return found;
}

static bool is_clean(const struct faults_job *job)
{
    DIR *dir = opendir("/proc");
    struct dirent *entry;
    bool clean = dir != NULL;
    char mark[96];

    snprintf(mark, sizeof(mark), "memfd:symmcoll:%s:", job->world_name);
    while (dir != NULL && (entry = readdir(dir)) != NULL) {
        if (entry->d_name[0] >= '1' && entry->d_name[0] <= '9')
            clean = !is_held(entry->d_name, mark) && clean;
    }
    if (dir != NULL)
        closedir(dir);
    for (int r = 0; r < job->size; r++) {
        const char *rendezvous = job->board->lines[r].rendezvous;

        clean = (rendezvous[0] == '\0' || !has_socket(rendezvous)) && clean;
    }
    return clean;
}

bool faults_finish(struct faults_job *job, unsigned bad)
{
    bool good = true;

    for (int r = 0; r < job->size; r++) {
        faults_reap(job, r);
        if ((bad >> r & 1) != 0 || job->statuses[r] == 0)
            continue;
        diag("rank %d ended with wait status 0x%x", r, job->statuses[r]);
        good = false;
    }
    good = is_clean(job) && good;
    munmap(job->board, sizeof(*job->board));
    job->board = NULL;
    return good;
}

/* ---- notes of ranks ---- */

/* Returns whether a child is a zombie or has been reaped. */
static bool has_ended(pid_t pid)
{
    siginfo_t info = {.si_pid = 0};

    return pid <= 0 ||
           waitid(P_PID, (id_t)pid, &info, WEXITED | WNOHANG | WNOWAIT) != 0 ||
           info.si_pid != 0;
}

const struct faults_note *faults_told(
    const struct faults_job *job, int rank, int n)
{
    static const struct faults_note none = {
        .status = SYMMCOLL_IN_PROGRESS, .detail = "nothing was told"};
    const struct faults_line *line = &job->board->lines[rank];
    double until = faults_now() + FAULTS_WAIT_MAX;

    while (atomic_load(&line->notes) <= n && faults_now() < until) {
        if (has_ended(job->running[rank]))
            break;
        faults_rest();
    }
    return atomic_load(&line->notes) > n ? &line->note[n] : &none;
}

bool faults_said(const struct faults_note *note, symmcoll_status_t status, ...)
{
    const char *text;
    bool good = note->status == status;
    va_list texts;

    if (!good)
        diag("expected %s, found %s: %s", symmcoll_status_name(status),
            symmcoll_status_name(note->status), note->detail);
    va_start(texts, status);
    while (good && (text = va_arg(texts, const char *)) != NULL) {
        good = strstr(note->detail, text) != NULL;
        if (!good)
            diag("expected \"%s\" in: %s", text, note->detail);
    }
    va_end(texts);
    return good;
}

const char *faults_name(const struct faults_job *job, int rank, char *buffer)
{
    sprintf(buffer, "rank %d (pid %d)", rank, (int)job->pids[rank]);
    return buffer;
}
