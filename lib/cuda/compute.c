/* SPDX-License-Identifier: BSD-3-Clause */
#include "cuda/compute.h"
#include "cuda/device_group.h"
#include "cuda/local.h"

#include <stdlib.h>

#define QUICK CU_EVENT_DISABLE_TIMING

#define fail_compute(compute, result, ...)                           \
    symc_cuda_fail((compute)->context.cuda, (compute)->fail, result, \
        (int)(compute)->context.device, __VA_ARGS__)

/* ---- opening and closing ---- */

static symmcoll_status_t enter(
    const struct symc_cuda_compute *compute, struct symc_cuda_entered *entered)
{
    return symc_cuda_enter_or_fail(&compute->context, compute->fail, entered);
}

/* Closes the handle, the streams and the event.  The context must be current. */
static void close_parts(struct symc_cuda_compute *compute)
{
    const struct symc_cuda *cuda = compute->context.cuda;

    symc_lt_close(&compute->lt);
    if (compute->event != NULL)
        cuda->event_destroy(compute->event);
    if (compute->beside != NULL)
        cuda->stream_destroy(compute->beside);
    if (compute->beside_captured != NULL)
        cuda->stream_destroy(compute->beside_captured);
}

/* Creates the side streams and the event.  The streams have the highest priority: as
 * multiprocessors become free, blocks of barriers are placed before the waiting blocks of
 * products. */
static struct symc_cuda_called make_streams(struct symc_cuda_compute *compute)
{
    static const char create[] = "cuStreamCreateWithPriority";
    const struct symc_cuda *cuda = compute->context.cuda;
    int least = 0, greatest = 0;
    struct symc_cuda_called called =
        symc_cuda_called("cuCtxGetStreamPriorityRange",
            cuda->ctx_get_stream_priority_range(&least, &greatest));

    if (called.result == CUDA_SUCCESS)
        called = symc_cuda_called(
            create, cuda->stream_create_with_priority(
                        &compute->beside, CU_STREAM_NON_BLOCKING, greatest));
    if (called.result == CUDA_SUCCESS)
        called = symc_cuda_called(
            create, cuda->stream_create_with_priority(&compute->beside_captured,
                        CU_STREAM_NON_BLOCKING, greatest));
    return called.result == CUDA_SUCCESS
               ? symc_cuda_called("cuEventCreate",
                     cuda->event_create(&compute->event, QUICK))
               : called;
}

static symmcoll_status_t open_parts(
    struct symc_cuda_compute *compute, const struct symc_settings *settings)
{
    struct symc_cuda_entered entered;
    symmcoll_status_t status = enter(compute, &entered);
    struct symc_cuda_called called;

    if (status != SYMMCOLL_OK)
        return status;
    status = symc_lt_open(&compute->lt, compute->fail,
        settings->get_text(settings->config, "cuda.cublaslt"));
    if (status == SYMMCOLL_OK) {
        called = make_streams(compute);
        if (called.result != CUDA_SUCCESS)
            status = fail_compute(compute, called.result,
                "%s for what is beside products", called.name);
    }
    if (status != SYMMCOLL_OK)
        close_parts(compute);
    symc_cuda_leave(&entered);
    return status;
}

static symmcoll_status_t open_compute(
    const struct symc_memory_request *request, void **compute)
{
    struct symc_cuda_compute *made = calloc(1, sizeof(*made));
    symmcoll_status_t status;

    if (made == NULL)
        return request->fail(SYMMCOLL_ERR_NO_MEMORY, "no memory for a device");
    made->fail = request->fail;
    status = symc_cuda_request_open(request, &made->context);
    if (status == SYMMCOLL_OK)
        status = open_parts(made, request->settings);
    if (status != SYMMCOLL_OK) {
        symc_cuda_context_close(&made->context);
        free(made);
        return status;
    }
    *compute = made;
    return SYMMCOLL_OK;
}

static bool serves(const void *state, const struct symc_memory_request *request)
{
    const struct symc_cuda_compute *compute = state;

    return symc_cuda_request_serves(request, &compute->context);
}

static symmcoll_status_t reach(
    void *state, const char *where, const char *what, const void *at)
{
    const struct symc_cuda_compute *compute = state;

    return symc_cuda_check_reach(
        &compute->context, compute->fail, where, what, at);
}

static void close_compute(void *state)
{
    struct symc_cuda_compute *compute = state;
    struct symc_cuda_entered entered;

    if (symc_cuda_enter(&compute->context, &entered).result == CUDA_SUCCESS) {
        close_parts(compute);
        symc_cuda_leave(&entered);
    }
    symc_cuda_context_close(&compute->context);
    free(compute);
}

/* ---- plans ---- */

static bool is_eighth(enum symmcoll_dtype dtype)
{
    return dtype == SYMMCOLL_FLOAT8_E4M3FN || dtype == SYMMCOLL_FLOAT8_E5M2;
}

/* Checks the compute capability, as cuBLASLt's own error does not name the reason. */
static symmcoll_status_t check_capability(
    const struct symc_cuda_compute *compute, const struct symc_product *product)
{
    const struct symc_cuda *cuda = compute->context.cuda;
    int major = 0, minor = 0;
    CUresult result;

    if (!is_eighth(product->a.dtype))
        return SYMMCOLL_OK;
    result = cuda->device_get_attribute(&major,
        CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, compute->context.device);
    if (result == CUDA_SUCCESS)
        result = cuda->device_get_attribute(&minor,
            CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR,
            compute->context.device);
    if (result != CUDA_SUCCESS)
        return fail_compute(compute, result, "cuDeviceGetAttribute");
    if (product->outer ? major == 9 : major * 10 + minor >= 89)
        return SYMMCOLL_OK;
    return compute->fail(SYMMCOLL_ERR_UNSUPPORTED,
        "expected a device of compute capability %s for 8-bit floats with %s, "
        "found device %d of %d.%d",
        product->outer ? "9" : "8.9 or more",
        product->outer ? "scales of rows or columns" : "one scale",
        (int)compute->context.device, major, minor);
}

static symmcoll_status_t make_plan(void *state,
    const struct symc_product *product, void **plan, size_t *workspace)
{
    struct symc_cuda_compute *compute = state;
    struct symc_cuda_entered entered;
    symmcoll_status_t status = check_capability(compute, product);
    struct symc_lt_plan *made;

    if (status != SYMMCOLL_OK)
        return status;
    made = calloc(1, sizeof(*made));
    if (made == NULL)
        return compute->fail(SYMMCOLL_ERR_NO_MEMORY, "no memory for a product");
    status = enter(compute, &entered);
    if (status == SYMMCOLL_OK) {
        status = symc_lt_plan_make(&compute->lt, product, made);
        symc_cuda_leave(&entered);
    }
    if (status != SYMMCOLL_OK) {
        free(made);
        return status;
    }
    *plan = made;
    *workspace = made->workspace;
    return SYMMCOLL_OK;
}

static void forget_plan(void *state, void *plan)
{
    (void)state;
    if (plan != NULL)
        symc_lt_plan_free(plan);
    free(plan);
}

/* ---- execution of plans ---- */

static size_t round_up(size_t nbytes)
{
    return (nbytes + SYMC_PRODUCT_ALIGNMENT - 1) / SYMC_PRODUCT_ALIGNMENT *
           SYMC_PRODUCT_ALIGNMENT;
}

/* Returns the bytes of an element of a type that cuBLASLt has. */
static size_t elem_of(enum symmcoll_dtype dtype)
{
    if (is_eighth(dtype))
        return 1;
    if (dtype == SYMMCOLL_FLOAT16 || dtype == SYMMCOLL_BFLOAT16)
        return 2;
    return dtype == SYMMCOLL_FLOAT64 ? 8 : 4;
}

/* Returns the bytes from the matrix's first element to the end of the last. */
static size_t nbytes_of(const struct symc_product_matrix *matrix)
{
    int64_t lines = matrix->by_columns ? matrix->cols : matrix->rows;

    return round_up(
        (size_t)(lines * matrix->distance) * elem_of(matrix->dtype));
}

static size_t most_of(size_t a, size_t b)
{
    return a > b ? a : b;
}

/* Places dummy operands from an address on, for a trial run; all matrices share one
 * place.  Returns the bytes needed. */
static size_t place_operands(const struct symc_lt_plan *plan, uintptr_t at,
    struct symc_product_operands *operands)
{
    const struct symc_product *product = &plan->product;
    const size_t matrix = most_of(nbytes_of(&product->c),
                     most_of(nbytes_of(&product->a), nbytes_of(&product->b))),
                 scales = round_up((size_t)(product->a.rows + product->b.cols) *
                                   sizeof(float));

    *operands = (struct symc_product_operands){.a = (const void *)at,
        .b = (const void *)at,
        .c = (void *)at,
        .a_scale = (const float *)(at + matrix),
        .b_scale = (const float *)(at + matrix),
        .workspace = (void *)(at + matrix + scales)};
    return matrix + scales + plan->workspace;
}

/* Runs a product once on dummy operands; tried (out): it ran.  The context must be
 * current. */
static symmcoll_status_t run_once(struct symc_cuda_compute *compute,
    struct symc_lt_plan *plan, CUstream stream, bool *tried)
{
    const struct symc_cuda *cuda = compute->context.cuda;
    struct symc_product_operands operands;
    CUmemoryPool pool = NULL;
    CUdeviceptr at = 0;
    symmcoll_status_t status;

    *tried =
        symc_cuda_pool_of(&compute->context, &pool).result == CUDA_SUCCESS &&
        cuda->mem_alloc_from_pool_async(&at, place_operands(plan, 0, &operands),
            pool, stream) == CUDA_SUCCESS;
    if (!*tried)
        return SYMMCOLL_OK;
    (void)place_operands(plan, (uintptr_t)at, &operands);
    status = symc_lt_matmul(plan, &operands, stream);
    (void)cuda->mem_free_async(at, stream);
    *tried = status == SYMMCOLL_OK;
    return status;
}

static symmcoll_status_t load_plan(void *state, void *plan, bool *tried)
{
    struct symc_cuda_compute *compute = state;
    const struct symc_cuda *cuda = compute->context.cuda;
    struct symc_cuda_entered entered;
    symmcoll_status_t status = enter(compute, &entered);
    CUstream stream = NULL;
    CUresult result;

    *tried = false;
    if (status != SYMMCOLL_OK)
        return status;
    result =
        cuda->stream_create_with_priority(&stream, CU_STREAM_NON_BLOCKING, 0);
    if (result != CUDA_SUCCESS) {
        status = fail_compute(compute, result,
            "cuStreamCreateWithPriority for a product that is tried");
    } else {
        status = run_once(compute, plan, stream, tried);
        (void)cuda->stream_destroy(stream); /* its work still runs */
    }
    symc_cuda_leave(&entered);
    return status;
}

static symmcoll_status_t multiply(void *state, void *plan,
    const struct symc_product_operands *operands, void *stream)
{
    const struct symc_cuda_compute *compute = state;
    struct symc_cuda_entered entered;
    symmcoll_status_t status = enter(compute, &entered);

    if (status != SYMMCOLL_OK)
        return status;
    status = symc_lt_matmul(plan, operands, stream);
    symc_cuda_leave(&entered);
    return status;
}

/* ---- streams ---- */

static symmcoll_status_t query_captured(
    void *state, void *stream, bool *captured)
{
    struct symc_cuda_compute *compute = state;

    return symc_cuda_context_query_captured(
        &compute->context, compute->fail, stream, captured);
}

const struct symc_compute_ops symc_cuda_compute_ops = {.open = open_compute,
    .serves = serves,
    .close = close_compute,
    .reach = reach,
    .plan = make_plan,
    .forget = forget_plan,
    .load = load_plan,
    .multiply = multiply,
    .query_captured = query_captured};
