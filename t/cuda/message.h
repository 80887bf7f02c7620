/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Messages in device memory with guards beside them, and properties that hold
 * on every device.
 */
#ifndef T_CUDA_MESSAGE_H
#define T_CUDA_MESSAGE_H

#include "t/cuda/members.h"

#define MESSAGE_CHUNK ((size_t)64 * 1024) /* cuda.message_chunk */

/* A buffer on a rank's device, and a stream. */
struct message {
    CUstream stream;
    unsigned char *whole; /* with guards at both ends */
    unsigned char *at;
    size_t capacity;
};

void message_begin(struct message *message, int rank, size_t capacity);
void message_end(struct message *message);

/* Fills the buffer with bytes that differ for each seed. */
void message_fill(const struct message *message, size_t nbytes, int seed);
/* Checks that the message holds those bytes and that no guard has changed. */
int message_is(const struct message *message, size_t nbytes, int seed);

/* Send and receive nbytes bytes of a message, on its stream. */
symmcoll_status_t message_start_send(struct symmcoll_group *group,
    const struct message *message, size_t nbytes, int peer, int64_t tag,
    struct symmcoll_work **work);
symmcoll_status_t message_start_recv(struct symmcoll_group *group,
    const struct message *message, size_t nbytes, int peer, int64_t tag,
    struct symmcoll_work **work);
symmcoll_status_t message_send(struct symmcoll_group *group,
    const struct message *message, size_t nbytes, int peer, int64_t tag);
symmcoll_status_t message_recv(struct symmcoll_group *group,
    const struct message *message, size_t nbytes, int peer, int64_t tag);

/* Returns whether the status is OK, and prints it if not. */
int message_fine(symmcoll_status_t status);

/* ---- bodies of ranks ---- */

/* Sends messages of all sizes to a peer and back. */
int message_has_its_bytes(struct symmcoll_group *group, int rank);
/* Runs on two ranks: starts sends in order of their tags, and receives in
 * reverse. */
int message_goes_both_ways(struct symmcoll_group *group, int rank);
int message_goes_to_all(struct symmcoll_group *group, int rank);
int message_comes_from_any(struct symmcoll_group *group, int rank);
/* Runs on two ranks: a message is ordered on the stream of its call. */
int message_follows_its_stream(struct symmcoll_group *group, int rank);
/* Sends around a ring in a batch. */
int message_goes_round(struct symmcoll_group *group, int rank);
int message_is_permuted(struct symmcoll_group *group, int rank);

#endif
