/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The checks of arguments: what fails here has changed no counter, so one
 * rank's bad call does not shift its sequence (C6).
 */
#include "coll/coll.h"

symmcoll_status_t symc_coll_begin(struct symmcoll_group *group,
    enum symc_kind kind, size_t count, enum symmcoll_dtype dtype,
    struct symc_op *op)
{
    const struct symc_dtype *type = symc_dtype_find(dtype);
    size_t nbytes;

    if (group == NULL)
        return symc_fail(SYMMCOLL_ERR_INVALID,
            "%s: expected a group, found NULL", symc_kind_name(kind));
    if (*group->alive != 1)
        return symc_fail(SYMMCOLL_ERR_INVALID,
            "%s: expected the process that called init, found a fork of it",
            symc_kind_name(kind));
    if (type == NULL)
        return symc_fail(SYMMCOLL_ERR_INVALID,
            "%s: expected an element type of 0 to %d, found %d",
            symc_kind_name(kind), SYMMCOLL_DTYPE_COUNT - 1, (int)dtype);
    if (!symc_multiply(count, type->size, &nbytes) ||
        !symc_multiply(nbytes, (size_t)group->size, &nbytes) ||
        nbytes > PTRDIFF_MAX)
        return symc_fail(SYMMCOLL_ERR_INVALID,
            "%s: %zu elements of %s on %d ranks are more bytes than memory has",
            symc_kind_name(kind), count, type->name, group->size);
    op->kind = kind;
    op->dtype = dtype;
    op->count = count;
    op->elem = type->size;
    return SYMMCOLL_OK;
}

symmcoll_status_t symc_coll_check_op(
    struct symmcoll_group *group, symmcoll_op_t wanted, struct symc_op *op)
{
    const struct symc_dtype *type = symc_dtype_find(op->dtype);

    if (wanted == SYMMCOLL_PREMUL_SUM)
        return symc_fail(SYMMCOLL_ERR_INVALID,
            "%s: premul_sum needs a factor: expected an op made by "
            "symmcoll_op_create_premul",
            symc_kind_name(op->kind));
    op->op = wanted;
    if (wanted >= SYMC_PREMUL_FIRST &&
        symc_world_factor(group->world, wanted, &op->factor))
        op->op = SYMMCOLL_PREMUL_SUM;
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

symmcoll_status_t symc_coll_check_root(
    struct symmcoll_group *group, int root, struct symc_op *op)
{
    if (root < 0 || root >= group->size)
        return symc_fail(SYMMCOLL_ERR_INVALID,
            "%s: expected a root of 0 to %d, found %d",
            symc_kind_name(op->kind), group->size - 1, root);
    op->root = root;
    return SYMMCOLL_OK;
}

static bool overlap(
    const char *a, size_t a_nbytes, const char *b, size_t b_nbytes)
{
    return (uintptr_t)a < (uintptr_t)b + b_nbytes &&
           (uintptr_t)b < (uintptr_t)a + a_nbytes;
}

symmcoll_status_t symc_coll_check_buffers(struct symc_op *op, void *out,
    size_t out_count, const void *in, size_t in_count, size_t shift)
{
    size_t out_nbytes = out_count * op->elem;
    size_t in_nbytes = in_count * op->elem;
    const char *larger = in_count > out_count ? in : out;
    const char *smaller = in_count > out_count ? out : in;

    op->out = out;
    op->in = in;
    if ((out == NULL && out_nbytes > 0) || (in == NULL && in_nbytes > 0))
        return symc_fail(SYMMCOLL_ERR_INVALID,
            "%s: expected %s of %zu bytes, found NULL",
            symc_kind_name(op->kind), in == NULL ? "in" : "out",
            in == NULL ? in_nbytes : out_nbytes);
    if (out_nbytes == 0 || in_nbytes == 0 ||
        smaller == larger + shift * op->elem ||
        !overlap(out, out_nbytes, in, in_nbytes))
        return SYMMCOLL_OK;
    return symc_fail(SYMMCOLL_ERR_INVALID,
        "%s: out (%zu bytes) and in (%zu bytes) overlap: expected them apart, "
        "or the smaller at byte %zu of the larger; found %td",
        symc_kind_name(op->kind), out_nbytes, in_nbytes, shift * op->elem,
        smaller - larger);
}
