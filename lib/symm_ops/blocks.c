/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Reductions of blocks of a matrix in symmetric memory, each to its own root:
 * tiles, and blocks of rows or columns.
 */
#include "symm_ops/operate.h"

#include "base/digest.h"

#include <symmcoll/symm_ops.h>

/* One block; first counts elements from the start of the matrix. */
struct block {
    size_t first;
    size_t rows, columns;
};

/* All blocks of a call. */
struct blocks {
    size_t stride;        /* of the matrix, in elements */
    const int *roots;     /* root of each block; NULL: round robin */
    const size_t *firsts; /* tiles: offset of each in the buffer, in bytes */
    /* others: the row or column at which each ends (exclusive) */
    const size_t *ends;
    size_t count;
    size_t rows, columns; /* of a tile, or of the matrix */
    bool by_column;
    size_t out_stride; /* tiles: stride of the result */
    void *const *outs; /* others: results of this rank's blocks, in order */
};

static struct block find_block(
    const struct symc_symm_call *call, const struct blocks *blocks, size_t i)
{
    struct block block = {.rows = blocks->rows, .columns = blocks->columns};
    size_t begin;

    if (blocks->ends == NULL) {
        block.first = blocks->firsts[i] / call->elem;
        return block;
    }
    begin = i > 0 ? blocks->ends[i - 1] : 0;
    block.first = blocks->by_column ? begin : begin * blocks->stride;
    *(blocks->by_column ? &block.columns : &block.rows) =
        blocks->ends[i] - begin;
    return block;
}

static void reduce_block(const struct symc_symm_call *call,
    const struct symc_moving *moving, const struct block *block, char *out,
    size_t out_stride)
{
    const struct blocks *blocks = call->more;
    bool together =
        block->columns == blocks->stride && block->columns == out_stride;
    const struct symc_rows rows = {
        .at = call->words[0] + block->first * call->elem,
        .count = together ? block->rows * block->columns : block->columns,
        .rows = together ? 1 : block->rows,
        .pitch = blocks->stride * call->elem,
        .out_pitch = out_stride * call->elem};

    symc_symm_reduce(call, moving, &rows, out);
}

static int root_of(const struct blocks *blocks, size_t i, int size)
{
    return blocks->roots != NULL ? blocks->roots[i] : (int)(i % (size_t)size);
}

/* Reduces the blocks of which this rank is the root. */
static void reduce_own(
    const struct symc_symm_call *call, const struct symc_moving *moving)
{
    const struct blocks *blocks = call->more;
    size_t mine = 0;

    for (size_t i = 0; i < blocks->count; i++) {
        struct block block;

        if (root_of(blocks, i, moving->size) != moving->rank)
            continue;
        block = find_block(call, blocks, i);
        if (blocks->outs != NULL)
            reduce_block(
                call, moving, &block, blocks->outs[mine++], block.columns);
        else
            reduce_block(call, moving, &block, call->out, blocks->out_stride);
    }
}

static const struct symc_symm_does tile_reduce = {.kind = SYMC_SYMM_TILE_REDUCE,
    .words = {"offset", "stride", "digest of tiles and roots"},
    .move = reduce_own};
static const struct symc_symm_does tile_reduce_roots = {
    .kind = SYMC_SYMM_TILE_REDUCE_ROOTS,
    .words = {"offset", "stride", "digest of tiles and roots"},
    .move = reduce_own};
static const struct symc_symm_does reduce_scatter_offset = {
    .kind = SYMC_SYMM_REDUCE_SCATTER_OFFSET,
    .words = {"offset", "stride", "digest of blocks and ranks"},
    .move = reduce_own};

/* ---- checks ---- */

/* Checks that the roots are ranks; once: and that none occurs twice. */
static symmcoll_status_t check_roots(const struct symmcoll_symm *handle,
    const char *where, const struct blocks *blocks, bool once)
{
    for (size_t i = 0; i < blocks->count; i++) {
        int root = root_of(blocks, i, handle->size);

        if (root < 0 || root >= handle->size)
            return symc_fail(SYMMCOLL_ERR_INVALID,
                "%s: expected ranks of 0 to %d, found %d as number %zu", where,
                handle->size - 1, root, i);
        for (size_t j = 0; once && j < i; j++) {
            if (blocks->roots[j] == root)
                return symc_fail(SYMMCOLL_ERR_INVALID,
                    "%s: expected another root for each tile, found rank %d for "
                    "tiles %zu and %zu",
                    where, root, j, i);
        }
    }
    return SYMMCOLL_OK;
}

/* Counts the elements from the first to the last of a block. */
static bool measure(size_t rows, size_t columns, size_t stride, size_t *count)
{
    *count = 0;
    return rows == 0 || columns == 0 ||
           (symc_multiply(rows - 1, stride, count) &&
               symc_add(*count, columns, count));
}

/* Checks the stride and the alignment of a matrix, and that it lies within the
 * buffer; nbytes (out): from its first to its last element. */
static symmcoll_status_t check_matrix(const struct symmcoll_symm *handle,
    const char *where, size_t offset, const struct blocks *blocks,
    enum symmcoll_dtype dtype, size_t *nbytes)
{
    const size_t rows = blocks->rows, columns = blocks->columns;
    const size_t stride = blocks->stride, elem = symmcoll_dtype_size(dtype);
    symmcoll_status_t status;
    size_t count;

    if (stride < columns)
        return symc_fail(SYMMCOLL_ERR_INVALID,
            "%s: expected a stride of at least %zu columns, found %zu", where,
            columns, stride);
    if (!measure(rows, columns, stride, &count))
        return symc_fail(SYMMCOLL_ERR_INVALID,
            "%s: expected the input within the buffer's %zu bytes, found %zu "
            "rows, %zu elements of %zu bytes from one to the next",
            where, handle->nbytes, rows, stride, elem);
    status = symc_symm_check_elements(
        handle, where, "the input", offset, count, elem, nbytes);
    if (status != SYMMCOLL_OK)
        return status;
    return symc_symm_check_aligned(
        handle, where, "the input", handle->at[handle->rank] + offset, dtype);
}

/* Checks the handle, and the number of blocks and their lists. */
static symmcoll_status_t check_lists(const struct symmcoll_symm *handle,
    const char *where, size_t count, bool complete)
{
    symmcoll_status_t status = symc_symm_check(handle, where);

    if (status != SYMMCOLL_OK)
        return status;
    if (complete && count <= SYMMCOLL_SYMM_BLOCKS_MAX)
        return SYMMCOLL_OK;
    return symc_fail(SYMMCOLL_ERR_INVALID,
        "%s: expected lists of at most %d blocks, found %zu%s", where,
        SYMMCOLL_SYMM_BLOCKS_MAX, count, complete ? "" : " and NULL");
}

/* Checks the element type, and counts the elements of a block or matrix, which
 * all ranks pass alike. */
static symmcoll_status_t count_elements(const char *where,
    enum symmcoll_dtype dtype, size_t rows, size_t columns, size_t *elem,
    size_t *count)
{
    symmcoll_status_t status = symc_symm_check_dtype(where, dtype, elem);

    if (status != SYMMCOLL_OK)
        return status;
    if (symc_multiply(rows, columns, count))
        return SYMMCOLL_OK;
    return symc_fail(SYMMCOLL_ERR_INVALID,
        "%s: expected as many elements as memory has, found %zu rows of %zu",
        where, rows, columns);
}

/* ---- tiles ---- */

/* The result that a rank receives. */
struct result {
    const void *out;
    size_t nbytes;
};

/* Returns the bytes from the first to the last element of a tile's result. */
static symmcoll_status_t measure_result(
    const char *where, const struct blocks *blocks, size_t elem, size_t *nbytes)
{
    size_t count;

    if (blocks->out_stride < blocks->columns)
        return symc_fail(SYMMCOLL_ERR_INVALID,
            "%s: expected a stride of out of at least %zu columns, found %zu",
            where, blocks->columns, blocks->out_stride);
    if (measure(blocks->rows, blocks->columns, blocks->out_stride, &count))
        return symc_symm_check_size(where, "out", count, elem, nbytes);
    return symc_fail(SYMMCOLL_ERR_INVALID,
        "%s: expected out in memory, found %zu rows, %zu elements of %zu bytes "
        "from one to the next",
        where, blocks->rows, blocks->out_stride, elem);
}

/* Checks a tile, and its result if this rank receives one (else NULL). */
static symmcoll_status_t check_tile(const struct symmcoll_symm *handle,
    const char *where, const struct blocks *blocks, size_t offset,
    enum symmcoll_dtype dtype, const struct result *result)
{
    size_t elem = symmcoll_dtype_size(dtype), nbytes;
    symmcoll_status_t status;

    if (offset % elem != 0)
        return symc_fail(SYMMCOLL_ERR_INVALID,
            "%s: expected offsets of multiples of %zu bytes, found %zu", where,
            elem, offset);
    status = check_matrix(handle, where, offset, blocks, dtype, &nbytes);
    if (status != SYMMCOLL_OK || result == NULL)
        return status;
    status = symc_symm_check_apart(
        handle, where, "out", result->out, result->nbytes, offset, nbytes);
    if (status != SYMMCOLL_OK)
        return status;
    return symc_symm_check_aligned(handle, where, "out", result->out, dtype);
}

/* Checks and runs a reduction of tiles. */
static symmcoll_status_t reduce_tiles(const struct symc_symm_does *does,
    struct symmcoll_symm *handle, struct blocks *blocks, void *out,
    enum symmcoll_dtype dtype, symmcoll_op_t op,
    const struct symmcoll_call *call)
{
    const char *where = symc_kind_name(does->kind);
    const size_t *offsets = blocks->firsts;
    const int *roots = blocks->roots;
    const size_t count = blocks->count;
    struct symc_symm_call made = {.does = does,
        .handle = handle,
        .words = {0, blocks->stride},
        .out = out,
        .more = blocks};
    struct symc_digest digest = SYMC_DIGEST_INIT;
    size_t area;
    struct result result = {.out = out};
    bool receives = false;
    symmcoll_status_t status = check_lists(
        handle, where, count, count == 0 || (offsets != NULL && roots != NULL));

    if (status != SYMMCOLL_OK)
        return status;
    status = count_elements(
        where, dtype, blocks->rows, blocks->columns, &made.elem, &area);
    if (status != SYMMCOLL_OK)
        return status;
    status = check_roots(handle, where, blocks, true);
    if (status != SYMMCOLL_OK)
        return status;
    status = measure_result(where, blocks, made.elem, &result.nbytes);
    if (status != SYMMCOLL_OK)
        return status;
    for (size_t i = 0; i < count; i++)
        receives = receives || roots[i] == handle->rank;
    for (size_t i = 0; i < count; i++) {
        status = check_tile(handle, where, blocks, offsets[i], dtype,
            receives ? &result : NULL);
        if (status != SYMMCOLL_OK)
            return status;
    }
    symc_digest_add_bytes(&digest, "roots", roots, count * sizeof(*roots));
    symc_digest_add_bytes(
        &digest, "offsets", offsets, count * sizeof(*offsets));
    symc_digest_add_bytes(
        &digest, "columns", &blocks->columns, sizeof(blocks->columns));
    made.words[2] = digest.a;
    return symc_symm_run(&made, dtype, op, area, 0, call);
}

symmcoll_status_t symmcoll_symm_multi_root_tile_reduce(
    struct symmcoll_symm *handle, const size_t *offsets, const int *roots,
    size_t count, void *out, size_t out_stride, size_t rows, size_t columns,
    size_t stride, enum symmcoll_dtype dtype, symmcoll_op_t op,
    const struct symmcoll_call *call)
{
    struct blocks blocks = {.stride = stride,
        .roots = roots,
        .firsts = offsets,
        .count = count,
        .rows = rows,
        .columns = columns,
        .out_stride = out_stride};

    return reduce_tiles(
        &tile_reduce_roots, handle, &blocks, out, dtype, op, call);
}

symmcoll_status_t symmcoll_symm_tile_reduce(struct symmcoll_symm *handle,
    size_t offset, void *out, size_t out_stride, size_t rows, size_t columns,
    size_t stride, enum symmcoll_dtype dtype, symmcoll_op_t op, int root,
    const struct symmcoll_call *call)
{
    struct blocks blocks = {.stride = stride,
        .roots = &root,
        .firsts = &offset,
        .count = 1,
        .rows = rows,
        .columns = columns,
        .out_stride = out_stride};

    return reduce_tiles(&tile_reduce, handle, &blocks, out, dtype, op, call);
}

/* ---- blocks of rows or columns ---- */

/* Checks that the ends ascend and do not exceed the number of rows or
 * columns. */
static symmcoll_status_t check_ends(const char *where, const size_t *ends,
    size_t count, size_t length, bool by_column)
{
    for (size_t i = 0; i < count; i++) {
        size_t least = i > 0 ? ends[i - 1] : 0;

        if (ends[i] < least || ends[i] > length)
            return symc_fail(SYMMCOLL_ERR_INVALID,
                "%s: expected the end of block %zu at %s %zu to %zu, found %zu",
                where, i, by_column ? "column" : "row", least, length, ends[i]);
    }
    return SYMMCOLL_OK;
}

/* Checks that this rank's results are aligned and lie apart from the
 * matrix. */
static symmcoll_status_t check_results(
    const struct symc_symm_call *made, enum symmcoll_dtype dtype, size_t nbytes)
{
    const struct symmcoll_symm *handle = made->handle;
    const struct blocks *blocks = made->more;
    const char *where = symc_kind_name(made->does->kind);
    size_t mine = 0;

    for (size_t i = 0; i < blocks->count; i++) {
        struct block block = find_block(made, blocks, i);
        symmcoll_status_t status;
        void *out;

        if (root_of(blocks, i, handle->size) != handle->rank)
            continue;
        out = blocks->outs != NULL ? blocks->outs[mine] : NULL;
        status = symc_symm_check_apart(handle, where, "a result", out,
            block.rows * block.columns * made->elem, made->words[0], nbytes);
        if (status == SYMMCOLL_OK && blocks->outs != NULL)
            status =
                symc_symm_check_aligned(handle, where, "a result", out, dtype);
        if (status != SYMMCOLL_OK)
            return status;
        mine++;
    }
    return SYMMCOLL_OK;
}

symmcoll_status_t symmcoll_symm_reduce_scatter_offset(
    struct symmcoll_symm *handle, size_t offset, void *const *outs, size_t rows,
    size_t columns, size_t stride, int dim, const size_t *ends,
    const int *ranks, size_t count, enum symmcoll_dtype dtype, symmcoll_op_t op,
    const struct symmcoll_call *call)
{
    const char *where = symc_kind_name(reduce_scatter_offset.kind);
    struct blocks blocks = {.stride = stride,
        .roots = ranks,
        .ends = ends,
        .count = count,
        .rows = rows,
        .columns = columns,
        .by_column = dim == 1,
        .outs = outs};
    struct symc_symm_call made = {.does = &reduce_scatter_offset,
        .handle = handle,
        .words = {offset, stride},
        .more = &blocks};
    struct symc_digest digest = SYMC_DIGEST_INIT;
    size_t nbytes, area;
    symmcoll_status_t status =
        check_lists(handle, where, count, count == 0 || ends != NULL);

    if (status != SYMMCOLL_OK)
        return status;
    if (dim != 0 && dim != 1)
        return symc_fail(SYMMCOLL_ERR_INVALID,
            "%s: expected dimension 0 or 1, found %d", where, dim);
    status = count_elements(where, dtype, rows, columns, &made.elem, &area);
    if (status != SYMMCOLL_OK)
        return status;
    status = check_roots(handle, where, &blocks, false);
    if (status != SYMMCOLL_OK)
        return status;
    status =
        check_ends(where, ends, count, dim == 1 ? columns : rows, dim == 1);
    if (status != SYMMCOLL_OK)
        return status;
    status = check_matrix(handle, where, offset, &blocks, dtype, &nbytes);
    if (status != SYMMCOLL_OK)
        return status;
    status = check_results(&made, dtype, nbytes);
    if (status != SYMMCOLL_OK)
        return status;
    symc_digest_add_bytes(&digest, "ends", ends, count * sizeof(*ends));
    symc_digest_add_bytes(
        &digest, "ranks", ranks, ranks != NULL ? count * sizeof(*ranks) : 0);
    symc_digest_add_bytes(&digest, "dim", &dim, sizeof(dim));
    symc_digest_add_bytes(&digest, "columns", &columns, sizeof(columns));
    made.words[2] = digest.a;
    return symc_symm_run(&made, dtype, op, area, 0, call);
}
