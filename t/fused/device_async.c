/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Tests async_input_matmul in device memory: rows that arrive while the
 * product waits, strides, graphs, refused arguments, and a signal that never
 * arrives.
 */
#include "t/fused/async_on_device.h"
#include "t/fused/on_device.h"
#include "t/world/faults.h"

#define NBYTES ((size_t)4096)
#define SIGNALS_AT ((size_t)2048)
#define ROWS 8

/* The joined memory of a new group, and the operands in it. */
struct part {
    struct symmcoll_group *group;
    struct symmcoll_symm *handle;
    void *data;
    CUstream stream;
    struct symmcoll_call call;
    struct symmcoll_tensor a, b, out;
};

static struct symmcoll_tensor square(int device, void *data)
{
    struct symmcoll_tensor made = SYMMCOLL_TENSOR_SHAPE(data, F32, ROWS, ROWS);

    made.device = SYMMCOLL_CUDA;
    made.device_index = device;
    return made;
}

static int begin(struct part *it, struct symmcoll_group *all, int rank)
{
    struct symmcoll_symm_args args = SYMMCOLL_SYMM_ARGS_INIT;
    struct symmcoll_world *world = symmcoll_group_world(all);
    const struct symmcoll_call init = SYMMCOLL_CALL_INIT;
    const struct symmcoll_tensor none = SYMMCOLL_TENSOR_INIT;

    args.device = SYMMCOLL_CUDA;
    args.device_index = device_use(rank);
    it->call = init;
    it->out = none;
    it->call.stream = it->stream = device_stream();
    if (!OK(symmcoll_group_create(world, NULL, &it->group)) ||
        !OK(symmcoll_symm_alloc(world, NBYTES, &args, &it->data)) ||
        !OK(symmcoll_symm_rendezvous(it->group, it->data, NULL, &it->handle)))
        return 0;
    it->a = square(args.device_index, it->data);
    it->b = square(args.device_index, (char *)it->data + 1024);
    return 1;
}

static int end(struct part *it, struct symmcoll_group *all, int right)
{
    symmcoll_status_t freed;

    device_wait(it->stream);
    symmcoll_f_free(symmcoll_group_world(all), &it->out);
    device_wait(it->stream);
    right = OK(symmcoll_barrier(all, NULL, NULL)) && right;
    symmcoll_symm_release(it->handle);
    right =
        OK(symmcoll_symm_free(symmcoll_group_world(all), it->data)) && right;
    freed = symmcoll_group_free(it->group);
    device_end_stream(it->stream);
    return (freed == SYMMCOLL_OK || freed == SYMMCOLL_ERR_DEVICE) && right;
}

/* ---- refused arguments ---- */

static symmcoll_status_t multiply(struct part *it, size_t signals,
    const struct symmcoll_tensor *a, const struct symmcoll_tensor *b)
{
    return symmcoll_async_input_matmul(
        it->handle, signals, 2, 0, a, b, &it->call, &it->out);
}

static int arguments_are_checked(struct symmcoll_group *all, int rank)
{
    float numbers[ROWS * ROWS] = {0};
    const struct symmcoll_tensor host =
        SYMMCOLL_TENSOR_SHAPE(numbers, F32, ROWS, ROWS);
    struct symmcoll_tensor claimed;
    struct part it;
    int right = begin(&it, all, rank);

    claimed = square(it.a.device_index, numbers);
    right =
        right &&
        made_says(multiply(&it, SIGNALS_AT, &host, &it.b), SYMMCOLL_ERR_INVALID,
            "expected a in device memory of device ") &&
        made_says(multiply(&it, SIGNALS_AT, &it.a, &host), SYMMCOLL_ERR_INVALID,
            "expected b 0 in device memory") &&
        made_says(multiply(&it, SIGNALS_AT, &claimed, &it.b),
            SYMMCOLL_ERR_INVALID, "async_input_matmul: a: expected") &&
        made_says(multiply(&it, SIGNALS_AT, &it.a, &claimed),
            SYMMCOLL_ERR_INVALID, "async_input_matmul: b: expected") &&
        made_says(multiply(&it, SIGNALS_AT + 2, &it.a, &it.b),
            SYMMCOLL_ERR_INVALID, "multiple of 4, found 2050") &&
        made_says(multiply(&it, NBYTES - 4, &it.a, &it.b), SYMMCOLL_ERR_INVALID,
            "found ");
    it.call.timeout = 0;
    right = right && made_says(multiply(&it, SIGNALS_AT, &it.a, &it.b),
                         SYMMCOLL_ERR_INVALID, "more than 0 s");
    return end(&it, all, right);
}

static int captures(struct part *it, symmcoll_status_t *status)
{
    CUgraph graph = NULL;
    int right = cuStreamBeginCapture(
                    it->stream, CU_STREAM_CAPTURE_MODE_RELAXED) == CUDA_SUCCESS;

    *status = multiply(it, SIGNALS_AT, &it->a, &it->b);
    right = cuStreamEndCapture(it->stream, &graph) == CUDA_SUCCESS && right;
    if (graph != NULL)
        (void)cuGraphDestroy(graph);
    return right;
}

/* Checks that a result without memory is refused in a graph, and not set. */
static int a_result_is_captured(struct symmcoll_group *all, int rank)
{
    symmcoll_status_t status = SYMMCOLL_OK;
    struct part it;
    int right = begin(&it, all, rank);

    right = right && captures(&it, &status) &&
            made_says(status, SYMMCOLL_ERR_UNSUPPORTED, "captured");
    return end(&it, all, right);
}

/* ---- memory of a call ---- */

/* Sets the signals in advance. */
static int has_signals(struct part *it, int rank)
{
    int right = OK(symmcoll_symm_memset32(it->handle, rank, SIGNALS_AT, 1, 2));

    device_wait(NULL); /* the group's current stream */
    return right;
}

/* Returns the number of allocations from pools that are not freed, by all
 * ranks that are threads. */
static int count_kept(void)
{
    return (int)(fake_calls("cuMemAllocFromPoolAsync") -
                 fake_calls("cuMemFreeAsync"));
}

/* Multiplies with a b that has to be packed, and with a workspace for
 * cuBLASLt. */
static int releases_memory(struct part *it)
{
    struct symmcoll_tensor out = it->a;
    int right, before;

    it->b.strides[0] = 2 * ROWS + 1;
    it->b.strides[1] = 2;
    out.data = (char *)it->data + 3072;
    it->out = out;
    right = OK(symmcoll_barrier(it->group, NULL, NULL));
    before = count_kept();
    right = OK(symmcoll_barrier(it->group, NULL, NULL)) && right &&
            OK(multiply(it, SIGNALS_AT, &it->a, &it->b));
    device_wait(it->stream);
    right = OK(symmcoll_barrier(it->group, NULL, NULL)) && right;
    return say(count_kept() == before, "memory is released") && right;
}

/* Checks that the workspace of a product is released, and that a captured
 * product has none. */
static int works_in_memory(struct symmcoll_group *all, int rank)
{
    symmcoll_status_t status = SYMMCOLL_OK;
    struct fake_cublaslt *lt;
    struct part it;
    int right = begin(&it, all, rank);

    right = right && has_signals(&it, rank) &&
            OK(multiply(&it, SIGNALS_AT, &it.a, &it.b));
    lt = on_device_cublaslt();
    device_wait(it.stream);
    symmcoll_f_free(symmcoll_group_world(all), &it.out);
    right = OK(symmcoll_barrier(all, NULL, NULL)) && right && lt != NULL;
    if (lt == NULL)
        return 0;
    atomic_store(&lt->workspace, 1000);
    it.a.dtype = it.b.dtype = SYMMCOLL_FLOAT16; /* a plan that is new */
    right = right && releases_memory(&it);
    it.b = it.a;
    right = right && captures(&it, &status) &&
            made_says(status, SYMMCOLL_ERR_UNSUPPORTED, "workspace of 0 bytes");
    right = OK(symmcoll_barrier(all, NULL, NULL)) && right;
    atomic_store(&lt->workspace, 0);
    it.out.data = NULL;
    return end(&it, all, right);
}

/* ---- a missing signal ---- */

/* Rank 1 does not store the second signal. */
static int waits_in_vain(struct symmcoll_group *all, int rank)
{
    struct part it;
    int right = begin(&it, all, rank);

    right = right &&
            OK(symmcoll_symm_memset32(it.handle, rank, SIGNALS_AT, 0, 2)) &&
            OK(symmcoll_symm_write_value32(it.handle, rank, SIGNALS_AT, 1));
    it.call.timeout = 0.4;
    if (rank == 0)
        right = right && OK(multiply(&it, SIGNALS_AT, &it.a, &it.b));
    right = right && faults_await_failure(it.group) < 0 &&
            made_says(symmcoll_group_error(it.group), SYMMCOLL_ERR_TIMEOUT,
                "symm_wait_value32") &&
            made_says(
                symmcoll_group_error(it.group), SYMMCOLL_ERR_TIMEOUT, "rank 1");
    return end(&it, all, right);
}

int main(void)
{
    on_device_begin("0");
    for (int n = 1; n <= 3; n++)
        on_both(n, async_rows_arrive,
            "rows that arrive in chunks are multiplied (S61)");
    on_both(2, async_orders, "operands of all orders of strides, and no depth");
    on_both(2, async_captured, "a graph waits each time it is started");
    on_both(2, arguments_are_checked,
        "places, signals and the timeout are checked (S61)");
    on_both(2, a_result_is_captured,
        "a result that is to be made is refused in a graph");
    on_both(2, works_in_memory,
        "what a product works in is released, and a captured one has none");
    on_both(
        2, waits_in_vain, "a signal that does not come is told, with its rank");
    return done_testing();
}
