/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Life words: a futex that the rank's monitor thread owns for life.  When the
 * process dies, the kernel marks it (robust futexes), long before a large
 * memory is torn down; anyone who maps the block sees that with one load.
 *
 * The monitor thread registers a robust list of its own with the kernel, which
 * replaces the C library's for that thread: it must not lock robust mutexes.
 */
#ifndef SYMC_SEGMENT_LIFE_H
#define SYMC_SEGMENT_LIFE_H

#include "base/base.h"
#include "segment/block.h"
#include "segment/hub.h"

#include <linux/futex.h>
#include <poll.h>

struct symc_life {
    struct robust_list_head head;
    struct robust_list entry;
    struct symc_block *block;
};

/* Take a block's word, on the thread that will own it.  Errors: SYSTEM. */
symmcoll_status_t symc_life_begin(
    struct symc_life *life, struct symc_block *block);

/* Leave it on the same thread; goodbye says that the rank has finalized,
 * otherwise it has given up. */
void symc_life_end(struct symc_life *life, bool goodbye);

/* Give up before there was a monitor to take the word. */
void symc_life_give_up(_Atomic uint32_t *word);

enum symc_life_state {
    SYMC_LIFE_ALIVE,
    SYMC_LIFE_DEAD,
    SYMC_LIFE_LEFT /* said goodbye */
};

/* Whether a block's rank has said goodbye.  It takes two words, so that what a
 * stray store leaves is not taken for one. */
bool symc_life_has_left(const struct symc_block *block);

/*
 * Whether a descriptor still is the pidfd that it was when its inode was asked
 * for.  A program that closes what it does not know may by now have something
 * else under its number, which may well be readable, as the pidfd of a process
 * that has ended is.
 */
ino_t symc_life_pidfd_inode(int pidfd);
bool symc_life_is_pidfd(int pidfd, ino_t inode);

/* How a peer is.  Where its word holds no thread, its pidfd is asked. */
enum symc_life_state symc_life_state(const struct symc_peer *peer);

/* Whose processes have ended, by their pidfds, in one call of the kernel.  Dead
 * is who has ended and has not left: a word that a stray store has hit is not
 * marked at death.  polled is room for size entries. */
void symc_life_find_ended(const struct symc_peer *peers, int size,
    struct pollfd *polled, bool *ended);

/* Keep how a rank ended, a status of waitpid(), where its peers look for it,
 * and find it there; false where there is none. */
void symc_life_put_exit(struct symc_exit *end, int status);
bool symc_life_find_exit(const struct symc_exit *end, int *status);

/* How a dead peer ended, as text: "killed by SIGKILL", "exited with status 1
 * without finalize", "gave up during init", "died".  False for the last: nobody
 * has said yet. */
bool symc_life_format_end(
    const struct symc_peer *peer, char *buffer, size_t nbytes);

/* How a process ended, as far as the kernel says: as symc_life_format_exit().
 * pidfd is the process's; -1 where there is none. */
bool symc_life_ask(pid_t pid, int pidfd, char *buffer, size_t nbytes);

/* "killed by SIGKILL", "exited with status 3"; into a buffer. */
void symc_life_format_exit(int code, int sig, char *buffer, size_t nbytes);

#endif
