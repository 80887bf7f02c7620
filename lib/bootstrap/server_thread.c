/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Rank 0's bootstrap server: a thread with its own table of descriptors.
 *
 * A process forked while rank 0 joins gets copies of its descriptors, and an
 * abstract name is bound as long as any process has the socket. So the child
 * would keep the name from the next world, accept ranks that no one serves, and
 * hide the death of rank 0 from those connected to it. No other thread can copy
 * what is only in this thread's table.
 */
#include "bootstrap/server_thread.h"
#include "base/descriptor.h"
#include "base/thread.h"
#include "bootstrap/server.h"

#include <errno.h>
#include <poll.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#define POLL_MS 100
#define THREADS_WAIT_NS (10 * SYMC_NS_PER_S)

/* Flag of close_range(), Linux 5.9; the C library's headers may be older. */
#define RANGE_UNSHARE 2u

/* ThreadSanitizer assumes one table, and would report races on equal
 * numbers. */
#if defined(__SANITIZE_THREAD__)
#define ONE_TABLE true
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define ONE_TABLE true
#endif
#endif
#ifndef ONE_TABLE
#define ONE_TABLE false
#endif

struct symc_bootstrap_thread {
    pthread_t thread;
    const char *name; /* borrowed until `ready` */
    int64_t deadline_ns;
    int own;   /* rank 0's end of its connection */
    int other; /* the bootstrap server's end */
    struct symc_bootstrap_server *server;
    _Atomic int64_t until_ns; /* 0 until rank 0 has its answer */

    sem_t ready;             /* the members below are set after it: */
    bool apart;              /* the thread has a table of its own */
    struct symc_error error; /* or OK */
};

/* Leaves the process's table, with one of its descriptors and the standard
 * streams. Returns false if that is not possible. */
static bool leave_table(int keep)
{
    unsigned first = keep > 2 ? (unsigned)keep + 1 : 3;

    if (ONE_TABLE || syscall(SYS_close_range, first, ~0u, RANGE_UNSHARE) != 0)
        return false;
    if (keep > 3)
        (void)syscall(SYS_close_range, 3u, (unsigned)keep - 1, 0u);
    return true;
}

static symmcoll_status_t open_server(struct symc_bootstrap_thread *server)
{
    symmcoll_status_t status = symc_bootstrap_open_until(
        server->name, NULL, server->deadline_ns, &server->server);

    if (status == SYMMCOLL_OK) {
        symc_bootstrap_serve_once(server->server);
        status = symc_bootstrap_add(server->server, server->other);
    } else {
        close(server->other);
    }
    return status;
}

/* Returns whether threads of this process are still to take their answers, which
 * are waited for some time beyond the deadline. */
static bool waits_for_threads(const struct symc_bootstrap_thread *server)
{
    return symc_bootstrap_answers_threads(server->server) &&
           symc_now_ns() <
               symc_deadline_ns(server->deadline_ns, THREADS_WAIT_NS);
}

static void serve(struct symc_bootstrap_thread *server)
{
    for (;;) {
        int64_t until = atomic_load(&server->until_ns);
        struct pollfd polled = {
            .fd = symc_bootstrap_fd(server->server), .events = POLLIN};
        bool near;

        if (until != 0 && !waits_for_threads(server) &&
            (symc_now_ns() >= until || !symc_bootstrap_busy(server->server)))
            return;
        /* When all ranks have joined, the end is near and may not wake this
         * thread: its connection to rank 0 may be closed already. */
        near = until != 0 || !symc_bootstrap_is_listening(server->server);
        poll(&polled, 1, near ? 1 : POLL_MS);
        /* All ranks were informed, and there is no descriptor for later
         * ones. */
        if (symc_bootstrap_serve(server->server) != SYMMCOLL_OK)
            symc_bootstrap_stop_listening(server->server);
    }
}

static void *run_server(void *arg)
{
    struct symc_bootstrap_thread *server = arg;
    symmcoll_status_t status;

    server->apart = leave_table(server->other);
    status = open_server(server);
    symc_error_keep(&server->error, status);
    sem_post(&server->ready);
    if (status != SYMMCOLL_OK)
        return NULL;
    serve(server);
    symc_bootstrap_close(server->server);
    return NULL;
}

static symmcoll_status_t connect_ends(struct symc_bootstrap_thread *server)
{
    int ends[2], error;

    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0,
            ends) != 0)
        return symc_fail_descriptor(errno, "init: socketpair");
    error = symc_descriptor_raise_all(ends, 2);
    if (error != 0)
        return symc_fail_descriptor(error, "init: socketpair");
    server->own = ends[0];
    server->other = ends[1];
    return SYMMCOLL_OK;
}

symmcoll_status_t symc_bootstrap_thread_start(const char *name,
    int64_t deadline_ns, struct symc_bootstrap_thread **server, int *fd)
{
    struct symc_bootstrap_thread *made = symc_alloc(1, sizeof(*made));
    symmcoll_status_t status;

    if (made == NULL)
        return SYMMCOLL_ERR_NO_MEMORY;
    made->name = name;
    made->deadline_ns = deadline_ns;
    status = connect_ends(made);
    if (status != SYMMCOLL_OK)
        goto free_server;
    sem_init(&made->ready, 0, 0);
    status = symc_thread_start(
        &made->thread, "symc-bootstrap", SYMC_STACK_SMALL, run_server, made);
    if (status != SYMMCOLL_OK) {
        close(made->other);
        goto close_own;
    }
    while (sem_wait(&made->ready) != 0 && errno == EINTR)
        ;
    if (made->apart)
        close(made->other); /* the copy in this table */
    status = symc_error_return(&made->error);
    if (status != SYMMCOLL_OK) {
        pthread_join(made->thread, NULL);
        goto close_own;
    }
    *server = made;
    *fd = made->own;
    return SYMMCOLL_OK;

close_own:
    sem_destroy(&made->ready);
    close(made->own);
free_server:
    free(made);
    return status;
}

void symc_bootstrap_thread_stop(
    struct symc_bootstrap_thread *server, int64_t until_ns)
{
    if (server == NULL)
        return;
    atomic_store(&server->until_ns, until_ns > 0 ? until_ns : 1);
    /* Wakes the thread even if a forked child has a copy of this end. */
    shutdown(server->own, SHUT_RDWR);
    pthread_join(server->thread, NULL);
    sem_destroy(&server->ready);
    close(server->own);
    free(server);
}
