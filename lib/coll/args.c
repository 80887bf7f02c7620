/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The checks of arguments: what fails here has changed no counter, so one
 * rank's bad call does not shift its sequence (C6).
 */
#include "base/dtype.h"
#include "coll/coll.h"

/* The group, the element type, the count. */
static symmcoll_status_t check_size(
    struct symmcoll_group *group, struct symc_op *op)
{
    const struct symc_dtype *type = symc_dtype_find(op->dtype);
    size_t nbytes;

    if (group == NULL)
        return symc_fail(SYMMCOLL_ERR_INVALID,
            "%s: expected a group, found NULL", symc_kind_name(op->kind));
    if (*group->alive != 1)
        return symc_group_refuse(group, op->kind);
    if (type == NULL)
        return symc_fail(SYMMCOLL_ERR_INVALID,
            "%s: expected an element type of 0 to %d, found %d",
            symc_kind_name(op->kind), SYMMCOLL_DTYPE_COUNT - 1, (int)op->dtype);
    if (!symc_multiply(op->count, type->size, &nbytes) ||
        !symc_multiply(nbytes, (size_t)group->size, &nbytes) ||
        nbytes > PTRDIFF_MAX)
        return symc_fail(SYMMCOLL_ERR_INVALID,
            "%s: %zu elements of %s on %d ranks are more bytes than memory has",
            symc_kind_name(op->kind), op->count, type->name, group->size);
    op->elem = type->size;
    return SYMMCOLL_OK;
}

/* The reduce operation, known and defined for the type. */
static symmcoll_status_t check_reduction(
    struct symmcoll_group *group, struct symc_op *op)
{
    const struct symc_dtype *type = symc_dtype_find(op->dtype);
    symmcoll_op_t wanted = op->op;

    if (wanted == SYMMCOLL_PREMUL_SUM)
        return symc_fail(SYMMCOLL_ERR_INVALID,
            "%s: premul_sum needs a factor: expected an op made by "
            "symmcoll_op_create_premul",
            symc_kind_name(op->kind));
    if (wanted >= SYMC_PREMUL_FIRST &&
        symc_world_factor(group->world, wanted,
            op->listed ? &op->lists->factor : &op->factor))
        op->op = SYMMCOLL_PREMUL_SUM;
    if (op->op >= SYMC_PREMUL_FIRST)
        return symc_fail(SYMMCOLL_ERR_INVALID,
            "%s: expected a reduce operation of this world, found %d, which "
            "has been released or was never made",
            symc_kind_name(op->kind), (int)wanted);
    if (op->op < 0 || op->op >= SYMMCOLL_OP_COUNT)
        return symc_fail(SYMMCOLL_ERR_INVALID,
            "%s: expected a reduce operation, found %d",
            symc_kind_name(op->kind), (int)wanted);
    if (!symc_dtype_reduces(type, op->op))
        return symc_fail(SYMMCOLL_ERR_UNSUPPORTED,
            "%s: %s is not defined for %s", symc_kind_name(op->kind),
            symmcoll_op_name(op->op), type->name);
    return SYMMCOLL_OK;
}

static bool overlap(
    const char *a, size_t a_nbytes, const char *b, size_t b_nbytes)
{
    return (uintptr_t)a < (uintptr_t)b + b_nbytes &&
           (uintptr_t)b < (uintptr_t)a + a_nbytes;
}

/* Buffers: there, and equal, apart, or (in place) the smaller where this rank's
 * part of the larger is.  Where both have parts of all ranks there is no in
 * place: threads read a peer's parts while that receives its own. */
static symmcoll_status_t check_buffers(struct symmcoll_group *group,
    const struct symc_kind_info *info, const struct symc_op *op)
{
    bool is_root = op->root == group->rank;
    size_t part = op->count * op->elem;
    size_t in_nbytes =
        is_root || (info->traits & SYMC_FROM_ROOT) == 0
            ? part * symc_parts_count(info->in_parts, group->size)
            : 0;
    size_t out_nbytes =
        is_root || (info->traits & SYMC_TO_ROOT) == 0
            ? part * symc_parts_count(info->out_parts, group->size)
            : 0;
    size_t shift =
        info->in_parts == info->out_parts ? 0 : part * (size_t)group->rank;
    const char *larger = in_nbytes > out_nbytes ? op->in : op->out;
    const char *smaller = in_nbytes > out_nbytes ? op->out : op->in;
    bool lacks_in = op->in == NULL && in_nbytes > 0;
    bool apart =
        info->in_parts == SYMC_ALL_PARTS && info->out_parts == SYMC_ALL_PARTS;

    if (lacks_in || (op->out == NULL && out_nbytes > 0))
        return symc_fail(SYMMCOLL_ERR_INVALID,
            "%s: expected %s of %zu bytes, found NULL",
            symc_kind_name(op->kind), lacks_in ? "in" : "out",
            lacks_in ? in_nbytes : out_nbytes);
    if (out_nbytes == 0 || in_nbytes == 0 ||
        (smaller == larger + shift && !apart) ||
        !overlap(op->out, out_nbytes, op->in, in_nbytes))
        return SYMMCOLL_OK;
    if (apart)
        return symc_fail(SYMMCOLL_ERR_INVALID,
            "%s: out and in (%zu bytes each) overlap: expected them apart, "
            "found out at byte %td of in",
            symc_kind_name(op->kind), out_nbytes,
            (const char *)op->out - (const char *)op->in);
    return symc_fail(SYMMCOLL_ERR_INVALID,
        "%s: out (%zu bytes) and in (%zu bytes) overlap: expected them apart, "
        "or the smaller at byte %zu of the larger; found %td",
        symc_kind_name(op->kind), out_nbytes, in_nbytes, shift,
        smaller - larger);
}

/* Some backend knows memory that is not the host's: ask where the buffers are.
 * Those of which no byte is used are nowhere. */
static __attribute__((noinline)) symmcoll_status_t find_memory(
    struct symmcoll_group *group, const struct symc_kind_info *info,
    struct symc_op *op)
{
    const struct symc_registry *registry = &group->world->registry;
    bool is_root = op->root == group->rank;
    bool in = info->in_parts != SYMC_NO_PART &&
              (is_root || (info->traits & SYMC_FROM_ROOT) == 0);
    bool out = info->out_parts != SYMC_NO_PART &&
               (is_root || (info->traits & SYMC_TO_ROOT) == 0);
    int16_t device;
    enum symc_memory memory;

    if (op->count == 0 || (!in && !out))
        return SYMMCOLL_OK;
    memory = symc_registry_find(registry, in ? op->in : op->out, &device);
    op->memory = (uint8_t)memory;
    op->device = device;
    if (!in || !out)
        return SYMMCOLL_OK;
    memory = symc_registry_find(registry, op->out, &device);
    if (memory == op->memory && device == op->device)
        return SYMMCOLL_OK;
    return symc_fail(SYMMCOLL_ERR_INVALID,
        "%s: expected out and in in one memory, found out in %s of device %d "
        "and in in %s of device %d",
        symc_kind_name(op->kind), symc_memory_name(memory), device,
        symc_memory_name(op->memory), op->device);
}

symmcoll_status_t symc_coll_check(
    struct symmcoll_group *group, struct symc_op *op)
{
    const struct symc_kind_info *info = &symc_kinds[op->kind];
    symmcoll_status_t status = check_size(group, op);

    if (status == SYMMCOLL_OK && (info->traits & SYMC_REDUCES) != 0)
        status = check_reduction(group, op);
    if (status != SYMMCOLL_OK)
        return status;
    if ((info->traits & SYMC_ROOTED) != 0 &&
        (op->root < 0 || op->root >= group->size))
        return symc_fail(SYMMCOLL_ERR_INVALID,
            "%s: expected a root of 0 to %d, found %d",
            symc_kind_name(op->kind), group->size - 1, op->root);
    if (__builtin_expect(op->listed, 0))
        return symc_coll_check_lists(group, op);
    status = check_buffers(group, info, op);
    if (__builtin_expect(group->world->registry.finds, 0) &&
        status == SYMMCOLL_OK)
        return find_memory(group, info, op);
    return status;
}
