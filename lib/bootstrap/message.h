/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The bootstrap protocol between ranks and server: whole messages on a
 * SOCK_SEQPACKET socket, with descriptors as ancillary data.  Private to this
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
    SYMC_BOOTSTRAP_PIDFD /* last: kernels before 5.3 have none */
};

enum symc_bootstrap_kind {
    SYMC_BOOTSTRAP_HELLO = 1, /* rank: joins */
    SYMC_BOOTSTRAP_ACK = 2,   /* rank: has received this batch */
    SYMC_BOOTSTRAP_GIVE_UP =
        3, /* rank: deadline passed; which ranks are missing? */
    SYMC_BOOTSTRAP_PEERS = 4,  /* server: some of the ranks */
    SYMC_BOOTSTRAP_FAILED = 5, /* server: the rendezvous has failed */
    SYMC_BOOTSTRAP_JOINED =
        6, /* bootstrap server: your message has been read and counts */
    SYMC_BOOTSTRAP_PROBE = 7,  /* anybody: do you serve? */
    SYMC_BOOTSTRAP_ASK = 8,    /* rank: it goes on waiting; who is missing? */
    SYMC_BOOTSTRAP_WAITING = 9 /* server: a text for the lowest rank that asks;
                                  versions before 0.2 do not answer */
};

/* From a rank. */
struct symc_bootstrap_hello {
    uint64_t magic;
    uint32_t kind;
    int32_t rank;
    int32_t size;
    uint32_t nfds;
    uint64_t nbytes;  /* of the arena */
    uint64_t least;   /* of them, that every rank has to map */
    uint64_t address; /* of the block, for threads of one process */
    int64_t inbox;    /* the descriptor's number, for them */
    char name[SYMC_BOOTSTRAP_NAME]; /* of the rendezvous */
};

/* One rank in an answer. */
struct symc_bootstrap_peer {
    int32_t pid;
    uint32_t nfds; /* beside this message; 0 in the same process */
    uint64_t nbytes;
    uint64_t least;
    uint64_t address;
    int64_t inbox;
};

/* From the bootstrap server. */
struct symc_bootstrap_answer {
    uint64_t magic;
    uint32_t kind;
    int32_t status; /* FAILED: why */
    int32_t first;  /* PEERS: rank of peers[0] */
    int32_t count;
    uint32_t threads; /* 1: all ranks are threads of one process */
    char text[256];   /* FAILED: the detail; WAITING: who is missing */
    struct symc_bootstrap_peer peers[SYMC_BOOTSTRAP_BATCH];
};

/* Bytes of an answer with so many peers. */
static inline size_t symc_bootstrap_answer_nbytes(int count)
{
    return offsetof(struct symc_bootstrap_answer, peers) +
           (size_t)count * sizeof(struct symc_bootstrap_peer);
}

/* Send one message with descriptors, without waiting; 0, or an errno: EAGAIN no
 * space for it.  Never raises SIGPIPE. */
int symc_bootstrap_message_send(
    int fd, const void *data, size_t nbytes, const int *fds, int nfds);

/*
 * Receive one message, without waiting. *nbytes is the space, then what was
 * received; *nfds likewise.  0, or an errno: EAGAIN nothing there, EPIPE the
 * other side has closed, EMSGSIZE more than there is space for, EMFILE
 * descriptors were lost for lack of space.
 */
int symc_bootstrap_message_receive(
    int fd, void *data, size_t *nbytes, int *fds, int *nfds);

/* Fill in the address of an abstract socket; its length, 0 for a bad name. */
struct sockaddr_un;
unsigned symc_bootstrap_message_address(
    const char *name, struct sockaddr_un *address);

/* The user and process at the other end; 0 or an errno. */
int symc_bootstrap_message_peer(int fd, uid_t *uid, pid_t *pid);

/* A pidfd of that process, wherever it is; -1 where the kernel has none for it (it
 * has ended, or the kernel is older than Linux 6.5). */
int symc_bootstrap_message_pidfd(int fd);

/*
 * Whether the process at the other end is this one or belongs to this user.
 * The kernel shows all ids that a user namespace does not map as the overflow
 * id, which is therefore trusted only where all ids are mapped, or where the
 * kernel finds the other process's ids equal to this one's.
 */
bool symc_bootstrap_message_is_trusted(int fd, uid_t uid, pid_t pid);

#endif
