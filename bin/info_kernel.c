/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The kernel features that the library uses.  Each is tried, because a sandbox
 * may refuse what the kernel supports.
 */
#include "info.h"

#include "segment/memory.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/membarrier.h>
#include <poll.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <unistd.h>

#define PROBE_NBYTES 4096

/* A feature and its probe, which returns 0 or an error number. */
struct feature {
    const char *name;
    const char *use; /* purpose, and the effect without it */
    int (*probe)(void);
};

/* Closes a descriptor after a failed step and returns that step's error. */
static int close_failed(int fd)
{
    int error = errno;

    close(fd);
    return error;
}

static int probe_memfd(void)
{
    int seals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;
    int fd = symc_memory_memfd("symmcoll-info", 0);

    if (fd < 0)
        return errno;
    if (ftruncate(fd, PROBE_NBYTES) != 0 || fcntl(fd, F_ADD_SEALS, seals) != 0)
        return close_failed(fd);
    /* A seal must also take effect. */
    if (ftruncate(fd, 0) == 0)
        errno = ENOTSUP;
    else if (errno == EPERM)
        errno = 0;
    return close_failed(fd);
}

static int probe_fallocate(void)
{
    int fd = symc_memory_memfd("symmcoll-info", 0);

    if (fd < 0)
        return errno;
    if (fallocate(fd, 0, 0, PROBE_NBYTES) == 0)
        errno = 0;
    return close_failed(fd);
}

static int probe_membarrier(void)
{
    if (syscall(SYS_membarrier, MEMBARRIER_CMD_REGISTER_GLOBAL_EXPEDITED, 0,
            0) != 0 ||
        syscall(SYS_membarrier, MEMBARRIER_CMD_GLOBAL_EXPEDITED, 0, 0) != 0)
        return errno;
    return 0;
}

/* Makes a child that has exited with status 7 but is not reaped, and its
 * pidfd. */
static int make_dead_child(pid_t *child, int *pidfd)
{
    struct pollfd ended = {.events = POLLIN};

    fflush(NULL); /* or the child may write buffered output again */
    *child = fork();
    if (*child < 0)
        return errno;
    if (*child == 0)
        _exit(7);
    *pidfd = (int)syscall(SYS_pidfd_open, *child, 0);
    if (*pidfd < 0) {
        int error = errno;

        waitpid(*child, NULL, 0);
        return error;
    }
    ended.fd = *pidfd;
    return poll(&ended, 1, 5000) == 1 ? 0 : ETIMEDOUT;
}

static int probe_pidfd(void)
{
    pid_t child;
    int pidfd = -1;
    int error = make_dead_child(&child, &pidfd);

    if (pidfd >= 0) {
        waitpid(child, NULL, 0);
        close(pidfd);
    }
    return error;
}

/* Needs Linux 6.15, newer than most systems' headers. */
struct exit_info {
    uint64_t mask;
    uint64_t cgroup;
    uint32_t ids[11];
    int32_t status;
};
#define ASK_EXIT_INFO _IOWR(0xFF, 11, struct exit_info)
#define EXIT_INFO_STATUS (UINT64_C(1) << 3)

static int probe_exit_info(void)
{
    struct exit_info info = {.mask = EXIT_INFO_STATUS};
    pid_t child;
    int pidfd = -1;
    int error = make_dead_child(&child, &pidfd);

    if (pidfd < 0)
        return error;
    waitpid(child, NULL, 0);
    if (error == 0 && ioctl(pidfd, ASK_EXIT_INFO, &info) != 0)
        error = errno;
    else if (error == 0 && ((info.mask & EXIT_INFO_STATUS) == 0 ||
                               WEXITSTATUS(info.status) != 7))
        error = ENOTSUP;
    close(pidfd);
    return error;
}

/* Locks a mutex in a child that dies with it. */
static int die_with_lock(pthread_mutex_t *mutex)
{
    pid_t child;
    int status;

    fflush(NULL);
    child = fork();
    if (child < 0)
        return errno;
    if (child == 0)
        _exit(pthread_mutex_lock(mutex));
    if (waitpid(child, &status, 0) != child || status != 0)
        return ECHILD;
    /* A mutex with a live owner is busy; one with a dead owner is reported as
     * such. */
    status = pthread_mutex_trylock(mutex);
    if (status != EOWNERDEAD)
        return status == 0 ? ENOTSUP : status;
    pthread_mutex_consistent(mutex);
    pthread_mutex_unlock(mutex);
    return 0;
}

static int probe_robust_futex(void)
{
    pthread_mutexattr_t attributes;
    pthread_mutex_t *mutex = mmap(NULL, PROBE_NBYTES, PROT_READ | PROT_WRITE,
        MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    int error;

    if (mutex == MAP_FAILED)
        return errno;
    pthread_mutexattr_init(&attributes);
    pthread_mutexattr_setpshared(&attributes, PTHREAD_PROCESS_SHARED);
    pthread_mutexattr_setrobust(&attributes, PTHREAD_MUTEX_ROBUST);
    error = pthread_mutex_init(mutex, &attributes);
    if (error == 0) {
        error = die_with_lock(mutex);
        pthread_mutex_destroy(mutex);
    }
    pthread_mutexattr_destroy(&attributes);
    munmap(mutex, PROBE_NBYTES);
    return error;
}

static int probe_abstract_socket(void)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);

    if (fd < 0)
        return errno;
    snprintf(address.sun_path + 1, sizeof(address.sun_path) - 1,
        "symmcoll-info-%ld", (long)getpid());
    if (bind(fd, (struct sockaddr *)&address, sizeof(address)) == 0 &&
        listen(fd, 1) == 0)
        errno = 0;
    return close_failed(fd);
}

static int probe_credentials(void)
{
    struct ucred peer = {0};
    socklen_t nbytes = sizeof(peer);
    int fds[2], error = 0;

    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, fds) != 0)
        return errno;
    if (getsockopt(fds[0], SOL_SOCKET, SO_PEERCRED, &peer, &nbytes) != 0)
        error = errno;
    else if (peer.pid != getpid() || peer.uid != geteuid())
        error = ENOTSUP;
    close(fds[0]);
    close(fds[1]);
    return error;
}

static const struct feature features[] = {
    {"memfd_seals", "required: no peer can shrink shared memory", probe_memfd},
    {"memfd_fallocate", "required: memory is reserved before it is used",
        probe_fallocate},
    {"abstract_socket", "required: ranks of a machine connect by it",
        probe_abstract_socket},
    {"peer_credentials", "required: other users cannot join",
        probe_credentials},
    {"robust_futex", "required: detects deaths within milliseconds",
        probe_robust_futex},
    {"membarrier_global", "without: a sleeping rank checks every 5 ms",
        probe_membarrier},
    {"pidfd_open", "without: a death during init is found by timeout",
        probe_pidfd},
    {"pidfd_exit_info", "without: exit statuses need a launcher",
        probe_exit_info},
};

static const char *const kernel_features_columns[] = {
    "feature", "works", "error", "use", NULL};

void info_add_kernel(struct info_out *out)
{
    struct info_table table;
    struct utsname name;

    info_object_begin(&table, "system");
    info_text(&table, "kernel");
    if (uname(&name) == 0)
        info_format(
            &table, "%s %s %s", name.sysname, name.release, name.machine);
    else
        info_none(&table);
    info_table_end(&table, out);

    info_table_begin(&table, "kernel_features", kernel_features_columns);
    for (size_t i = 0; i < sizeof(features) / sizeof(*features); i++) {
        int error = features[i].probe();

        info_text(&table, features[i].name);
        info_flag(&table, error == 0);
        info_text(&table, error == 0 ? NULL : strerror(error));
        info_text(&table, features[i].use);
    }
    info_table_end(&table, out);
}
