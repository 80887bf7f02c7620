/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Tests the report of NCCL's RAS service in the dumps of a failure, with the
 * stand-ins for the driver and for NCCL, and one for the service in a process
 * of the test. t/devices/ras.c tests the query and its failures.
 */
#include "t/nccl/exchanged.h"
#include "t/nccl/named.h"
#include "t/world/faults.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#define SIZE 3
#define VICTIM 2
#define TEXT "all communicators are OK"
#define HAS_TEXT "\"nccl_ras\": \"" TEXT "\""
#define HAS_NONE "\"reason\": \"a group failed\"}" /* nothing follows */

/* ---- the service ---- */

static struct {
    int listener;
    pid_t pid;
    /* Shared: how often it has been queried, and has answered; and it does not
     * answer until this is 0. */
    _Atomic int *called, *asked, *silent;
} service;

static void answer(int fd)
{
    static const char *const replies[] = {"SERVER PROTOCOL 2\n", "OK\n", TEXT};
    char byte;

    for (size_t i = 0; i < sizeof(replies) / sizeof(replies[0]); i++) {
        do {
            if (recv(fd, &byte, 1, 0) != 1)
                return;
        } while (byte != '\n');
        if (send(fd, replies[i], strlen(replies[i]), MSG_NOSIGNAL) < 0)
            return;
    }
    atomic_fetch_add(service.asked, 1);
}

/* Accepts the queries of all ranks, or of one, before the first answer. */
static void serve(void)
{
    int fds[SIZE], n = 0;

    do {
        fds[n] = accept(service.listener, NULL, NULL);
        if (fds[n++] < 0)
            _exit(1);
        atomic_fetch_add(service.called, 1);
    } while (atomic_load(service.silent) != 0 && n < SIZE);
    while (atomic_load(service.silent) != 0)
        faults_rest();
    for (int i = 0; i < n; i++) {
        answer(fds[i]);
        close(fds[i]);
    }
}

/* Starts the service before all ranks, none of which has another thread then,
 * as a sanitizer requires. */
static bool start_service(void)
{
    _Atomic int *shared = mmap(NULL, 3 * sizeof(*shared),
        PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

    if (shared == MAP_FAILED)
        return false;
    service.called = &shared[0];
    service.asked = &shared[1];
    service.silent = &shared[2];
    service.pid = fork();
    if (service.pid == 0)
        prctl(PR_SET_PDEATHSIG, SIGKILL);
    while (service.pid == 0)
        serve();
    return service.pid > 0;
}

static void end_service(void)
{
    kill(service.pid, SIGKILL);
    waitpid(service.pid, NULL, 0);
    close(service.listener);
}

static bool open_service(bool listens)
{
    struct sockaddr_in at = {
        .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t nbytes = sizeof(at);
    char address[32];

    service.listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (service.listener < 0 ||
        bind(service.listener, (struct sockaddr *)&at, sizeof(at)) != 0 ||
        (listens && listen(service.listener, SIZE) != 0) ||
        getsockname(service.listener, (struct sockaddr *)&at, &nbytes) != 0)
        return false;
    snprintf(address, sizeof(address), "127.0.0.1:%d", ntohs(at.sin_port));
    setenv("NCCL_RAS_ADDR", address, 1);
    return true;
}

/* ---- the ranks ---- */

struct plan {
    bool made; /* there is a communicator when the group fails */
};

/* Fails the group once. Step 1: the group fails next. */
static int fail_once(struct faults_rank *self)
{
    const struct plan *plan = self->arg;

    if (!faults_init(self))
        return 1;
    device_use(self->rank);
    if (plan->made && exchange(self->group) != SYMMCOLL_OK)
        return 1;
    faults_reach(self, 1);
    faults_pass(self, 1);
    if (self->rank == 0)
        symmcoll_group_abort(self->group, "enough");
    faults_note(self, faults_barrier(self));
    return faults_finalize(self);
}

/* Steps: 1: another group fails next; 2: the service is queried, and the
 * victim dies; 3: the death is known; 4: the service may answer. */
static int fail_and_be_told(struct faults_rank *self)
{
    struct symmcoll_group *other = NULL;

    if (!faults_init(self))
        return 1;
    device_use(self->rank);
    if (exchange(self->group) != SYMMCOLL_OK ||
        symmcoll_group_create(self->world, NULL, &other) != SYMMCOLL_OK)
        return 1;
    faults_reach(self, 1);
    faults_pass(self, 1);
    if (self->rank == 0)
        symmcoll_group_abort(other, "enough");
    if (symmcoll_barrier(other, NULL, NULL) == SYMMCOLL_OK)
        return 1;
    faults_reach(self, 2);
    if (self->rank == VICTIM)
        faults_pass(self, 4);
    faults_note(self, faults_barrier(self));
    faults_reach(self, 3);
    faults_pass(self, 4);
    return faults_finalize(self);
}

/* ---- the tests ---- */

static bool dumps_hold(const char *text)
{
    bool right = true;

    for (int r = 0; r < SIZE; r++)
        right = faults_dumped(r, text) && right;
    return right;
}

/* Returns whether a group has failed on all ranks, with a dump of each. */
static bool run(bool made)
{
    struct plan plan = {made};
    struct faults_job job;
    bool right;

    faults_start(&job, SIZE, fail_once, &plan);
    right = faults_await_all(&job, 1);
    faults_open(&job, 1);
    for (int r = 0; r < SIZE; r++) {
        faults_reap(&job, r);
        /* The group of rank 0 has failed before; that of other ranks may have,
         * too. */
        right = right && strstr(faults_told(&job, r, 0)->detail, "enough");
    }
    return faults_finish(&job, 0) && right;
}

/* Checks that a run succeeds, and that each rank's dump has the report, or
 * none has. */
static bool asks(bool made, int expected)
{
    int before = *service.asked;
    bool right = run(made) && dumps_hold(expected > 0 ? HAS_TEXT : HAS_NONE);

    if (*service.asked - before == expected)
        return right;
    diag("expected %d questions, found %d", expected, *service.asked - before);
    return false;
}

/* Checks that the other ranks get an error for a death while they query, and
 * have the answer later. */
static bool tells_death(void)
{
    const double until = faults_now() + FAULTS_WAIT_MAX;
    const int called = *service.called + SIZE;
    struct faults_job job;
    bool right;

    atomic_store(service.silent, 1);
    faults_start(&job, SIZE, fail_and_be_told, NULL);
    right = faults_await_all(&job, 1);
    faults_open(&job, 1);
    while (right && *service.called < called && faults_now() < until)
        faults_rest();
    right = faults_await_all(&job, 2) && right && *service.called == called;
    faults_signal(&job, VICTIM, SIGKILL);
    for (int r = 0; r < VICTIM; r++)
        right = right && faults_await(&job, r, 3) &&
                faults_said(faults_told(&job, r, 0), SYMMCOLL_ERR_PEER,
                    "rank 2 (pid ", "killed by SIGKILL", NULL) &&
                faults_told(&job, r, 0)->at - job.killed_at < FAULTS_KNOWN &&
                faults_dumped(r, HAS_NONE);
    atomic_store(service.silent, 0);
    faults_open(&job, 4);
    for (int r = 0; r < VICTIM; r++)
        faults_reap(&job, r);
    right = faults_finish(&job, 1U << VICTIM) && right;
    return faults_dumped(0, HAS_TEXT) && faults_dumped(1, HAS_TEXT) && right;
}

static void test_death(void)
{
    setenv("SYMMCOLL_TRACE_NCCL_RAS", "1min", 1);
    setenv("SYMMCOLL_TRACE_DUMP_GRACE", "100ms", 1);
    ok(tells_death(),
        "while a rank waits for the service it is told of another's death, and "
        "its dump is completed later");
    unsetenv("SYMMCOLL_TRACE_NCCL_RAS");
    unsetenv("SYMMCOLL_TRACE_DUMP_GRACE");
}

static void test_service(void)
{
    if (!open_service(true) || !start_service()) {
        ok(0, "the service");
        return;
    }
    ok(asks(true, SIZE),
        "a failure: the dump of each rank has what NCCL's service says");
    ok(asks(false, 0),
        "without a communicator of NCCL the service is not asked");
    setenv("SYMMCOLL_TRACE_NCCL_RAS", "0", 1);
    ok(asks(true, 0), "trace.nccl_ras: 0, it is not asked");
    unsetenv("SYMMCOLL_TRACE_NCCL_RAS");
    setenv("NCCL_RAS_ENABLE", "0", 1);
    ok(asks(true, 0), "nor where NCCL has none");
    unsetenv("NCCL_RAS_ENABLE");
    setenv("SYMMCOLL_TRACE_DUMP_ON_ERROR", "off", 1);
    ok(run(true) && *service.asked == SIZE, "nor where there is no dump");
    unsetenv("SYMMCOLL_TRACE_DUMP_ON_ERROR");
    test_death();
    end_service();
}

static void test_silence(void)
{
    ok(open_service(false) && run(true) &&
            dumps_hold(
                "\"nccl_ras_error\": \"NCCL's RAS service at 127.0.0.1:") &&
            dumps_hold("expected a connection, found Connection refused\""),
        "where nobody answers the dump says so");
    close(service.listener);
    setenv("SYMMCOLL_TRACE_NCCL_RAS", "300ms", 1);
    ok(open_service(true) && run(true) &&
            dumps_hold("found none within 0.3 s\""),
        "and where the answer does not come in time, which has an end");
    close(service.listener);
}

int main(void)
{
    device_begin();
    name_nccl();
    faults_begin();
    test_service();
    test_silence();
    faults_end();
    return done_testing();
}
