/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The fake driver's state: settings, call counts, injected failures, and
 * queries of tests.
 */
#include "t/cuda/fake/state.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define NAME_MAX_NBYTES 64
#define FUNCTIONS 160
#define FAILURES 32

static const struct fake_settings defaults = {
    .version = 12040,
    .devices = 1,
    .sms = 132,
    .capability = 90,
    .memory = (size_t)1 << 30,
    .granularity = (size_t)2 << 20,
    .seed = 1,
};

struct fake_state fake = {
    .lock = PTHREAD_MUTEX_INITIALIZER,
};

/* A call to be failed. */
struct failure {
    char name[NAME_MAX_NBYTES];
    int after; /* calls before it; -1: every call fails */
    CUresult error;
};

static struct {
    char name[NAME_MAX_NBYTES];
    uint64_t count;
} calls[FUNCTIONS];

/* A call to be delayed. */
struct delay {
    char name[NAME_MAX_NBYTES];
    int ms;
};

static struct failure failures[FAILURES];
static struct delay delays[FAILURES];
static char missing[FAILURES][NAME_MAX_NBYTES];
static int ncalls, nfailures, nmissing, ndelays;

void fake_lock(void)
{
    pthread_mutex_lock(&fake.lock);
}

/* A waiting thread. */
struct fake_waiter {
    struct fake_waiter *next, **at;
    bool (*holds)(const void *arg);
    const void *arg;
    bool woken;
    pthread_cond_t wake;
};

/* Wakes the threads with conditions that hold. Called with the lock. After a
 * change only few of many streams can continue, and waking all of them would
 * take most of a test's time. */
static void wake_those_that_may(void)
{
    fake.changed = false;
    for (struct fake_waiter *at = fake.waiters; at != NULL; at = at->next) {
        if (at->woken || !at->holds(at->arg))
            continue;
        at->woken = true;
        pthread_cond_signal(&at->wake);
    }
}

void fake_unlock(void)
{
    if (fake.changed)
        wake_those_that_may();
    pthread_mutex_unlock(&fake.lock);
}

void fake_changed(void)
{
    fake.changed = true;
}

void fake_wait_until(bool (*holds)(const void *arg), const void *arg)
{
    struct fake_waiter waiter = {.next = fake.waiters,
        .at = &fake.waiters,
        .holds = holds,
        .arg = arg,
        .wake = PTHREAD_COND_INITIALIZER};

    if (holds(arg))
        return;
    if (fake.waiters != NULL)
        fake.waiters->at = &waiter.next;
    fake.waiters = &waiter;
    while (!holds(arg)) {
        waiter.woken = false;
        if (fake.changed)
            wake_those_that_may();
        pthread_cond_wait(&waiter.wake, &fake.lock);
    }
    *waiter.at = waiter.next;
    if (waiter.next != NULL)
        waiter.next->at = waiter.at;
    pthread_cond_destroy(&waiter.wake);
}

/* A counter, and the value to wait for. */
struct awaited_count {
    const uint64_t *count;
    uint64_t until;
};

static bool is_reached(const void *arg)
{
    const struct awaited_count *awaited = arg;

    return *awaited->count >= awaited->until;
}

void fake_wait_for_count(const uint64_t *count, uint64_t until)
{
    const struct awaited_count awaited = {count, until};

    fake_wait_until(is_reached, &awaited);
}

void fake_die(const char *what)
{
    fprintf(stderr, "fake CUDA driver: %s\n", what);
    abort();
}

static _Thread_local char current[NAME_MAX_NBYTES]; /* call of this thread */

void fake_die_of(const void *handle, const char *what)
{
    fprintf(stderr, "fake CUDA driver: %s: %p: %s\n", current, handle, what);
    abort();
}

void *fake_alloc(size_t nbytes)
{
    void *memory = calloc(1, nbytes);

    if (memory == NULL)
        abort();
    return memory;
}

/* ---- settings ---- */

/* Parses a number, with K, M or G; false: not a number. */
static bool read_number(const char *text, uint64_t *number)
{
    char *end = NULL;

    errno = 0;
    *number = strtoull(text, &end, 10);
    if (end == text || errno != 0)
        return false;
    if (*end == 'K' || *end == 'M' || *end == 'G')
        *number <<= *end == 'K' ? 10 : *end == 'M' ? 20 : 30;
    else
        return *end == '\0';
    return end[1] == '\0';
}

/* Parses "cuName:3:2". */
static bool add_failure(const char *text)
{
    struct failure *failure = &failures[nfailures];
    int number = 0, error = 0;

    if (nfailures == FAILURES ||
        sscanf(text, "%63[^:]:%d:%d", failure->name, &number, &error) != 3)
        return false;
    failure->after = number - 1;
    failure->error = (CUresult)error;
    nfailures++;
    return true;
}

static bool add_missing(const char *text)
{
    if (nmissing == FAILURES || strlen(text) >= NAME_MAX_NBYTES)
        return false;
    strcpy(missing[nmissing++], text);
    return true;
}

/* Parses "cuName:20". */
static bool add_delay(const char *text)
{
    struct delay *delay = &delays[ndelays];

    if (ndelays == FAILURES ||
        sscanf(text, "%63[^:]:%d", delay->name, &delay->ms) != 2)
        return false;
    ndelays++;
    return true;
}

static bool set_number(const char *key, uint64_t number)
{
    struct fake_settings *settings = &fake.settings;
    const struct {
        const char *key;
        int *value;
    } numbers[] = {{"version", &settings->version},
        {"devices", &settings->devices}, {"sms", &settings->sms},
        {"uuid", &settings->uuid}, {"connections", &settings->connections},
        {"elapsed", &settings->elapsed}, {"queue", &settings->queue},
        {"capability", &settings->capability}};

    for (size_t i = 0; i < COUNT(numbers); i++) {
        if (strcmp(key, numbers[i].key) == 0) {
            *numbers[i].value = (int)number;
            return settings->devices <= FAKE_DEVICES &&
                   settings->connections <= FAKE_CONNECTIONS;
        }
    }
    if (strcmp(key, "memory") == 0)
        settings->memory = number;
    else if (strcmp(key, "granularity") == 0)
        settings->granularity = number;
    else if (strcmp(key, "coarse") == 0)
        settings->coarse = number;
    else if (strcmp(key, "multicast") == 0)
        settings->multicast = number != 0;
    else if (strcmp(key, "fabric") == 0)
        settings->fabric = number != 0;
    else if (strcmp(key, "rdma") == 0)
        settings->rdma = number != 0;
    else if (strcmp(key, "waits") == 0)
        settings->waits = number != 0;
    else if (strcmp(key, "reuse") == 0)
        settings->reuse = number != 0;
    else if (strcmp(key, "linger") == 0)
        settings->linger = (unsigned int)number;
    else if (strcmp(key, "delay") == 0)
        settings->delay = (unsigned int)number;
    else if (strcmp(key, "seed") == 0)
        settings->seed = number;
    else
        return false;
    return true;
}

/* Parses "key=value". */
static bool set(char *setting)
{
    char *value = strchr(setting, '=');
    uint64_t number = 0;

    if (value == NULL)
        return false;
    *value++ = '\0';
    if (strcmp(setting, "missing") == 0)
        return add_missing(value);
    if (strcmp(setting, "fail") == 0)
        return add_failure(value);
    if (strcmp(setting, "slow") == 0)
        return add_delay(value);
    return read_number(value, &number) && set_number(setting, number);
}

static bool configure(const char *settings)
{
    char *copy = strdup(settings), *rest = NULL, *setting;
    bool known = copy != NULL;

    for (setting = strtok_r(copy, " ", &rest); known && setting != NULL;
         setting = strtok_r(NULL, " ", &rest))
        known = set(setting);
    free(copy);
    return known;
}

/* Applies the settings of the environment first. Called with the lock. */
static void read_environment(void)
{
    const char *settings = getenv("FAKE_CUDA");

    if (fake.read_environment)
        return;
    fake.read_environment = true;
    fake.settings = defaults;
    if (settings != NULL && !configure(settings))
        fake_die("FAKE_CUDA has an unknown setting");
}

bool fake_configure(const char *settings)
{
    bool known;

    fake_lock();
    read_environment();
    known = configure(settings);
    fake_unlock();
    return known;
}

void fake_reset(void)
{
    fake_finish();
    fake_lock();
    if (fake.streams != NULL || fake.captures != NULL || fake.contexts != NULL)
        fake_die("reset with streams, captures or contexts");
    fake.read_environment = false;
    fake.initialised = false;
    memset(fake.devices, 0, sizeof(fake.devices));
    ncalls = nfailures = nmissing = ndelays = 0;
    fake_unlock();
}

/* ---- calls ---- */

/* Removes a version suffix: cuMemAlloc for cuMemAlloc_v2. */
static void strip_version(const char *function, char *name)
{
    size_t length = strlen(function);

    if (length > 3 && function[length - 3] == '_' &&
        function[length - 2] == 'v')
        length -= 3;
    if (length >= NAME_MAX_NBYTES)
        length = NAME_MAX_NBYTES - 1;
    memcpy(name, function, length);
    name[length] = '\0';
}

static void count_call(const char *name)
{
    int i = 0;

    while (i < ncalls && strcmp(calls[i].name, name) != 0)
        i++;
    if (i == FUNCTIONS)
        fake_die("more functions than are counted");
    if (i == ncalls) {
        strcpy(calls[ncalls].name, name);
        calls[ncalls++].count = 0;
    }
    calls[i].count++;
}

/* Returns the error, or ends the process by the signal. */
static CUresult have_fail(CUresult error)
{
    if ((int)error >= 0)
        return error;
    (void)kill(getpid(), -(int)error);
    for (;;)
        (void)pause();
}

/* Returns the result that a test injects into this call. */
static CUresult injected(const char *name)
{
    for (int i = 0; i < nfailures; i++) {
        struct failure *failure = &failures[i];
        const CUresult error = failure->error;

        if (strcmp(failure->name, name) != 0)
            continue;
        if (failure->after < 0)
            return have_fail(error);
        if (failure->after-- == 0) {
            *failure = failures[--nfailures];
            return have_fail(error);
        }
    }
    return CUDA_SUCCESS;
}

static CUresult judge_context(CUcontext context)
{
    if (context == NULL)
        return CUDA_ERROR_INVALID_CONTEXT;
    if (context->destroyed ||
        (context->primary && fake.devices[context->device].retained == 0))
        return CUDA_ERROR_CONTEXT_IS_DESTROYED;
    return context->broken;
}

static CUresult judge(const char *name, unsigned int needs)
{
    CUresult result = injected(name);

    if (result != CUDA_SUCCESS)
        return result;
    if ((needs & FAKE_INIT) != 0 && (!fake.initialised || fake.pid != getpid()))
        return CUDA_ERROR_NOT_INITIALIZED;
    if ((needs & FAKE_CONTEXT) == FAKE_CONTEXT)
        result = judge_context(fake_current());
    if (result == CUDA_SUCCESS && (needs & FAKE_UNSAFE) != 0 &&
        fake_disturbs_capture(*fake_capture_mode()))
        result = CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
    return result;
}

/* Counts the first use of a kind in the current context. */
static void note_use(const char *name)
{
    static const char *const kinds[] = {"cuMemcpyAsync", "cuMemcpy2DAsync",
        "cuMemsetD8Async", "cuMemsetD32Async"};
    CUcontext context = fake_current();

    for (size_t i = 0; i < COUNT(kinds); i++) {
        const uint32_t bit = (uint32_t)1 << i;

        if (strcmp(name, kinds[i]) != 0 || (context->used & bit) != 0)
            continue;
        context->used |= bit;
        fake.first_uses++;
    }
}

/* Returns the milliseconds by which a call is delayed. */
static int find_delay(const char *name)
{
    int ms = 0;

    for (int i = 0; i < ndelays; i++)
        ms += strcmp(delays[i].name, name) == 0 ? delays[i].ms : 0;
    return ms;
}

CUresult fake_enter(const char *function, unsigned int needs)
{
    char *const name = current;
    CUresult result;
    int ms;

    strip_version(function, name);
    fake_lock();
    read_environment();
    count_call(name);
    fake_count_skip(name);
    result = judge(name, needs);
    if (result == CUDA_SUCCESS && (needs & FAKE_CONTEXT) == FAKE_CONTEXT)
        note_use(name);
    ms = find_delay(name);
    fake_unlock();
    if (ms > 0)
        (void)usleep((useconds_t)ms * 1000);
    return result;
}

bool fake_is_missing(const char *name)
{
    bool found = false;

    fake_lock();
    for (int i = 0; i < nmissing; i++)
        found |= strcmp(missing[i], name) == 0;
    fake_unlock();
    return found;
}

/* ---- queries of tests ---- */

uint64_t fake_calls(const char *name)
{
    uint64_t count = 0;

    fake_lock();
    for (int i = 0; i < ncalls; i++)
        if (strcmp(calls[i].name, name) == 0)
            count = calls[i].count;
    fake_unlock();
    return count;
}

int fake_first_uses(void)
{
    int n;

    fake_lock();
    n = fake.first_uses;
    fake_unlock();
    return n;
}

int fake_live(enum fake_object object)
{
    int n;

    fake_lock();
    n = fake.live[object];
    fake_unlock();
    return n;
}

int fake_blocks_max(int device)
{
    int n;

    fake_lock();
    n = fake.devices[device].blocks_max;
    fake_unlock();
    return n;
}

int fake_priority(int device)
{
    int priority;

    fake_lock();
    priority = fake.devices[device].priority;
    fake_unlock();
    return priority;
}

void fake_break(int device, CUresult error)
{
    fake_lock();
    fake.devices[device].primary.broken = error;
    fake_changed();
    fake_unlock();
}

/* ---- kernels ---- */

void fake_register_kernel(
    const char *name, fake_kernel_fn kernel, size_t args_nbytes)
{
    struct CUfunc_st *function = fake_alloc(sizeof(*function));

    fake_lock();
    *function = (struct CUfunc_st){.next = fake.functions,
        .name = name,
        .kernel = kernel,
        .args_nbytes = args_nbytes};
    fake.functions = function;
    fake_unlock();
}

void fake_set_engine(void (*run)(fake_kernel_fn kernel, const void *args,
    uint32_t blocks, uint32_t threads, uint64_t seed))
{
    fake_lock();
    fake.engine = run;
    fake_unlock();
}
