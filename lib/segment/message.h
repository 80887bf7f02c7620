/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What ranks and hub say to each other: whole messages on a SOCK_SEQPACKET
 * socket, descriptors beside them.  Private to this room.
 */
#ifndef SYMC_SEGMENT_MESSAGE_H
#define SYMC_SEGMENT_MESSAGE_H

#include "base/base.h"

#include <sys/types.h>

#define SYMC_HUB_MAGIC UINT64_C(0x3230425548435953) /* "SYCHUB02" */
#define SYMC_HUB_NAME 96
#define SYMC_HUB_FDS 2     /* a rank's block, and its pidfd where it has one */
#define SYMC_HUB_BATCH 120 /* ranks in one answer: 240 of 253 descriptors */

enum symc_hub_kind {
    SYMC_HUB_HELLO = 1,   /* rank: here I am */
    SYMC_HUB_THANKS = 2,  /* rank: I have received this batch */
    SYMC_HUB_GIVE_UP = 3, /* rank: my deadline has passed; who is missing? */
    SYMC_HUB_PEERS = 4,   /* hub: some of the ranks */
    SYMC_HUB_FAILED = 5,  /* hub: there will be no meeting */
    SYMC_HUB_JOINED = 6,  /* hub: your message has been read and counts */
    SYMC_HUB_PROBE = 7    /* anybody: do you serve? */
};

/* From a rank. */
struct symc_hub_hello {
    uint64_t magic;
    uint32_t kind;
    int32_t rank;
    int32_t size;
    uint32_t nfds;
    uint64_t nbytes;          /* of the block */
    uint64_t address;         /* of the block, for threads of one process */
    char name[SYMC_HUB_NAME]; /* of the meeting */
};

/* One rank in an answer. */
struct symc_hub_peer {
    int32_t pid;
    uint32_t nfds; /* beside this message; 0 in the same process */
    uint64_t nbytes;
    uint64_t address;
};

/* From the hub. */
struct symc_hub_answer {
    uint64_t magic;
    uint32_t kind;
    int32_t status; /* FAILED: why */
    int32_t first;  /* PEERS: rank of peers[0] */
    int32_t count;
    uint32_t threads; /* 1: all ranks are threads of one process */
    char text[256];   /* FAILED: the detail */
    struct symc_hub_peer peers[SYMC_HUB_BATCH];
};

/* Bytes of an answer with so many peers. */
static inline size_t symc_hub_answer_nbytes(int count)
{
    return offsetof(struct symc_hub_answer, peers) +
           (size_t)count * sizeof(struct symc_hub_peer);
}

/* Send one message with descriptors, without waiting; 0, or an errno: EAGAIN no
 * room for it.  Never raises SIGPIPE. */
int symc_message_send(
    int fd, const void *data, size_t nbytes, const int *fds, int nfds);

/*
 * Receive one message, without waiting.  *nbytes is the room, then what came;
 * *nfds likewise. 0, or an errno: EAGAIN nothing there, EPIPE the other side
 * has gone, EMSGSIZE more than there is room for, EMFILE descriptors were lost
 * for lack of room.
 */
int symc_message_receive(
    int fd, void *data, size_t *nbytes, int *fds, int *nfds);

/* Fill in the address of an abstract socket; its length, 0 for a bad name. */
struct sockaddr_un;
unsigned symc_message_address(const char *name, struct sockaddr_un *address);

/* A descriptor could not be had: says so, with the limit on their number where
 * that is the reason.  Gives SYSTEM. */
symmcoll_status_t symc_fail_descriptor(int error, const char *where);

/* The user and process at the other end; 0 or an errno. */
int symc_message_peer(int fd, uid_t *uid, pid_t *pid);

/*
 * Whether the process at the other end may be trusted: it is this one, or this
 * user's.  The kernel shows every id that a user namespace does not map as one
 * and the same, the overflow id: that one is nobody's, unless all are mapped.
 */
bool symc_message_is_trusted(uid_t uid, pid_t pid);

/* Whether this process's own user is not known in its namespace, so that it
 * trusts no other. */
bool symc_message_is_unmapped(void);

#endif
