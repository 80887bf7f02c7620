/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What all collectives share: checks of arguments, before anything changes, and
 * running the operation in the group.  Private to this directory.
 */
#ifndef SYMC_COLL_COLL_H
#define SYMC_COLL_COLL_H

#include "base/dtype.h"
#include "group/group.h"

#include <symmcoll/collectives.h>

/* Begin an operation: group, element type, count.  Fills in what it checks. */
symmcoll_status_t symc_coll_begin(struct symmcoll_group *group,
    enum symc_kind kind, size_t count, enum symmcoll_dtype dtype,
    struct symc_op *op);

/* The reduce operation, known and defined for the type. */
symmcoll_status_t symc_coll_check_op(
    struct symmcoll_group *group, symmcoll_op_t wanted, struct symc_op *op);

/* A root within the group. */
symmcoll_status_t symc_coll_check_root(
    struct symmcoll_group *group, int root, struct symc_op *op);

/* Buffers of out_count and in_count elements: there, and equal, apart, or (in
 * place) at shift elements from the larger one's start. */
symmcoll_status_t symc_coll_check_buffers(struct symc_op *op, void *out,
    size_t out_count, const void *in, size_t in_count, size_t shift);

/* Run it now, or queue it. */
symmcoll_status_t symc_coll_issue(struct symmcoll_group *group,
    struct symc_op *op, const struct symmcoll_call *call,
    struct symmcoll_work **work);

#endif
