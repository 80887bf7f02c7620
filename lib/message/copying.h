/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * One message, for the copier's thread.
 */
#ifndef SYMC_MESSAGE_COPYING_H
#define SYMC_MESSAGE_COPYING_H

#include "message/copier.h"

/* What copies on one device. */
struct symc_copier_device {
    struct symc_copier_device *next;
    const struct symc_transfer_ops *ops;
    void *transfer;
    int number;
};

/* How far one got. */
struct symc_copying_step {
    bool moved;   /* something to tell */
    bool settled; /* one has failed or stopped: who waits for that is to look */
    bool runs;    /* to be looked at again, without being asked */
};

/* Begin what may be begun, and count what has been copied. */
void symc_copying_advance(
    struct symc_copying *copying, struct symc_copying_step *step);

/* It has ended, and nothing of it is under way. */
void symc_copying_discard(struct symc_copying *copying);

#endif
