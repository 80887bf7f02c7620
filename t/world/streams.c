/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Tests ranks with any of the three standard streams closed: the library opens
 * no descriptor with their numbers, so that output of the program cannot go to
 * a file of the library.
 */
#include "t/symm_mem/symm.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#define STREAMS 3
#define ALL ((1 << STREAMS) - 1)
#define COUNT 300000 /* elements of what goes through staging */

/* A bit for each closed stream. */
static int closed;

static void close_streams(void)
{
    for (int fd = 0; fd < STREAMS; fd++) {
        if ((closed & 1 << fd) != 0)
            close(fd);
    }
}

/* Waits until a descriptor number is free: between opening a descriptor and
 * moving it to a higher number another thread occupies a low one for the time
 * of a system call. */
static bool becomes_free(int fd)
{
    for (int i = 0; fcntl(fd, F_GETFD) >= 0; i++) {
        if (i == 10000)
            return false;
        usleep(1000);
    }
    return true;
}

/* Checks that writing to a closed stream fails, and that no other descriptor
 * has its number. */
static bool are_closed(void)
{
    for (int fd = 0; fd < STREAMS; fd++) {
        if ((closed & 1 << fd) != 0 &&
            (!becomes_free(fd) || write(fd, "x", 1) >= 0 || errno != EBADF))
            return false;
    }
    return true;
}

/* ---- ranks ---- */

static bool sums(struct symmcoll_group *group, size_t count)
{
    int size = symmcoll_group_size(group);
    float *data = malloc(count * sizeof(*data));
    bool right = data != NULL;

    for (size_t i = 0; right && i < count; i++)
        data[i] = (float)(i % 100);
    right =
        right && symmcoll_all_reduce(group, data, data, count, SYMMCOLL_FLOAT32,
                     SYMMCOLL_SUM, NULL, NULL) == SYMMCOLL_OK;
    for (size_t i = 0; right && i < count; i++)
        right = data[i] == (float)(i % 100 * (size_t)size);
    free(data);
    return right;
}

/* Uses everything that opens descriptors after the join: groups, shared
 * memory, works, messages. */
static bool uses_all(struct symmcoll_world *world)
{
    struct symmcoll_group *group = symmcoll_world_group(world), *made = NULL;
    int rank = symmcoll_group_rank(group), size = symmcoll_group_size(group);
    struct symmcoll_symm *handle = NULL;
    void *data = NULL;
    float sent = (float)rank, got = -1;
    bool right = sums(group, 2) && sums(group, COUNT) && are_closed();

    right = right && OK(symmcoll_group_create(world, NULL, &made)) &&
            sums(made, COUNT) && join(made, 1 << 20, &data, &handle);
    right = right &&
            (rank % 2 == 0 ? rank + 1 == size ||
                                 OK(symmcoll_send(group, &sent, 1,
                                     SYMMCOLL_FLOAT32, rank + 1, 0, NULL, NULL))
                           : OK(symmcoll_recv(group, &got, 1, SYMMCOLL_FLOAT32,
                                 rank - 1, 0, NULL, NULL, NULL)) &&
                                 got == (float)(rank - 1)) &&
            are_closed();
    if (handle != NULL)
        right = part(made, data, handle) && right;
    symmcoll_group_free(made);
    return right && OK(symmcoll_barrier(group, NULL, NULL)) && are_closed();
}

static int rank_is_right(int rank, int size, void *arg)
{
    struct symmcoll_world *world = NULL;
    bool right;

    (void)rank;
    (void)size;
    (void)arg;
    close_streams();
    if (symmcoll_init(NULL, &world) != SYMMCOLL_OK)
        return 1;
    right = uses_all(world);
    return symmcoll_finalize(world) != SYMMCOLL_OK || !right || !are_closed();
}

static bool processes_are_right(void)
{
    int statuses[3];
    bool right = ranks_spawn(3, rank_is_right, NULL, statuses);

    for (int r = 0; r < 3; r++)
        right = right && statuses[r] == 0;
    return right;
}

static symmcoll_status_t thread_body(struct symmcoll_world *world, void *arg)
{
    (void)arg;
    return uses_all(world) ? SYMMCOLL_OK : SYMMCOLL_ERR_INTERNAL;
}

static int threads_are_right(void)
{
    close_streams();
    return symmcoll_threads_run(2, thread_body, NULL, NULL) == SYMMCOLL_OK &&
           are_closed();
}

/* ---- stores ---- */

static bool keeps(struct symmcoll_store *store)
{
    void *value = NULL;
    size_t nbytes = 0;
    bool right = OK(symmcoll_store_set(store, "key", "value", 5)) &&
                 OK(symmcoll_store_get(store, "key", &value, &nbytes)) &&
                 nbytes == 5 && memcmp(value, "value", 5) == 0 && are_closed();

    free(value);
    return right;
}

#if defined(HAVE_HIREDIS) && defined(HAVE_LIBEVENT)
/* Runs a server in this process, which is also its client. */
static int servers_are_right(void)
{
    struct symmcoll_store_tcp_args args = SYMMCOLL_STORE_TCP_ARGS_INIT;
    struct symmcoll_store *store = NULL;
    bool right;

    close_streams();
    args.url = "redis://127.0.0.1:0";
    args.serve = 1;
    right = OK(symmcoll_store_open_tcp(&args, &store)) && keeps(store);
    symmcoll_store_close(store);
    return right && are_closed();
}
#endif

static int files_are_right(void)
{
    const char *build = getenv("T_BUILDDIR");
    struct symmcoll_store *store = NULL;
    char path[4200];
    bool right;

    snprintf(path, sizeof(path), "%.4000s/t/world/streams.%ld",
        build != NULL ? build : ".", (long)getpid());
    close_streams();
    right = OK(symmcoll_store_open_file(path, 1, &store)) && keeps(store);
    symmcoll_store_close(store);
    unlink(path);
    return right && are_closed();
}

/* ---- the launcher ---- */

/* Starts this program as ranks with standard streams that are closed or the
 * launcher's, and which print nothing. */
static int launcher_is_right(void)
{
    const char *build = getenv("T_BUILDDIR");
    char run[4200], program[4200];
    ssize_t length = readlink("/proc/self/exe", program, sizeof(program) - 1);
    int status = 1;
    pid_t child;

    if (length <= 0)
        return 0;
    program[length] = '\0';
    snprintf(run, sizeof(run), "%.4000s/bin/symmcoll-run",
        build != NULL ? build : ".");
    child = fork();
    if (child == 0) {
        close_streams();
        execl(run, run, "-n", "2", program, "rank", (char *)NULL);
        _exit(127);
    }
    return child > 0 && waitpid(child, &status, 0) == child && status == 0;
}

static int be_launched(void)
{
    struct symmcoll_world *world = NULL;
    bool right;

    if (symmcoll_init(NULL, &world) != SYMMCOLL_OK)
        return 1;
    right = uses_all(world);
    return symmcoll_finalize(world) != SYMMCOLL_OK || !right;
}

/* Runs a check with each combination of closed streams. */
static bool with_each(int (*check)(void))
{
    bool right = true;

    for (closed = 1; right && closed <= ALL; closed++) {
        right = process_run(check);
        if (!right)
            diag("closed: %s%s%s", closed & 1 ? "0 " : "",
                closed & 2 ? "1 " : "", closed & 4 ? "2" : "");
    }
    return right;
}

int main(int argc, char **argv)
{
    bool right = true;

    (void)argv;
    if (argc > 1)
        return be_launched();
    plan(5);
    for (closed = 1; right && closed <= ALL; closed++)
        right = processes_are_right();
    ok(right, "processes: no descriptor of the library is a standard stream");
    ok(with_each(threads_are_right), "threads: nor of ranks that are threads");
#if defined(HAVE_HIREDIS) && defined(HAVE_LIBEVENT)
    ok(with_each(servers_are_right), "nor of a store's server and client");
#else
    skip(1, "no server in this build");
#endif
    ok(with_each(files_are_right), "nor of a file store");
    ok(with_each(launcher_is_right), "ranks of symmcoll-run join without them");
    return done_testing();
}
