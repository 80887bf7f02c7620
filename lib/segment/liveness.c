/* SPDX-License-Identifier: BSD-3-Clause */
/* Liveness words and exit statuses: whether a rank runs, has shut down or has
 * died. */
#include "segment/liveness.h"

#include "base/proc.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

symmcoll_status_t symc_liveness_acquire(
    struct symc_liveness *liveness, struct symc_block *block)
{
    _Atomic uint32_t *word = &block->liveness;
    uint32_t none = SYMC_LIVENESS_NONE;

    liveness->block = block;
    liveness->entry.next = &liveness->head.list;
    liveness->head.list.next = &liveness->entry;
    liveness->head.list_op_pending = NULL;
    liveness->head.futex_offset =
        (long)((intptr_t)word - (intptr_t)&liveness->entry);
    /* At a thread's death the kernel marks only words that hold its id. */
    if (syscall(SYS_set_robust_list, &liveness->head, sizeof(liveness->head)) !=
        0)
        return symc_fail_errno(
            SYMMCOLL_ERR_SYSTEM, errno, "monitor: set_robust_list");
    if (!atomic_compare_exchange_strong(word, &none, (uint32_t)gettid()))
        return symc_fail(SYMMCOLL_ERR_INTERNAL,
            "monitor: expected a liveness word of 0, found %u", none);
    return SYMMCOLL_OK;
}

void symc_liveness_release(struct symc_liveness *liveness, bool orderly)
{
    struct symc_block *block = liveness->block;

    if (orderly)
        atomic_store(&block->left, SYMC_LEFT_MARK);
    atomic_store(&block->liveness,
        orderly ? SYMC_LIVENESS_SHUTDOWN : SYMC_LIVENESS_GAVE_UP);
    liveness->head.list.next = &liveness->head.list;
}

void symc_liveness_give_up(_Atomic uint32_t *word)
{
    uint32_t none = SYMC_LIVENESS_NONE;

    atomic_compare_exchange_strong(word, &none, SYMC_LIVENESS_GAVE_UP);
}

#define THREAD_MAX (UINT32_C(1) << 22) /* PID_MAX_LIMIT of the kernel */
#define EXIT_STATUS UINT32_C(0xffff)   /* bits of a waitpid() status */
#define EXIT_MARK UINT32_C(0x5ec10000)

ino_t symc_liveness_pidfd_inode(int pidfd)
{
    struct stat info = {0};

    return pidfd >= 0 && fstat(pidfd, &info) == 0 ? info.st_ino : 0;
}

bool symc_liveness_is_pidfd(int pidfd, ino_t inode)
{
    return symc_liveness_pidfd_inode(pidfd) == inode &&
           (syscall(SYS_pidfd_send_signal, pidfd, 0, NULL, 0) == 0 ||
               errno != EBADF);
}

/* Returns whether the process of a pidfd has ended. */
static bool has_ended(int pidfd)
{
    struct pollfd polled = {.fd = pidfd, .events = POLLIN};

    return pidfd >= 0 && poll(&polled, 1, 0) == 1;
}

bool symc_liveness_has_left(const struct symc_block *block)
{
    return atomic_load_explicit(&block->liveness, memory_order_acquire) ==
               SYMC_LIVENESS_SHUTDOWN &&
           atomic_load_explicit(&block->left, memory_order_relaxed) ==
               SYMC_LEFT_MARK;
}

enum symc_liveness_state symc_liveness_state(const struct symc_peer *peer)
{
    uint32_t word;

    if (peer->view.block == NULL)
        return SYMC_LIVENESS_ALIVE; /* detected by the ranks of its own
                                       machine */
    word =
        atomic_load_explicit(&peer->view.block->liveness, memory_order_acquire);
    if (symc_liveness_has_left(peer->view.block) ||
        atomic_load_explicit(&peer->ended, memory_order_relaxed))
        return SYMC_LIVENESS_LEFT;
    if (word == SYMC_LIVENESS_DIED || word == SYMC_LIVENESS_GAVE_UP)
        return SYMC_LIVENESS_DEAD;
    if ((word == SYMC_LIVENESS_NONE || word > THREAD_MAX) &&
        has_ended(peer->pidfd) &&
        symc_liveness_is_pidfd(peer->pidfd, peer->pidfd_inode))
        return SYMC_LIVENESS_DEAD;
    return SYMC_LIVENESS_ALIVE;
}

void symc_liveness_find_ended(
    const struct symc_peer *peers, int size, struct pollfd *polled, bool *ended)
{
    bool any;

    for (int r = 0; r < size; r++)
        polled[r] = (struct pollfd){.fd = peers[r].pidfd, .events = POLLIN};
    any = poll(polled, (nfds_t)size, 0) > 0;
    for (int r = 0; r < size; r++)
        ended[r] = any && (polled[r].revents & POLLIN) != 0 &&
                   symc_liveness_is_pidfd(peers[r].pidfd, peers[r].pidfd_inode);
}

void symc_liveness_put_exit(struct symc_exit *end, int status)
{
    atomic_store_explicit(&end->marked,
        EXIT_MARK | ((uint32_t)status & EXIT_STATUS), memory_order_release);
}

bool symc_liveness_find_exit(const struct symc_exit *end, int *status)
{
    uint32_t marked = atomic_load_explicit(&end->marked, memory_order_acquire);

    *status = (int)(marked & EXIT_STATUS);
    return (marked & ~EXIT_STATUS) == EXIT_MARK &&
           (WIFEXITED(*status) || WIFSIGNALED(*status));
}

void symc_liveness_format_exit(int code, int sig, char *buffer, size_t nbytes)
{
    const char *name = sig != 0 ? sigabbrev_np(sig) : NULL;

    if (name != NULL)
        snprintf(buffer, nbytes, "killed by SIG%s", name);
    else if (sig != 0)
        snprintf(buffer, nbytes, "killed by signal %d", sig);
    else
        snprintf(buffer, nbytes, "exited with status %d", code);
}

/*
 * Information on a process that has been reaped (Linux 6.15), not yet defined
 * by the C library.
 */
struct pidfd_info {
    uint64_t mask;
    uint64_t cgroup;
    uint32_t ids[11];
    int32_t exit_code;
};
#define PIDFD_INFO_EXIT_BIT (UINT64_C(1) << 3)
#define PIDFD_GET_INFO_CALL _IOWR(0xFF, 11, struct pidfd_info)

/* Reads the status of a reaped process from its pidfd.  Returns false if the
 * kernel does not have it. */
static bool read_pidfd(int pidfd, int *status)
{
    struct pidfd_info info = {.mask = PIDFD_INFO_EXIT_BIT};

    if (pidfd < 0 || ioctl(pidfd, PIDFD_GET_INFO_CALL, &info) != 0 ||
        (info.mask & PIDFD_INFO_EXIT_BIT) == 0)
        return false;
    *status = info.exit_code;
    return true;
}

/*
 * Reads the last field of a process's stat file, which has the exit status from
 * the beginning of the process's end, before its memory is torn down, until it
 * is reaped.  The value 0 means exit status 0 only if the process is a zombie.
 */
static bool read_proc(pid_t pid, int pidfd, int *status)
{
    bool ended = has_ended(pidfd);
    struct symc_proc_stat stat;

    /* If the process still exists, the file belonged to it and not to a later
     * process with the same pid. */
    if (pidfd < 0 || !symc_proc_stat_read(pid, &stat) ||
        syscall(SYS_pidfd_send_signal, pidfd, 0, NULL, 0) != 0)
        return false;
    *status = stat.exit;
    return *status != 0 || ended;
}

/* Gets the status of a process, as from waitpid(). */
static bool read_status(pid_t pid, int pidfd, int *status)
{
    /* If the process is reaped between the first two calls, the third
     * succeeds. */
    return read_pidfd(pidfd, status) || read_proc(pid, pidfd, status) ||
           read_pidfd(pidfd, status);
}

bool symc_liveness_format_status(
    pid_t pid, int pidfd, char *buffer, size_t nbytes)
{
    int status;

    if (!read_status(pid, pidfd, &status))
        return false;
    symc_liveness_format_exit(WEXITSTATUS(status),
        WIFSIGNALED(status) ? WTERMSIG(status) : 0, buffer, nbytes);
    return true;
}

#define FINALIZED "finalized"
#define ENDED "ended without symmcoll_finalize"

const char *symc_liveness_name_left(const struct symc_peer *peer)
{
    return atomic_load_explicit(&peer->ended, memory_order_relaxed) ? ENDED
                                                                    : FINALIZED;
}

bool symc_liveness_is_left_in(const char *text)
{
    return strstr(text, " has " FINALIZED) != NULL ||
           strstr(text, " has " ENDED) != NULL;
}

/* Gets a peer's exit status, as from waitpid().  Returns false if it is not
 * known. */
static bool find_status(const struct symc_peer *peer, int *status)
{
    return symc_liveness_find_exit(&peer->view.block->exit, status) ||
           read_status(peer->pid, peer->pidfd, status);
}

bool symc_liveness_has_exited_0(const struct symc_peer *peer)
{
    struct symc_proc_stat stat;
    int status;

    if (peer->view.block == NULL ||
        atomic_load_explicit(&peer->view.block->liveness,
            memory_order_acquire) == SYMC_LIVENESS_GAVE_UP)
        return false;
    if (find_status(peer, &status))
        return status == 0;
    return peer->pidfd >= 0 && symc_proc_stat_read(peer->pid, &stat) &&
           stat.exiting && stat.exit == 0 &&
           syscall(SYS_pidfd_send_signal, peer->pidfd, 0, NULL, 0) == 0;
}

void symc_liveness_set_ended(struct symc_peer *peer)
{
    atomic_store(&peer->ended, true);
}

bool symc_liveness_format_end(
    const struct symc_peer *peer, char *buffer, size_t nbytes)
{
    char how[64];
    int code = 0, sig = 0, status;

    if (peer->view.block == NULL) {
        snprintf(buffer, nbytes, "died on another machine");
        return false;
    }
    if (atomic_load_explicit(&peer->view.block->liveness,
            memory_order_acquire) == SYMC_LIVENESS_GAVE_UP) {
        snprintf(buffer, nbytes, "gave up during init");
        return true;
    }
    if (find_status(peer, &status)) {
        sig = WIFSIGNALED(status) ? WTERMSIG(status) : 0;
        code = WEXITSTATUS(status);
    } else {
        snprintf(buffer, nbytes, "died");
        return false;
    }
    symc_liveness_format_exit(code, sig, how, sizeof(how));
    snprintf(buffer, nbytes, "%s%s", how, sig == 0 ? " without finalize" : "");
    return true;
}
