/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Tests that reductions of symmetric buffers have the bits of the plain
 * collectives.
 */
#include "t/symm_mem/ops.h"

#define MOST ((size_t)70001)
#define AT ((size_t)192) /* offset of the elements in the buffers */

static const size_t counts[] = {0, 1, 7, 64, 1000, MOST};
static const enum symmcoll_dtype dtypes[] = {
    SYMMCOLL_FLOAT32, SYMMCOLL_BFLOAT16, SYMMCOLL_INT32, SYMMCOLL_FLOAT64};

/* The buffers of a rank. */
struct buffers {
    struct symmcoll_group *group;
    struct symmcoll_symm *handle;
    char *data; /* this rank's elements in its buffer */
    char *in, *out, *expected;
    int rank, size;
};

static bool acquire(struct buffers *it, struct symmcoll_group *group, int rank)
{
    void *data = NULL;

    *it = (struct buffers){.group = group,
        .rank = rank,
        .size = symmcoll_group_size(group),
        .in = malloc(MOST * 8),
        .out = malloc(MOST * 8),
        .expected = malloc(MOST * 8)};
    if (!join(group, AT + MOST * 8 + 64, &data, &it->handle))
        return false;
    it->data = (char *)data + AT;
    return true;
}

static bool release_all(struct buffers *it)
{
    bool good = part(it->group, it->data - AT, it->handle);

    free(it->in);
    free(it->out);
    free(it->expected);
    return good;
}

/* The elements to reduce, and the operation. */
struct task {
    size_t count;
    enum symmcoll_dtype dtype;
    symmcoll_op_t op;
    size_t nbytes;
};

/* Runs one operation with all sizes and types, and checks its results. */
static bool each(
    struct buffers *it, bool (*run)(struct buffers *, const struct task *))
{
    for (size_t c = 0; c < LENGTH(counts); c++) {
        for (size_t d = 0; d < LENGTH(dtypes); d++) {
            struct task task = {.count = counts[c],
                .dtype = dtypes[d],
                .op = d % 2 == 0 ? SYMMCOLL_SUM : SYMMCOLL_MAX,
                .nbytes = counts[c] * symmcoll_dtype_size(dtypes[d])};

            fill_elements(it->in, task.count, task.dtype, it->rank, (int)c);
            memcpy(it->data, it->in, task.nbytes);
            memset(it->out, 0x55, task.nbytes);
            if (!run(it, &task)) {
                diag("%zu elements of %s on %d ranks", task.count,
                    symmcoll_dtype_name(task.dtype), it->size);
                return false;
            }
        }
    }
    return true;
}

static bool all_reduce(struct buffers *it, const struct task *task)
{
    return OK(symmcoll_all_reduce(it->group, it->expected, it->in, task->count,
        task->dtype, task->op, NULL, NULL));
}

/* ---- all_reduce ---- */

static bool one_shot(struct buffers *it, const struct task *task)
{
    return all_reduce(it, task) &&
           OK(symmcoll_symm_one_shot_all_reduce(it->handle, AT, it->out,
               task->count, task->dtype, task->op, NULL)) &&
           equal_bytes(it->out, it->expected, task->nbytes, "out") &&
           equal_bytes(it->data, it->in, task->nbytes, "input");
}

static bool copied(struct buffers *it, const struct task *task)
{
    memset(it->data, 0x77, task->nbytes);
    return all_reduce(it, task) &&
           OK(symmcoll_symm_one_shot_all_reduce_copy(it->handle, AT, it->in,
               it->in, task->count, task->dtype, task->op, NULL)) &&
           equal_bytes(it->in, it->expected, task->nbytes, "in place");
}

static bool at_root(struct buffers *it, const struct task *task)
{
    int root = (int)(task->count % (size_t)it->size);
    bool mine = it->rank == root;

    return all_reduce(it, task) &&
           OK(symmcoll_symm_one_shot_reduce(it->handle, AT,
               mine ? it->out : NULL, task->count, task->dtype, task->op, root,
               NULL)) &&
           (!mine || equal_bytes(it->out, it->expected, task->nbytes, "root"));
}

static bool two_shot(struct buffers *it, const struct task *task)
{
    void *out = task->count % 2 == 0 ? NULL : it->out;

    return all_reduce(it, task) &&
           OK(symmcoll_symm_two_shot_all_reduce(it->handle, AT, out,
               task->count, task->dtype, task->op, NULL)) &&
           equal_bytes(it->data, it->expected, task->nbytes, "buffer") &&
           (out == NULL || equal_bytes(out, it->expected, task->nbytes, "out"));
}

static bool averages(struct buffers *it)
{
    struct task task = {.count = 999,
        .dtype = SYMMCOLL_BFLOAT16,
        .op = SYMMCOLL_AVG,
        .nbytes = 1998};
    symmcoll_op_t scaled;
    bool good;

    fill_elements(it->in, 999, SYMMCOLL_BFLOAT16, it->rank, 9);
    memcpy(it->data, it->in, 1998);
    good = one_shot(it, &task);
    if (!OK(symmcoll_op_create_premul(
            symmcoll_group_world(it->group), it->rank + 0.5, &scaled)))
        return false;
    task.op = scaled;
    return good && two_shot(it, &task);
}

static int all_reduces(struct symmcoll_group *group, int rank)
{
    struct buffers it;
    bool good = acquire(&it, group, rank) && each(&it, one_shot) &&
                each(&it, copied) && each(&it, at_root) &&
                each(&it, two_shot) && averages(&it);

    return release_all(&it) && good;
}

/* ---- reduce_scatter and all_gather ---- */

/* Reduces and scatters all of `in`, with a number of elements divisible by the
 * ranks. */
static bool scatter_rows(struct buffers *it, const struct task *task)
{
    size_t size = (size_t)it->size, columns = task->count > 100 ? 5 : 1;
    size_t rows = task->count / columns / size * size;
    size_t count = rows * columns / size;
    size_t nbytes = count * symmcoll_dtype_size(task->dtype);

    return OK(symmcoll_reduce_scatter(it->group, it->expected, it->in, count,
               task->dtype, task->op, NULL, NULL)) &&
           OK(symmcoll_symm_reduce_scatter(it->handle, AT, it->out, rows,
               columns, 0, task->dtype, task->op, NULL)) &&
           equal_bytes(it->out, it->expected, nbytes, "rows") &&
           (memset(it->out, 0x66, nbytes), 1) &&
           OK(symmcoll_symm_low_contention_reduce_scatter(
               it->handle, AT, it->out, count, task->dtype, task->op, NULL)) &&
           equal_bytes(it->out, it->expected, nbytes, "low contention");
}

static bool scatter_columns(struct buffers *it, const struct task *task)
{
    size_t size = (size_t)it->size, part = task->count > 100 ? 3 : 1;
    size_t columns = part * size, rows = task->count / columns;
    size_t elem = symmcoll_dtype_size(task->dtype);
    struct task whole = *task;
    bool good;

    whole.count = rows * columns;
    good = all_reduce(it, &whole) &&
           OK(symmcoll_symm_reduce_scatter(it->handle, AT, it->out, rows,
               columns, 1, task->dtype, task->op, NULL));
    for (size_t row = 0; good && row < rows; row++)
        good = equal_bytes(it->out + row * part * elem,
            it->expected + (row * columns + (size_t)it->rank * part) * elem,
            part * elem, "columns");
    return good;
}

static bool gather_all(struct buffers *it, const struct task *task)
{
    size_t count = task->count / (size_t)it->size;
    size_t nbytes = count * symmcoll_dtype_size(task->dtype);
    size_t all = nbytes * (size_t)it->size;
    char *slot = it->data + (size_t)it->rank * nbytes;
    bool in_place = task->count % 2 == 1;

    if (!OK(symmcoll_all_gather(
            it->group, it->expected, it->in, count, task->dtype, NULL, NULL)) ||
        !OK(symmcoll_symm_low_contention_all_gather(
            it->handle, AT, it->out, count, task->dtype, NULL)) ||
        !equal_bytes(it->out, it->expected, all, "low contention"))
        return false;
    if (in_place)
        memcpy(slot, it->in, nbytes);
    return OK(symmcoll_symm_all_gather(it->handle, AT, in_place ? slot : it->in,
               count, task->dtype, NULL)) &&
           equal_bytes(it->data, it->expected, all, "gathered");
}

static int scatters(struct symmcoll_group *group, int rank)
{
    struct buffers it;
    bool good = acquire(&it, group, rank) && each(&it, scatter_rows) &&
                each(&it, scatter_columns);

    return release_all(&it) && good;
}

static int gathers(struct symmcoll_group *group, int rank)
{
    struct buffers it;
    bool good = acquire(&it, group, rank) && each(&it, gather_all);

    return release_all(&it) && good;
}

/* ---- an operation with limits ---- */

static int has_limits(struct symmcoll_group *group, int rank)
{
    static const size_t fits[] = {4 * 1024, 512 * 1024, 10 * 1024 * 1024};
    size_t most = 10 * 1024 * 1024 + 2, done = 0;
    uint16_t *buf = malloc(most);
    int size = symmcoll_group_size(group);
    float mine = (float)rank, sum = (float)(size * (size - 1) / 2);
    struct symmcoll_symm *handle = NULL;
    uint32_t bits, expected;
    void *data = NULL;
    bool good = join(group, most, &data, &handle);

    memcpy(&bits, &mine, sizeof(bits));
    memcpy(&expected, &sum, sizeof(expected));
    for (size_t i = 0; i < most / 2; i++)
        buf[i] = (uint16_t)(bits >> 16);
    good = good &&
           symmcoll_symm_intra_node_all_reduce(handle, buf, 2048,
               SYMMCOLL_FLOAT32, SYMMCOLL_SUM, NULL) == SYMMCOLL_SKIPPED &&
           symmcoll_symm_intra_node_all_reduce(handle, buf, 2048,
               SYMMCOLL_BFLOAT16, SYMMCOLL_AVG, NULL) == SYMMCOLL_SKIPPED &&
           HOLDS(symmcoll_symm_intra_node_count(handle) == 0);
    for (size_t f = 0; good && f < LENGTH(fits); f++) {
        for (size_t i = 0; i < fits[f] / 2; i++)
            buf[i] = (uint16_t)(bits >> 16);
        good = OK(symmcoll_symm_intra_node_all_reduce(handle, buf, fits[f] / 2,
                   SYMMCOLL_BFLOAT16, SYMMCOLL_SUM, NULL)) &&
               HOLDS(symmcoll_symm_intra_node_count(handle) == ++done);
        for (size_t i = 0; good && i < fits[f] / 2; i++)
            good = buf[i] == (uint16_t)(expected >> 16);
    }
    good = good &&
           symmcoll_symm_intra_node_all_reduce(handle, buf, most / 2,
               SYMMCOLL_BFLOAT16, SYMMCOLL_SUM, NULL) == SYMMCOLL_SKIPPED &&
           HOLDS(symmcoll_symm_intra_node_count(handle) == 3);
    free(buf);
    return part(group, data, handle) && good;
}

static int skips_many(struct symmcoll_group *group, int rank)
{
    struct symmcoll_symm *handle = NULL;
    uint16_t one = (uint16_t)rank;
    void *data = NULL;
    bool good = join(group, 64, &data, &handle) &&
                symmcoll_symm_intra_node_all_reduce(handle, &one, 1,
                    SYMMCOLL_BFLOAT16, SYMMCOLL_SUM, NULL) == SYMMCOLL_SKIPPED;

    return part(group, data, handle) && good;
}

static void run_all(int (*run)(int n, rank_fn body), const char *kind)
{
    ok(run(2, all_reduces) && run(3, all_reduces) && run(8, all_reduces),
        "%s: one and two shots have the bits of all_reduce "
        "(S31 S55 S56 S58 S59)",
        kind);
    ok(run(2, scatters) && run(5, scatters),
        "%s: rows and columns are reduced and divided (S59 S63)", kind);
    ok(run(2, gathers) && run(7, gathers),
        "%s: all_gather writes into all buffers (S57 S63)", kind);
    ok(run(2, has_limits) && run(4, has_limits),
        "%s: the operation with limits counts what it has done (S60)", kind);
    ok(run(9, skips_many), "%s: it skips nine ranks (S60)", kind);
}

int main(void)
{
    plan(11);
    run_all(ranks_run, "processes");
    run_all(threads_run, "threads");
    ok(threads_run(1, all_reduces) && threads_run(1, scatters) &&
            threads_run(1, gathers),
        "one rank alone reduces its own");
    return done_testing();
}
