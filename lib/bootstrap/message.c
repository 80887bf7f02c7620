/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Messages with descriptors over Unix sockets, and the credentials of the other
 * end.
 */
#include "bootstrap/message.h"
#include "bootstrap/bootstrap.h"

#include "base/descriptor.h"
#include "base/proc.h"

#include <errno.h>
#include <linux/capability.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

#define MAX_FDS (SYMC_BOOTSTRAP_BATCH * SYMC_BOOTSTRAP_FDS)

/* Space for the descriptors of a message, aligned as the kernel requires. */
union control {
    struct cmsghdr header;
    char room[CMSG_SPACE(MAX_FDS * sizeof(int))];
};

int symc_bootstrap_message_send(
    int fd, const void *data, size_t nbytes, const int *fds, int nfds)
{
    union control control;
    struct iovec part = {
        .iov_base = (void *)(uintptr_t)data, .iov_len = nbytes};
    struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1};
    ssize_t sent;

    if (nfds > 0) {
        size_t room = (size_t)nfds * sizeof(int);
        struct cmsghdr *header;

        memset(&control, 0, sizeof(control));
        message.msg_control = control.room;
        message.msg_controllen = CMSG_SPACE(room);
        header = CMSG_FIRSTHDR(&message);
        header->cmsg_level = SOL_SOCKET;
        header->cmsg_type = SCM_RIGHTS;
        header->cmsg_len = CMSG_LEN(room);
        memcpy(CMSG_DATA(header), fds, room);
    }
    do {
        sent = sendmsg(fd, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
    } while (sent < 0 && errno == EINTR);
    return sent < 0 ? errno : 0;
}

/* Takes the descriptors of a message; closes those that exceed the space. */
static int take_fds(struct msghdr *message, int *fds, int room)
{
    int taken = 0;

    for (struct cmsghdr *at = CMSG_FIRSTHDR(message); at != NULL;
         at = CMSG_NXTHDR(message, at)) {
        size_t count;

        if (at->cmsg_level != SOL_SOCKET || at->cmsg_type != SCM_RIGHTS)
            continue;
        count = (at->cmsg_len - CMSG_LEN(0)) / sizeof(int);
        for (size_t i = 0; i < count; i++) {
            int fd;

            memcpy(&fd, CMSG_DATA(at) + i * sizeof(int), sizeof(fd));
            if (taken < room)
                fds[taken++] = fd;
            else
                close(fd);
        }
    }
    return taken;
}

int symc_bootstrap_message_receive(
    int fd, void *data, size_t *nbytes, int *fds, int *nfds)
{
    union control control;
    struct iovec part = {.iov_base = data, .iov_len = *nbytes};
    struct msghdr message = {.msg_iov = &part,
        .msg_iovlen = 1,
        .msg_control = control.room,
        .msg_controllen = sizeof(control)};
    int room = *nfds, resets = 0, error;
    ssize_t got;

    *nfds = 0;
    /* If a peer closed without having read everything, the kernel reports the
     * reset before the peer's last message, which the second try receives. */
    do {
        got = recvmsg(fd, &message, MSG_CMSG_CLOEXEC | MSG_DONTWAIT);
    } while (
        got < 0 && (errno == EINTR || (errno == ECONNRESET && resets++ == 0)));
    if (got < 0)
        return errno == ECONNRESET ? EPIPE : errno;
    *nfds = take_fds(&message, fds, room);
    *nbytes = (size_t)got;
    error = symc_descriptor_raise_all(fds, *nfds);
    if (error != 0)
        *nfds = 0;
    if (got == 0)
        return EPIPE;
    if (error != 0)
        return error;
    if ((message.msg_flags & MSG_CTRUNC) != 0)
        return EMFILE;
    if ((message.msg_flags & MSG_TRUNC) != 0)
        return EMSGSIZE;
    return 0;
}

unsigned symc_bootstrap_message_address(
    const char *name, struct sockaddr_un *address)
{
    size_t length = strlen(name);

    memset(address, 0, sizeof(*address));
    address->sun_family = AF_UNIX;
    if (length == 0 || length > sizeof(address->sun_path) - 1)
        return 0;
    memcpy(address->sun_path + 1, name, length);
    return (unsigned)(offsetof(struct sockaddr_un, sun_path) + 1 + length);
}

int symc_bootstrap_message_peer(int fd, uid_t *uid, pid_t *pid)
{
    struct ucred found;
    socklen_t nbytes = sizeof(found);

    if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &found, &nbytes) != 0)
        return errno;
    *uid = found.uid;
    *pid = found.pid;
    return 0;
}

/* SO_PEERPIDFD; may be missing in the C library's headers */
#define PEER_PIDFD 77

int symc_bootstrap_message_pidfd(int fd)
{
    int pidfd = -1;
    socklen_t nbytes = sizeof(pidfd);

    if (getsockopt(fd, SOL_SOCKET, PEER_PIDFD, &pidfd, &nbytes) != 0)
        return -1;
    return symc_descriptor_raise(pidfd);
}

/* ---- trusted users ---- */

#define OVERFLOW_DEFAULT 65534
#define ALL_IDS UINT64_C(0xffffffff) /* the last id is invalid */

/* Returns whether each id of the machine has a number of its own here. */
static bool maps_all_ids(void)
{
    char text[128];
    unsigned long inside, outside, count;

    symc_proc_read("/proc/self/uid_map", text, sizeof(text));
    return sscanf(text, "%lu %lu %lu", &inside, &outside, &count) == 3 &&
           count >= ALL_IDS;
}

/* Returns whether a user is shown as the overflow id. */
static bool is_overflow(uid_t uid)
{
    char text[32];

    symc_proc_read("/proc/sys/kernel/overflowuid", text, sizeof(text));
    return uid == (text[0] != '\0' ? (uid_t)strtoul(text, NULL, 10)
                                   : OVERFLOW_DEFAULT);
}

/* Returns whether this process has capabilities to access processes of other
 * ids. */
static bool is_privileged(void)
{
    struct __user_cap_header_struct header = {
        .version = _LINUX_CAPABILITY_VERSION_3};
    struct __user_cap_data_struct data[2] = {{0}};
    uint32_t those = UINT32_C(1) << CAP_KILL | UINT32_C(1) << CAP_SYS_RESOURCE;

    return syscall(SYS_capget, &header, data) != 0 ||
           (data[0].effective & those) != 0;
}

/*
 * Returns whether the process at the other end has this one's ids. The kernel
 * shows the limits of a process to an unprivileged one only if the user and
 * group ids of both are equal, and it compares the ids as they are outside of
 * all namespaces. The peer's pidfd is checked last: if its process still
 * exists, pid was its number.
 */
static bool has_own_ids(int fd, pid_t pid)
{
    struct rlimit limit;
    int pidfd;
    bool same;

    if (pid <= 0 || is_privileged())
        return false;
    pidfd = symc_bootstrap_message_pidfd(fd);
    if (pidfd < 0)
        return false;
    same = prlimit(pid, RLIMIT_NOFILE, NULL, &limit) == 0 &&
           syscall(SYS_pidfd_send_signal, pidfd, 0, NULL, 0) == 0;
    close(pidfd);
    return same;
}

bool symc_bootstrap_message_is_trusted(int fd, uid_t uid, pid_t pid)
{
    return pid == getpid() ||
           (uid == geteuid() &&
               (!is_overflow(uid) || maps_all_ids() || has_own_ids(fd, pid)));
}
