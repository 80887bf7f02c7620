/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Removes each order, copy, kernel and product of a fused operation on a
 * device, one at a time, and checks that results become wrong. A missing order
 * shows only if a stream is late, so each stream is made late in turn: it
 * begins its work when all other streams of all ranks are idle. These may be
 * late themselves on a busy machine, so a call is removed again, with longer
 * waits, until the results are wrong.
 *
 * The operations of a row are on two streams alternately, because those of a
 * group are ordered even if the caller's streams are not. A call is missing in
 * the second operation of rank 0.
 */
#include "t/fused/made.h"
#include "t/fused/on_device.h"

#include <stdlib.h>
#include <string.h>

#define SIZE 4
#define ROW 3     /* operations */
#define WITHOUT 1 /* the operation without a call */
#define ROWS 4    /* of a part */
#define DEPTH 3
#define COLUMNS 2
#define MOST_MS 128 /* largest delay of a stream */

static const char *const calls[] = {"cuStreamWaitEvent", "cuEventRecord",
    "cuMemcpyAsync", "cuLaunchKernelEx", "cuLaunchHostFunc"};
#define BARRIERS "cuLaunchKernelEx" /* skipped on all ranks */

/* The priorities of the caller's two streams, and of the one beside
 * products. */
static const int priorities[] = {0, -1, -5};

/* The streams that are late. */
static const struct turn {
    int rank, priority;
} turns[] = {{0, 0}, {0, -1}, {0, -5}, {1, -5}};
#define TURNS (int)(sizeof(turns) / sizeof(*turns))

struct kind {
    const char *what;
    bool gathers, wants_a, packed;
    bool plain; /* as one product */
    int count;  /* of its calls */
};

static const struct kind *kind;

/* The tensors of a rank for each operation of a row. */
struct one {
    struct symmcoll_tensor a, b, out, gathered;
    float *a_data; /* on the host, copied on the operation's stream */
    float *out_read, *a_read; /* on the device, copied likewise */
};

struct rank {
    struct symmcoll_group *group;
    int rank, device;
    CUstream streams[2];
    struct one row[ROW];
    int rounds; /* run before, no two with the same elements */
    int turn;   /* the late streams when a missing call was last detected */
};

/* ---- elements ---- */

static float value_of(int call, int rank, int row, int k)
{
    return (float)((call * 5 + rank * 3 + row * 2 + k) % 17 + 1);
}

static float product_of(int call, int rank, int row, int column)
{
    float sum = 0;

    for (int k = 0; k < DEPTH; k++)
        sum += value_of(call, rank, row, k) * (float)(k * COLUMNS + column + 1);
    return sum;
}

static float wanted_of(int call, int rank, int row, int column)
{
    float sum = 0;

    if (kind->gathers)
        return product_of(call, row / ROWS, row % ROWS, column);
    for (int r = 0; r < SIZE; r++)
        sum += product_of(call, r, rank * ROWS + row, column);
    return sum;
}

/* Return the number of rows of a, and of the result. */
static int rows_of(void)
{
    return kind->gathers ? ROWS : ROWS * SIZE;
}

static int out_rows(void)
{
    return kind->gathers ? ROWS * SIZE : ROWS;
}

/* Checks the result of one operation of a row. */
static bool is_right(const struct rank *it, int index)
{
    const struct one *one = &it->row[index];
    int call = it->rounds * ROW + index;
    bool right = true;

    for (int i = 0; i < out_rows() * COLUMNS && right; i++)
        right = one->out_read[i] ==
                wanted_of(call, it->rank, i / COLUMNS, i % COLUMNS);
    for (int i = 0; i < ROWS * SIZE * DEPTH && kind->wants_a && right; i++)
        right = one->a_read[i] ==
                value_of(call, i / DEPTH / ROWS, i / DEPTH % ROWS, i % DEPTH);
    return right;
}

/* ---- a row of operations ---- */

static size_t out_nbytes(void)
{
    return sizeof(float) * COLUMNS * (size_t)out_rows();
}

static size_t gathered_nbytes(void)
{
    return sizeof(float) * ROWS * SIZE * DEPTH;
}

static size_t a_nbytes(void)
{
    return sizeof(float) * (size_t)rows_of() * DEPTH;
}

static void copy(CUstream stream, void *to, const void *from, size_t nbytes)
{
    if (cuMemcpyAsync((CUdeviceptr)(uintptr_t)to, (CUdeviceptr)(uintptr_t)from,
            nbytes, stream) != CUDA_SUCCESS)
        abort();
}

static int call_one(struct rank *it, int index)
{
    struct symmcoll_call call = SYMMCOLL_CALL_INIT;
    struct one *one = &it->row[index];

    call.stream = it->streams[index % 2];
    if (!OK(symmcoll_fused_set_plain(it->group, kind->plain)))
        return 0;
    return kind->gathers
               ? OK(symmcoll_fused_all_gather_matmul(it->group, &one->a,
                     &one->b, 1, 0, &call,
                     kind->wants_a ? &one->gathered : NULL, &one->out))
               : OK(symmcoll_fused_matmul_reduce_scatter(it->group, &one->a,
                     &one->b, SYMMCOLL_SUM, 0, &call, &one->out));
}

/* Fills all of the rank's operands, and overwrites previous results. */
static void fill_row(struct rank *it)
{
    float poison[ROWS * SIZE * (DEPTH + COLUMNS)];

    for (size_t i = 0; i < sizeof(poison) / sizeof(*poison); i++)
        poison[i] = -1000;
    it->rounds++;
    for (int i = 0; i < ROW; i++) {
        struct one *one = &it->row[i];

        for (int row = 0; row < rows_of(); row++)
            for (int k = 0; k < DEPTH; k++)
                one->a_data[row * one->a.strides[0] + k * one->a.strides[1]] =
                    value_of(it->rounds * ROW + i, it->rank, row, k);
        device_write(one->a.data, poison, a_nbytes());
        device_write(one->out.data, poison, out_nbytes());
        if (kind->wants_a)
            device_write(one->gathered.data, poison, gathered_nbytes());
    }
}

static void run_row(struct rank *it, const char *without, int n, bool *came)
{
    *came = false;
    for (int i = 0; i < ROW; i++) {
        CUstream stream = it->streams[i % 2];
        struct one *one = &it->row[i];

        copy(stream, one->a.data, one->a_data, a_nbytes());
        if (i == WITHOUT && without != NULL)
            fake_skip(it->device, without, n);
        if (!call_one(it, i))
            abort();
        if (i == WITHOUT && without != NULL)
            *came = fake_has_skipped(it->device);
        fake_skip(it->device, NULL, 0);
        copy(stream, one->out_read, one->out.data, out_nbytes());
        if (kind->wants_a)
            copy(stream, one->a_read, one->gathered.data, gathered_nbytes());
    }
}

/* Returns whether the condition holds on all ranks. Uses host memory, because
 * the devices have pending work. */
static bool all(const struct rank *it, bool so)
{
    int32_t number = so;

    if (!OK(symmcoll_all_reduce(it->group, &number, &number, 1, SYMMCOLL_INT32,
            SYMMCOLL_MIN, NULL, NULL)))
        abort();
    return number != 0;
}

/* Checks that all ranks have the right results, for a row in which some
 * streams are late. came (out): the call to be skipped was made. */
static bool results_are_right(struct rank *it, const char *without, int n,
    const struct turn *turn, int ms, bool *came)
{
    bool leaves =
        it->rank == 0 || (without != NULL && strcmp(without, BARRIERS) == 0);
    bool right = true;

    fill_row(it);
    for (int i = 0; i < 2; i++)
        fake_stall(it->streams[i]);
    run_row(it, leaves ? without : NULL, n, came);
    if (it->rank == turn->rank)
        fake_hold_back(it->device, turn->priority, ms);
    (void)all(it, true);
    for (int i = 0; i < 2; i++)
        fake_resume(it->streams[i]);
    for (int i = 0; i < 2; i++)
        device_wait(it->streams[i]);
    (void)all(it, true);
    if (it->rank == turn->rank)
        fake_hold_back(it->device, 0, 0);
    if (cuCtxSynchronize() != CUDA_SUCCESS)
        abort();
    for (int i = 0; i < ROW; i++)
        right = right && is_right(it, i);
    *came = all(it, *came || it->rank != 0);
    return all(it, right);
}

/* ---- each call ---- */

static bool is_missed(struct rank *it, const char *call, int n, bool *came)
{
    for (int ms = 1; ms <= MOST_MS; ms *= 2) {
        for (int i = 0; i < TURNS; i++) {
            int which = (it->turn + i) % TURNS;
            bool right =
                results_are_right(it, call, n, &turns[which], ms, came);

            if (!*came)
                return false;
            if (right)
                continue;
            it->turn = which;
            return true;
        }
    }
    if (it->rank == 0)
        diag("%s: nobody misses call %d of %s", kind->what, n, call);
    return false;
}

/* Returns whether the operation uses a stream besides the caller's. */
static bool is_beside(void)
{
    return kind->gathers && !kind->plain;
}

/*
 * Returns whether a call is skipped. Without an order two barriers of a rank
 * may run at once, and then none may end. Two orders are therefore kept: that
 * of operations without a stream beside the caller's, and that of the end of
 * an operation after that stream if only a barrier is on it; with a result for
 * A there is more.
 */
static bool is_left_out(const char *call, int n)
{
    bool waits = strcmp(call, "cuStreamWaitEvent") == 0;
    bool orders = waits || strcmp(call, "cuEventRecord") == 0;

    if (!orders)
        return true;
    if (!is_beside())
        return false;
    /* One call for each rank; they follow the wait for the previous
     * operation. */
    return kind->wants_a || n != SIZE + 1 + waits;
}

static int each_is_missed(struct rank *it)
{
    int right = 1, count = 0;

    for (size_t i = 0; i < sizeof(calls) / sizeof(*calls); i++) {
        bool came = is_beside() || is_left_out(calls[i], 1);

        for (int n = 1; came; n++) {
            bool missed =
                !is_left_out(calls[i], n) || is_missed(it, calls[i], n, &came);

            count += came;
            right = right && (missed || !came);
        }
    }
    if (it->rank == 0)
        diag("%s: %d calls", kind->what, count);
    return right && count == kind->count;
}

/* ---- ranks ---- */

static void make(struct rank *it, struct symmcoll_group *group, int rank)
{
    float b[DEPTH * COLUMNS];
    struct symmcoll_tensor tensor =
        SYMMCOLL_TENSOR_SHAPE(b, SYMMCOLL_FLOAT32, DEPTH, COLUMNS);

    *it =
        (struct rank){.group = group, .rank = rank, .device = device_use(rank)};
    for (int i = 0; i < 2; i++)
        if (cuStreamCreateWithPriority(&it->streams[i], CU_STREAM_NON_BLOCKING,
                priorities[i]) != CUDA_SUCCESS)
            abort();
    for (int i = 0; i < DEPTH * COLUMNS; i++)
        b[i] = (float)(i + 1);
    for (int i = 0; i < ROW; i++) {
        struct one *one = &it->row[i];
        struct symmcoll_tensor a = SYMMCOLL_TENSOR_SHAPE(
            calloc(1, a_nbytes()), SYMMCOLL_FLOAT32, rows_of(), DEPTH);

        if (kind->packed) {
            a.strides[0] = 1;
            a.strides[1] = rows_of();
        }
        one->a_data = a.data;
        one->a = on_device(&a, it->device);
        one->b = on_device(&tensor, it->device);
        one->out = (struct symmcoll_tensor)SYMMCOLL_TENSOR_INIT;
        one->gathered = one->out;
        one->out_read = device_alloc(out_nbytes());
        one->a_read = device_alloc(gathered_nbytes());
    }
}

static void drop(struct rank *it)
{
    struct symmcoll_world *world = symmcoll_group_world(it->group);

    for (int i = 0; i < ROW; i++) {
        struct one *one = &it->row[i];

        symmcoll_f_free(world, &one->out);
        symmcoll_f_free(world, &one->gathered);
        on_device_free(&one->a);
        on_device_free(&one->b);
        device_free(one->out_read);
        device_free(one->a_read);
        free(one->a_data);
    }
    for (int i = 0; i < 2; i++)
        device_end_stream(it->streams[i]);
}

static int body(struct symmcoll_group *group, int rank)
{
    bool came;
    struct rank it;
    int right = 1;

    make(&it, group, rank);
    for (int i = 0; i < ROW && right; i++) /* the results have addresses then */
        right = call_one(&it, i);
    for (int i = 0; i < TURNS && right; i++)
        right = say(results_are_right(&it, NULL, 0, &turns[i], 2, &came),
            "of a row that lacks nothing");
    right = right && each_is_missed(&it);
    drop(&it);
    return right;
}

int main(void)
{
    static const struct kind kinds[] = {
        {.what = "gathered", .gathers = true, .count = 22},
        {.what = "gathered, with all of A",
            .gathers = true,
            .wants_a = true,
            .count = 23},
        {.what = "gathered, packed",
            .gathers = true,
            .packed = true,
            .count = 21},
        {.what = "gathered at once",
            .gathers = true,
            .plain = true,
            .count = 2},
        {.what = "scattered", .count = 8},
        {.what = "scattered, packed", .packed = true, .count = 8},
        {.what = "scattered at once", .plain = true, .count = 2}};

#if defined(__SANITIZE_THREAD__)
    skip_all("what lacks an order is a data race");
#endif
    on_device_begin("2");
    for (size_t i = 0; i < sizeof(kinds) / sizeof(*kinds); i++) {
        kind = &kinds[i];
        ok(threads_run(SIZE, body), "%s: each call that is left out is missed",
            kind->what);
    }
    return done_testing();
}
