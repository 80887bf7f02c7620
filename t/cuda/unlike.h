/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Exchanges with parts of different sizes for each pair of ranks, in device
 * memory and in host memory, which must have the same bits.
 */
#ifndef T_CUDA_UNLIKE_H
#define T_CUDA_UNLIKE_H

#include "t/cuda/members.h"

#define UNLIKE_RANKS 8

/* How much each rank sends to each other rank. */
enum unlike_shape {
    UNLIKE_MIXED, /* up to the most, some none */
    UNLIKE_ONE,   /* the first rank has the most for the last, all others one */
    UNLIKE_LONELY, /* the first rank has the most for the last, no other has any */
    UNLIKE_IDLE, /* the last rank neither sends nor receives */
    UNLIKE_SHAPES
};

/* The form of the call. */
enum unlike_form {
    UNLIKE_BUFFER,
    UNLIKE_WORK,
    UNLIKE_LISTS,
    UNLIKE_FORMS
};

/* One exchange, from the view of one rank. */
struct unlike {
    enum unlike_shape shape;
    enum unlike_form form;
    enum symmcoll_dtype dtype;
    size_t most; /* elements of a part */
    size_t sent[UNLIKE_RANKS], received[UNLIKE_RANKS];
    size_t nsent, nreceived;
};

/* Fill in what a rank sends and receives. */
void unlike_plan(struct unlike *one, int rank, int size);

/* Makes the call. Without a work, lists are read only during the call. */
symmcoll_status_t unlike_call(struct symmcoll_group *group,
    const struct unlike *one, void *out, const void *in,
    const struct symmcoll_call *call, struct symmcoll_work **work);

/* Runs the exchange on a stream of the rank's device and in host memory.
 * Checks that both have the same bytes, and that no byte beside the output has
 * changed. */
int unlike_same_as_host(
    struct symmcoll_group *group, int rank, const struct unlike *one);

/* Runs all shapes and forms with all sizes of every_counts. Each rank has its
 * own device. */
int every_unlike(struct symmcoll_group *group, int rank);

/* Runs exchanges captured in a graph that is launched three times with
 * different data. */
int every_unlike_graph(struct symmcoll_group *group, int rank);

#endif
