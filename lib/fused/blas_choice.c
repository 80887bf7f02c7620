/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Loading and measuring the installed BLAS libraries.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* RTLD_DEFAULT */
#endif

#include "blas_choice.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

/* In order of preference at equal speed. If a library's default kernels are
 * among the named ones, they are measured once. */
static const struct symc_blas_candidate candidates[] = {
    {"libopenblas.so.0", NULL},
#if defined(__x86_64__)
    {"libopenblas.so.0", "Haswell"}, {"libopenblas.so.0", "SkylakeX"},
    {"libopenblas.so.0", "Cooperlake"}, {"libopenblas.so.0", "SapphireRapids"},
#elif defined(__aarch64__)
    {"libopenblas.so.0", "NEOVERSEN1"}, {"libopenblas.so.0", "NEOVERSEV1"},
#endif
    {"libblis.so.4", NULL}, {"libmkl_rt.so.2", NULL}, {"libblas.so.3", NULL},
    {"libcblas.so.3", NULL}, {NULL, NULL}, /* the program's own */
};

#define CANDIDATES ((int)(sizeof(candidates) / sizeof(candidates[0])))
#define OWN (CANDIDATES - 1)

_Static_assert(CANDIDATES <= SYMC_BLAS_TRIALS_MAX, "there is room for all");

#define SIZE 256   /* rows and columns of the matrices in a measurement */
#define REPEATS 10 /* repetitions; the fastest counts */
#define ENOUGH_NS 8000000 /* processor time after which repetitions end */
#define BETTER 1.08 /* factor by which a later candidate has to be faster */

#define CHILD_CPU_US 300000
#define CHILD_SECONDS 2 /* in which a child has to run, or to be ready to run */
#define CHILD_ACTIVE_NS 10000000
#define CHILD_PERIODS 15
#define ALL_NS INT64_C(30000000000)

struct symc_blas_candidate symc_blas_candidate(int number)
{
    return candidates[number >= 0 && number < CANDIDATES ? number : OWN];
}

bool symc_blas_parse(const char *text, char *memory, size_t nbytes,
    struct symc_blas_candidate *candidate)
{
    char *colon;

    if ((size_t)snprintf(memory, nbytes, "%s", text) >= nbytes)
        return false;
    *candidate = (struct symc_blas_candidate){.library = memory};
    colon = strrchr(memory, ':');
    if (colon == NULL || strchr(colon, '/') != NULL)
        return true;
    *colon = '\0';
    candidate->core = colon + 1;
    return true;
}

static int64_t read_clock_ns(clockid_t clock)
{
    struct timespec ts;

    clock_gettime(clock, &ts);
    return (int64_t)ts.tv_sec * 1000000000 + ts.tv_nsec;
}

/* ---- names ---- */

/* Returns the text that a library's function without arguments returns, or NULL if it
 * has no such function. */
static const char *call_for_text(void *library, const char *function)
{
    const char *(*get)(void) = NULL;
    void *symbol = dlsym(library, function);

    if (symbol == NULL)
        return NULL;
    memcpy(&get, &symbol, sizeof(get)); /* ISO C has no cast between them */
    return get();
}

/* Writes the name of the file that contains the library's cblas_sgemm. */
static void name_file(void *library, char *name, size_t nbytes)
{
    void *function = dlsym(library, "cblas_sgemm");
    Dl_info info;
    const char *slash;

    snprintf(name, nbytes, "an unknown BLAS");
    if (function == NULL || dladdr(function, &info) == 0 ||
        info.dli_fname == NULL)
        return;
    slash = strrchr(info.dli_fname, '/');
    snprintf(name, nbytes, "%s", slash != NULL ? slash + 1 : info.dli_fname);
}

void symc_blas_name(void *library, char *name, size_t nbytes)
{
    const char *config = call_for_text(library, "openblas_get_config");
    const char *core = call_for_text(library, "openblas_get_corename");
    const char *blis = call_for_text(library, "bli_info_get_version_str");

    if (config != NULL) {
        /* "OpenBLAS 0.3.21 NO_LAPACKE ..." */
        size_t length = strcspn(config, " ");

        if (config[length] == ' ')
            length += 1 + strcspn(config + length + 1, " ");
        snprintf(name, nbytes, "%.*s%s%s", (int)length, config,
            core != NULL ? ", kernels for " : "", core != NULL ? core : "");
    } else if (blis != NULL)
        snprintf(name, nbytes, "BLIS %s", blis);
    else if (dlsym(library, "MKL_Get_Version_String") != NULL)
        snprintf(name, nbytes, "MKL");
    else if (dlsym(library, "ATL_buildinfo") != NULL)
        snprintf(name, nbytes, "ATLAS");
    else
        name_file(library, name, nbytes);
}

/* ---- loading ---- */

static bool is_variable(const char *entry, const char *name)
{
    size_t length = strlen(name);

    return strncmp(entry, name, length) == 0 && entry[length] == '=';
}

/* Returns an environment in which OPENBLAS_CORETYPE is `core`, followed by the entries
 * of this process except those that `extra` (ends with NULL) replaces; NULL: no memory.
 * Release with free().  core: borrowed text "OPENBLAS_CORETYPE=..."; NULL: unchanged. */
static char **make_environment(char *core, char *const *extra)
{
    size_t count = 0, used = 0;
    char **made;

    while (environ != NULL && environ[count] != NULL)
        count++;
    for (size_t i = 0; extra[i] != NULL; i++)
        count++;
    made = calloc(count + 2, sizeof(*made));
    if (made == NULL)
        return NULL;
    if (core != NULL)
        made[used++] = core;
    for (size_t i = 0; extra[i] != NULL; i++)
        made[used++] = extra[i];
    /* getenv() finds the first entry of a name. */
    for (char **at = environ; at != NULL && *at != NULL; at++)
        if (core == NULL || !is_variable(*at, "OPENBLAS_CORETYPE"))
            made[used++] = *at;
    return made;
}

/* Arrays that were the environment, kept allocated. */
struct kept {
    struct kept *next;
    char **array, *core;
};
static _Atomic(struct kept *) kept_arrays;

static void keep(struct kept *kept)
{
    kept->next = atomic_load(&kept_arrays);
    while (!atomic_compare_exchange_weak(&kept_arrays, &kept->next, kept))
        ;
}

/* Loads a candidate with its OPENBLAS_CORETYPE, which OpenBLAS reads during
 * dlopen(). The pointer to the environment is replaced for that time, not the
 * contents, so that getenv() in other threads always walks a complete array.
 * They may still walk it later, so it is not freed. */
static void *open_with(
    const struct symc_blas_candidate *candidate, char *const *extra)
{
    const char *name = candidate->core != NULL ? candidate->core : "";
    size_t nbytes = sizeof("OPENBLAS_CORETYPE=") + strlen(name);
    char **before = environ;
    struct kept *made;
    void *library;

    if (candidate->core == NULL && extra[0] == NULL)
        return dlopen(candidate->library, RTLD_NOW | RTLD_LOCAL);
    made = calloc(1, sizeof(*made));
    if (made == NULL)
        return NULL;
    made->core = malloc(nbytes);
    if (made->core != NULL) {
        snprintf(made->core, nbytes, "OPENBLAS_CORETYPE=%s", name);
        made->array = make_environment(
            candidate->core != NULL ? made->core : NULL, extra);
    }
    if (made->array == NULL) {
        free(made->core);
        free(made);
        return NULL;
    }
    keep(made);
    environ = made->array;
    library = dlopen(candidate->library, RTLD_NOW | RTLD_LOCAL);
    if (environ == made->array)
        environ = before;
    return library;
}

void *symc_blas_open(const struct symc_blas_candidate *candidate)
{
    static char *const nothing[] = {NULL};

    return open_with(candidate, nothing);
}

/* ---- measuring: in a child ---- */

/* Returns the rate of the fastest of a few products, in 1e9 operations per
 * second of processor time, on which other processes have little influence. */
static double measure(symc_sgemm_fn sgemm, float *matrices)
{
    float *a = matrices, *b = a + SIZE * SIZE, *c = b + SIZE * SIZE;
    int64_t begun = read_clock_ns(CLOCK_THREAD_CPUTIME_ID), best = INT64_MAX;
    int64_t at = begun;

    for (int i = 0; i < SIZE * SIZE; i++) {
        a[i] = (float)(i % 7);
        b[i] = (float)(i % 5);
    }
    /* The first product allocates memory and wakes the vector unit. */
    for (int i = 0; i <= REPEATS && (i < 2 || at - begun < ENOUGH_NS); i++) {
        int64_t before = read_clock_ns(CLOCK_THREAD_CPUTIME_ID);

        sgemm(SYMC_BLAS_ROW_MAJOR, SYMC_BLAS_NO_TRANS, SYMC_BLAS_NO_TRANS, SIZE,
            SIZE, SIZE, 1.0f, a, SIZE, b, SIZE, 0.0f, c, SIZE);
        at = read_clock_ns(CLOCK_THREAD_CPUTIME_ID);
        if (at - before < best)
            best = at - before;
    }
    return 2.0 * SIZE * SIZE * SIZE / (double)(best > 0 ? best : 1);
}

/* Results of a child, in memory that it shares with its parent. */
struct report {
    bool loaded;  /* the library is installed and has CBLAS */
    bool ended;   /* the library has returned to the child */
    bool refused; /* the library does not use the kernels */
    double rate;
    char name[96];
    float matrices[3 * SIZE * SIZE];
};

/* Reads a number and advances past it.  strtoll() may not be called in a handler. */
static int64_t read_number(const char **at)
{
    int64_t number = 0;

    while (**at == ' ')
        ++*at;
    for (; **at >= '0' && **at <= '9'; ++*at)
        number = 10 * number + (**at - '0');
    return number;
}

/* Returns how long the process has run, and how long it was ready to run: the first two
 * numbers of the file. */
static int64_t read_active_ns(void)
{
    char text[96] = "";
    const char *at = text;
    int fd = open("/proc/self/schedstat", O_RDONLY | O_CLOEXEC);
    ssize_t nbytes = fd >= 0 ? read(fd, text, sizeof(text) - 1) : -1;
    int64_t ran;

    if (fd >= 0)
        close(fd);
    if (nbytes <= 0)
        return read_clock_ns(CLOCK_PROCESS_CPUTIME_ID);
    ran = read_number(&at);
    return ran + read_number(&at);
}

static volatile int64_t active_ns; /* of a child, at the last SIGALRM */

/* Ends a child that sleeps.  One that other processes keep from running goes on. */
static void end_if_asleep(int number)
{
    static int periods;
    int64_t now = read_active_ns();

    if (now - active_ns < CHILD_ACTIVE_NS || ++periods == CHILD_PERIODS) {
        signal(number, SIG_DFL);
        raise(number);
    }
    active_ns = now;
}

/* Limits this process: a crash or an endless loop ends it, without output and
 * without a core file. */
static void limit_child(void)
{
    static const int numbers[] = {SIGILL, SIGSEGV, SIGBUS, SIGFPE, SIGABRT,
        SIGTRAP, SIGSYS, SIGPROF, SIGALRM, SIGTERM};
    const struct itimerval busy = {.it_value = {.tv_usec = CHILD_CPU_US}};
    const struct itimerval real = {.it_interval = {.tv_sec = CHILD_SECONDS},
        .it_value = {.tv_sec = CHILD_SECONDS}};
    int null = open("/dev/null", O_RDWR | O_CLOEXEC);
    sigset_t none;

    for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++)
        signal(numbers[i], SIG_DFL);
    active_ns = read_active_ns();
    signal(SIGALRM, end_if_asleep);
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    prctl(PR_SET_DUMPABLE, 0);
    setitimer(ITIMER_PROF, &busy, NULL);
    setitimer(ITIMER_REAL, &real, NULL);
    for (int fd = 0; null >= 0 && fd < 3; fd++)
        dup2(null, fd);
}

static void run_child(
    const struct symc_blas_candidate *candidate, struct report *report)
{
    static char *const one_thread[] = {"OPENBLAS_NUM_THREADS=1",
        "OMP_NUM_THREADS=1", "BLIS_NUM_THREADS=1", "MKL_NUM_THREADS=1", NULL};
    symc_sgemm_fn sgemm = NULL;
    void *library, *symbol;
    const char *core;

    limit_child();
    library = open_with(candidate, one_thread);
    symbol = library != NULL ? dlsym(library, "cblas_sgemm") : NULL;
    if (symbol == NULL)
        return;
    report->loaded = true;
    symc_blas_name(library, report->name, sizeof(report->name));
    core = call_for_text(library, "openblas_get_corename");
    report->refused = candidate->core != NULL &&
                      (core == NULL || strcasecmp(core, candidate->core) != 0);
    memcpy(&sgemm, &symbol, sizeof(sgemm));
    if (!report->refused)
        report->rate = measure(sgemm, report->matrices);
}

/* ---- measuring: in the parent ---- */

/* Writes the reason why a child has ended without a rate. */
static void explain(int status, struct symc_blas_trial *trial)
{
    int number = WIFSIGNALED(status) ? WTERMSIG(status) : 0;

    if (number == SIGPROF || number == SIGALRM)
        snprintf(trial->rejected, sizeof(trial->rejected), "it did not return");
    else if (number != 0)
        snprintf(trial->rejected, sizeof(trial->rejected),
            "it ended its process by signal %d (%s)", number,
            strsignal(number));
    else
        snprintf(
            trial->rejected, sizeof(trial->rejected), "it ended its process");
}

/* Runs a child for a candidate. Returns whether the library is installed and
 * uses the kernels that the candidate names. */
static bool try_candidate(
    int number, struct report *report, struct symc_blas_trial *trial)
{
    const struct symc_blas_candidate *candidate = &candidates[number];
    int status = 0;
    pid_t pid;

    *trial = (struct symc_blas_trial){.candidate = number};
    memset(report, 0, offsetof(struct report, matrices));
    pid = fork();
    if (pid == 0) {
        run_child(candidate, report);
        report->ended = true;
        _exit(0);
    }
    while (pid > 0 && waitpid(pid, &status, 0) < 0 && errno == EINTR)
        continue;
    if (pid < 0 || report->refused || (report->ended && !report->loaded))
        return false;
    snprintf(trial->name, sizeof(trial->name), "%s", report->name);
    if (trial->name[0] == '\0')
        snprintf(trial->name, sizeof(trial->name), "%s%s%s", candidate->library,
            candidate->core != NULL ? ", kernels for " : "",
            candidate->core != NULL ? candidate->core : "");
    if (report->ended)
        trial->rate = report->rate;
    else
        explain(status, trial);
    return true;
}

/* Returns whether the CPU has the instructions of the kernels for a core, as
 * far as is known. Without this check the child would be rejected too, but the
 * kernel would log its crash. */
static bool has_instructions(const char *core)
{
#if defined(__x86_64__)
    bool avx512 = __builtin_cpu_supports("avx512dq") &&
                  __builtin_cpu_supports("avx512bw") &&
                  __builtin_cpu_supports("avx512vl");

    if (strcmp(core, "Haswell") == 0)
        return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
    if (strcmp(core, "SkylakeX") == 0)
        return avx512;
    return avx512 && __builtin_cpu_supports("avx512bf16");
#else
    (void)core;
    return true;
#endif
}

/* Returns whether a trial has the name: the same kernels under another file
 * name. */
static bool has_name(const struct symc_blas_choice *choice, const char *name)
{
    for (int i = 0; i < choice->ntrials; i++)
        if (strcmp(choice->trials[i].name, name) == 0)
            return true;
    return false;
}

/* Returns whether a candidate need not be tried: a trial has measured its
 * kernels, or its library is not installed (it was not found without named
 * kernels), or the CPU lacks the instructions. */
static bool is_superfluous(const struct symc_blas_choice *choice, int number)
{
    const char *core = candidates[number].core;
    bool installed = false;

    if (core == NULL)
        return false;
    for (int i = 0; i < choice->ntrials; i++) {
        const struct symc_blas_trial *trial = &choice->trials[i];
        size_t length = strlen(trial->name), tail = strlen(core);

        if (strcmp(candidates[trial->candidate].library,
                candidates[number].library) != 0)
            continue;
        installed = true;
        if (length > tail && strcasecmp(trial->name + length - tail, core) == 0)
            return true;
    }
    return !installed || !has_instructions(core);
}

static void measure_all(struct symc_blas_choice *choice)
{
    int64_t begun = read_clock_ns(CLOCK_MONOTONIC);
    struct report *report = mmap(NULL, sizeof(*report), PROT_READ | PROT_WRITE,
        MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    double best = 0;

    if (report == MAP_FAILED)
        return;
    for (int i = 0; i < OWN; i++) {
        struct symc_blas_trial *trial = &choice->trials[choice->ntrials];

        if (is_superfluous(choice, i) ||
            read_clock_ns(CLOCK_MONOTONIC) - begun > ALL_NS ||
            !try_candidate(i, report, trial) || has_name(choice, trial->name))
            continue;
        choice->ntrials++;
        if (trial->rate <= best * BETTER)
            continue;
        best = trial->rate;
        choice->candidate = i;
    }
    munmap(report, sizeof(*report));
}

/* ---- choosing ---- */

/* Returns the candidate with the kernels that a loaded library reports, or
 * `number` if it names none of the candidates' kernels. */
static int find_loaded(int number, void *library)
{
    const char *core = call_for_text(library, "openblas_get_corename");

    for (int i = number; core != NULL && i < OWN; i++)
        if (candidates[i].core != NULL &&
            strcasecmp(candidates[i].core, core) == 0)
            return i;
    return number;
}

/* Returns the candidate that is loaded in the process; -1: none. */
static int find_own(void)
{
    if (dlsym(RTLD_DEFAULT, "cblas_sgemm") != NULL)
        return OWN;
    for (int i = 0; i < OWN; i++) {
        void *library =
            candidates[i].core != NULL
                ? NULL
                : dlopen(candidates[i].library, RTLD_LAZY | RTLD_NOLOAD);
        bool has_cblas =
            library != NULL && dlsym(library, "cblas_sgemm") != NULL;
        int number = has_cblas ? find_loaded(i, library) : -1;

        if (library != NULL)
            dlclose(library);
        if (has_cblas)
            return number;
    }
    return -1;
}

/* Returns the first library that loads in this process; -1: none. */
static int find_loadable(void)
{
    for (int i = 0; i < OWN; i++) {
        void *library =
            candidates[i].core == NULL ? symc_blas_open(&candidates[i]) : NULL;

        if (library != NULL && dlsym(library, "cblas_sgemm") != NULL)
            return i;
    }
    return -1;
}

void symc_blas_choose(struct symc_blas_choice *choice, const char *core)
{
    void *library = NULL;

    *choice = (struct symc_blas_choice){.candidate = find_own()};
    if (choice->candidate >= 0) {
        choice->reason = "the program has loaded it";
        return;
    }
    if (core != NULL && core[0] != '\0')
        library = symc_blas_open(&candidates[0]);
    if (library != NULL && dlsym(library, "cblas_sgemm") != NULL) {
        choice->candidate = 0;
        choice->reason = "OPENBLAS_CORETYPE is set";
        return;
    }
    measure_all(choice);
    choice->reason =
        choice->candidate >= 0 ? "measured" : "no library with CBLAS is usable";
    if (choice->ntrials > 0)
        return;
    choice->candidate = find_loadable();
    if (choice->candidate >= 0)
        choice->reason = "no child process could measure";
}

void symc_blas_describe_rejected(
    const struct symc_blas_choice *choice, char *text, size_t nbytes)
{
    size_t used = 0;

    text[0] = '\0';
    for (int i = 0; i < choice->ntrials && used < nbytes; i++) {
        const struct symc_blas_trial *trial = &choice->trials[i];
        const char *comma = used > 0 ? "; " : "";

        if (trial->candidate == choice->candidate)
            continue;
        if (trial->rejected[0] != '\0')
            used += (size_t)snprintf(text + used, nbytes - used, "%s%s (%s)",
                comma, trial->name, trial->rejected);
        else
            used += (size_t)snprintf(text + used, nbytes - used, "%s%s (%.1f)",
                comma, trial->name, trial->rate);
    }
}
