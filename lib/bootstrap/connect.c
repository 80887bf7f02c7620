/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Non-blocking connections to abstract sockets, and look-up of their owner. A
 * connection has the credentials of its other end, but a socket without a
 * listener or with a full queue accepts none. Then the kernel's list of sockets
 * has the owner.
 */
#include "bootstrap/connect.h"
#include "base/descriptor.h"
#include "bootstrap/message.h"

#include <errno.h>
#include <linux/netlink.h>
#include <linux/sock_diag.h>
#include <linux/unix_diag.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

/* Not in headers before Linux 5.3. */
#define SHOW_UID 0x40
#define ATTRIBUTE_UID 7

#define ESTABLISHED 1 /* state of a socket, with TCP's number */

#define LIST_NBYTES 32768 /* bytes that the kernel sends at once */
#define LIST_WAIT_MS 1000 /* it answers at once or not at all */

int symc_bootstrap_connect(const char *name, int *fd)
{
    struct sockaddr_un address;
    unsigned length = symc_bootstrap_message_address(name, &address);
    int made, error;

    if (length == 0)
        return EINVAL;
    made = symc_descriptor_raise(
        socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    if (made < 0)
        return errno;
    while (connect(made, (struct sockaddr *)&address, length) != 0) {
        error = errno;
        if (error == EINTR)
            continue;
        close(made);
        return error;
    }
    *fd = made;
    return 0;
}

/* ---- the kernel's list of sockets ---- */

/* Reads the kernel's entry of one socket. Returns whether it is the one with
 * the name and has a user. */
static bool read_entry(const struct nlmsghdr *header,
    const struct sockaddr_un *name, unsigned name_nbytes, uid_t *uid)
{
    const struct unix_diag_msg *entry = NLMSG_DATA(header);
    const struct nlattr *at = (const struct nlattr *)(entry + 1);
    size_t left = header->nlmsg_len - NLMSG_LENGTH(sizeof(*entry));
    bool named = false, known = false;

    if (header->nlmsg_len < NLMSG_LENGTH(sizeof(*entry)))
        return false;
    while (left >= sizeof(*at) && at->nla_len >= sizeof(*at) &&
           at->nla_len <= left) {
        const void *value = at + 1;
        size_t nbytes = at->nla_len - sizeof(*at);
        size_t step = NLA_ALIGN(at->nla_len);

        if (at->nla_type == UNIX_DIAG_NAME)
            named = nbytes == name_nbytes &&
                    memcmp(value, name->sun_path, nbytes) == 0;
        if (at->nla_type == ATTRIBUTE_UID && nbytes == sizeof(*uid)) {
            memcpy(uid, value, sizeof(*uid));
            known = true;
        }
        left = step < left ? left - step : 0;
        at = (const struct nlattr *)((const char *)at + step);
    }
    /* Accepted connections have the name too, but no listener. */
    return named && known && entry->udiag_type == SOCK_SEQPACKET &&
           entry->udiag_state != ESTABLISHED;
}

static bool request_sockets(int fd)
{
    struct {
        struct nlmsghdr header;
        struct unix_diag_req request;
    } message;
    struct sockaddr_nl kernel = {.nl_family = AF_NETLINK};

    memset(&message, 0, sizeof(message));
    message.header.nlmsg_len = sizeof(message);
    message.header.nlmsg_type = SOCK_DIAG_BY_FAMILY;
    message.header.nlmsg_flags = NLM_F_REQUEST | NLM_F_DUMP;
    message.request.sdiag_family = AF_UNIX;
    message.request.udiag_states = UINT32_MAX;
    message.request.udiag_show = UDIAG_SHOW_NAME | SHOW_UID;
    return sendto(fd, &message, sizeof(message), MSG_DONTWAIT,
               (struct sockaddr *)&kernel,
               sizeof(kernel)) == (ssize_t)sizeof(message);
}

/* Reads one part of the list; false: it was the last. */
static bool read_list(int fd, const char *name, bool *found, uid_t *uid)
{
    static const size_t path_at = offsetof(struct sockaddr_un, sun_path);
    union {
        struct nlmsghdr header;
        char room[LIST_NBYTES];
    } part;
    struct pollfd polled = {.fd = fd, .events = POLLIN};
    struct sockaddr_un address;
    unsigned length = symc_bootstrap_message_address(name, &address);
    const struct nlmsghdr *at = &part.header;
    ssize_t got;
    size_t left;

    if (poll(&polled, 1, LIST_WAIT_MS) != 1)
        return false;
    got = recv(fd, &part, sizeof(part), MSG_DONTWAIT);
    if (got <= 0)
        return false;
    for (left = (size_t)got; NLMSG_OK(at, left); at = NLMSG_NEXT(at, left)) {
        if (at->nlmsg_type != SOCK_DIAG_BY_FAMILY)
            return false; /* NLMSG_DONE or NLMSG_ERROR */
        *found = read_entry(at, &address, length - (unsigned)path_at, uid);
        if (*found)
            return false;
    }
    return true;
}

bool symc_bootstrap_socket_owner(const char *name, uid_t *uid)
{
    int fd = symc_descriptor_raise(socket(AF_NETLINK,
        SOCK_RAW | SOCK_CLOEXEC | SOCK_NONBLOCK, NETLINK_SOCK_DIAG));
    bool found = false;

    if (fd < 0)
        return false;
    if (request_sockets(fd)) {
        while (read_list(fd, name, &found, uid))
            ;
    }
    close(fd);
    return found;
}

const char *symc_bootstrap_format_owner(
    const char *name, int error, char buffer[SYMC_BOOTSTRAP_OWNER_TEXT])
{
    const char *state = error == EAGAIN ? "its queue of connections is full"
                                        : "no process listens on it";
    uid_t uid;

    if (symc_bootstrap_socket_owner(name, &uid))
        snprintf(buffer, SYMC_BOOTSTRAP_OWNER_TEXT, "user %u (%s)", uid, state);
    else
        snprintf(
            buffer, SYMC_BOOTSTRAP_OWNER_TEXT, "an unknown user (%s)", state);
    return buffer;
}
