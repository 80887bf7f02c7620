/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Ranks with operations on devices that are searched for NaN: a group of all,
 * and numbers in memory of a rank's device that it sends.
 */
#ifndef T_CUDA_SEARCHED_H
#define T_CUDA_SEARCHED_H

#include "t/cuda/members.h"

#define SEARCHED_COUNT 100 /* elements of a sum */

struct searched {
    struct symmcoll_group *group;
    int rank, size;
    struct symmcoll_call call;
    float *in, *out; /* of the device */
};

/* Prepares numbers to send that are all 1. */
void searched_begin(struct searched *it, struct symmcoll_group *all, int rank);
int searched_end(struct searched *it, int right);

void searched_put_nan(struct searched *it, size_t at);

/* Wait for a work, where it was begun. */
symmcoll_status_t searched_wait(
    symmcoll_status_t status, struct symmcoll_work *work);
symmcoll_status_t searched_sum(struct searched *it);

/* ---- errors.nan_check=error, of two ranks ---- */

int searched_fails_its_group(struct symmcoll_group *all, int rank);
/* Check that the report names the part of a list, and the buffer of several. */
int searched_names_the_part(struct symmcoll_group *all, int rank);
int searched_names_the_buffer(struct symmcoll_group *all, int rank);
/* Checks that output buffers, integers and parts that a rank does not send are
 * not searched. */
int searched_is_what_is_sent(struct symmcoll_group *all, int rank);

#endif
