/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The part of the copier that handles one message.
 */
#ifndef SYMC_MESSAGE_COPYING_H
#define SYMC_MESSAGE_COPYING_H

#include "message/copier.h"

/* The transfer operations of one device. */
struct symc_copier_device {
    struct symc_copier_device *next;
    const struct symc_transfer_ops *ops;
    void *transfer;
    int number;
};

/* The results of symc_copying_advance(). */
struct symc_copying_step {
    bool moved;   /* there is progress to publish */
    bool settled; /* one has failed or stopped, and may be ended */
    bool runs;    /* has to be advanced again without a request */
};

/* Begins the copies that may begin, and counts those that have ended. */
void symc_copying_advance(
    struct symc_copying *copying, struct symc_copying_step *step);

/* Frees a copying that was released and has no copy in flight. */
void symc_copying_discard(struct symc_copying *copying);

#endif
