/* SPDX-License-Identifier: BSD-3-Clause */
/* Tests lists of tensors, which a group treats as one operation. */
#include "t/functional/made.h"

#include <pthread.h>
#include <stdint.h>
#include <string.h>

#define N 3

/* Tensors of float32, alternating with int32 if mixed, with elements that
 * encode the rank, the tensor and the index. */
struct list {
    int32_t values[N][64];
    struct symmcoll_tensor in[N], out[N], back[N];
};

static void set(
    const struct symmcoll_tensor *tensor, void *values, int64_t i, int value)
{
    if (tensor->dtype == SYMMCOLL_INT32)
        ((int32_t *)values)[i] = value;
    else
        ((float *)values)[i] = (float)value;
}

static int value_of(const struct symmcoll_tensor *tensor, int64_t i)
{
    return tensor->dtype == SYMMCOLL_INT32 ? ((const int32_t *)tensor->data)[i]
                                           : (int)at(tensor, i);
}

static void make(struct list *list, int rank, int rows, int columns, bool mixed)
{
    memset(list, 0, sizeof(*list));
    for (int t = 0; t < N; t++) {
        struct symmcoll_tensor in = SYMMCOLL_TENSOR_SHAPE(list->values[t],
            mixed && t == 1 ? SYMMCOLL_INT32 : SYMMCOLL_FLOAT32, rows,
            columns * (t + 1));

        list->in[t] = in;
        list->out[t] = list->back[t] =
            (struct symmcoll_tensor)SYMMCOLL_TENSOR_INIT;
        for (int64_t i = 0; i < count_of(&in); i++)
            set(&in, list->values[t], i, 1000 * rank + 100 * t + (int)i);
    }
}

static int wait_all(struct symmcoll_group *group, struct symmcoll_tensor *of)
{
    int good = 1;

    for (int t = N - 1; t >= 0; t--)
        good = waits(group, &of[t]) && good;
    return good;
}

static void release_all(struct symmcoll_group *group, struct list *list)
{
    for (int t = 0; t < N; t++) {
        release(group, &list->out[t]);
        release(group, &list->back[t]);
    }
}

/* Checks how many operations have begun since `before`. */
static int began(struct symmcoll_group *group, uint64_t before, int operations)
{
    uint64_t now = symmcoll_group_sequence(group);

    if (now == before + (uint64_t)operations)
        return 1;
    diag("expected %d operations, found %d", operations, (int)(now - before));
    return 0;
}

static int is_value(
    const struct symmcoll_tensor *tensor, int t, int64_t i, int expected)
{
    if (value_of(tensor, i) == expected)
        return 1;
    diag("tensor %d, element %d: expected %d, found %d", t, (int)i, expected,
        value_of(tensor, i));
    return 0;
}

/* ---- values ---- */

static int are_sums(struct symmcoll_group *group, const struct list *list)
{
    int size = symmcoll_group_size(group), good = 1;

    for (int t = 0; t < N; t++) {
        for (int64_t i = 0; good && i < count_of(&list->in[t]); i++)
            good = is_value(&list->out[t], t, i,
                1000 * size * (size - 1) / 2 + size * (100 * t + (int)i));
    }
    return good;
}

static int reduce_some(struct symmcoll_group *group, int rank, bool mixed)
{
    struct list list;
    uint64_t before = symmcoll_group_sequence(group);
    int good;

    make(&list, rank, 2, 3, mixed);
    good = OK(symmcoll_f_all_reduce_coalesced(
               group, list.in, N, SYMMCOLL_SUM, NULL, list.out, NULL)) &&
           wait_all(group, list.out) && began(group, before, mixed ? 2 : 1) &&
           are_sums(group, &list);
    release_all(group, &list);
    return good;
}

static int reduces(struct symmcoll_group *group, int rank)
{
    return reduce_some(group, rank, false);
}

static int reduces_mixed(struct symmcoll_group *group, int rank)
{
    return reduce_some(group, rank, true);
}

/* Gathers along both dimensions; gradients of ones become the number of
 * ranks. */
static int gathers(struct symmcoll_group *group, int rank)
{
    static const int dims[N] = {1, 0, 1};
    struct symmcoll_adjoint *adjoint = NULL;
    uint64_t before = symmcoll_group_sequence(group);
    int size = symmcoll_group_size(group), good;
    struct list list;

    make(&list, rank, 2, 3, false);
    good = OK(symmcoll_f_all_gather_coalesced(
               group, list.in, N, dims, NULL, list.out, &adjoint)) &&
           wait_all(group, list.out) && began(group, before, 1);
    for (int t = 0; good && t < N; t++) {
        int columns = 3 * (t + 1),
            wide = dims[t] == 1 ? columns * size : columns;

        for (int64_t i = 0; good && i < count_of(&list.out[t]); i++) {
            int row = (int)i / wide, column = (int)i % wide;
            int from = dims[t] == 1 ? column / columns : row / 2;

            good = is_value(&list.out[t], t, i,
                1000 * from + 100 * t + row % 2 * columns + column % columns);
        }
        if (good)
            fill(&list.out[t], 1);
    }
    good = good &&
           OK(symmcoll_adjoint_run(adjoint, list.out, NULL, list.back)) &&
           wait_all(group, list.back) && began(group, before, 2);
    for (int t = 0; good && t < N; t++)
        good = is_shape(&list.back[t], 2, 2, 3 * (t + 1), 0) &&
               all_are(&list.back[t], (float)size);
    release_all(group, &list);
    symmcoll_adjoint_free(adjoint);
    return good;
}

/* Scatters along both dimensions; the gradients that this rank passes return
 * in its part. */
static int scatters(struct symmcoll_group *group, int rank)
{
    static const int dims[N] = {0, 1, 0};
    struct symmcoll_adjoint *adjoint = NULL;
    uint64_t before = symmcoll_group_sequence(group);
    int size = symmcoll_group_size(group), good;
    struct list list;

    make(&list, rank, size, size, false);
    good = OK(symmcoll_f_reduce_scatter_coalesced(group, list.in, N,
               SYMMCOLL_AVG, dims, NULL, list.out, &adjoint)) &&
           wait_all(group, list.out) && began(group, before, 1);
    for (int t = 0; good && t < N; t++) {
        int columns = size * (t + 1), own = dims[t] == 0 ? columns : t + 1;

        for (int64_t i = 0; good && i < count_of(&list.out[t]); i++) {
            int row = (int)i / own + (dims[t] == 0 ? rank : 0);
            int column = (int)i % own + (dims[t] == 1 ? rank * own : 0);

            good = is_value(&list.out[t], t, i,
                500 * (size - 1) + 100 * t + row * columns + column);
        }
        if (good)
            fill(&list.out[t], (float)(size * (rank + 1)));
    }
    good = good &&
           OK(symmcoll_adjoint_run(adjoint, list.out, NULL, list.back)) &&
           wait_all(group, list.back) && began(group, before, 2);
    for (int t = 0; good && t < N; t++) {
        int columns = size * (t + 1);

        for (int64_t i = 0; good && i < count_of(&list.back[t]); i++)
            good = is_value(&list.back[t], t, i,
                1 + (dims[t] == 0 ? (int)i / columns
                                  : (int)i % columns / (t + 1)));
    }
    release_all(group, &list);
    symmcoll_adjoint_free(adjoint);
    return good;
}

/* ---- waiting ---- */

struct waiter {
    struct symmcoll_group *group;
    const struct symmcoll_tensor *tensor;
    int good;
};

static void *wait_there(void *arg)
{
    struct waiter *waiter = arg;

    waiter->good = waits(waiter->group, waiter->tensor);
    return NULL;
}

/* The results of one operation are waited for and released one by one, here
 * each by its own thread; the last one is only released. */
static int waits_apart(struct symmcoll_group *group, int rank)
{
    static const int dims[N] = {1, 1, 0};
    int good = 1;

    for (int round = 0; round < 20 && good; round++) {
        struct waiter waiters[N - 1];
        pthread_t threads[N - 1];
        struct list list;

        make(&list, rank, 2, 3, false);
        good = OK(symmcoll_f_all_gather_coalesced(
            group, list.in, N, dims, NULL, list.out, NULL));
        for (int t = 0; t < N - 1; t++) {
            waiters[t] = (struct waiter){group, &list.out[t], 0};
            pthread_create(&threads[t], NULL, wait_there, &waiters[t]);
        }
        for (int t = 0; t < N - 1; t++) {
            pthread_join(threads[t], NULL);
            good = good && waiters[t].good &&
                   is_value(&list.out[t], t, 3 * (t + 1), 1000 + 100 * t);
        }
        release_all(group, &list);
    }
    return good;
}

/* Passes a different number of tensors on one rank: every result has the
 * error. */
static int lists_that_differ(struct symmcoll_group *group, int rank)
{
    struct list list;
    int n = rank == 0 ? N : 2, good;

    make(&list, rank, 2, 3, false);
    good = OK(symmcoll_f_all_reduce_coalesced(
        group, list.in, n, SYMMCOLL_SUM, NULL, list.out, NULL));
    for (int t = 0; t < n; t++)
        good = symmcoll_f_wait(group->world, &list.out[t], -1) ==
                   SYMMCOLL_ERR_MISMATCH &&
               good;
    release_all(group, &list);
    return good && reduce_some(group, rank, false);
}

/* Checks that the output of one tensor must not overlap the input of
 * another. */
static int places_are_apart(struct symmcoll_group *group, int rank)
{
    uint64_t before = symmcoll_group_sequence(group);
    struct list list;

    make(&list, rank, 2, 3, false);
    list.out[0] = list.in[0];
    list.out[0].data = list.values[1];
    return symmcoll_f_all_reduce_coalesced(group, list.in, N, SYMMCOLL_SUM,
               NULL, list.out, NULL) == SYMMCOLL_ERR_INVALID &&
           strstr(symmcoll_last_error(),
               "out of buffer 0 of 3 in in of buffer 1") != NULL &&
           list.out[1].data == NULL && began(group, before, 0);
}

/* An error in the second type is detected after the operation on the first one
 * has begun. That operation ends, and nothing of it remains. */
static int ends_what_began(struct symmcoll_group *group, int rank)
{
    static const int dims[N] = {1, 0, 1};
    uint64_t before = symmcoll_group_sequence(group);
    struct list list;
    int good;

    make(&list, rank, 2, 3, true);
    list.out[1] = list.in[1];
    list.out[1].shape[0] *= symmcoll_group_size(group);
    list.out[1].data = &list.values[1][1];
    good = symmcoll_f_all_gather_coalesced(group, list.in, N, dims, NULL,
               list.out, NULL) == SYMMCOLL_ERR_INVALID &&
           strstr(symmcoll_last_error(), "overlap") != NULL &&
           list.out[0].data == NULL && list.out[2].data == NULL &&
           began(group, before, 1);
    list.out[1].data = NULL;
    return good && reduce_some(group, rank, false);
}

static void run_all(int (*run)(int n, rank_fn body), const char *kind)
{
    ok(run(3, reduces), "%s: all_reduce of a list is one operation (F3 C12)",
        kind);
    ok(run(3, reduces_mixed), "%s: and one for each type", kind);
    ok(run(3, gathers),
        "%s: all_gather of a list is one operation, and its gradients are (F6 "
        "F25 C16)",
        kind);
    ok(run(4, scatters),
        "%s: reduce_scatter of a list is one operation, and its gradients are "
        "(F6 F25 F29 C21)",
        kind);
    ok(run(2, waits_apart),
        "%s: the results of one operation are waited for one by one", kind);
    ok(run(2, lists_that_differ),
        "%s: lists of different lengths are an error of every result", kind);
    ok(run(2, ends_what_began),
        "%s: an error of the second type ends the operation on the first",
        kind);
    ok(run(2, places_are_apart),
        "%s: places for results that overlap another input are refused", kind);
}

int main(void)
{
    plan(16);
    run_all(ranks_run, "processes");
    run_all(threads_run, "threads");
    return done_testing();
}
