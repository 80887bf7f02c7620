/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Starting threads.
 */
#include "work/thread.h"
#include "base/cancel.h"

#include <errno.h>
#include <signal.h>
#include <sys/resource.h>

symmcoll_status_t symc_thread_start(pthread_t *thread, const char *name,
    size_t stack_nbytes, void *(*run)(void *), void *arg)
{
    pthread_attr_t attributes;
    sigset_t all, before;
    int error;
    int cancel = symc_cancel_disable();

    pthread_attr_init(&attributes);
    if (stack_nbytes > 0)
        pthread_attr_setstacksize(&attributes, stack_nbytes);
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    error = pthread_create(thread, &attributes, run, arg);
    /* A program's thread-local data may not fit a small stack. */
    if (error == EINVAL && stack_nbytes > 0)
        error = pthread_create(thread, NULL, run, arg);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    pthread_attr_destroy(&attributes);
    if (error != 0) {
        struct rlimit threads = {0}, space = {0};

        getrlimit(RLIMIT_NPROC, &threads);
        getrlimit(RLIMIT_AS, &space);
        symc_cancel_restore(cancel);
        return symc_fail_errno(SYMMCOLL_ERR_SYSTEM, error,
            "thread %s: one more asked for, RLIMIT_NPROC is %lld, RLIMIT_AS is "
            "%lld",
            name, (long long)threads.rlim_cur, (long long)space.rlim_cur);
    }
    pthread_setname_np(*thread, name);
    symc_cancel_restore(cancel);
    return SYMMCOLL_OK;
}
