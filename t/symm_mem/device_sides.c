/* SPDX-License-Identifier: BSD-3-Clause */
#include "t/symm_mem/device_every.h"

#include "group/group.h"

size_t sides_region = (size_t)40 * 1024;
void *(*sides_make)(const struct test *it, size_t nbytes);
void (*sides_free)(const struct test *it, void *data);

/* ---- both sides ---- */

static bool open_side(struct test *it, struct side *side, void **allocated,
    const struct symmcoll_symm_args *args)
{
    struct symmcoll_world *world = symmcoll_group_world(it->group);

    if (args != NULL && sides_make != NULL) {
        *allocated = sides_make(it, SHIFT + SIDES_NBYTES);
        if (!OK(symmcoll_symm_register(
                world, *allocated, SHIFT + SIDES_NBYTES, args)))
            return false;
    } else if (!OK(symmcoll_symm_alloc(
                   world, SHIFT + SIDES_NBYTES, args, allocated))) {
        return false;
    }
    side->data = (char *)*allocated + SHIFT;
    return OK(
        symmcoll_symm_rendezvous(it->group, side->data, NULL, &side->handle));
}

bool sides_begin(struct test *it, struct symmcoll_group *group, int rank)
{
    struct symmcoll_symm_args args = SYMMCOLL_SYMM_ARGS_INIT;

    *it = (struct test){.group = group,
        .rank = rank,
        .size = symmcoll_group_size(group),
        .count = 1,
        .dtype = F32};
    args.device = SYMMCOLL_CUDA;
    args.device_index = device_use(rank);
    it->host.in = malloc(sides_region);
    it->host.out = malloc(sides_region);
    it->device.in = device_alloc(sides_region);
    it->device.out = device_alloc(sides_region);
    it->host.call = it->device.call = (struct symmcoll_call)SYMMCOLL_CALL_INIT;
    it->device.call.stream = device_stream();
    return open_side(it, &it->host, &it->allocated[0], NULL) &&
           open_side(it, &it->device, &it->allocated[1], &args);
}

/* Frees the program's memory when all ranks have deregistered it. */
static bool end_memory(const struct test *it)
{
    struct symmcoll_world *world = symmcoll_group_world(it->group);
    bool right;

    if (sides_make == NULL)
        return OK(symmcoll_symm_free(world, it->allocated[1]));
    right = OK(symmcoll_symm_deregister(world, it->allocated[1]));
    right = OK(symmcoll_barrier(it->group, NULL, NULL)) && right;
    sides_free(it, it->allocated[1]);
    return right;
}

bool sides_end(struct test *it, bool right)
{
    struct symmcoll_world *world = symmcoll_group_world(it->group);

    device_wait(it->device.call.stream);
    symmcoll_symm_release(it->host.handle);
    symmcoll_symm_release(it->device.handle);
    right = OK(symmcoll_symm_free(world, it->allocated[0])) && right;
    right = end_memory(it) && right;
    free(it->host.in);
    free(it->host.out);
    device_free(it->device.in);
    device_free(it->device.out);
    device_end_stream(it->device.call.stream);
    return right;
}

/* Writes splits with few rows each, and their offsets for the opposite
 * direction. */
static void write_splits(struct test *it, int round)
{
    const int n = it->size * EXPERTS;
    int64_t splits[2 * SIDES_RANKS * EXPERTS] = {0};
    int64_t at = 0;

    for (int i = 0; i < n; i++) {
        splits[i] = (i * 5 + it->rank * 3 + round) % 7;
        splits[n + i] = at;
        at += splits[i];
    }
    memcpy(it->host.data + SPLITS_AT, splits, sizeof(splits));
}

/* Fills both sides with the same bytes. */
void sides_fill(struct test *it, int round)
{
    size_t all = sides_region / it->elem;

    fill_bytes(it->host.data, SIDES_NBYTES, it->rank, round);
    fill_elements(it->host.data, 8, it->dtype, it->rank, round);
    /* Reads from each offset that reductions have. */
    fill_elements(it->host.data + 8, all - 8, it->dtype, it->rank, round + 1);
    fill_elements(it->host.in, all, it->dtype, it->rank, round + 2);
    fill_elements(it->host.out, all, it->dtype, it->rank, round + 3);
    write_splits(it, round);
    device_write(it->device.data, it->host.data, SIDES_NBYTES);
    device_write(it->device.in, it->host.in, sides_region);
    device_write(it->device.out, it->host.out, sides_region);
}

/* Checks that the first nbytes bytes of both sides are the same. */
static bool is_same(const char *device, const char *host, size_t nbytes,
    const char *name, const char *what)
{
    char *read = malloc(nbytes);
    bool right;

    device_read(read, device, nbytes);
    right = equal_bytes(read, host, nbytes, name);
    if (!right)
        diag("%s: that is %s", name, what);
    free(read);
    return right;
}

bool sides_compare(struct test *it, const char *name)
{
    static const char before[SHIFT];
    const struct side *device = &it->device, *host = &it->host;
    bool right;

    device_wait(device->call.stream);
    right = is_same(device->data, host->data, SIDES_NBYTES, name, "the buffer");
    right = is_same(device->out, host->out, sides_region, name, "out") && right;
    right = is_same(device->in, host->in, sides_region, name, "in") && right;
    right = is_same(it->allocated[1], before, SHIFT, name,
                "what is before the handle's address") &&
            right;
    if (!right)
        diag("%s of %zu elements of type %d, rank %d of %d", name, it->count,
            (int)it->dtype, it->rank, it->size);
    return right;
}

static void free_plans(struct test *it)
{
    symmcoll_symm_plan_free(it->host.plan);
    symmcoll_symm_plan_free(it->device.plan);
    it->host.plan = it->device.plan = NULL;
}

bool sides_run(struct test *it, const struct operation *operation, int round)
{
    bool right;

    it->elem = symmcoll_dtype_size(it->dtype);
    sides_fill(it, round);
    right = OK(operation->run(it, &it->host)) &&
            OK(operation->run(it, &it->device));
    right = right && sides_compare(it, operation->name);
    free_plans(it);
    return right;
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

/* Launches the graph; on the host each launch is one call. */
static bool start(struct test *it, const struct operation *operation,
    CUgraphExec exec, int starts)
{
    bool right = true;

    for (int i = 0; i < starts && right; i++) {
        right =
            OK(operation->run(it, &it->host)) &&
            HOLDS(cuGraphLaunch(exec, it->device.call.stream) == CUDA_SUCCESS);
        symmcoll_symm_plan_free(it->host.plan);
        it->host.plan = NULL;
    }
    return right;
}

bool sides_replay(
    struct test *it, const struct operation *operation, int rounds, int starts)
{
    CUgraphExec exec;
    bool right;

    it->elem = symmcoll_dtype_size(it->dtype);
    exec = capture(it, operation->run);
    right = exec != NULL;
    for (int round = 0; round < rounds && right; round++) {
        sides_fill(it, round * 8);
        right = start(it, operation, exec, starts) &&
                sides_compare(it, operation->name);
    }
    if (exec != NULL)
        cuGraphExecDestroy(exec);
    free_plans(it);
    return right;
}

/* ---- the rest ---- */

int sides_factors(struct symmcoll_group *group, int rank)
{
    struct test it;
    bool right = sides_begin(&it, group, rank);
    symmcoll_op_t op;

    it.dtype = F32;
    it.elem = sizeof(float);
    right = right &&
            OK(symmcoll_op_create_premul(group->world, 0.5 + 0.25 * rank, &op));
    if (right)
        sides_fill(&it, 0);
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
    right = right && sides_compare(&it, "factors and complex numbers");
    return sides_end(&it, right);
}

#define LARGE ((size_t)140 * 1024) /* elements, which take two shots */

int sides_intra_node(struct symmcoll_group *group, int rank)
{
    struct symmcoll_symm_args args = SYMMCOLL_SYMM_ARGS_INIT;
    struct symmcoll_call call = SYMMCOLL_CALL_INIT;
    struct symmcoll_symm *handle = NULL;
    uint16_t *host = malloc(2 * LARGE), *read = malloc(2 * LARGE);
    void *data = NULL, *buf;
    bool right;

    args.device = SYMMCOLL_CUDA;
    args.device_index = device_use(rank);
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
