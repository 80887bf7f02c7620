/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Ranks that register device memory of the program, join it with that of other
 * ranks and deregister it: each must read what the others have written.
 */
#ifndef T_SYMM_MEM_OWN_ON_DEVICE_H
#define T_SYMM_MEM_OWN_ON_DEVICE_H

#include <symmcoll.h>

/* Join memory of cuMemAlloc(), and mapped memory. */
int own_joins_allocated(struct symmcoll_group *group, int rank);
int own_joins_mapped(struct symmcoll_group *group, int rank);
/* Joins two parts of an allocation, and one of them in two groups. */
int own_joins_parts(struct symmcoll_group *group, int rank);
/* Joins memory allocated by the library on some ranks, and mapped memory on
 * others. */
int own_joins_both_kinds(struct symmcoll_group *group, int rank);
/* Uses mapped memory that its rank has unmapped. */
int own_leaves_mapped_to_peers(struct symmcoll_group *group, int rank);

#endif
