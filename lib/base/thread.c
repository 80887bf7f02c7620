/* SPDX-License-Identifier: BSD-3-Clause */
/* Starts threads and sets their scheduling. */
#include "base/thread.h"
#include "base/cancel.h"
#include "base/floating.h"

#include <errno.h>
#include <link.h>
#include <sched.h>
#include <semaphore.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

/* The argument of sched_setattr(2), which not every C library declares. */
struct attributes {
    uint32_t size;
    uint32_t policy;
    uint64_t flags;
    int32_t nice;
    uint32_t priority;
    uint64_t runtime_ns; /* time slice, if the policy is SCHED_OTHER */
    uint64_t deadline_ns;
    uint64_t period_ns;
};

/* Long enough to write a flight recorder to a file. */
#define PROMPT_NS (UINT64_C(500) * 1000)
#define PROMPT_NICE (-10)
#define RESET_ON_FORK 1u /* its child threads get the default nice value */

#define ATTEMPTS_MAX 500 /* to start a thread: about 0.1 s */

void symc_condition_init(pthread_cond_t *condition)
{
    pthread_condattr_t monotonic;

    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_cond_init(condition, &monotonic);
    pthread_condattr_destroy(&monotonic);
}

void symc_thread_be_prompt(void)
{
    struct attributes attributes = {0};

    if (syscall(SYS_sched_getattr, 0, &attributes, sizeof(attributes), 0) !=
            0 ||
        attributes.policy != SCHED_OTHER)
        return;
    attributes.size = sizeof(attributes);
    attributes.runtime_ns = PROMPT_NS;
    if (attributes.nice > PROMPT_NICE) {
        struct attributes raised = attributes;

        raised.nice = PROMPT_NICE;
        raised.flags |= RESET_ON_FORK;
        if (syscall(SYS_sched_setattr, 0, &raised, 0) == 0)
            return;
    }
    syscall(SYS_sched_setattr, 0, &attributes, 0);
}

/*
 * Creates a thread.  While another thread of the process executes a program,
 * the kernel fails with EAGAIN, as it does at the limit on threads: retry for a
 * while.
 */
static int create_thread(pthread_t *thread, const pthread_attr_t *attributes,
    void *(*run)(void *), void *arg)
{
    const struct timespec pause = {0, 200000};
    int error, attempts = 0;

    while ((error = pthread_create(thread, attributes, run, arg)) == EAGAIN &&
           ++attempts < ATTEMPTS_MAX)
        (void)nanosleep(&pause, NULL);
    return error;
}

/* Formats a limit. */
static const char *format_limit(int resource, char buffer[24])
{
    struct rlimit limit = {0};

    getrlimit(resource, &limit);
    if (limit.rlim_cur == RLIM_INFINITY)
        return "unlimited";
    snprintf(buffer, 24, "%llu", (unsigned long long)limit.rlim_cur);
    return buffer;
}

static int add_thread_data(struct dl_phdr_info *info, size_t size, void *sum)
{
    size_t *nbytes = sum;

    (void)size;
    for (int i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *header = &info->dlpi_phdr[i];

        if (header->p_type == PT_TLS)
            *nbytes += header->p_memsz + header->p_align;
    }
    return 0;
}

/* Returns the stack size plus room for a thread's copy of the thread-local data
 * of all loaded objects, which C libraries place on the stack. */
static size_t add_all_thread_data(size_t stack_nbytes)
{
    (void)dl_iterate_phdr(add_thread_data, &stack_nbytes);
    return stack_nbytes;
}

/* The start arguments of a thread, on the stack of the thread that starts it
 * and waits until they have been read. */
struct start {
    void *(*run)(void *);
    void *arg;
    const char *name;
    pthread_t *thread;
    sem_t taken;
};

/* The thread sets its own id and name, because run may use either and may free
 * the memory of the id.  It also sets the default floating-point mode, because
 * it inherits that of its starter. */
static void *begin(void *arg)
{
    struct start *start = arg;
    void *(*run)(void *) = start->run;

    arg = start->arg;
    (void)symc_floating_set_default();
    *start->thread = pthread_self();
    pthread_setname_np(pthread_self(), start->name);
    sem_post(&start->taken);
    return run(arg);
}

symmcoll_status_t symc_thread_start(pthread_t *thread, const char *name,
    size_t stack_nbytes, void *(*run)(void *), void *arg)
{
    struct start start = {
        .run = run, .arg = arg, .name = name, .thread = thread};
    pthread_attr_t attributes;
    pthread_t made;
    sigset_t all, before;
    int error;
    int cancel = symc_cancel_disable();

    sem_init(&start.taken, 0, 0);
    pthread_attr_init(&attributes);
    if (stack_nbytes > 0)
        pthread_attr_setstacksize(
            &attributes, add_all_thread_data(stack_nbytes));
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    error = create_thread(&made, &attributes, begin, &start);
    if (error == EINVAL && stack_nbytes > 0)
        error = create_thread(&made, NULL, begin, &start);
    while (error == 0 && sem_wait(&start.taken) != 0)
        continue; /* interrupted by a debugger */
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    pthread_attr_destroy(&attributes);
    sem_destroy(&start.taken);
    if (error != 0) {
        char threads[24], space[24];

        symc_cancel_restore(cancel);
        return symc_fail_errno(SYMMCOLL_ERR_SYSTEM, error,
            "thread %s: one more requested, RLIMIT_NPROC is %s, RLIMIT_AS is "
            "%s",
            name, format_limit(RLIMIT_NPROC, threads),
            format_limit(RLIMIT_AS, space));
    }
    symc_cancel_restore(cancel);
    return SYMMCOLL_OK;
}
