/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The hub introduces the ranks of one machine to each other: each sends the
 * descriptor of its block, each receives everybody's.  The hub is in the
 * launcher, else in rank 0; after the introduction nobody needs it.
 *
 * One hub serves several meetings, told apart by name, one after another or at
 * once.  Peers are told by SO_PEERCRED on both sides: another user's process is
 * refused, and so is anything that does not speak the protocol.
 */
#ifndef SYMC_SEGMENT_HUB_H
#define SYMC_SEGMENT_HUB_H

#include "base/base.h"
#include "segment/block.h"

#include <stdbool.h>

/* A rank as others know it after the meeting. */
struct symc_peer {
    struct symc_block_view view;
    pid_t pid;
    int pidfd; /* -1: the kernel has none, or the peer is this process */
    ino_t pidfd_inode; /* see symc_liveness_is_pidfd() */
    bool mine;         /* mapped by this rank, not borrowed from a thread */
};

/* "pid 12"; the kernel tells no number of a process of a PID namespace that is
 * not within the own one. */
#define SYMC_PID_TEXT 32
const char *symc_format_pid(pid_t pid, char buffer[SYMC_PID_TEXT]);

/* ---- the serving side, for the launcher and for rank 0 ---- */

struct symc_hub;

/* What the launcher wants to know; any may be NULL.  Called from
 * symc_hub_serve(). */
struct symc_hub_events {
    /* A meeting is complete.  blocks are memfds of `size` ranks, borrowed; pids
     * are theirs. */
    void (*met)(const char *meeting, int size, const int *blocks,
        const pid_t *pids, void *arg);
    /* A process is told that its meeting has failed, by no fault of its own. */
    void (*failed)(
        pid_t pid, symmcoll_status_t status, const char *text, void *arg);
    void *arg;
};

/*
 * Listen on an abstract socket.  name has no leading zero byte.
 * Errors: INVALID (in use: by whom), SYSTEM.
 */
symmcoll_status_t symc_hub_open(const char *name,
    const struct symc_hub_events *events, struct symc_hub **hub);
void symc_hub_close(struct symc_hub *hub);

/* The same, but where the name is still held by a hub that is going, such as
 * that of a killed process, wait for its end until the deadline. */
symmcoll_status_t symc_hub_open_until(const char *name,
    const struct symc_hub_events *events, int64_t deadline_ns,
    struct symc_hub **hub);

/* Take in a connection of this process, which need not stand in the queue; fd
 * is taken.  Errors: SYSTEM. */
symmcoll_status_t symc_hub_add(struct symc_hub *hub, int fd);

/* For a hub in rank 0: nobody more is taken in once a meeting has met. */
void symc_hub_close_after_meeting(struct symc_hub *hub);

/* A descriptor that becomes readable when symc_hub_serve() has work (epoll). */
int symc_hub_fd(const struct symc_hub *hub);

/*
 * Do what there is to do, without waiting, and for a few milliseconds at most:
 * then symc_hub_fd() is still readable.  Errors: SYSTEM (no descriptor left for
 * one more client: unfinished meetings have been failed).
 */
symmcoll_status_t symc_hub_serve(struct symc_hub *hub);

/* Whether it still takes ranks in. */
bool symc_hub_is_listening(const struct symc_hub *hub);

/* Whether any rank of a complete meeting has not said thanks yet (answers may
 * still be on their way), or one of a failed meeting has not been told. */
bool symc_hub_busy(const struct symc_hub *hub);

/* Whether the meeting has been completed since the hub was opened. */
bool symc_hub_met(const struct symc_hub *hub, const char *meeting);

/* End all unfinished meetings that rank takes part in, or that expect it: those
 * who wait get PEER with the text.  For a launcher whose child died. */
void symc_hub_fail_rank(struct symc_hub *hub, int rank, const char *text);

/* Who has not come to a meeting, as text for a message; "" when it is unknown.
 */
void symc_hub_missing(const struct symc_hub *hub, const char *meeting,
    char *buffer, size_t nbytes);

/* ---- the joining side ---- */

struct symc_meeting {
    const char *hub; /* the launcher's, or NULL: rank 0 serves `name` */
    const char *name;
    int rank;
    int size;
    int64_t deadline_ns;
    /* Out unless NULL: a pidfd of the process that serves, the caller's to
     * close whatever becomes of the meeting; -1 where there is none. */
    int *server;
};

/* What one rank brings to a meeting. */
struct symc_offer {
    int fds[2]; /* -1: none.  Borrowed when brought, owned when received */
    pid_t pid;
    size_t nbytes;
    void *address; /* valid in the same process only */
};

/*
 * Exchange offers: all[r] (out, an array of size) is what rank r brought, with
 * descriptors of our own unless the ranks are threads of this process.
 *
 * Errors: TIMEOUT (who is missing), PEER (who died), INVALID (two ranks of one
 * number, sizes that differ, processes and threads mixed), NO_MEMORY, SYSTEM.
 */
symmcoll_status_t symc_hub_exchange(const struct symc_meeting *meeting,
    const struct symc_offer *mine, struct symc_offer *all, bool *threads);

/*
 * Meet: exchange blocks and map them.  fd is the memfd of this rank's own.
 * peers is an array of size, filled on success, the own entry included; threads
 * (out) says whether all ranks are threads of this process.  On failure the own
 * block remains the caller's.
 */
symmcoll_status_t symc_meet(const struct symc_meeting *meeting,
    const struct symc_block_view *own, int fd, struct symc_peer *peers,
    bool *threads);

/* Unmap and close what symc_meet() gave; the own block too. */
void symc_part(struct symc_peer *peers, int size);

#endif
