/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Tests operations that only move elements, against the plain collectives or
 * the known data of all ranks.
 */
#include "t/symm_mem/ops.h"

#define NBYTES ((size_t)1 << 18)
#define OUT (NBYTES / 2)

static const size_t counts[] = {0, 1, 5, 333, 1001};

static int broadcasts(struct symmcoll_group *group, int rank)
{
    unsigned char expected[1001];
    struct symmcoll_symm *handle = NULL;
    void *data = NULL;
    bool good = join(group, NBYTES, &data, &handle);

    for (size_t c = 0; good && c < LENGTH(counts); c++) {
        int root = (int)c % symmcoll_group_size(group);

        fill_bytes((char *)data + 17, counts[c], rank, (int)c);
        fill_bytes(expected, counts[c], root, (int)c);
        good = OK(symmcoll_symm_broadcast(
                   handle, 17, counts[c], SYMMCOLL_UINT8, root, NULL)) &&
               equal_bytes((char *)data + 17, expected, counts[c], "buffer");
    }
    good =
        good &&
        REFUSED(symmcoll_symm_broadcast(handle, 0, 4, SYMMCOLL_UINT8, -1, NULL),
            SYMMCOLL_ERR_INVALID, "root of 0 to") &&
        REFUSED(symmcoll_symm_broadcast(
                    handle, rank == 0 ? 8 : 0, 4, SYMMCOLL_UINT8, 0, NULL),
            SYMMCOLL_ERR_MISMATCH, "offset differs: rank 0 passed 8");
    return part(group, data, handle) && good;
}

static int exchanges_parts(struct symmcoll_group *group, int rank)
{
    size_t size = (size_t)symmcoll_group_size(group);
    char *expected = malloc(NBYTES);
    struct symmcoll_symm *handle = NULL;
    void *data = NULL;
    bool good = join(group, NBYTES, &data, &handle);

    for (size_t c = 0; good && c < LENGTH(counts); c++) {
        size_t nbytes = counts[c] * 4 * size;

        fill_bytes(data, nbytes, rank, (int)c);
        good = OK(symmcoll_all_to_all(group, expected, data, counts[c],
                   SYMMCOLL_INT32, NULL, NULL)) &&
               OK(symmcoll_symm_all_to_all(
                   handle, 0, OUT, counts[c], SYMMCOLL_INT32, NULL)) &&
               equal_bytes((char *)data + OUT, expected, nbytes, "out");
    }
    good = good &&
           REFUSED(
               symmcoll_symm_all_to_all(handle, 0, 4, 10, SYMMCOLL_INT32, NULL),
               SYMMCOLL_ERR_INVALID, "overlap") &&
           REFUSED(symmcoll_symm_all_to_all(
                       handle, 0, OUT, NBYTES, SYMMCOLL_INT32, NULL),
               SYMMCOLL_ERR_INVALID, "within the buffer");
    free(expected);
    return part(group, data, handle) && good;
}

/* Rank r has 3 r + 1 elements, except that rank 1 has none. */
static int gathers_unequal(struct symmcoll_group *group, int rank)
{
    int size = symmcoll_group_size(group);
    size_t ends[8] = {0}, end = 0, first = 0, mine = 0;
    unsigned char in[64], expected[256];
    struct symmcoll_symm *handle = NULL;
    void *data = NULL;
    char text[96];
    bool good = join(group, NBYTES, &data, &handle);

    for (int r = 0; r < size; r++) {
        size_t count = r == 1 ? 0 : (size_t)(3 * r + 1);

        fill_bytes(expected + end * 2, count * 2, r, 4);
        if (r == rank) {
            first = end;
            mine = count;
        }
        ends[r] = end += count;
    }
    fill_bytes(in, mine * 2, rank, 4);
    good = good &&
           OK(symmcoll_symm_all_gather_offset(
               handle, 10, in, ends, SYMMCOLL_INT16, NULL)) &&
           equal_bytes((char *)data + 10, expected, end * 2, "gathered");
    memset((char *)data + 4000, 0, end * 2);
    fill_bytes((char *)data + 4000 + first * 2, mine * 2, rank, 4);
    good = good && OK(symmcoll_barrier(group, NULL, NULL)) &&
           OK(symmcoll_symm_all_gather_offset(handle, 4000,
               (char *)data + 4000 + first * 2, ends, SYMMCOLL_INT16, NULL)) &&
           equal_bytes((char *)data + 4000, expected, end * 2, "in place");
    ends[size - 1] += rank == 0;
    good = good && REFUSED(symmcoll_symm_all_gather_offset(
                               handle, 0, in, ends, SYMMCOLL_INT8, NULL),
                       SYMMCOLL_ERR_MISMATCH, "differs: rank 0 passed");
    ends[0] = ends[size - 1] + 1;
    snprintf(text, sizeof(text),
        "the end of rank 1's part at %zu or after, found %zu", ends[0],
        ends[1]);
    good = good && REFUSED(symmcoll_symm_all_gather_offset(
                               handle, 0, in, ends, SYMMCOLL_INT8, NULL),
                       SYMMCOLL_ERR_INVALID, text);
    return part(group, data, handle) && good;
}

static int permutes(struct symmcoll_group *group, int rank)
{
    int size = symmcoll_group_size(group), to[8], twice[8] = {0};
    unsigned char expected[1001];
    struct symmcoll_symm *handle = NULL;
    void *data = NULL;
    bool good = join(group, NBYTES, &data, &handle);

    /* Rank 0 keeps its own, the others rotate. */
    for (int r = 0; r < size; r++)
        to[r] = r == 0 ? 0 : r % (size - 1) + 1;
    for (size_t c = 0; good && c < LENGTH(counts); c++) {
        int from = rank;

        for (int r = 0; r < size; r++)
            from = to[r] == rank ? r : from;
        fill_bytes(data, counts[c], rank, (int)c);
        fill_bytes(expected, counts[c], from, (int)c);
        good = OK(symmcoll_symm_permute(
                   handle, 0, OUT, counts[c], SYMMCOLL_UINT8, to, NULL)) &&
               equal_bytes((char *)data + OUT, expected, counts[c], "out");
    }
    good = good &&
           REFUSED(symmcoll_symm_permute(
                       handle, 0, OUT, 4, SYMMCOLL_UINT8, twice, NULL),
               SYMMCOLL_ERR_INVALID, "found 0 for rank 1") &&
           REFUSED(symmcoll_symm_permute(
                       handle, 0, OUT, 4, SYMMCOLL_UINT8, NULL, NULL),
               SYMMCOLL_ERR_INVALID, "found NULL");
    return part(group, data, handle) && good;
}

/* Returns an element of the whole matrix. */
static int32_t whole(size_t row, size_t column)
{
    return (int32_t)(row * 10000 + column);
}

/* Divides a matrix of 3 * size rows and 4 * size columns by rows and back. */
static int reshards(struct symmcoll_group *group, int rank)
{
    size_t size = (size_t)symmcoll_group_size(group), me = (size_t)rank;
    size_t rows = 3 * size, columns = 4 * size;
    int32_t out[12 * 8 * 8];
    struct symmcoll_symm *handle = NULL;
    void *data = NULL;
    bool good = join(group, NBYTES, &data, &handle);
    int32_t *mine = data;

    for (size_t i = 0; good && i < 3 * columns; i++)
        mine[i] = whole(me * 3 + i / columns, i % columns);
    good = good && OK(symmcoll_symm_reshard(
                       handle, 0, out, 3, columns, 0, 1, SYMMCOLL_INT32, NULL));
    for (size_t i = 0; good && i < rows * 4; i++)
        good = HOLDS(out[i] == whole(i / 4, me * 4 + i % 4));
    memcpy(mine, out, rows * 4 * sizeof(*out));
    good = good && OK(symmcoll_symm_reshard(
                       handle, 0, out, rows, 4, 1, 0, SYMMCOLL_INT32, NULL));
    for (size_t i = 0; good && i < 3 * columns; i++)
        good = HOLDS(out[i] == whole(me * 3 + i / columns, i % columns));
    good = good &&
           REFUSED(symmcoll_symm_reshard(
                       handle, 0, out, 3, columns, 1, 1, SYMMCOLL_INT32, NULL),
               SYMMCOLL_ERR_INVALID, "found (1, 1)") &&
           REFUSED(symmcoll_symm_reshard(handle, 0, out, 3, columns + 1, 0, 1,
                       SYMMCOLL_INT32, NULL),
               SYMMCOLL_ERR_INVALID, "columns, found");
    return part(group, data, handle) && good;
}

static void run_all(int (*run)(int n, rank_fn body), const char *kind)
{
    ok(run(2, broadcasts) && run(5, broadcasts),
        "%s: broadcast copies the root's elements (S65)", kind);
    ok(run(2, exchanges_parts) && run(7, exchanges_parts),
        "%s: all_to_all moves what the plain one does (S65)", kind);
    ok(run(2, gathers_unequal) && run(8, gathers_unequal),
        "%s: all_gather_offset takes parts of any size (S70)", kind);
    ok(run(2, permutes) && run(6, permutes),
        "%s: permute sends from each rank to one (S70)", kind);
    ok(run(2, reshards) && run(8, reshards),
        "%s: a matrix is divided by its other dimension, and back (S70)", kind);
}

int main(void)
{
    plan(10);
    run_all(ranks_run, "processes");
    run_all(threads_run, "threads");
    return done_testing();
}
