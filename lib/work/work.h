/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A work handle from the inside.
 */
#ifndef SYMC_WORK_WORK_H
#define SYMC_WORK_WORK_H

#include "work/lane.h"
#include "work/origin.h"

struct symmcoll_work {
    struct symmcoll_work *next; /* in its lane's queue */
    struct symc_origin *origin;
    struct symc_lane *lane; /* there only as long as the work has not ended */
    uint64_t ticket;
    struct symc_op op;
    _Atomic uint32_t holders; /* the user's handle, and the queue */
    _Atomic uint64_t ended;   /* 1: status and detail are final */
    _Atomic uint64_t seq;
    struct symc_bell bell; /* for those who wait */
    symmcoll_status_t status;
    char detail[SYMC_DETAIL_MAX];

    pthread_mutex_t lock; /* of the callbacks, and of `ended` becoming 1 */
    struct symc_callback *callbacks;
};

/* Made by a lane: one holder is the caller, one the queue. */
struct symmcoll_work *symc_work_create(
    struct symc_lane *lane, const struct symc_op *op);

/* The operation has ended: keep its result, wake, call back. */
void symc_work_end(struct symmcoll_work *work, symmcoll_status_t status);

/* Let go of one hold. */
void symc_work_release(struct symmcoll_work *work);

#endif
