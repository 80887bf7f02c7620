/* SPDX-License-Identifier: BSD-3-Clause */
#include "t/fused/async_on_device.h"
#include "t/symm_mem/device.h"

#include <string.h>

#define ROWS 24
#define DEPTH 17
#define COLUMNS 9
#define A_NBYTES (ROWS * DEPTH * sizeof(float))
#define C_NBYTES (ROWS * COLUMNS * sizeof(float))
#define SIGNALS_AT ((size_t)4096)
#define NBYTES ((size_t)8192)
#define CHUNKS 6
#define LENGTH(array) (sizeof(array) / sizeof((array)[0]))

/* The operands of a rank: rows arrive at the start of its memory. Products are
 * on a separate stream, so that they wait while the rank sends. */
struct product {
    struct joined joined;
    CUstream stream;
    char *rows; /* that it sends */
    struct symmcoll_tensor a, b, out;
};

/* Returns an element: a small integer, so that sums are exact in each type. */
static float element(int round, int row, int column)
{
    return (float)((round * 5 + row * 3 + column * 7) % 11 - 5);
}

static float column_element(int row, int column)
{
    return (float)((row * COLUMNS + column) % 7 - 3);
}

/* Stores an element in the format of a type. */
static void put(enum symmcoll_dtype dtype, void *at, float value)
{
    double as_double = value;
    uint32_t bits;

    memcpy(&bits, &value, sizeof(bits));
    if (dtype == SYMMCOLL_FLOAT64)
        memcpy(at, &as_double, sizeof(as_double));
    else if (dtype == SYMMCOLL_BFLOAT16)
        memcpy(at, (char *)&bits + 2, 2);
    else
        memcpy(at, &value, sizeof(value));
}

static float get(enum symmcoll_dtype dtype, const void *at)
{
    uint32_t bits = 0;
    double as_double;
    float value;

    if (dtype == SYMMCOLL_FLOAT64) {
        memcpy(&as_double, at, sizeof(as_double));
        return (float)as_double;
    }
    memcpy((char *)&bits + (dtype == SYMMCOLL_BFLOAT16 ? 2 : 0), at,
        dtype == SYMMCOLL_BFLOAT16 ? 2 : 4);
    memcpy(&value, &bits, sizeof(value));
    return value;
}

/* Writes a matrix on the device, with elements computed by a function. */
static void write_matrix(
    const struct symmcoll_tensor *matrix, size_t nbytes, int round, bool is_a)
{
    size_t elem = symmcoll_dtype_size(matrix->dtype);
    char *host = calloc(1, nbytes);

    for (int64_t row = 0; row < matrix->shape[0]; row++)
        for (int64_t column = 0; column < matrix->shape[1]; column++)
            put(matrix->dtype,
                host + (size_t)(row * matrix->strides[0] +
                                column * matrix->strides[1]) *
                           elem,
                is_a ? element(round, (int)row, (int)column)
                     : column_element((int)row, (int)column));
    device_write(matrix->data, host, nbytes);
    free(host);
}

static int is_product(const struct product *it, int round)
{
    const struct symmcoll_tensor *out = &it->out;
    size_t elem = symmcoll_dtype_size(out->dtype);
    size_t count = (size_t)(out->shape[0] * out->shape[1]);
    char *found = malloc(count * elem + 1);
    int right = 1;

    device_read(found, out->data, count * elem);
    for (size_t i = 0; i < count && right; i++) {
        int row = (int)i / COLUMNS, column = (int)i % COLUMNS;
        float sum = 0, one = get(out->dtype, found + i * elem);

        for (int k = 0; k < (int)it->a.shape[1]; k++)
            sum += element(round, row, k) * column_element(k, column);
        right = one == sum;
        if (!right)
            diag("round %d, element %zu of %s: found %g, expected %g", round, i,
                symmcoll_dtype_name(out->dtype), (double)one, (double)sum);
    }
    free(found);
    return right;
}

static struct symmcoll_tensor matrix_of(
    void *data, enum symmcoll_dtype dtype, int64_t rows, int64_t columns)
{
    struct symmcoll_tensor made =
        SYMMCOLL_TENSOR_SHAPE(data, dtype, rows, columns);
    int device = 0;

    if (cuCtxGetDevice(&device) != CUDA_SUCCESS)
        abort();
    made.device = SYMMCOLL_CUDA;
    made.device_index = device;
    return made;
}

static bool begin(struct product *it, struct symmcoll_group *group, int rank)
{
    const struct symmcoll_tensor init = SYMMCOLL_TENSOR_INIT;
    bool right = begin_joined(&it->joined, group, rank, NBYTES);

    it->stream = device_stream();
    it->rows = device_alloc(A_NBYTES);
    it->a = matrix_of(it->joined.data, F32, ROWS, DEPTH);
    it->b = matrix_of(
        device_alloc(DEPTH * COLUMNS * sizeof(float)), F32, DEPTH, COLUMNS);
    write_matrix(&it->b, DEPTH * COLUMNS * sizeof(float), 0, false);
    it->out = init;
    return right;
}

static int end(struct product *it, bool right)
{
    device_wait(it->stream);
    device_end_stream(it->stream);
    device_free(it->rows);
    device_free(it->b.data);
    return end_joined(&it->joined, right);
}

static size_t signal_at(int chunk)
{
    return SIGNALS_AT + (size_t)chunk * sizeof(uint32_t);
}

/* Sets a rank's signals, and blocks until all ranks have set theirs. */
static bool set_signals(struct product *it, uint32_t value, int chunks)
{
    struct joined *joined = &it->joined;
    bool right = OK(symmcoll_symm_memset32(
        joined->handle, joined->rank, SIGNALS_AT, value, (size_t)chunks));

    device_wait(joined->stream);
    return OK(symmcoll_barrier(joined->group, NULL, NULL)) && right;
}

static symmcoll_status_t multiply(struct product *it, int chunks)
{
    struct symmcoll_call call = SYMMCOLL_CALL_INIT;
    int pivot = it->joined.rank * chunks / it->joined.size;

    call.stream = it->stream;
    return symmcoll_async_input_matmul(it->joined.handle, SIGNALS_AT,
        (size_t)chunks, (size_t)pivot, &it->a, &it->b, &call, &it->out);
}

static void release_result(struct product *it)
{
    device_wait(it->stream);
    symmcoll_f_free(it->joined.world, &it->out);
    device_wait(it->stream);
}

/* ---- arriving rows ---- */

/* Sends the rows of a chunk, if `rows`, and its signal to a rank. */
static bool send(struct product *it, int to, int chunks, int chunk, bool rows)
{
    struct joined *joined = &it->joined;
    size_t nbytes = A_NBYTES / (size_t)chunks, at = (size_t)chunk * nbytes;

    return (!rows || OK(symmcoll_symm_put_data(
                         joined->handle, to, at, it->rows + at, nbytes))) &&
           OK(symmcoll_symm_write_value32(
               joined->handle, to, signal_at(chunk), 1));
}

/* Sends all chunks of this rank. */
static bool send_all(struct product *it, int round, int chunks, bool rows)
{
    int size = it->joined.size;
    bool right = true;

    for (int i = 0; i < chunks * size && right; i++) {
        /* 5 is coprime to all numbers of chunks. */
        int chunk = (i / size * 5 + round) % chunks;

        if (chunk * size / chunks == it->joined.rank)
            right = send(it, (it->joined.rank + i) % size, chunks, chunk, rows);
    }
    return right;
}

static bool round_is_right(struct product *it, int round, int chunks)
{
    struct symmcoll_tensor rows = it->a;
    bool right;

    rows.data = it->rows;
    write_matrix(&rows, A_NBYTES, round, true);
    /* In the first round the rows are already there: code that a driver loads
     * at the first product may wait for that of other ranks. */
    right = set_signals(it, round == 0, chunks);
    if (round == 0)
        write_matrix(&it->a, A_NBYTES, round, true);
    right = right && OK(multiply(it, chunks)) &&
            OK(symmcoll_barrier(it->joined.group, NULL, NULL)) &&
            (round == 0 || send_all(it, round, chunks, true));
    device_wait(it->stream);
    right = right && is_product(it, round);
    release_result(it);
    device_wait(it->joined.stream);
    return OK(symmcoll_barrier(it->joined.group, NULL, NULL)) && right;
}

int async_rows_arrive(struct symmcoll_group *group, int rank)
{
    static const int of_chunks[] = {1, 2, CHUNKS, ROWS};
    struct product it;
    bool right = begin(&it, group, rank);

    for (size_t i = 0; i < LENGTH(of_chunks) && right; i++)
        for (int round = 0; round < 3 && right; round++)
            right = round_is_right(&it, round, of_chunks[i]);
    return end(&it, right);
}

/* ---- orders ---- */

enum order {
    BY_ROWS,
    BY_COLUMNS,
    WITH_GAPS, /* between rows */
    APART,     /* between all elements */
    ORDERS
};

static size_t order_matrix(struct symmcoll_tensor *matrix, enum order order)
{
    int64_t rows = matrix->shape[0], columns = matrix->shape[1];

    matrix->strides[0] = order == BY_COLUMNS ? 1 : columns;
    matrix->strides[1] = order == BY_COLUMNS ? rows : 1;
    if (order == WITH_GAPS)
        matrix->strides[0] += 3;
    if (order == APART) {
        matrix->strides[1] = 2;
        matrix->strides[0] = 2 * columns + 1;
    }
    return (size_t)(rows * columns * 2 + rows * 4 + 4) *
           symmcoll_dtype_size(matrix->dtype);
}

static bool order_is_right(struct product *it, enum symmcoll_dtype dtype,
    enum order a_order, enum order b_order, int64_t depth)
{
    struct symmcoll_tensor kept = it->b;
    size_t a_nbytes, b_nbytes;
    bool right;

    it->a = matrix_of(NULL, dtype, ROWS, depth);
    it->b = matrix_of(NULL, dtype, depth, COLUMNS);
    a_nbytes = order_matrix(&it->a, a_order);
    b_nbytes = order_matrix(&it->b, b_order);
    it->a.data = device_alloc(a_nbytes);
    it->b.data = device_alloc(b_nbytes);
    write_matrix(&it->a, a_nbytes, 1, true);
    write_matrix(&it->b, b_nbytes, 1, false);
    right = set_signals(it, 1, CHUNKS) && OK(multiply(it, CHUNKS));
    device_wait(it->stream);
    right = right && is_product(it, 1);
    if (!right)
        diag("orders %d and %d, depth %d", (int)a_order, (int)b_order,
            (int)depth);
    release_result(it);
    device_free(it->a.data);
    device_free(it->b.data);
    it->b = kept;
    return right;
}

int async_orders(struct symmcoll_group *group, int rank)
{
    static const enum symmcoll_dtype types[] = {
        F32, SYMMCOLL_BFLOAT16, SYMMCOLL_FLOAT64};
    struct product it;
    bool right = begin(&it, group, rank);

    for (int i = 0; i < ORDERS * ORDERS && right; i++)
        right = order_is_right(&it, types[i % 3], (enum order)(i % ORDERS),
            (enum order)(i / ORDERS), DEPTH);
    right = right && order_is_right(&it, F32, BY_ROWS, BY_ROWS, 0);
    return end(&it, right);
}

/* ---- captured ---- */

/* Launches the graph. The result is the caller's, and signals are reset before
 * each launch. */
static bool replay(struct product *it, CUgraphExec graph, int round)
{
    bool right;

    write_matrix(&it->a, A_NBYTES, round, true);
    right = set_signals(it, 0, CHUNKS) &&
            cuGraphLaunch(graph, it->stream) == CUDA_SUCCESS &&
            OK(symmcoll_barrier(it->joined.group, NULL, NULL)) &&
            send_all(it, round, CHUNKS, false);
    device_wait(it->stream);
    right = right && is_product(it, round);
    device_wait(it->joined.stream);
    return OK(symmcoll_barrier(it->joined.group, NULL, NULL)) && right;
}

int async_captured(struct symmcoll_group *group, int rank)
{
    CUgraph graph = NULL;
    CUgraphExec exec = NULL;
    struct product it;
    symmcoll_status_t status = SYMMCOLL_ERR_DEVICE;
    bool right = begin(&it, group, rank);

    /* Runs outside of the graph once, because the first product may load
     * code. */
    right = right && round_is_right(&it, 0, CHUNKS);
    it.out = matrix_of(device_alloc(C_NBYTES), F32, ROWS, COLUMNS);
    if (cuStreamBeginCapture(it.stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL) ==
        CUDA_SUCCESS)
        status = multiply(&it, CHUNKS);
    right = cuStreamEndCapture(it.stream, &graph) == CUDA_SUCCESS &&
            OK(status) && cuGraphInstantiate(&exec, graph, 0) == CUDA_SUCCESS &&
            right;
    for (int round = 1; round < 3 && right; round++)
        right = replay(&it, exec, round);
    if (exec != NULL)
        (void)cuGraphExecDestroy(exec);
    if (graph != NULL)
        (void)cuGraphDestroy(graph);
    device_free(it.out.data);
    return end(&it, right);
}
