/* SPDX-License-Identifier: BSD-3-Clause */
/* Connections to a server on which a test sends arbitrary bytes. */
#ifndef T_STORE_RAW_H
#define T_STORE_RAW_H

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdint.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

static inline int dial(int port)
{
    struct sockaddr_in at = {.sin_family = AF_INET};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    at.sin_port = htons((uint16_t)port);
    at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    if (fd >= 0 && connect(fd, (struct sockaddr *)&at, sizeof at) != 0) {
        close(fd);
        return -1;
    }
    return fd;
}

/* Sends data for some seconds. Returns whether all of it was sent. */
static inline int send_all(int fd, const char *data, size_t nbytes)
{
    while (nbytes > 0) {
        struct pollfd ready = {.fd = fd, .events = POLLOUT};
        ssize_t n;

        if (poll(&ready, 1, 5000) <= 0)
            return 0;
        n = send(fd, data, nbytes, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (n < 0 && errno != EAGAIN)
            return 0;
        if (n > 0) {
            data += n;
            nbytes -= (size_t)n;
        }
    }
    return 1;
}

/* Returns the server's reply to some bytes, up to its end or a second of
 * silence. */
static inline const char *reply_to(int port, const char *data, size_t nbytes)
{
    static char text[512];
    size_t used = 0;
    int fd = dial(port);
    struct pollfd ready = {.fd = fd, .events = POLLIN};
    ssize_t n = 1;

    send_all(fd, data, nbytes);
    while (n > 0 && used < sizeof text - 1 && poll(&ready, 1, 1000) > 0) {
        n = recv(fd, text + used, sizeof text - 1 - used, 0);
        used += n > 0 ? (size_t)n : 0;
    }
    text[used] = '\0';
    close(fd);
    return text;
}

#endif
