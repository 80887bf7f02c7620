/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Tests the device memory that a group keeps for fused operations: it grows
 * while earlier operations run, and their memory is released when they have
 * ended; memory used by a graph, and only that, is kept as long as the group.
 */
#include "t/fused/made.h"
#include "t/fused/on_device.h"

#include <stdlib.h>

#define SIZE 3
#define LIMITED 1 /* the rank with limited memory */
#define SMALL 64
#define LARGE 8192 /* rows of a shard; each size needs more memory */
#define LARGER 16384
#define PLANS 80 /* more plans than are kept */

/* Rows of one element, multiplied by 2. */
struct rows {
    int64_t count;
    struct symmcoll_tensor a, b, out;
};

static float value_of(int seed, int rank, int64_t row)
{
    return (float)(seed * 3 + rank * 5 + (int)(row % 101));
}

static void fill_rows(struct rows *it, int seed, int rank)
{
    float *data = malloc(sizeof(*data) * (size_t)it->count);

    for (int64_t i = 0; i < it->count; i++)
        data[i] = value_of(seed, rank, i);
    device_write(it->a.data, data, sizeof(*data) * (size_t)it->count);
    free(data);
}

static struct symmcoll_tensor make_tensor(
    int device, int64_t rows, const float *first)
{
    struct symmcoll_tensor made =
        SYMMCOLL_TENSOR_SHAPE(NULL, SYMMCOLL_FLOAT32, rows, 1);

    made.device = SYMMCOLL_CUDA;
    made.device_index = device;
    made.data = device_alloc(sizeof(float) * (size_t)rows);
    if (first != NULL)
        device_write(made.data, first, sizeof(*first));
    return made;
}

static void make_rows(
    struct rows *it, struct symmcoll_group *group, int rank, int64_t count)
{
    const float two = 2;
    int device = device_use(rank);

    it->count = count;
    it->a = make_tensor(device, count, NULL);
    it->b = make_tensor(device, 1, &two);
    it->out = make_tensor(device, count * symmcoll_group_size(group), NULL);
    fill_rows(it, 0, rank);
}

static void free_rows(struct rows *it)
{
    on_device_free(&it->a);
    on_device_free(&it->b);
    on_device_free(&it->out);
}

static int gather(
    struct symmcoll_group *group, struct rows *it, CUstream stream)
{
    struct symmcoll_call call = SYMMCOLL_CALL_INIT;

    call.stream = stream;
    return OK(symmcoll_fused_all_gather_matmul(
        group, &it->a, &it->b, 1, 0, &call, NULL, &it->out));
}

static int is_right(const struct rows *it, int seed, int size)
{
    size_t nbytes = sizeof(float) * (size_t)it->count * (size_t)size;
    float *found = malloc(nbytes);
    int right = 1;

    device_read(found, it->out.data, nbytes);
    for (int64_t i = 0; i < it->count * size && right; i++) {
        float wanted = 2 * value_of(seed, (int)(i / it->count), i % it->count);

        right = found[i] == wanted;
        if (!right)
            diag("row %lld of %lld: expected %g, found %g", (long long)i,
                (long long)it->count, (double)wanted, (double)found[i]);
    }
    free(found);
    return right;
}

/* Returns the allocations on this rank's devices; ranks are processes. */
static int count_allocations(void)
{
    return fake_live(FAKE_PHYSICAL);
}

static int has(int found, int wanted, const char *what)
{
    if (found != wanted)
        diag("%s: expected %d allocations, found %d", what, wanted, found);
    return found == wanted;
}

/* Calls two larger operations while the first is blocked. */
static int grows_while_one_runs(struct symmcoll_group *group, int rank)
{
    int size = symmcoll_group_size(group), right, before;
    struct rows small, large, larger;
    CUstream stream;

    make_rows(&small, group, rank, SMALL);
    make_rows(&large, group, rank, LARGE);
    make_rows(&larger, group, rank, LARGER);
    stream = device_stream();
    right = gather(group, &small, stream);
    device_wait(stream);
    before = count_allocations();
    fake_stall(stream);
    right = right && gather(group, &small, stream) &&
            gather(group, &large, stream) && gather(group, &larger, stream) &&
            gather(group, &small, stream);
    fake_resume(stream);
    device_wait(stream);
    right = right && is_right(&small, 0, size) && is_right(&large, 0, size) &&
            is_right(&larger, 0, size);
    /* The next call releases all unused memory. */
    right = right && gather(group, &small, stream);
    device_wait(stream);
    right = right && has(count_allocations(), before, "after growing twice");
    free_rows(&small);
    free_rows(&large);
    free_rows(&larger);
    device_end_stream(stream);
    return right;
}

static int capture(struct symmcoll_group *group, struct rows *it,
    CUstream stream, CUgraphExec *exec)
{
    CUgraph graph = NULL;
    int right = cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_RELAXED) ==
                    CUDA_SUCCESS &&
                gather(group, it, stream) &&
                cuStreamEndCapture(stream, &graph) == CUDA_SUCCESS &&
                cuGraphInstantiate(exec, graph, 0) == CUDA_SUCCESS;

    if (graph != NULL)
        (void)cuGraphDestroy(graph);
    return right;
}

static int launch(struct symmcoll_group *group, struct rows *it, int rank,
    int seed, CUgraphExec exec, CUstream stream)
{
    int right;

    fill_rows(it, seed, rank);
    right = cuGraphLaunch(exec, stream) == CUDA_SUCCESS;
    device_wait(stream);
    return right && is_right(it, seed, symmcoll_group_size(group));
}

/* Launches a graph that uses the first memory after a second and a third were
 * allocated. */
static int graphs_keep_theirs(
    struct symmcoll_group *group, int rank, struct rows rows[3])
{
    CUstream stream = device_stream();
    CUgraphExec exec = NULL;
    int right, before;

    right = gather(group, &rows[0], stream);
    device_wait(stream);
    before = count_allocations();
    right = right && capture(group, &rows[0], stream, &exec);
    for (int i = 1; i < 3 && right; i++) {
        int kept;

        right = gather(group, &rows[i], stream);
        device_wait(stream);
        right = right && launch(group, &rows[0], rank, i, exec, stream) &&
                gather(group, &rows[i], stream);
        device_wait(stream);
        kept = count_allocations();
        /* The memory of the graph, and one more. */
        right = right && (i == 1 || has(kept, before, "of one graph"));
        right = right && kept > 0;
        before = kept;
    }
    if (exec != NULL)
        (void)cuGraphExecDestroy(exec);
    device_end_stream(stream);
    return right;
}

static int release_with_the_group(struct symmcoll_group *group, int rank)
{
    struct symmcoll_world *world = symmcoll_group_world(group);
    struct rows rows[3];
    int before, right = 1;

    make_rows(&rows[0], group, rank, SMALL);
    make_rows(&rows[1], group, rank, LARGE);
    make_rows(&rows[2], group, rank, LARGER);
    before = count_allocations();
    for (int i = 0; i < 2 && right; i++) {
        struct symmcoll_group *made = NULL;

        right = OK(symmcoll_group_create(world, NULL, &made)) &&
                graphs_keep_theirs(made, rank, rows);
        symmcoll_group_free(made);
        right = right && has(count_allocations(), before, "after the group");
    }
    for (int i = 0; i < 3; i++)
        free_rows(&rows[i]);
    return right;
}

/* Memory grows while the stream is captured, and a graph of the capture is
 * launched after further growth. */
static int grows_in_a_capture(struct symmcoll_group *group, int rank)
{
    struct rows rows[3];
    CUgraphExec execs[2] = {NULL};
    CUstream stream;
    int right;

    make_rows(&rows[0], group, rank, SMALL);
    make_rows(&rows[1], group, rank, LARGE);
    make_rows(&rows[2], group, rank, LARGER);
    stream = device_stream();
    right = gather(group, &rows[0], stream);
    device_wait(stream);
    for (int i = 0; i < 2; i++)
        right = right && capture(group, &rows[i], stream, &execs[i]);
    right = right && gather(group, &rows[2], stream);
    device_wait(stream);
    right = right && is_right(&rows[2], 0, symmcoll_group_size(group));
    for (int i = 0; i < 4; i++)
        right = right &&
                launch(group, &rows[i % 2], rank, i + 1, execs[i % 2], stream);
    for (int i = 0; i < 2; i++)
        if (execs[i] != NULL)
            (void)cuGraphExecDestroy(execs[i]);
    for (int i = 0; i < 3; i++)
        free_rows(&rows[i]);
    device_end_stream(stream);
    return right;
}

/* Uses more shapes than plans are kept, while operations with the first shapes
 * are blocked or in a graph. */
static int plans_are_forgotten(struct symmcoll_group *group, int rank)
{
    int size = symmcoll_group_size(group), right;
    struct rows first, captured, rows[PLANS];
    CUgraphExec exec = NULL;
    CUstream stream;

    make_rows(&first, group, rank, PLANS + 1);
    make_rows(&captured, group, rank, PLANS + 2);
    for (int i = 0; i < PLANS; i++)
        make_rows(&rows[i], group, rank, i + 1);
    stream = device_stream();
    right = gather(group, &captured, stream);
    device_wait(stream);
    right = right && capture(group, &captured, stream, &exec);
    fake_stall(stream);
    right = right && gather(group, &first, stream);
    for (int i = 0; i < PLANS; i++)
        right = right && gather(group, &rows[i], stream);
    fake_resume(stream);
    device_wait(stream);
    right = right && is_right(&first, 0, size) &&
            launch(group, &captured, rank, 1, exec, stream);
    for (int i = 0; i < PLANS; i++)
        right = right && is_right(&rows[i], 0, size);
    if (exec != NULL)
        (void)cuGraphExecDestroy(exec);
    free_rows(&first);
    free_rows(&captured);
    for (int i = 0; i < PLANS; i++)
        free_rows(&rows[i]);
    device_end_stream(stream);
    return right;
}

/* Limits the memory to that of the small shards, which serves both operations
 * in turn. */
static int has_a_limit(struct symmcoll_group *group, int rank)
{
    const struct symmcoll_call call = SYMMCOLL_CALL_INIT;
    struct rows small, large;
    struct symmcoll_tensor init = SYMMCOLL_TENSOR_INIT, out = init;
    CUstream stream;
    int right;

    make_rows(&small, group, rank, SMALL * SIZE);
    make_rows(&large, group, rank, LARGER);
    stream = device_stream();
    right = OK(symmcoll_group_set_stream(group, stream));
    for (int i = 0; i < 2 && right; i++) {
        right = gather(group, &small, stream) &&
                OK(symmcoll_fused_matmul_reduce_scatter(
                    group, &small.a, &small.b, SYMMCOLL_SUM, 0, &call, &out)) &&
                made_says(symmcoll_fused_all_gather_matmul(group, &large.a,
                              &large.b, 1, 0, &call, NULL, &large.out),
                    SYMMCOLL_ERR_NO_MEMORY,
                    "fused_all_gather_matmul: expected fused.device_memory to "
                    "be ") &&
                made_says(SYMMCOLL_ERR_NO_MEMORY, SYMMCOLL_ERR_NO_MEMORY,
                    " bytes or more, for what ranks need of their devices, "
                    "found 65536");
        symmcoll_f_free(symmcoll_group_world(group), &out);
        out = init;
    }
    device_wait(stream);
    right = right && is_right(&small, 0, SIZE) &&
            OK(symmcoll_group_set_stream(group, NULL));
    free_rows(&small);
    free_rows(&large);
    device_end_stream(stream);
    return right;
}

/* Limits the memory of one rank only: the other ranks' errors name it, and all
 * groups remain usable. */
static int one_has_a_limit(int rank, int size, void *arg)
{
    struct symmcoll_world *world = NULL;
    struct symmcoll_group *group;
    struct rows small, large;
    CUstream stream;
    int right;

    (void)size;
    (void)arg;
    if (rank == LIMITED)
        setenv("SYMMCOLL_FUSED_DEVICE_MEMORY", "64KiB", 1);
    if (symmcoll_init(NULL, &world) != SYMMCOLL_OK)
        return 1;
    group = symmcoll_world_group(world);
    make_rows(&small, group, rank, SMALL);
    make_rows(&large, group, rank, LARGER);
    stream = device_stream();
    right = OK(symmcoll_group_set_stream(group, stream));
    for (int i = 0; i < 2 && right; i++)
        right = gather(group, &small, stream) &&
                made_says(symmcoll_fused_all_gather_matmul(group, &large.a,
                              &large.b, 1, 0, NULL, NULL, &large.out),
                    SYMMCOLL_ERR_NO_MEMORY,
                    rank == LIMITED ? "expected fused.device_memory to be "
                                    : "rank 1 ");
    device_wait(stream);
    right = right && is_right(&small, 0, SIZE);
    free_rows(&small);
    free_rows(&large);
    device_end_stream(stream);
    return !right || symmcoll_finalize(world) != SYMMCOLL_OK;
}

static int limits_of_one_are_told(void)
{
    int statuses[SIZE],
        right = ranks_spawn(SIZE, one_has_a_limit, NULL, statuses);

    for (int r = 0; r < SIZE; r++)
        right = right && statuses[r] == 0;
    return right;
}

int main(void)
{
    on_device_begin("2");
    ok(ranks_run(SIZE, grows_while_one_runs),
        "memory grows while operations run, and is released when they have "
        "ended");
    ok(ranks_run(SIZE, release_with_the_group),
        "what a graph uses is kept, as long as the group is there");
    ok(ranks_run(SIZE, grows_in_a_capture),
        "memory grows in a capture, whose graph has it to itself");
    ok(ranks_run(2, plans_are_forgotten),
        "plans are forgotten while what they were for runs, or is in a graph");
    ok(process_run(limits_of_one_are_told),
        "that of one rank may be limited, which is told to the others");
    setenv("SYMMCOLL_FUSED_DEVICE_MEMORY", "64KiB", 1);
    ok(ranks_run(SIZE, has_a_limit),
        "fused.device_memory: what needs more is refused, and what does not is "
        "not");
    return done_testing();
}
