/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Shards of few rows and great depth: one block of the depth is gathered and
 * multiplied while it is in the cache, instead of being written to memory and
 * read again.
 */
#include "fused/gather_matmul.h"

#include <string.h>

#define DEPTH 768 /* depth of a block: two blocks of OpenBLAS's own */
/* bytes that fit in the cache of a processor */
#define CACHED ((size_t)1 << 20)
#define ALIGN ((size_t)64)

bool symc_fused_is_in_blocks(const struct gather_matmul *it)
{
    size_t size = (size_t)symc_group_size(it->fused->group);
    size_t line = size * (size_t)it->rows * it->elem;

    return it->first && !it->wanted && !it->scaled && it->depth >= 2 * DEPTH &&
           symc_matmul_sum_dtype(it->a.dtype) == it->a.dtype &&
           line * (size_t)it->depth > CACHED && line * DEPTH <= CACHED;
}

symmcoll_status_t symc_fused_take_blocks(struct gather_matmul *it)
{
    size_t size = (size_t)symc_group_size(it->fused->group);
    size_t head = size * sizeof(*it->shards);
    size_t line = size * (size_t)it->rows * it->elem;
    char *room;

    it->block = DEPTH;
    head = (head + ALIGN - 1) / ALIGN * ALIGN;
    room = symc_fused_take(
        it->fused, SYMC_FUSED_PACKED, head + line * (size_t)it->block);
    if (room == NULL)
        return SYMMCOLL_ERR_NO_MEMORY;
    it->shards = (const void **)(void *)room;
    it->room = room + head;
    it->first = false; /* no copy of the whole A */
    return SYMMCOLL_OK;
}

/* Multiplies the rows of all shards, one block of the depth at a time, so that
 * the copied block is still in the cache when it is multiplied. */
static symmcoll_status_t multiply_blocks(struct gather_matmul *it)
{
    int64_t all = it->rows * symc_group_size(it->fused->group);
    symmcoll_status_t status = SYMMCOLL_OK;

    for (int64_t at = 0; at < it->depth && status == SYMMCOLL_OK;
         at += it->block) {
        int64_t left = it->depth - at;
        int64_t depth = left < it->block ? left : it->block;
        struct symc_matrix a = {it->room, it->a.dtype, all, depth, depth, 1};
        size_t part = (size_t)depth * it->elem;
        char *to = it->room;

        for (int64_t row = 0; row < all; row++, to += part)
            memcpy(to,
                (const char *)it->shards[row / it->rows] +
                    (size_t)(row % it->rows * it->depth + at) * it->elem,
                part);
        for (int i = 0; i < it->n && status == SYMMCOLL_OK; i++) {
            struct symc_matrix b = symc_fused_matrix(&it->products[i].b);
            struct symc_matrix c = {it->products[i].out.tensor.data,
                it->a.dtype, all, b.cols, b.cols, 1};

            b.rows = depth;
            b.data = (char *)b.data + at * b.row_stride * (int64_t)it->elem;
            status = symc_matmul(&it->fused->matmul, &a, &b, &c, at > 0);
        }
    }
    return status;
}

symmcoll_status_t symc_fused_consume_block(
    void *context, int rank, const void *shard)
{
    struct gather_matmul *it = context;

    it->shards[rank] = shard;
    return ++it->arrived < symc_group_size(it->fused->group)
               ? SYMMCOLL_OK
               : multiply_blocks(it);
}
