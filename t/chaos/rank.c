/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A rank: it runs operations, and one of the ranks has a thread that performs
 * the fault.
 */
#include "t/chaos/chaos.h"
#include "t/world/faults.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#define MORE_OPERATIONS 10 /* after the fault, where they have an end */

static struct chaos_board *board;
static const struct chaos_case *drawn;
static struct chaos_line *line;
static int rank;
static struct chaos_rank self;
static pthread_t caller;  /* the thread that calls the library */
static _Atomic int armed; /* it is time for the fault */

/* ---- the fault ---- */

static void rest(int us)
{
    if (us > 0)
        usleep((useconds_t)us);
}

/* Closes all unknown descriptors, as daemons do, and opens other files under
 * the same numbers, with data to read. Uses system calls: a sanitizer would
 * report the use of these numbers by others, which is the fault to be
 * tested. */
static void close_all(void)
{
    syscall(SYS_close_range, 3, ~0U, 0);
    for (int i = 0; i < 16; i++) {
        int fds[2];

        if (syscall(SYS_pipe2, fds, 0) != 0 ||
            syscall(SYS_write, fds[1], "x", 1) != 1)
            return;
    }
}

static void limit(int which)
{
    static const int resources[] = {RLIMIT_NOFILE, RLIMIT_FSIZE, RLIMIT_AS};
    struct rlimit none = {0};

    (void)signal(SIGXFSZ, SIG_IGN);
    if (which == 0)
        none.rlim_cur = none.rlim_max = 5;
    (void)setrlimit(resources[which], &none);
}

static void bring_about(void)
{
    char *const linger[] = {"chaos", "--linger", NULL};

    switch (drawn->fault) {
    case CHAOS_KILL:
        kill(getpid(), SIGKILL);
        break;
    case CHAOS_STOP:
    case CHAOS_FREEZE:
        atomic_store(&line->stopping, 1);
        kill(getpid(), SIGSTOP);
        break;
    case CHAOS_EXIT:
        _exit(3);
    case CHAOS_ABORT:
        abort();
    case CHAOS_EXEC:
        execv("/proc/self/exe", linger);
        _exit(9);
    case CHAOS_FORK:
        if (fork() == 0) {
            rest(200000);
            _exit(0);
        }
        break;
    case CHAOS_CANCEL:
        pthread_cancel(caller);
#ifdef __SANITIZE_THREAD__
        rest(500000); /* ThreadSanitizer cannot join the main thread */
#else
        pthread_join(caller, NULL);
#endif
        _exit(4);
    case CHAOS_CLOSE:
        close_all();
        break;
    case CHAOS_LIMIT:
        limit(drawn->limit);
        break;
    case CHAOS_FAULTS:
        break;
    }
}

static void *be_fault(void *arg)
{
    (void)arg;
    while (atomic_load(&armed) == 0)
        rest(20);
    rest(drawn->delay_us);
    bring_about();
    return NULL;
}

static void come_to(enum chaos_moment moment)
{
    if (moment == drawn->moment)
        atomic_store(&armed, 1);
}

/* ---- operations ---- */

/* Runs the operations, with a dump in the middle. */
static symmcoll_status_t operate_all(void)
{
    int end = drawn->before + MORE_OPERATIONS;

    for (int i = 0; chaos_has_no_end(drawn) || i < end; i++) {
        symmcoll_status_t status;

        if (i == drawn->before) {
            come_to(CHAOS_OPERATIONS);
            come_to(CHAOS_DUMP);
            for (int n = 0; n < 3 && drawn->moment == CHAOS_DUMP; n++)
                if (symmcoll_trace_dump(self.world, NULL, 0) != SYMMCOLL_OK &&
                    drawn->fault != CHAOS_LIMIT && drawn->fault != CHAOS_CLOSE)
                    atomic_fetch_add(&line->wrong, 1);
        }
        pthread_testcancel();
        status = chaos_operate(&self, i);
        if (status != SYMMCOLL_OK)
            return status;
    }
    return SYMMCOLL_OK;
}

/* ---- a rank ---- */

static int note(symmcoll_status_t status)
{
    line->status = status;
    snprintf(line->detail, sizeof(line->detail), "%s",
        status < 0 ? symmcoll_last_error() : "");
    return status < 0;
}

static bool map_board(const char *path)
{
    int fd = open(path, O_RDWR | O_CLOEXEC);

    if (fd < 0)
        return false;
    board =
        mmap(NULL, sizeof(*board), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    close(fd);
    return board != MAP_FAILED;
}

/* Creates the groups, and runs the operations. */
static symmcoll_status_t work(void)
{
    symmcoll_status_t status =
        drawn->groups ? chaos_make_groups(&self) : SYMMCOLL_OK;

    if (status == SYMMCOLL_OK)
        status = operate_all();
    return status;
}

/* Waits until all ranks have completed their operations: the others may still
 * need a rank that ends earlier. */
static void await_others(void)
{
    atomic_fetch_add(&board->finished, 1);
    while (atomic_load(&board->finished) < drawn->size)
        rest(100);
    /* Lets monitors check the descriptors with the closed numbers. */
    if (drawn->fault == CHAOS_CLOSE)
        rest(60000);
}

/* Returns whether the fault in finalize will end this process. */
static bool is_to_end(void)
{
    return rank == drawn->victim && drawn->moment == CHAOS_FINALIZE &&
           chaos_ends_rank(drawn->fault);
}

static int live(void)
{
    struct symmcoll_init_args args = SYMMCOLL_INIT_ARGS_INIT;
    symmcoll_status_t status;
    int failed;

    args.name = board->world;
    come_to(CHAOS_INIT);
    status = symmcoll_init(&args, &self.world);
    failed = note(status);
    if (failed)
        return failed;
    self.groups[0] = symmcoll_world_group(self.world);
    status = work();
    failed = note(status);
    if (failed && drawn->groups) {
        line->status =
            chaos_give_up(&self, status, line->detail, sizeof(line->detail));
        if (chaos_has_no_end(drawn))
            chaos_go_on(&self);
    }
    if (!failed)
        await_others();
    else if (!chaos_has_no_end(drawn))
        atomic_fetch_add(&board->finished, 1);
    come_to(CHAOS_FINALIZE);
    line->finalized = symmcoll_finalize(self.world);
    pthread_testcancel();
    /* A pending end of this process occurs here. */
    while (is_to_end()) {
        rest(1000);
        pthread_testcancel();
    }
    return failed;
}

int chaos_be_rank(const char *path)
{
    const char *number = getenv("RANK");
    pthread_t fault;
    int status;

    if (!map_board(path) || number == NULL)
        return 9;
    drawn = &board->drawn;
    rank = atoi(number);
    line = &board->lines[rank];
    line->status = line->left = SYMMCOLL_IN_PROGRESS;
    self = (struct chaos_rank){.drawn = drawn,
        .line = line,
        .rank = rank,
        .seconds = (drawn->fault == CHAOS_FREEZE ? 2 : 20) * board->slower};
    atomic_store(&line->pid, (int)getpid());
    caller = pthread_self();
    if (rank == drawn->victim) {
        if (pthread_create(&fault, NULL, be_fault, NULL) != 0)
            return 9;
        pthread_detach(fault);
    }
    status = live();
    atomic_store(&line->ended, 1);
    /* At exit() a sanitizer would report what the fault has left. */
    _exit(status);
}
