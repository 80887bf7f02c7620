/* SPDX-License-Identifier: BSD-3-Clause */
#include "t/cuda/every.h"

#include "group/group.h"

size_t every_counts[EVERY_COUNTS] = {0, 1, 7, 37, 131, 2501};

static int every_size(
    struct symmcoll_group *group, int rank, struct collective one)
{
    int right = 1, size = symmcoll_group_size(group);

    for (size_t i = 0; i < EVERY_COUNTS && right; i++) {
        one.count = every_counts[i];
        one.root = (int)i % size;
        one.in_place = false;
        right = same_as_host(group, rank, &one);
        one.in_place = true;
        if (right && one.kind != SYMC_ALL_TO_ALL && !one.listed)
            right = same_as_host(group, rank, &one);
    }
    return right;
}

#define BODY(name, ...)                                                   \
    static int name(struct symmcoll_group *group, int rank)               \
    {                                                                     \
        return every_size(group, rank, (struct collective){__VA_ARGS__}); \
    }

BODY(all_reduce, .kind = SYMC_ALL_REDUCE, .dtype = F32)
BODY(reduce, .kind = SYMC_REDUCE, .dtype = F32)
BODY(reduce_scatter, .kind = SYMC_REDUCE_SCATTER, .dtype = F32)
BODY(all_gather, .kind = SYMC_ALL_GATHER, .dtype = SYMMCOLL_FLOAT8_E5M2)
BODY(gather, .kind = SYMC_GATHER, .dtype = SYMMCOLL_INT16)
BODY(scatter, .kind = SYMC_SCATTER, .dtype = SYMMCOLL_UINT8)
BODY(all_to_all, .kind = SYMC_ALL_TO_ALL, .dtype = SYMMCOLL_FLOAT64)
BODY(broadcast, .kind = SYMC_BROADCAST, .dtype = SYMMCOLL_COMPLEX128)

/* ---- lists ---- */

static int lists(struct symmcoll_group *group, int rank)
{
    static const enum symc_kind kinds[] = {
        SYMC_GATHER, SYMC_SCATTER, SYMC_ALL_GATHER, SYMC_REDUCE_SCATTER};
    int right = 1;

    for (size_t i = 0; i < sizeof(kinds) / sizeof(*kinds) && right; i++)
        right = every_size(group, rank,
            (struct collective){
                .kind = kinds[i], .dtype = SYMMCOLL_INT32, .listed = true});
    for (size_t i = 2; i < sizeof(kinds) / sizeof(*kinds) && right; i++)
        right = every_size(group, rank,
            (struct collective){.kind = kinds[i],
                .dtype = SYMMCOLL_COMPLEX64,
                .listed = true,
                .unlike = true});
    return right;
}

/* ---- several buffers in one operation ---- */

static int several(struct symmcoll_group *group, int rank)
{
    static const struct collective ones[] = {
        {.kind = SYMC_ALL_REDUCE_COALESCED, .dtype = F32},
        {.kind = SYMC_ALL_GATHER_COALESCED, .dtype = SYMMCOLL_INT16},
        {.kind = SYMC_REDUCE_SCATTER_COALESCED, .dtype = SYMMCOLL_COMPLEX64}};
    int right = 1;

    for (size_t i = 0; i < sizeof(ones) / sizeof(*ones) && right; i++) {
        struct collective one = ones[i];

        one.several = 1;
        right = every_size(group, rank, one);
        one.several = SEVERAL_MOST;
        right = right && every_size(group, rank, one);
        one.region = true;
        right = right && every_size(group, rank, one);
        one.listed = true;
        one.region = i == 1;
        right = right && every_size(group, rank, one);
    }
    return right;
}

/* ---- types and reductions ---- */

static bool is_defined(enum symmcoll_dtype dtype, symmcoll_op_t op)
{
    bool is_float = dtype >= SYMMCOLL_FLOAT16 && dtype <= SYMMCOLL_FLOAT64;
    bool is_complex =
        dtype == SYMMCOLL_COMPLEX64 || dtype == SYMMCOLL_COMPLEX128;
    bool is_float8 =
        dtype >= SYMMCOLL_FLOAT8_E4M3FN && dtype <= SYMMCOLL_FLOAT8_E8M0FNU;

    if (is_float8 || op == SYMMCOLL_PREMUL_SUM)
        return false;
    if (op == SYMMCOLL_SUM)
        return true;
    if (op == SYMMCOLL_AVG)
        return dtype != SYMMCOLL_BOOL;
    if (op <= SYMMCOLL_MAX)
        return !is_complex;
    return !is_float && !is_complex;
}

static int types_and_reductions(struct symmcoll_group *group, int rank)
{
    static const size_t some[] = {5, 67, 421};
    int right = 1, made = 0;

    for (int dtype = 0; dtype < SYMMCOLL_DTYPE_COUNT; dtype++) {
        for (int op = 0; op < SYMMCOLL_OP_COUNT && right; op++) {
            struct collective one = {
                .dtype = (enum symmcoll_dtype)dtype, .op = op};

            if (!is_defined(one.dtype, op))
                continue;
            one.kind = made++ % 3 == 2 ? SYMC_REDUCE_SCATTER : SYMC_ALL_REDUCE;
            one.count = some[made % 3];
            right = same_as_host(group, rank, &one);
        }
    }
    return right && made > 80;
}

/* Passes a different premultiplication factor on each rank. */
static int factors(struct symmcoll_group *group, int rank)
{
    static const enum symmcoll_dtype types[] = {SYMMCOLL_FLOAT16,
        SYMMCOLL_BFLOAT16, SYMMCOLL_FLOAT32, SYMMCOLL_FLOAT64,
        SYMMCOLL_COMPLEX64};
    int right = 1;

    for (size_t i = 0; i < sizeof(types) / sizeof(*types) && right; i++) {
        symmcoll_op_t op;

        right = say(symmcoll_op_create_premul(
                        group->world, 0.5 + 0.25 * rank, &op) == SYMMCOLL_OK,
            "a factor");
        for (int listed = 0; listed < 3 && right; listed++)
            right = every_size(group, rank,
                (struct collective){
                    .kind = listed ? SYMC_REDUCE_SCATTER : SYMC_ALL_REDUCE,
                    .dtype = types[i],
                    .op = op,
                    .listed = listed,
                    .unlike = listed == 2});
        right = right &&
                every_size(group, rank,
                    (struct collective){.kind = SYMC_REDUCE_SCATTER_COALESCED,
                        .dtype = types[i],
                        .op = op,
                        .several = 4,
                        .region = i % 2 == 0});
    }
    return right;
}

/* ---- the rest ---- */

static int on_own_device(struct symmcoll_group *group, int rank, rank_fn body)
{
    device_use(rank);
    return body(group, rank);
}

#define ON_DEVICE(name)                                      \
    int every_##name(struct symmcoll_group *group, int rank) \
    {                                                        \
        return on_own_device(group, rank, name);             \
    }

ON_DEVICE(all_reduce)
ON_DEVICE(reduce)
ON_DEVICE(reduce_scatter)
ON_DEVICE(all_gather)
ON_DEVICE(gather)
ON_DEVICE(scatter)
ON_DEVICE(all_to_all)
ON_DEVICE(broadcast)
ON_DEVICE(lists)
ON_DEVICE(several)
ON_DEVICE(types_and_reductions)
ON_DEVICE(factors)
