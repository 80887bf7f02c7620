/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Checks that every collective on device memory has the same bits as in host
 * memory: for all element types, reductions and sizes, in place and out of
 * place, and captured in a graph that is launched three times. Each function
 * is a rank_fn; each rank has its own device.
 */
#ifndef T_CUDA_EVERY_H
#define T_CUDA_EVERY_H

#include "t/cuda/members.h"

/* Counts of elements: none, few bytes (packets), one shot, two shots, and
 * pieces, with the settings of device_begin(). */
#define EVERY_COUNTS 6
extern size_t every_counts[EVERY_COUNTS];

int every_all_reduce(struct symmcoll_group *group, int rank);
int every_reduce(struct symmcoll_group *group, int rank);
int every_reduce_scatter(struct symmcoll_group *group, int rank);
int every_all_gather(struct symmcoll_group *group, int rank);
int every_gather(struct symmcoll_group *group, int rank);
int every_scatter(struct symmcoll_group *group, int rank);
int every_all_to_all(struct symmcoll_group *group, int rank);
int every_broadcast(struct symmcoll_group *group, int rank);
int every_lists(struct symmcoll_group *group, int rank);
int every_several(struct symmcoll_group *group, int rank);
int every_types_and_reductions(struct symmcoll_group *group, int rank);
int every_factors(struct symmcoll_group *group, int rank);
int every_graph(struct symmcoll_group *group, int rank);

#endif
