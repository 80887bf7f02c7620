/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Who lives, who died and how.
 */
#include "segment/life.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

symmcoll_status_t symc_life_begin(
    struct symc_life *life, _Atomic uint32_t *word)
{
    uint32_t none = SYMC_LIFE_NONE;

    life->word = word;
    life->entry.next = &life->head.list;
    life->head.list.next = &life->entry;
    life->head.list_op_pending = NULL;
    life->head.futex_offset =
        (long)((intptr_t)word - (intptr_t)&life->entry);
    if (!atomic_compare_exchange_strong(word, &none, (uint32_t)gettid()))
        return symc_fail(SYMMCOLL_ERR_INTERNAL,
            "monitor: expected a life word of 0, found %u", none);
    if (syscall(SYS_set_robust_list, &life->head, sizeof(life->head)) != 0)
        return symc_fail_errno(
            SYMMCOLL_ERR_SYSTEM, errno, "monitor: set_robust_list");
    return SYMMCOLL_OK;
}

void symc_life_end(struct symc_life *life, bool goodbye)
{
    if (goodbye)
        atomic_store(life->word, SYMC_LIFE_GOODBYE);
    life->head.list.next = &life->head.list;
}

/* Whether the process behind a pidfd has ended. */
static bool has_ended(int pidfd)
{
    struct pollfd polled = {.fd = pidfd, .events = POLLIN};

    return pidfd >= 0 && poll(&polled, 1, 0) == 1;
}

enum symc_life_state symc_life_state(const struct symc_peer *peer)
{
    uint32_t word =
        atomic_load_explicit(&peer->block->life, memory_order_acquire);

    if (word == SYMC_LIFE_GOODBYE)
        return SYMC_LIFE_LEFT;
    if ((word & SYMC_LIFE_DIED) != 0)
        return SYMC_LIFE_DEAD;
    if (word == SYMC_LIFE_NONE && has_ended(peer->pidfd))
        return SYMC_LIFE_DEAD;
    return SYMC_LIFE_ALIVE;
}

void symc_life_format_exit(int code, int sig, char *buffer, size_t nbytes)
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
 * What the kernel says of a process that has been reaped (Linux 6.15).  The C
 * library does not know this yet.
 */
struct pidfd_info {
    uint64_t mask;
    uint64_t cgroup;
    uint32_t ids[11];
    int32_t exit_code;
};
#define PIDFD_INFO_EXIT_BIT (UINT64_C(1) << 3)
#define PIDFD_GET_INFO_CALL _IOWR(0xFF, 11, struct pidfd_info)

static bool ask_kernel(int pidfd, int *code, int *sig)
{
    struct pidfd_info info = {.mask = PIDFD_INFO_EXIT_BIT};

    if (pidfd < 0 || ioctl(pidfd, PIDFD_GET_INFO_CALL, &info) != 0 ||
        (info.mask & PIDFD_INFO_EXIT_BIT) == 0)
        return false;
    *sig = WIFSIGNALED(info.exit_code) ? WTERMSIG(info.exit_code) : 0;
    *code = WEXITSTATUS(info.exit_code);
    return true;
}

bool symc_life_format_end(
    const struct symc_peer *peer, char *buffer, size_t nbytes)
{
    const struct symc_exit *end = &peer->block->exit;
    char how[64];
    int code = 0, sig = 0;

    if (atomic_load_explicit(&end->known, memory_order_acquire) != 0) {
        code = end->code;
        sig = end->signal;
    } else if (!ask_kernel(peer->pidfd, &code, &sig)) {
        snprintf(buffer, nbytes, "died");
        return false;
    }
    symc_life_format_exit(code, sig, how, sizeof(how));
    snprintf(buffer, nbytes, "%s%s", how,
        sig == 0 ? " without finalize" : "");
    return true;
}
