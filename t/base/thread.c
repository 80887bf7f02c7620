/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Tests the start of the library's threads while another thread of the process
 * executes a program, during which the kernel refuses new threads. Threads are
 * not modified once they run, and have their stack size whatever thread-local
 * data the program has.
 */
#include "../tap.h"

#include "base/thread.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define THREADS 3000
#define OWN_DATA \
    505000                         /* bytes; larger than fits a stack of 512
                                    * KiB with the calls */
#define CALLS ((size_t)256 * 1024) /* bytes of the stack that calls need */
#define LEAST_TLS "glibc.rtld.optional_static_tls=0:glibc.rtld.nns=1"

static _Thread_local char own_data[OWN_DATA];

static char path[4200];
static _Atomic bool over;
static _Atomic int refused; /* attempts to execute */
static _Atomic int named_by_others;

/* Replaces the C library's function. */
int pthread_setname_np(pthread_t thread, const char *name)
{
    if (pthread_equal(thread, pthread_self()))
        return prctl(PR_SET_NAME, name);
    atomic_fetch_add(&named_by_others, 1);
    return 0;
}

/* Creates an executable file, without contents. */
static bool make_file(void)
{
    const char *build = getenv("T_BUILDDIR");
    int fd;

    snprintf(path, sizeof(path), "%.4000s/t/base/thread.XXXXXX",
        build != NULL ? build : ".");
    fd = mkstemp(path);
    if (fd < 0 || write(fd, "\1\2\3\4", 4) != 4 || fchmod(fd, 0700) != 0)
        return false;
    return close(fd) == 0;
}

static void *execute(void *arg)
{
    char *const args[] = {path, NULL};

    while (!atomic_load(&over)) {
        execv(path, args);
        if (errno != ENOEXEC)
            break;
        atomic_fetch_add(&refused, 1);
    }
    return arg;
}

static void *nothing(void *arg)
{
    return arg;
}

static int threads_start_beside_exec(void)
{
    pthread_t executing, thread;
    int started = 0;

    if (pthread_create(&executing, NULL, execute, NULL) != 0)
        return 0;
    while (atomic_load(&refused) == 0)
        usleep(100);
    while (started < THREADS &&
           symc_thread_start(&thread, "t", SYMC_STACK_SMALL, nothing, NULL) ==
               SYMMCOLL_OK &&
           pthread_join(thread, NULL) == 0)
        started++;
    atomic_store(&over, true);
    pthread_join(executing, NULL);
    if (started < THREADS)
        diag("after %d threads: %s", started, symmcoll_last_error());
    return started == THREADS;
}

static void *inspect(void *arg)
{
    sigset_t blocked;

    pthread_sigmask(SIG_SETMASK, NULL, &blocked);
    *(bool *)arg = sigismember(&blocked, SIGTERM) == 1 &&
                   sigismember(&blocked, SIGINT) == 1;
    return NULL;
}

static int signals_are_the_program_s(void)
{
    pthread_t thread;
    sigset_t before;
    bool blocked = false;

    if (symc_thread_start(&thread, "t", SYMC_STACK_SMALL, inspect, &blocked) !=
        SYMMCOLL_OK)
        return 0;
    pthread_join(thread, NULL);
    pthread_sigmask(SIG_SETMASK, NULL, &before);
    return blocked && sigismember(&before, SIGTERM) == 0;
}

struct holder {
    pthread_t thread; /* overwritten with the main thread's */
    pthread_t main, self;
    bool own; /* the variable had the thread's id when it began */
    char name[16];
    _Atomic bool done;
};

static void *overwrite(void *arg)
{
    struct holder *holder = arg;

    holder->self = pthread_self();
    holder->own = pthread_equal(holder->thread, holder->self);
    holder->thread = holder->main;
    prctl(PR_GET_NAME, holder->name);
    atomic_store(&holder->done, true);
    return NULL;
}

/* The variable with the id of a thread may be freed as soon as the thread
 * runs. */
static int start_leaves_the_thread(void)
{
    struct holder holder = {.main = pthread_self()};

    atomic_store(&named_by_others, 0);
    if (symc_thread_start(&holder.thread, "own-name", SYMC_STACK_SMALL,
            overwrite, &holder) != SYMMCOLL_OK)
        return 0;
    while (!atomic_load(&holder.done))
        usleep(100);
    pthread_join(holder.self, NULL);
    diag("named \"%s\", by others %d", holder.name,
        atomic_load(&named_by_others));
    return holder.own && pthread_equal(holder.thread, holder.main) &&
           strcmp(holder.name, "own-name") == 0 &&
           atomic_load(&named_by_others) == 0;
}

static void *use_stack(void *arg)
{
    volatile char calls[CALLS];

    for (size_t i = 0; i < CALLS; i += 512)
        calls[i] = 1;
    for (size_t i = 0; i < OWN_DATA; i += 512)
        own_data[i] = calls[i % CALLS / 512 * 512];
    *(bool *)arg = own_data[0] == 1;
    return NULL;
}

static int stacks_have_room(void)
{
    pthread_t thread;
    bool used = false;

    if (symc_thread_start(&thread, "t", SYMC_STACK_SMALL, use_stack, &used) !=
        SYMMCOLL_OK)
        return 0;
    pthread_join(thread, NULL);
    return used;
}

/* Runs with less static space for thread-local data than a program has that
 * loaded a few libraries: the C library reads the setting when a program
 * starts. */
static int loads_with_little_room(void)
{
    int status = 0;
    pid_t child = fork();

    if (child == 0) {
        setenv("GLIBC_TUNABLES", LEAST_TLS, 1);
        execl("/proc/self/exe", "thread.t", "load", (char *)NULL);
        _exit(1);
    }
    return child > 0 && waitpid(child, &status, 0) == child && status == 0;
}

static const char *find_library(void)
{
    static char library[4200];
    const char *build = getenv("T_BUILDDIR");

    snprintf(library, sizeof(library), "%.4000s/.libs/libsymmcoll.so",
        build != NULL ? build : ".");
    return library;
}

static int load(void)
{
    void *handle = dlopen(find_library(), RTLD_NOW);

    if (handle == NULL) {
        diag("%s", dlerror());
        return 1;
    }
    return dlclose(handle) != 0;
}

struct niceness {
    int raised;  /* of a prompt thread */
    int started; /* of a thread that it has started */
};

static void *read_nice(void *arg)
{
    *(int *)arg = getpriority(PRIO_PROCESS, (id_t)gettid());
    return NULL;
}

static void *be_prompt(void *arg)
{
    struct niceness *nice = arg;
    pthread_t thread;

    symc_thread_be_prompt();
    read_nice(&nice->raised);
    if (symc_thread_start(&thread, "t", SYMC_STACK_SMALL, read_nice,
            &nice->started) == SYMMCOLL_OK)
        pthread_join(thread, NULL);
    return NULL;
}

/* Without permission the nice value is unchanged. */
static int prompt_threads_go_first(void)
{
    struct niceness nice = {1000, 1000};
    int own = getpriority(PRIO_PROCESS, (id_t)gettid());
    pthread_t thread;
    bool may;

    if (symc_thread_start(&thread, "t", SYMC_STACK_SMALL, be_prompt, &nice) !=
        SYMMCOLL_OK)
        return 0;
    pthread_join(thread, NULL);
    may = setpriority(PRIO_PROCESS, (id_t)gettid(), -10) == 0;
    if (may)
        (void)setpriority(PRIO_PROCESS, (id_t)gettid(), own);
    diag("nice %d: prompt %d, started by that %d", own, nice.raised,
        nice.started);
    if (!may || own <= -10)
        return nice.raised == own && nice.started == own;
    return nice.raised == -10 && nice.started == 0;
}

/* Limits the address space below any stack: the error has the limits. */
static int lack_is_told(void)
{
    struct rlimit before, none = {0}, processes;
    symmcoll_status_t status;
    pthread_t thread;

    getrlimit(RLIMIT_AS, &before);
    none.rlim_max = before.rlim_max;
    none.rlim_cur = 1 << 20;
    setrlimit(RLIMIT_AS, &none);
    getrlimit(RLIMIT_NPROC, &processes);
    status =
        symc_thread_start(&thread, "t", SYMC_STACK_SMALL * 64, nothing, NULL);
    setrlimit(RLIMIT_AS, &before);
    diag("%s", symmcoll_last_error());
    return status == SYMMCOLL_ERR_SYSTEM &&
           strstr(symmcoll_last_error(), "RLIMIT_AS is 1048576") != NULL &&
           (processes.rlim_cur == RLIM_INFINITY) ==
               (strstr(symmcoll_last_error(), "NPROC is unlimited") != NULL);
}

int main(int argc, char **argv __attribute__((unused)))
{
    const char *sanitizer = getenv("T_SANITIZER");
    bool sanitized = sanitizer != NULL && strcmp(sanitizer, "no") != 0;

    if (argc > 1)
        return load();
    if (!make_file())
        skip_all("no file to execute can be made");
    plan(7);
    alarm(600);
    ok(threads_start_beside_exec(),
        "threads start while another one tries to execute a program");
    ok(start_leaves_the_thread(),
        "a thread has its id and its name when it runs, and is left alone");
    ok(signals_are_the_program_s(), "signals are blocked in them alone");
    ok(prompt_threads_go_first(),
        "a prompt thread goes before others where the process may have that, "
        "and no thread that it starts does");
    ok(stacks_have_room(),
        "a thread has its stack beside the program's thread-local data");
    if (sanitized || access(find_library(), R_OK) != 0)
        skip(1, "a shared library without a sanitizer was not built");
    else
        ok(loads_with_little_room(),
            "the library needs no static room for thread-local data");
    if (sanitized)
        skip(1, "a sanitizer needs address space of its own");
    else
        ok(lack_is_told(), "lack of address space is told with the limit");
    unlink(path);
    return done_testing();
}
