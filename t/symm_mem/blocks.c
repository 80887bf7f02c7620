/* SPDX-License-Identifier: BSD-3-Clause */
/* Tests reductions of tiles and of blocks of rows or columns. */
#include "t/symm_mem/ops.h"

#define ROWS ((size_t)23)
#define COLUMNS ((size_t)37)
#define STRIDE ((size_t)41)
#define COUNT (ROWS * STRIDE)
#define AT ((size_t)64)

/* The matrix of every rank in the buffers, and the reduction of all
 * elements. */
struct buffers {
    struct symmcoll_group *group;
    struct symmcoll_symm *handle;
    float *data;
    float sum[COUNT];
    int rank, size;
};

static bool acquire(struct buffers *it, struct symmcoll_group *group, int rank)
{
    void *data = NULL;

    *it = (struct buffers){
        .group = group, .rank = rank, .size = symmcoll_group_size(group)};
    if (!join(group, AT + COUNT * 4, &data, &it->handle))
        return false;
    it->data = (float *)(void *)((char *)data + AT);
    fill_elements(it->data, COUNT, SYMMCOLL_FLOAT32, rank, 3);
    return OK(symmcoll_all_reduce(group, it->sum, it->data, COUNT,
        SYMMCOLL_FLOAT32, SYMMCOLL_SUM, NULL, NULL));
}

static bool release_all(struct buffers *it)
{
    return part(it->group, (char *)it->data - AT, it->handle);
}

/* Checks that the block has the rows and columns of the sum from an element
 * on, and that nothing else has been written. */
static bool is_block(const struct buffers *it, const float *found,
    size_t out_stride, size_t first, size_t rows, size_t columns)
{
    for (size_t row = 0; row < rows; row++) {
        for (size_t c = 0; c < out_stride; c++) {
            float expected =
                c < columns ? it->sum[first + row * STRIDE + c] : -7;

            if (!HOLDS(found[row * out_stride + c] == expected))
                return false;
        }
    }
    return HOLDS(found[rows * out_stride] == -7);
}

static void clear(float *out, size_t count)
{
    for (size_t i = 0; i < count; i++)
        out[i] = -7;
}

static int reduces_tiles(struct symmcoll_group *group, int rank)
{
    struct buffers it;
    float out[COUNT + 1];
    bool good = acquire(&it, group, rank);

    for (int root = 0; good && root < it.size; root++) {
        size_t first = (size_t)root * STRIDE + 3;

        clear(out, COUNT + 1);
        good = OK(symmcoll_symm_tile_reduce(it.handle, AT + first * 4,
                   rank == root ? out : NULL, 13, 7, 11, STRIDE,
                   SYMMCOLL_FLOAT32, SYMMCOLL_SUM, root, NULL)) &&
               (rank != root || is_block(&it, out, 13, first, 7, 11));
    }
    return release_all(&it) && good;
}

/* Checks that each rank but the last one receives a tile. */
static int reduces_many_tiles(struct symmcoll_group *group, int rank)
{
    struct buffers it;
    float out[COUNT + 1];
    size_t offsets[8];
    int roots[8], tiles;
    bool good = acquire(&it, group, rank);

    tiles = it.size - 1;
    for (int i = 0; i < tiles; i++) {
        roots[i] = tiles - 1 - i;
        offsets[i] = AT + ((size_t)i * 2 * STRIDE + (size_t)i) * 4;
    }
    clear(out, COUNT + 1);
    good = good &&
           OK(symmcoll_symm_multi_root_tile_reduce(it.handle, offsets, roots,
               (size_t)tiles, out, 5, 4, 5, STRIDE, SYMMCOLL_FLOAT32,
               SYMMCOLL_SUM, NULL)) &&
           (rank == tiles ? HOLDS(out[0] == -7)
                          : is_block(&it, out, 5,
                                (offsets[tiles - 1 - rank] - AT) / 4, 4, 5)) &&
           OK(symmcoll_symm_multi_root_tile_reduce(it.handle, NULL, NULL, 0,
               NULL, 5, 4, 5, STRIDE, SYMMCOLL_FLOAT32, SYMMCOLL_SUM, NULL));
    return release_all(&it) && good;
}

/* Blocks in turn, some empty, then to ranks that are named. */
static bool divides(struct buffers *it, int dim, const int *ranks)
{
    static const size_t row_ends[] = {5, 5, 6, 19, 23};
    static const size_t column_ends[] = {1, 12, 12, 30, 36};
    const size_t *ends = dim == 0 ? row_ends : column_ends;
    float out[5][COUNT + 1];
    void *outs[5];
    size_t mine = 0;

    for (int i = 0; i < 5; i++) {
        clear(out[i], COUNT + 1);
        outs[i] = out[i];
    }
    if (!OK(symmcoll_symm_reduce_scatter_offset(it->handle, AT, outs, ROWS,
            COLUMNS, STRIDE, dim, ends, ranks, 5, SYMMCOLL_FLOAT32,
            SYMMCOLL_SUM, NULL)))
        return false;
    for (int i = 0; i < 5; i++) {
        size_t begin = i > 0 ? ends[i - 1] : 0, length = ends[i] - begin;
        int receiver = ranks != NULL ? ranks[i] : i % it->size;

        if (receiver == it->rank &&
            !is_block(it, out[mine++], dim == 0 ? COLUMNS : length,
                dim == 0 ? begin * STRIDE : begin, dim == 0 ? length : ROWS,
                dim == 0 ? COLUMNS : length))
            return false;
    }
    return HOLDS(mine == 5 || out[mine][0] == -7);
}

static int divides_rows_and_columns(struct symmcoll_group *group, int rank)
{
    static const int ranks[] = {1, 0, 1, 1, 0};
    struct buffers it;
    bool good = acquire(&it, group, rank) && divides(&it, 0, NULL) &&
                divides(&it, 1, NULL) && divides(&it, 0, ranks) &&
                divides(&it, 1, ranks);

    return release_all(&it) && good;
}

static int checks(struct symmcoll_group *group, int rank)
{
    static const size_t twice[] = {AT, AT + 4}, falling[] = {4, 3},
                        far_off[] = {ROWS + 1};
    static const int same[] = {1, 1}, nobody[] = {2};
    struct buffers it;
    float out[COUNT + 1];
    void *outs[] = {out, out};
    bool good = acquire(&it, group, rank);

#define TILE(at, out_stride, stride, root)                                   \
    symmcoll_symm_tile_reduce(it.handle, at, out, out_stride, 7, 11, stride, \
        SYMMCOLL_FLOAT32, SYMMCOLL_SUM, root, NULL)
#define BLOCKS(dim, ends, ranks, count)                                     \
    symmcoll_symm_reduce_scatter_offset(it.handle, AT, outs, ROWS, COLUMNS, \
        STRIDE, dim, ends, ranks, count, SYMMCOLL_FLOAT32, SYMMCOLL_SUM, NULL)
    good = good &&
           REFUSED(TILE(AT + 2, 11, STRIDE, 0), SYMMCOLL_ERR_INVALID,
               "multiples of 4 bytes, found 66") &&
           REFUSED(TILE(AT + COUNT * 4, 11, STRIDE, 0), SYMMCOLL_ERR_INVALID,
               "within the buffer") &&
           REFUSED(TILE(AT, 10, STRIDE, 0), SYMMCOLL_ERR_INVALID,
               "stride of out of at least 11 columns, found 10") &&
           REFUSED(TILE(AT, 11, 10, 0), SYMMCOLL_ERR_INVALID,
               "stride of at least 11 columns, found 10") &&
           REFUSED(TILE(AT, 11, STRIDE, 2), SYMMCOLL_ERR_INVALID,
               "ranks of 0 to 1, found 2") &&
           REFUSED(symmcoll_symm_multi_root_tile_reduce(it.handle, twice, same,
                       2, out, 11, 7, 11, STRIDE, SYMMCOLL_FLOAT32,
                       SYMMCOLL_SUM, NULL),
               SYMMCOLL_ERR_INVALID, "found rank 1 for tiles 0 and 1") &&
           REFUSED(symmcoll_symm_multi_root_tile_reduce(it.handle, twice, same,
                       SIZE_MAX, out, 11, 7, 11, STRIDE, SYMMCOLL_FLOAT32,
                       SYMMCOLL_SUM, NULL),
               SYMMCOLL_ERR_INVALID, "found 18446744073709551615") &&
           REFUSED(BLOCKS(0, falling, NULL, 2), SYMMCOLL_ERR_INVALID,
               "the end of block 1 at row 4 to 23, found 3") &&
           REFUSED(
               BLOCKS(0, far_off, NULL, 1), SYMMCOLL_ERR_INVALID, "found 24") &&
           REFUSED(BLOCKS(2, far_off, NULL, 1), SYMMCOLL_ERR_INVALID,
               "dimension 0 or 1, found 2") &&
           REFUSED(BLOCKS(0, falling, nobody, 1), SYMMCOLL_ERR_INVALID,
               "found 2 as number 0") &&
           REFUSED(BLOCKS(0, NULL, NULL, 1), SYMMCOLL_ERR_INVALID, "NULL") &&
           REFUSED(TILE(AT, 11, STRIDE, rank), SYMMCOLL_ERR_MISMATCH,
               "tiles and roots differs") &&
           REFUSED(TILE(AT + (rank == 1 ? 4 : 0), 11, STRIDE, 0),
               SYMMCOLL_ERR_MISMATCH, "tiles and roots differs") &&
           REFUSED(BLOCKS(0, rank == 0 ? falling : falling + 1, NULL, 1),
               SYMMCOLL_ERR_MISMATCH, "blocks and ranks differs") &&
           OK(symmcoll_barrier(group, NULL, NULL));
    return release_all(&it) && good;
}

/* Passes the largest number of rows, none of which has an element. */
static int empty_rows_end_at_once(struct symmcoll_group *group, int rank)
{
    const size_t rows = (size_t)1 << 62, at = AT, ends[] = {0, 0};
    const int roots[] = {0};
    void *outs[2] = {NULL, NULL};
    struct buffers it;
    bool good = acquire(&it, group, rank);

    good = good &&
           OK(symmcoll_symm_tile_reduce(it.handle, AT, it.sum, 1, rows, 0, 1,
               SYMMCOLL_FLOAT32, SYMMCOLL_SUM, 0, NULL)) &&
           OK(symmcoll_symm_multi_root_tile_reduce(it.handle, &at, roots, 1,
               it.sum, 1, rows, 0, 1, SYMMCOLL_FLOAT32, SYMMCOLL_SUM, NULL)) &&
           OK(symmcoll_symm_reduce_scatter_offset(it.handle, AT, outs, rows, 0,
               1, 1, ends, NULL, 2, SYMMCOLL_FLOAT32, SYMMCOLL_SUM, NULL));
    return release_all(&it) && good;
}

static void run_all(int (*run)(int n, rank_fn body), const char *kind)
{
    ok(run(2, reduces_tiles) && run(5, reduces_tiles),
        "%s: a tile is reduced to any root (S69)", kind);
    ok(run(2, reduces_many_tiles) && run(8, reduces_many_tiles),
        "%s: several tiles, each to a root of its own (S69)", kind);
    ok(run(2, divides_rows_and_columns) && run(3, divides_rows_and_columns),
        "%s: blocks of rows and columns of any size (S70)", kind);
    ok(run(2, empty_rows_end_at_once),
        "%s: rows without elements take no time, however many (S69 S70)", kind);
    ok(run(2, checks), "%s: blocks that cannot be are refused (S69 S70)", kind);
}

int main(void)
{
    plan(10);
    run_all(ranks_run, "processes");
    run_all(threads_run, "threads");
    return done_testing();
}
