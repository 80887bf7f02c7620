/* SPDX-License-Identifier: BSD-3-Clause */
/* Tests a product with rows that other ranks write while it runs. */
#include "t/fused/made.h"

#include <stdlib.h>
#include <string.h>

#define ROWS 24
#define DEPTH 17
#define COLUMNS 9
#define SIGNALS_AT ((size_t)4096)
#define NBYTES ((size_t)8192)
#define ROUNDS 20
#define LENGTH(array) (sizeof(array) / sizeof((array)[0]))

/* The operands of a rank; a is at the start of its buffer. */
struct buffers {
    struct symmcoll_group *group;
    struct symmcoll_symm *handle;
    float *data;
    float columns[DEPTH * COLUMNS];
    struct symmcoll_tensor a, b;
    int rank, size;
};

/* Returns an element: a small integer, so that sums are exact. */
static float element(int round, int row, int column)
{
    return (float)((round * 5 + row * 3 + column * 7) % 11 - 5);
}

static bool acquire(struct buffers *it, struct symmcoll_group *group)
{
    void *data = NULL;

    *it = (struct buffers){.group = group,
        .rank = symmcoll_group_rank(group),
        .size = symmcoll_group_size(group)};
    if (!OK(symmcoll_symm_alloc(
            symmcoll_group_world(group), NBYTES, NULL, &data)) ||
        !OK(symmcoll_symm_rendezvous(group, data, NULL, &it->handle)))
        return false;
    it->data = data;
    for (int i = 0; i < DEPTH * COLUMNS; i++)
        it->columns[i] = (float)(i % 7 - 3);
    it->a = (struct symmcoll_tensor)SYMMCOLL_TENSOR_SHAPE(
        it->data, SYMMCOLL_FLOAT32, ROWS, DEPTH);
    it->b = (struct symmcoll_tensor)SYMMCOLL_TENSOR_SHAPE(
        it->columns, SYMMCOLL_FLOAT32, DEPTH, COLUMNS);
    return true;
}

static bool release_all(struct buffers *it)
{
    struct symmcoll_world *world = symmcoll_group_world(it->group);

    symmcoll_symm_release(it->handle);
    return OK(symmcoll_symm_free(world, it->data));
}

/* Writes the rows of a chunk to a rank, and its signal. */
static bool send(struct buffers *it, int round, int to, int chunks, int chunk)
{
    int rows = ROWS / chunks, first = chunk * rows;
    float part[ROWS * DEPTH];

    for (int i = 0; i < rows * DEPTH; i++)
        part[i] = element(round, first + i / DEPTH, i % DEPTH);
    return OK(symmcoll_symm_put_data(it->handle, to,
               (size_t)(first * DEPTH) * sizeof(float), part,
               (size_t)(rows * DEPTH) * sizeof(float))) &&
           OK(symmcoll_symm_write_value32(it->handle, to,
               SIGNALS_AT + (size_t)chunk * sizeof(uint32_t), 1));
}

static bool is_product(const float *found, int round)
{
    for (int i = 0; i < ROWS * COLUMNS; i++) {
        float sum = 0;

        for (int k = 0; k < DEPTH; k++)
            sum += element(round, i / COLUMNS, k) *
                   (float)((k * COLUMNS + i % COLUMNS) % 7 - 3);
        if (found[i] != sum) {
            diag("round %d, element %d: found %g, expected %g", round, i,
                (double)found[i], (double)sum);
            return false;
        }
    }
    return true;
}

/* Each rank sends its chunks to all, in a different order each time. */
static int rows_arrive(struct symmcoll_group *group, int rank)
{
    static const int of_chunks[] = {1, 2, 6, 24};
    struct buffers it;
    bool good = acquire(&it, group);

    for (int round = 0; good && round < ROUNDS; round++) {
        int chunks = of_chunks[round % (int)LENGTH(of_chunks)];
        struct symmcoll_tensor out = SYMMCOLL_TENSOR_INIT;

        memset(it.data, 0x7f, SIGNALS_AT);
        good = OK(symmcoll_symm_memset32(
                   it.handle, rank, SIGNALS_AT, 0, (size_t)chunks)) &&
               OK(symmcoll_barrier(group, NULL, NULL));
        for (int i = 0; good && i < chunks * it.size; i++) {
            int to = (rank + i) % it.size;
            int chunk = (i / it.size * 5 + round) % chunks;

            /* 5 is coprime to all numbers of chunks. */
            if (chunk * it.size / chunks == rank)
                good = send(&it, round, to, chunks, chunk);
        }
        good = good &&
               OK(symmcoll_async_input_matmul(it.handle, SIGNALS_AT,
                   (size_t)chunks, (size_t)(rank * chunks / it.size), &it.a,
                   &it.b, NULL, &out)) &&
               is_product(out.data, round);
        symmcoll_f_free(symmcoll_group_world(group), &out);
        good = OK(symmcoll_barrier(group, NULL, NULL)) && good;
    }
    return release_all(&it) && good;
}

/* Checks that the error names the first missing chunk from the pivot on. */
static int pivot_is_first(struct symmcoll_group *group, int rank)
{
    struct symmcoll_tensor out = SYMMCOLL_TENSOR_INIT;
    struct symmcoll_call call = SYMMCOLL_CALL_INIT;
    struct buffers it;
    bool good = acquire(&it, group);

    call.timeout = 0;
    for (size_t chunk = 1; good && chunk < 6; chunk += 2)
        good = OK(symmcoll_symm_write_value32(
            it.handle, rank, SIGNALS_AT + 4 * chunk, 1));
    good = good &&
           made_says(symmcoll_async_input_matmul(it.handle, SIGNALS_AT, 6, 3,
                         &it.a, &it.b, &call, &out),
               SYMMCOLL_ERR_TIMEOUT, "store 1 at byte 4112, found 0") &&
           made_says(symmcoll_async_input_matmul(it.handle, SIGNALS_AT, 6, 5,
                         &it.a, &it.b, &call, &out),
               SYMMCOLL_ERR_TIMEOUT, "store 1 at byte 4096, found 0") &&
           out.data == NULL && OK(symmcoll_barrier(group, NULL, NULL));
    return release_all(&it) && good;
}

static int arguments_are_checked(struct symmcoll_group *group, int rank)
{
    struct symmcoll_tensor out = SYMMCOLL_TENSOR_INIT;
    struct buffers it;
    bool good = acquire(&it, group);

    (void)rank;
#define CALL(handle, signals, chunks, pivot, a, b) \
    symmcoll_async_input_matmul(                   \
        handle, signals, chunks, pivot, a, b, NULL, &out)
    good = good &&
           made_says(CALL(NULL, 0, 1, 0, &it.a, &it.b), SYMMCOLL_ERR_INVALID,
               "async_input_matmul: expected a handle of ") &&
           made_says(CALL(it.handle, 0, 5, 0, &it.a, &it.b),
               SYMMCOLL_ERR_INVALID, "divide the 24 rows of a, found 5") &&
           made_says(CALL(it.handle, 0, 0, 0, &it.a, &it.b),
               SYMMCOLL_ERR_INVALID, "found 0") &&
           made_says(CALL(it.handle, 0, 6, 6, &it.a, &it.b),
               SYMMCOLL_ERR_INVALID, "a pivot of 0 to 5, found 6") &&
           made_says(CALL(it.handle, NBYTES - 8, 6, 0, &it.a, &it.b),
               SYMMCOLL_ERR_INVALID, "found ") &&
           made_says(CALL(it.handle, 2, 6, 0, &it.a, &it.b),
               SYMMCOLL_ERR_INVALID, "multiple of 4, found 2") &&
           made_says(CALL(it.handle, 0, 6, 0, &it.a, &it.a),
               SYMMCOLL_ERR_INVALID, "expected 17 rows, found 24") &&
           OK(symmcoll_barrier(group, NULL, NULL));
    return release_all(&it) && good;
}

/* Checks that the error is about the handle, which exists until it is
 * released. */
static int a_group_is_released(struct symmcoll_group *group, int rank)
{
    struct symmcoll_tensor out = SYMMCOLL_TENSOR_INIT;
    struct symmcoll_group *part;
    struct buffers it;
    bool good;

    if (!OK(symmcoll_group_split(group, 0, rank, NULL, &part)))
        return 0;
    good = acquire(&it, part);
    good = OK(symmcoll_group_free(part)) && good &&
           made_says(symmcoll_async_input_matmul(
                         it.handle, SIGNALS_AT, 1, 0, &it.a, &it.b, NULL, &out),
               SYMMCOLL_ERR_INVALID,
               "async_input_matmul: expected a handle whose group is there");
    it.group = group;
    return release_all(&it) && good;
}

static void run_all(int (*run)(int n, rank_fn body), const char *kind)
{
    ok(run(2, rows_arrive) && run(3, rows_arrive),
        "%s: rows that arrive in chunks are multiplied (S61)", kind);
    ok(run(2, pivot_is_first),
        "%s: chunks are waited for from the pivot on (S61)", kind);
    ok(run(2, arguments_are_checked),
        "%s: signals, chunks and shapes are checked (S61)", kind);
    ok(run(2, a_group_is_released),
        "%s: a handle whose group has been released is refused", kind);
}

int main(void)
{
    plan(8);
    run_all(ranks_run, "processes");
    run_all(threads_run, "threads");
    return done_testing();
}
