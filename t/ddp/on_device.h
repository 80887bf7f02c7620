/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Ranks with a gradient reducer on a device and one in host memory, with the
 * same parameters and gradients: both must have the same bits.
 */
#ifndef T_DDP_ON_DEVICE_H
#define T_DDP_ON_DEVICE_H

#include <symmcoll.h>

int reducer_averages(struct symmcoll_group *group, int rank);
/* Run with gradients in the buckets, or written back. */
int reducer_views(struct symmcoll_group *group, int rank);
int reducer_written_back(struct symmcoll_group *group, int rank);
int reducer_written_back_by_name(struct symmcoll_group *group, int rank);
int reducer_all_reduce_hook(struct symmcoll_group *group, int rank);
int reducer_tensors(struct symmcoll_group *group, int rank);
int reducer_named_hooks(struct symmcoll_group *group, int rank);
/* Checks that parameters without a gradient keep theirs, in each mode. */
int reducer_unused(struct symmcoll_group *group, int rank);
/* Check averages in float32, in each mode, and with missing gradients. */
int reducer_wide(struct symmcoll_group *group, int rank);
int reducer_static_graph(struct symmcoll_group *group, int rank);
/* Compress buckets of float32 in 16 bits. */
int reducer_compress_hooks(struct symmcoll_group *group, int rank);
int reducer_wrapped_hooks(struct symmcoll_group *group, int rank);
/* A second reduction after the hook's. */
int reducer_hook_end(struct symmcoll_group *group, int rank);
/* Uses a hook that writes on the bucket's stream, and does not communicate. */
int reducer_own_hook(struct symmcoll_group *group, int rank);
/* Use another stream for each call, including the default stream, which is
 * shared by threads that share a device. */
int reducer_many_streams(struct symmcoll_group *group, int rank);
int reducer_compressed_on_many_streams(struct symmcoll_group *group, int rank);

#endif
