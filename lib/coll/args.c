/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Checks of arguments. A call that fails here has changed no counter, so that
 * the invalid call of one rank does not shift its sequence (C6).
 */
#include "base/dtype.h"
#include "coll/coll.h"

#include <stdio.h>

/* Checks the group, the element type and the count. */
static symmcoll_status_t check_size(
    struct symmcoll_group *group, struct symc_op *op)
{
    const struct symc_dtype *type = symc_dtype_find(op->dtype);
    size_t nbytes;

    if (group == NULL)
        return symc_fail(SYMMCOLL_ERR_INVALID,
            "%s: expected a group, found NULL", symc_kind_name(op->kind));
    if (!symc_group_is_usable(group))
        return symc_group_refuse(group, op->kind);
    if (type == NULL)
        return symc_fail(SYMMCOLL_ERR_INVALID,
            "%s: expected an element type of 0 to %d, found %d",
            symc_kind_name(op->kind), SYMMCOLL_DTYPE_COUNT - 1, (int)op->dtype);
    if (!symc_multiply(op->count, type->size, &nbytes) ||
        !symc_multiply(nbytes, (size_t)symc_group_size(group), &nbytes) ||
        nbytes > PTRDIFF_MAX)
        return symc_fail(SYMMCOLL_ERR_INVALID,
            "%s: %zu elements of %s on %d ranks are more bytes than memory has",
            symc_kind_name(op->kind), op->count, type->name,
            symc_group_size(group));
    op->elem = type->size;
    return SYMMCOLL_OK;
}

/* Checks that the reduce operation exists and is defined for the type. */
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
        symc_world_factor(symc_group_world(group), wanted,
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

/* Checks that the buffers are not NULL, and that they do not overlap except in
 * place: equal, or the smaller one at this rank's part of the larger. If both
 * have parts of all ranks, in place is not possible: a peer's parts are read
 * while it receives its own. */
static symmcoll_status_t check_buffers(struct symmcoll_group *group,
    const struct symc_kind_info *info, const struct symc_op *op)
{
    bool is_root = op->root == symc_group_rank(group);
    size_t part = op->count * op->elem;
    size_t in_nbytes =
        is_root || (info->traits & SYMC_FROM_ROOT) == 0
            ? part * symc_parts_count(info->in_parts, symc_group_size(group))
            : 0;
    size_t out_nbytes =
        is_root || (info->traits & SYMC_TO_ROOT) == 0
            ? part * symc_parts_count(info->out_parts, symc_group_size(group))
            : 0;
    size_t shift = info->in_parts == info->out_parts
                       ? 0
                       : part * (size_t)symc_group_rank(group);
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
        !symc_overlap(op->out, out_nbytes, op->in, in_nbytes))
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

/* Finds the memory of the buffers, if the process has memory other than the
 * host's. A buffer without bytes has no place. */
static symmcoll_status_t find_memory(struct symmcoll_group *group,
    const struct symc_kind_info *info, struct symc_op *op)
{
    bool is_root = op->root == symc_group_rank(group);
    symmcoll_status_t status;
    bool in = info->in_parts != SYMC_NO_PART &&
              (is_root || (info->traits & SYMC_FROM_ROOT) == 0);
    bool out = info->out_parts != SYMC_NO_PART &&
               (is_root || (info->traits & SYMC_TO_ROOT) == 0);
    int16_t device;
    enum symc_memory memory;
    char places[2][SYMC_MEMORY_TEXT];

    if (op->kind == SYMC_BARRIER)
        symc_coll_take_device(group, op);
    if (op->count == 0 || (!in && !out))
        return SYMMCOLL_OK;
    status = symc_coll_find(
        group, op, in ? "in" : "out", in ? op->in : op->out, &memory, &device);
    if (status != SYMMCOLL_OK)
        return status;
    op->memory = (uint8_t)memory;
    op->device = device;
    if (!in || !out)
        return SYMMCOLL_OK;
    status = symc_coll_find(group, op, "out", op->out, &memory, &device);
    if (status != SYMMCOLL_OK || (memory == op->memory && device == op->device))
        return status;
    return symc_fail(SYMMCOLL_ERR_INVALID,
        "%s: expected out and in in one memory, found out at %p in %s and in at "
        "%p in %s",
        symc_kind_name(op->kind), op->out,
        symc_memory_format(memory, device, places[0]), op->in,
        symc_memory_format(op->memory, op->device, places[1]));
}

/* ---- several buffers ---- */

/* Adds the buffer's number to the error of a failed check. */
static symmcoll_status_t fail_buffer(
    const struct symc_op *op, int index, symmcoll_status_t status)
{
    return symc_error_amend(status, "%s (buffer %d of %d)",
        symmcoll_last_error(), index, op->buffers);
}

/* The ranges of a buffer that an operation writes and reads. */
struct extents {
    const char *out, *out_end;
    const char *in, *in_end;
};

static struct extents find_extents(
    const struct symmcoll_group *group, const struct symc_op *op, int index)
{
    struct symc_op one = symc_op_of(op, index);
    const char *out = one.out, *in = one.in;

    return (struct extents){out,
        out + symc_op_out_nbytes(&one, symc_group_size(group)), in,
        in + symc_op_in_nbytes(&one, symc_group_size(group))};
}

/* Returns whether two ranges overlap; an empty one overlaps none. */
static bool cross(
    const char *a, const char *a_end, const char *b, const char *b_end)
{
    return a < a_end && b < b_end &&
           symc_overlap(a, (size_t)(a_end - a), b, (size_t)(b_end - b));
}

/* Checks that what one buffer receives overlaps nothing that another one reads
 * or receives. */
static symmcoll_status_t check_apart(
    struct symmcoll_group *group, const struct symc_op *op)
{
    for (int i = 0; i < op->buffers; i++) {
        struct extents one = find_extents(group, op, i);

        for (int j = 0; j < op->buffers; j++) {
            struct extents other = find_extents(group, op, j);
            bool out =
                j > i && cross(one.out, one.out_end, other.out, other.out_end);

            if (i != j &&
                (out || cross(one.out, one.out_end, other.in, other.in_end)))
                return symc_fail(SYMMCOLL_ERR_INVALID,
                    "%s: expected buffers apart, found out of buffer %d of %d "
                    "in %s of buffer %d",
                    symc_kind_name(op->kind), i, op->buffers,
                    out ? "out" : "in", j);
        }
    }
    return SYMMCOLL_OK;
}

/* Checks that a buffer is in the same memory as the first, which becomes the
 * operation's. Called only for buffers with bytes. */
static symmcoll_status_t join(
    struct symc_op *op, const struct symc_op *one, const struct symc_op *first)
{
    char places[2][SYMC_MEMORY_TEXT];

    if (first->count > 0 &&
        (one->memory != op->memory || one->device != op->device))
        return symc_fail(SYMMCOLL_ERR_INVALID,
            "%s: expected all buffers in one memory, found %s and %s",
            symc_kind_name(op->kind),
            symc_memory_format(op->memory, op->device, places[0]),
            symc_memory_format(one->memory, one->device, places[1]));
    op->memory = one->memory;
    op->device = one->device;
    return SYMMCOLL_OK;
}

/* Moves the arrays of the op to lists. On a device its stream takes the place
 * of the counts. */
static void list_buffers(
    struct symc_op *op, const struct symc_op *first, struct symc_lists *lists)
{
    *lists = (struct symc_lists){.outs = op->out,
        .ins = op->in,
        .out_counts = op->counts,
        .in_counts = op->counts,
        .factor = op->factor};
    op->listed = true;
    op->lists = lists;
    op->stream = NULL;
    op->out = first->out;
    op->in = first->in;
}

/* Checks one buffer, and joins it to those before. */
static symmcoll_status_t check_one(struct symmcoll_group *group,
    struct symc_op *op, struct symc_op *one, const struct symc_op *first)
{
    const struct symc_kind_info *info = &symc_kinds[op->kind];
    symmcoll_status_t status = check_size(group, one);

    if (status != SYMMCOLL_OK)
        return status;
    status = check_buffers(group, info, one);
    if (status == SYMMCOLL_OK &&
        symc_registry_is_other_present(&symc_group_world(group)->registry))
        status = find_memory(group, info, one);
    if (status != SYMMCOLL_OK || one->count == 0)
        return status;
    return join(op, one, first);
}

/* Checks each buffer by itself, and then the number of elements of all. */
static symmcoll_status_t check_each(struct symmcoll_group *group,
    struct symc_op *op, bool apart, struct symc_lists *lists)
{
    struct symc_op first = {.count = 0}; /* the first buffer with a byte */
    symmcoll_status_t status;

    op->count = 0;
    op->memory = SYMC_MEMORY_HOST;
    op->device = 0;
    for (int i = 0; i < op->buffers; i++) {
        struct symc_op one = symc_op_of(op, i);

        status = check_one(group, op, &one, &first);
        if (status != SYMMCOLL_OK)
            return fail_buffer(op, i, status);
        if (first.count == 0)
            first = one;
        if (__builtin_add_overflow(op->count, one.count, &op->count))
            op->count = SIZE_MAX;
    }
    status = check_size(group, op);
    if (status == SYMMCOLL_OK && !apart)
        status = check_apart(group, op);
    if (status == SYMMCOLL_OK && op->memory != SYMC_MEMORY_HOST)
        list_buffers(op, &first, lists);
    return status;
}

/* The range from the lowest to the highest address, as numbers. */
struct hull {
    uintptr_t lo, hi;
};

/* Adds a buffer; returns whether it follows all before it. */
static inline bool stretch(struct hull *hull, const void *at, size_t nbytes)
{
    uintptr_t lo = (uintptr_t)at, hi = lo + nbytes;
    bool after = lo >= hull->hi;

    hull->lo = lo < hull->lo ? lo : hull->lo;
    hull->hi = hi > hull->hi ? hi : hull->hi;
    return after && hi >= lo;
}

/*
 * Checks, in one pass, for buffers as most programs pass them: none is NULL,
 * addresses ascend, and either each pair is in place or what is written does
 * not overlap what is read. Counts the elements. False: the slow checks decide.
 * hosts (out): all buffers are known to be in host memory.
 */
static bool are_usual(
    const struct symmcoll_group *group, struct symc_op *op, bool *hosts)
{
    const struct symc_kind_info *info = &symc_kinds[op->kind];
    size_t size = (size_t)symc_group_size(group),
           most = PTRDIFF_MAX / op->elem / size;
    size_t in_parts = symc_parts_count(info->in_parts, symc_group_size(group));
    size_t out_parts =
        symc_parts_count(info->out_parts, symc_group_size(group));
    struct hull outs = {UINTPTR_MAX, 0}, ins = {UINTPTR_MAX, 0};
    const struct symc_registry *registry = &symc_group_world(group)->registry;
    bool ascend = true, in_place = true, known = true;

    op->count = 0;
    *hosts = false;
    for (int i = 0; i < op->buffers && ascend; i++) {
        size_t part = op->counts[i] * op->elem;
        size_t shift =
            in_parts == out_parts ? 0 : part * (size_t)symc_group_rank(group);
        const char *out = symc_op_out_of(op, i), *in = symc_op_in_of(op, i);
        const char *larger = in_parts > out_parts ? in : out;
        const char *smaller = in_parts > out_parts ? out : in;

        if (op->counts[i] > most - op->count || out == NULL || in == NULL)
            return false;
        op->count += op->counts[i];
        in_place = in_place && (smaller == larger + shift);
        known = known && symc_registry_is_hosts(registry, out) &&
                symc_registry_is_hosts(registry, in);
        ascend = stretch(&outs, out, part * out_parts) && ascend;
        ascend = stretch(&ins, in, part * in_parts) && ascend;
    }
    *hosts = known &&
             (registry->unserved || !symc_registry_is_other_present(registry));
    return ascend && (in_place || outs.hi <= ins.lo || ins.hi <= outs.lo);
}

symmcoll_status_t symc_coll_check_kept(
    struct symmcoll_group *group, struct symc_op *op, struct symc_lists *lists)
{
    bool hosts;
    bool usual = are_usual(group, op, &hosts);

    return usual && hosts ? SYMMCOLL_OK : check_each(group, op, usual, lists);
}

static symmcoll_status_t inspect_each(
    struct symmcoll_group *group, const struct symc_op *op)
{
    if (op->memory != SYMC_MEMORY_HOST)
        return symc_coll_inspect(group, op);
    for (int i = 0; i < op->buffers; i++) {
        struct symc_op one = symc_op_of(op, i);
        symmcoll_status_t status = symc_coll_inspect(group, &one);

        if (status != SYMMCOLL_OK)
            return fail_buffer(op, i, status);
    }
    return SYMMCOLL_OK;
}

symmcoll_status_t symc_coll_check_coalesced(
    struct symmcoll_group *group, struct symc_op *op, struct symc_lists *lists)
{
    symmcoll_status_t status = SYMMCOLL_OK;

    op->count = 0;
    status = check_size(group, op);
    if (status != SYMMCOLL_OK)
        return status;
    if (op->buffers < 1 || op->out == NULL || op->in == NULL ||
        op->counts == NULL)
        return symc_fail(SYMMCOLL_ERR_INVALID,
            "%s: expected arrays of 1 to %d buffers and counts, found %d%s",
            symc_kind_name(op->kind), SYMC_BUFFERS_MAX, op->buffers,
            op->buffers < 1 ? "" : " and an array that is NULL");
    if (symc_kind_has(op->kind, SYMC_REDUCES))
        status = check_reduction(group, op);
    if (status == SYMMCOLL_OK)
        status = symc_coll_check_kept(group, op, lists);
    return status == SYMMCOLL_OK && symc_group_world(group)->inspects
               ? inspect_each(group, op)
               : status;
}

/* ---- one buffer ---- */

/* Does the checks that only some worlds need. */
static __attribute__((noinline)) symmcoll_status_t look(
    struct symmcoll_group *group, const struct symc_kind_info *info,
    struct symc_op *op)
{
    symmcoll_status_t status = SYMMCOLL_OK;

    if (symc_registry_is_other_present(&symc_group_world(group)->registry))
        status = find_memory(group, info, op);
    return status == SYMMCOLL_OK &&
                   symc_group_config(group)->errors_nan_check !=
                       SYMC_NAN_CHECK_OFF
               ? symc_coll_inspect(group, op)
               : status;
}

/* Returns whether an op needs the checks of look(): NaN, or memory of
 * devices. */
static inline bool is_to_be_looked_at(
    const struct symmcoll_world *world, const struct symc_op *op)
{
    return world->inspects ||
           !symc_registry_is_hosts(&world->registry, op->out) ||
           !symc_registry_is_hosts(&world->registry, op->in);
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
        (op->root < 0 || op->root >= symc_group_size(group)))
        return symc_fail(SYMMCOLL_ERR_INVALID,
            "%s: expected a root of 0 to %d, found %d",
            symc_kind_name(op->kind), symc_group_size(group) - 1, op->root);
    if (__builtin_expect(op->listed, 0))
        return symc_coll_check_lists(group, op);
    status = check_buffers(group, info, op);
    if (__builtin_expect(is_to_be_looked_at(symc_group_world(group), op), 0) &&
        status == SYMMCOLL_OK)
        return look(group, info, op);
    return status;
}

symmcoll_status_t symc_coll_check_own(
    struct symmcoll_group *group, struct symc_op *op)
{
    symmcoll_status_t status = check_size(group, op);

    return status == SYMMCOLL_OK
               ? check_buffers(group, &symc_kinds[op->kind], op)
               : status;
}
