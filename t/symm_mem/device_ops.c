/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Every operation on symmetric memory of devices has the bits that it has on
 * symmetric memory of the host, in the buffers and in what it returns: of 1 to 4
 * ranks, odd counts and several types; also captured in a graph that is started
 * again.
 */
#include "t/symm_mem/device_every.h"

#include "group/group.h"

/* ---- both sides ---- */

static bool open_side(struct test *it, struct side *side, void **allocated,
    const struct symmcoll_symm_args *args)
{
    struct symmcoll_world *world = symmcoll_group_world(it->group);

    side->call = (struct symmcoll_call)SYMMCOLL_CALL_INIT;
    if (!OK(symmcoll_symm_alloc(world, SHIFT + NBYTES, args, allocated)))
        return false;
    side->data = (char *)*allocated + SHIFT;
    return OK(
        symmcoll_symm_rendezvous(it->group, side->data, NULL, &side->handle));
}

static bool begin(struct test *it, struct symmcoll_group *group, int rank)
{
    struct symmcoll_symm_args args = SYMMCOLL_SYMM_ARGS_INIT;

    *it = (struct test){.group = group,
        .rank = rank,
        .size = symmcoll_group_size(group),
        .count = 1,
        .dtype = F32};
    args.device = SYMMCOLL_CUDA;
    args.device_index = rank;
    device_use(rank);
    if (!open_side(it, &it->host, &it->allocated[0], NULL) ||
        !open_side(it, &it->device, &it->allocated[1], &args))
        return false;
    it->host.in = malloc(REGION);
    it->host.out = malloc(REGION);
    it->device.in = device_alloc(REGION);
    it->device.out = device_alloc(REGION);
    it->device.call.stream = device_stream();
    return true;
}

static bool end(struct test *it, bool right)
{
    struct symmcoll_world *world = symmcoll_group_world(it->group);

    device_wait(it->device.call.stream);
    symmcoll_symm_release(it->host.handle);
    symmcoll_symm_release(it->device.handle);
    right = OK(symmcoll_symm_free(world, it->allocated[0])) && right;
    right = OK(symmcoll_symm_free(world, it->allocated[1])) && right;
    free(it->host.in);
    free(it->host.out);
    device_free(it->device.in);
    device_free(it->device.out);
    device_end_stream(it->device.call.stream);
    return right;
}

/* Pieces of few rows each, and where they begin, as on the way back. */
static void write_splits(struct test *it, int round)
{
    const int n = it->size * EXPERTS;
    int64_t splits[2 * RANKS * EXPERTS] = {0};
    int64_t at = 0;

    for (int i = 0; i < n; i++) {
        splits[i] = (i * 5 + it->rank * 3 + round) % 7;
        splits[n + i] = at;
        at += splits[i];
    }
    memcpy(it->host.data + SPLITS_AT, splits, sizeof(splits));
}

/* The same bytes on both. */
static void fill_sides(struct test *it, int round)
{
    size_t all = REGION / it->elem;

    fill_bytes(it->host.data, NBYTES, it->rank, round);
    fill_elements(it->host.data, 8, it->dtype, it->rank, round);
    /* From each offset that reductions have. */
    fill_elements(it->host.data + 8, all - 8, it->dtype, it->rank, round + 1);
    fill_elements(it->host.in, all, it->dtype, it->rank, round + 2);
    fill_elements(it->host.out, all, it->dtype, it->rank, round + 3);
    write_splits(it, round);
    device_write(it->device.data, it->host.data, NBYTES);
    device_write(it->device.in, it->host.in, REGION);
    device_write(it->device.out, it->host.out, REGION);
}

static bool are_same(struct test *it, const char *name)
{
    char *read = malloc(NBYTES);
    bool right;

    device_wait(it->device.call.stream);
    device_read(read, it->device.data, NBYTES);
    right = equal_bytes(read, it->host.data, NBYTES, name);
    device_read(read, it->device.out, REGION);
    right = equal_bytes(read, it->host.out, REGION, name) && right;
    free(read);
    if (!right)
        diag("%s of %zu elements of type %d, rank %d of %d: in the buffer, or "
             "in out",
            name, it->count, (int)it->dtype, it->rank, it->size);
    return right;
}

static bool run_both(struct test *it, const char *name, op_fn run, int round)
{
    bool right;

    it->elem = symmcoll_dtype_size(it->dtype);
    fill_sides(it, round);
    right = OK(run(it, &it->host)) && OK(run(it, &it->device));
    right = right && are_same(it, name);
    symmcoll_symm_plan_free(it->host.plan);
    symmcoll_symm_plan_free(it->device.plan);
    it->host.plan = it->device.plan = NULL;
    return right;
}

static int every_operation(struct symmcoll_group *group, int rank)
{
    static const size_t counts[] = {1, 7, 130, 1003};
    static const enum symmcoll_dtype types[] = {
        SYMMCOLL_FLOAT32, SYMMCOLL_BFLOAT16, SYMMCOLL_INT32, SYMMCOLL_FLOAT64};
    struct test it;
    bool right = begin(&it, group, rank);
    int round = 0;

    for (size_t i = 0; every[i].name != NULL && right; i++) {
        for (size_t c = 0; c < LENGTH(counts) && right; c++) {
            it.count = counts[c];
            it.dtype = types[(i + c) % LENGTH(types)];
            right = run_both(&it, every[i].name, every[i].run, round += 4);
        }
    }
    return end(&it, right);
}

/* ---- graphs ---- */

static CUgraphExec capture(struct test *it, op_fn run)
{
    CUstream stream = it->device.call.stream;
    CUstreamCaptureMode mode = it->group->world->threads
                                   ? CU_STREAM_CAPTURE_MODE_THREAD_LOCAL
                                   : CU_STREAM_CAPTURE_MODE_GLOBAL;
    CUgraph graph = NULL;
    CUgraphExec exec = NULL;
    bool right = HOLDS(cuStreamBeginCapture(stream, mode) == CUDA_SUCCESS) &&
                 OK(run(it, &it->device));

    right = cuStreamEndCapture(stream, &graph) == CUDA_SUCCESS && right;
    if (!right || cuGraphInstantiate(&exec, graph, 0) != CUDA_SUCCESS)
        diag("there is no graph");
    if (graph != NULL)
        cuGraphDestroy(graph);
    return exec;
}

static bool replay(struct test *it, const struct operation *operation)
{
    CUgraphExec exec = capture(it, operation->run);
    bool right = exec != NULL;

    for (int round = 0; round < 2 && right; round++) {
        fill_sides(it, round * 8);
        right = OK(operation->run(it, &it->host)) &&
                HOLDS(cuGraphLaunch(exec, it->device.call.stream) ==
                      CUDA_SUCCESS) &&
                are_same(it, operation->name);
        symmcoll_symm_plan_free(it->host.plan);
        it->host.plan = NULL;
    }
    if (exec != NULL)
        cuGraphExecDestroy(exec);
    symmcoll_symm_plan_free(it->device.plan);
    it->device.plan = NULL;
    return right;
}

static int graphs(struct symmcoll_group *group, int rank)
{
    struct test it;
    bool right = begin(&it, group, rank);

    it.count = 131;
    it.dtype = F32;
    it.elem = sizeof(float);
    for (size_t i = 0; every[i].name != NULL && right; i++)
        right = replay(&it, &every[i]) &&
                run_both(&it, every[i].name, every[i].run, 1);
    return end(&it, right);
}

/* ---- the rest ---- */

/* Each rank has a factor of its own; complex numbers are twice as many floats. */
static int factors(struct symmcoll_group *group, int rank)
{
    struct test it;
    bool right = begin(&it, group, rank);
    symmcoll_op_t op;

    it.dtype = F32;
    it.elem = sizeof(float);
    right = right &&
            OK(symmcoll_op_create_premul(group->world, 0.5 + 0.25 * rank, &op));
    if (right)
        fill_sides(&it, 0);
    for (int i = 0; i < 2 && right; i++) {
        struct side *side = i == 0 ? &it.host : &it.device;
        void *out = side->out + 256;

        right =
            OK(symmcoll_symm_one_shot_all_reduce(
                side->handle, 64, side->out, 37, F32, op, &side->call)) &&
            OK(symmcoll_symm_one_shot_all_reduce(side->handle, 64, out, 31,
                SYMMCOLL_COMPLEX64, SYMMCOLL_SUM, &side->call)) &&
            OK(symmcoll_symm_tile_reduce(side->handle, 64, side->out + 1024, 5,
                3, 5, 9, SYMMCOLL_COMPLEX128, SYMMCOLL_SUM, 0, &side->call)) &&
            OK(symmcoll_symm_tile_reduce(side->handle, 64, side->out + 2048, 5,
                3, 5, 9, F32, op, 0, &side->call));
    }
    right = right && are_same(&it, "factors and complex numbers");
    return end(&it, right);
}

#define LARGE ((size_t)140 * 1024) /* elements: in two shots */

static int intra_node(struct symmcoll_group *group, int rank)
{
    struct symmcoll_symm_args args = SYMMCOLL_SYMM_ARGS_INIT;
    struct symmcoll_call call = SYMMCOLL_CALL_INIT;
    struct symmcoll_symm *handle = NULL;
    uint16_t *host = malloc(2 * LARGE), *read = malloc(2 * LARGE);
    void *data = NULL, *buf;
    bool right;

    device_use(rank);
    args.device = SYMMCOLL_CUDA;
    args.device_index = rank;
    call.stream = device_stream();
    buf = device_alloc(2 * LARGE);
    right = OK(symmcoll_symm_alloc(group->world, 2 * LARGE, &args, &data)) &&
            OK(symmcoll_symm_rendezvous(group, data, NULL, &handle));
    for (size_t count = 101; count <= LARGE && right; count += LARGE - 101) {
        fill_elements(host, count, SYMMCOLL_BFLOAT16, rank, 1);
        device_write(buf, host, 2 * count);
        right = OK(symmcoll_symm_intra_node_all_reduce(handle, buf, count,
                    SYMMCOLL_BFLOAT16, SYMMCOLL_SUM, &call)) &&
                OK(symmcoll_all_reduce(group, host, host, count,
                    SYMMCOLL_BFLOAT16, SYMMCOLL_SUM, NULL, NULL));
        device_wait(call.stream);
        device_read(read, buf, 2 * count);
        right = right && equal_bytes(read, host, 2 * count, "intra_node");
    }
    right = right && HOLDS(symmcoll_symm_intra_node_count(handle) == 2);
    symmcoll_symm_release(handle);
    right = OK(symmcoll_symm_free(group->world, data)) && right;
    device_free(buf);
    device_end_stream(call.stream);
    free(host);
    free(read);
    return right;
}

int main(void)
{
    device_begin();
    setenv("SYMMCOLL_CUDA_STAGING", "16KiB", 1);
    for (int n = 1; n <= RANKS; n++)
        on_both(n, every_operation,
            "every operation has the bits that it has on the host");
    on_both(3, graphs, "and captured in a graph that is started twice");
    on_both(3, factors, "factors of each rank, and complex numbers");
    on_both(2, intra_node, "intra_node_all_reduce in one shot and in two");
    return done_testing();
}
