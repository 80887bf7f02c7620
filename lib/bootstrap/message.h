/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The protocol between ranks and bootstrap server: whole messages on a
 * SOCK_SEQPACKET socket, with descriptors as ancillary data. Private to this
 * directory.
 */
#ifndef SYMC_BOOTSTRAP_MESSAGE_H
#define SYMC_BOOTSTRAP_MESSAGE_H

#include "base/base.h"

#include <sys/types.h>

#define SYMC_BOOTSTRAP_MAGIC UINT64_C(0x3330425548435953) /* "SYCHUB03" */
#define SYMC_BOOTSTRAP_NAME 96
#define SYMC_BOOTSTRAP_FDS 3 /* enum symc_bootstrap_fd */
#define SYMC_BOOTSTRAP_BATCH \
    84 /* ranks in one answer: 252 of 253 descriptors */

/* The descriptors of a rank, in this order. */
enum symc_bootstrap_fd {
    SYMC_BOOTSTRAP_ARENA,
    SYMC_BOOTSTRAP_INBOX,
    SYMC_BOOTSTRAP_PIDFD /* last, since kernels before 5.3 have none */
};

enum symc_bootstrap_kind {
    SYMC_BOOTSTRAP_HELLO = 1, /* rank: joins a rendezvous */
    SYMC_BOOTSTRAP_ACK = 2,   /* rank: this batch has been received */
    /* rank: the deadline has passed; requests the missing ranks */
    SYMC_BOOTSTRAP_GIVE_UP = 3,
    SYMC_BOOTSTRAP_PEERS = 4,  /* server: some of the ranks */
    SYMC_BOOTSTRAP_FAILED = 5, /* server: the rendezvous has failed */
    SYMC_BOOTSTRAP_JOINED = 6, /* server: the hello has been read and counts */
    /* any process: requests an answer from a server that serves */
    SYMC_BOOTSTRAP_PROBE = 7,
    /* rank: still waiting; requests the missing ranks */
    SYMC_BOOTSTRAP_MISSING = 8,
    /* server: text for the lowest rank that has sent MISSING; versions before 0.2
     * do not send it */
    SYMC_BOOTSTRAP_WAITING = 9
};

/* A message of a rank. */
struct symc_bootstrap_hello {
    uint64_t magic;
    uint32_t kind;
    int32_t rank;
    int32_t size;
    uint32_t nfds;
    uint64_t nbytes;  /* of the arena */
    uint64_t least;   /* bytes that every rank has to map */
    uint64_t address; /* of the block, for threads of one process */
    int64_t inbox;    /* number of the inbox descriptor, for them */
    char name[SYMC_BOOTSTRAP_NAME]; /* of the rendezvous */
};

/* One rank in an answer. */
struct symc_bootstrap_peer {
    int32_t pid;
    /* descriptors that come with this message; 0 in the same process */
    uint32_t nfds;
    uint64_t nbytes;
    uint64_t least;
    uint64_t address;
    int64_t inbox;
};

/* A message of the bootstrap server. */
struct symc_bootstrap_answer {
    uint64_t magic;
    uint32_t kind;
    int32_t status; /* FAILED: the status of the rendezvous */
    int32_t first;  /* PEERS: rank of peers[0] */
    int32_t count;
    uint32_t threads; /* 1: all ranks are threads of one process */
    char text[256];   /* FAILED: the detail; WAITING: the missing ranks */
    struct symc_bootstrap_peer peers[SYMC_BOOTSTRAP_BATCH];
};

/* Returns the bytes of an answer with `count` peers. */
static inline size_t symc_bootstrap_answer_nbytes(int count)
{
    return offsetof(struct symc_bootstrap_answer, peers) +
           (size_t)count * sizeof(struct symc_bootstrap_peer);
}

/* Sends one message with descriptors, without waiting. Returns 0 or an errno;
 * EAGAIN: no space for it. Never raises SIGPIPE. */
int symc_bootstrap_message_send(
    int fd, const void *data, size_t nbytes, const int *fds, int nfds);

/*
 * Receives one message, without waiting. *nbytes is the space, and then the
 * size of the message; *nfds likewise. Returns 0 or an errno: EAGAIN: no
 * message, EPIPE: the other side has closed, EMSGSIZE: the message exceeds the
 * space, EMFILE: descriptors were lost for lack of space.
 */
int symc_bootstrap_message_receive(
    int fd, void *data, size_t *nbytes, int *fds, int *nfds);

/* Fills in the address of an abstract socket. Returns its length; 0: invalid
 * name. */
struct sockaddr_un;
unsigned symc_bootstrap_message_address(
    const char *name, struct sockaddr_un *address);

/* Returns the user and the process at the other end; 0 or an errno. */
int symc_bootstrap_message_peer(int fd, uid_t *uid, pid_t *pid);

/* Returns a pidfd of the process at the other end, also of one in another PID
 * namespace; -1: the process has ended, or the kernel is older than Linux
 * 6.5. */
int symc_bootstrap_message_pidfd(int fd);

/*
 * Returns whether the process at the other end is this one or belongs to this
 * user. The kernel shows every id that a user namespace does not map as the
 * overflow id, which is therefore trusted only if all ids are mapped, or if the
 * kernel finds the ids of the other process equal to this one's.
 */
bool symc_bootstrap_message_is_trusted(int fd, uid_t uid, pid_t pid);

#endif
