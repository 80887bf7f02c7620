/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The program that run_flood.t starts: another user who connects to a launcher
 * as fast as possible.
 *
 *   run_flood NAME UID PROCESSES SECONDS
 *
 * It switches to the user, and exits with status 1 if that is not permitted.
 */
#include <errno.h>
#include <signal.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static void flood(const char *name, double seconds)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    size_t length = strlen(name);
    time_t until = time(NULL) + (time_t)seconds;

    if (length > sizeof(address.sun_path) - 1)
        _exit(2);
    memcpy(address.sun_path + 1, name, length);
    length += offsetof(struct sockaddr_un, sun_path) + 1;
    while (time(NULL) < until) {
        int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK, 0);

        if (connect(fd, (struct sockaddr *)&address, (socklen_t)length) != 0 &&
            errno == ECONNREFUSED)
            usleep(1000); /* the launcher has ended */
        close(fd);
    }
}

int main(int argc, char **argv)
{
    if (argc != 5)
        return 2;
    if (setuid((uid_t)atol(argv[2])) != 0)
        return 1;
    for (int i = atoi(argv[3]); i > 0; i--)
        if (fork() == 0) {
            (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
            flood(argv[1], atof(argv[4]));
            _exit(0);
        }
    while (wait(NULL) > 0)
        ;
    return 0;
}
