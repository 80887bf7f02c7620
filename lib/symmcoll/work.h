/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A work is the handle of one non-blocking operation: wait for it, query it,
 * release it.  Any thread may use a work, also after symmcoll_finalize(), when
 * its operation has ended.  Manual: symmcoll_work_wait(3).
 */
#ifndef SYMMCOLL_WORK_H
#define SYMMCOLL_WORK_H

#include <symmcoll/types.h>

SYMMCOLL_BEGIN_DECLS

struct symmcoll_work;

/*
 * Callbacks of a work, called once each on the world's callback thread when the
 * operation has ended.  There symmcoll_last_error() is the detail of a failed
 * operation.  work is borrowed for the call, also if the program has released
 * it before.  arg is borrowed.
 *
 * A callback may start operations, and wait for works and operations of other
 * groups.  Waiting for an operation of the same group that has not ended,
 * blocking operations of that group, and symmcoll_finalize() are INVALID in it.
 */
typedef void (*symmcoll_work_fn)(symmcoll_status_t status, void *arg);
typedef void (*symmcoll_work_ended_fn)(
    struct symmcoll_work *work, symmcoll_status_t status, void *arg);

/*
 * Waits until the operation has ended, and returns its status.
 *
 * timeout  seconds; negative: no limit but the operation's own timeout
 *
 * On device memory a wait with a negative timeout returns OK once the operation
 * has been enqueued on the device (its status, if it has ended): work enqueued
 * later on the stream of the call runs after it.  With any other timeout, for a
 * barrier, and with the setting errors.blocking_wait, the host waits for the
 * end.
 *
 * After TIMEOUT, symmcoll_work_test() returns IN_PROGRESS if only the wait has
 * expired and the operation continues, else the status with which the operation
 * ended.  With the setting errors.blocking_wait a wait that expires fails the
 * group.  INVALID in a callback, for a later work of the callback's group.
 */
SYMMCOLL_CHECKED
symmcoll_status_t symmcoll_work_wait(
    struct symmcoll_work *work, double timeout);

/* Returns IN_PROGRESS, or the status with which the operation ended.  Never
 * blocks. */
SYMMCOLL_CHECKED
symmcoll_status_t symmcoll_work_test(struct symmcoll_work *work);

/*
 * Releases a work; NULL is valid.  An operation that has not ended continues,
 * and its buffers belong to the library until it ends.
 */
SYMMCOLL_API
void symmcoll_work_free(struct symmcoll_work *work);

/* Returns the detail of a failed operation, as symmcoll_last_error() does; an
 * empty text for any other.  Borrowed: valid as long as the work. */
SYMMCOLL_API
const char *symmcoll_work_error(const struct symmcoll_work *work);

/*
 * Returns the operation's sequence number in its group; 0 before the operation
 * starts, or if it was never started, as in a group that has failed.  A send or
 * receive starts with its call; so does a small collective in host memory, if
 * nothing is queued ahead of it.
 */
SYMMCOLL_API
uint64_t symmcoll_work_sequence(const struct symmcoll_work *work);

/* Returns the group's number of the rank that a symmcoll_recv() has received
 * from; -1 before it has ended, if it failed, and for any other operation. */
SYMMCOLL_API
int symmcoll_work_source(const struct symmcoll_work *work);

/*
 * Adds a callback: fn(status, arg) is called when the operation has ended, or
 * at once on the callback thread if it has already.  A work may have several.
 * Errors: ABORTED (the world has been finalized), NO_MEMORY, SYSTEM.
 */
SYMMCOLL_CHECKED
symmcoll_status_t symmcoll_work_then(
    struct symmcoll_work *work, symmcoll_work_fn fn, void *arg);

/* Adds a callback that is also passed the work: fn(work, status, arg).
 * Otherwise as symmcoll_work_then(). */
SYMMCOLL_CHECKED
symmcoll_status_t symmcoll_work_notify(
    struct symmcoll_work *work, symmcoll_work_ended_fn fn, void *arg);

SYMMCOLL_END_DECLS

#endif
