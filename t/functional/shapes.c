/* SPDX-License-Identifier: BSD-3-Clause */
/* Tests tensors without memory, and refused arguments. */
#include "t/functional/made.h"

#include <string.h>

static struct symmcoll_tensor meta(int64_t a, int64_t b, int64_t c)
{
    struct symmcoll_tensor made =
        SYMMCOLL_TENSOR_SHAPE(NULL, SYMMCOLL_FLOAT32, a, b, c);

    made.device = SYMMCOLL_META;
    return made;
}

/* Checks that a result is a shape without memory. */
static int is_meta(
    const struct symmcoll_tensor *out, int64_t a, int64_t b, int64_t c)
{
    return out->device == SYMMCOLL_META && out->data == NULL &&
           is_shape(out, 3, a, b, c);
}

static int shapes_alone(struct symmcoll_group *group, int rank)
{
    uint64_t before = symmcoll_group_sequence(group);
    int size = symmcoll_group_size(group);
    struct symmcoll_tensor in = meta(2, 3, 4), wide = meta(2, 3 * size, 4);
    struct symmcoll_tensor out = SYMMCOLL_TENSOR_INIT;
    struct symmcoll_adjoint *adjoint = NULL;
    int good;

    (void)rank;
    good =
        OK(symmcoll_f_all_reduce(NULL, &in, SYMMCOLL_SUM, NULL, &out, NULL)) &&
        is_meta(&out, 2, 3, 4) &&
        OK(symmcoll_f_broadcast(NULL, &in, 0, NULL, &out, NULL)) &&
        is_meta(&out, 2, 3, 4) &&
        OK(symmcoll_f_all_gather(group, &in, 1, NULL, &out, &adjoint)) &&
        is_meta(&out, 2, 3 * size, 4) &&
        OK(symmcoll_f_reduce_scatter(
            group, &wide, SYMMCOLL_SUM, 1, NULL, &out, NULL)) &&
        is_meta(&out, 2, 3, 4) &&
        OK(symmcoll_adjoint_run(adjoint, &wide, NULL, &out)) &&
        is_meta(&out, 2, 3, 4) && waits(group, &out);
    release(group, &out);
    symmcoll_adjoint_free(adjoint);
    return good && symmcoll_group_sequence(group) == before;
}

/* ---- refusals ---- */

static int says(
    symmcoll_status_t status, symmcoll_status_t wanted, const char *detail)
{
    if (status == wanted && strstr(symmcoll_last_error(), detail) != NULL)
        return 1;
    diag("expected '%s', found %s: %s", detail, symmcoll_status_name(status),
        symmcoll_last_error());
    return 0;
}

#define REFUSED(call, detail) says((call), SYMMCOLL_ERR_INVALID, (detail))

static int dims_are_checked(struct symmcoll_group *group, int rank)
{
    float mine[6] = {0};
    struct symmcoll_tensor in =
        SYMMCOLL_TENSOR_SHAPE(mine, SYMMCOLL_FLOAT32, 2, 3);
    struct symmcoll_tensor out = SYMMCOLL_TENSOR_INIT;
    uint64_t before = symmcoll_group_sequence(group);

    (void)rank;
    return REFUSED(symmcoll_f_all_gather(group, &in, 2, NULL, &out, NULL),
               "f_all_gather: expected a dimension of 0 to 1, found 2") &&
           REFUSED(symmcoll_f_all_gather(group, &in, -1, NULL, &out, NULL),
               "found -1") &&
           REFUSED(symmcoll_f_reduce_scatter(
                       group, &in, SYMMCOLL_SUM, 1, NULL, &out, NULL),
               "expected dimension 1 to be a multiple of 2 ranks, found 3") &&
           REFUSED(symmcoll_f_reduce_scatter_coalesced(
                       group, &in, 1, SYMMCOLL_SUM, NULL, NULL, &out, NULL),
               "expected dimensions, found NULL") &&
           out.data == NULL && symmcoll_group_sequence(group) == before;
}

static int tensors_are_checked(struct symmcoll_group *group, int rank)
{
    float mine[6] = {0};
    struct symmcoll_tensor in =
        SYMMCOLL_TENSOR_SHAPE(mine, SYMMCOLL_FLOAT32, 2, 3);
    struct symmcoll_tensor out = SYMMCOLL_TENSOR_INIT, bad, turned = in;
    struct symmcoll_tensor shape = meta(1, 2, 3);
    int good;

    (void)rank;
    turned.strides[0] = 1;
    turned.strides[1] = 2;
    good = REFUSED(symmcoll_f_all_gather(group, &turned, 0, NULL, &out, NULL),
               "expected a contiguous tensor, found other strides") &&
           REFUSED(
               symmcoll_f_all_reduce(NULL, &in, SYMMCOLL_SUM, NULL, &out, NULL),
               "expected a group, found NULL") &&
           REFUSED(symmcoll_f_all_gather(NULL, &shape, 0, NULL, &out, NULL),
               "expected a group, found NULL") &&
           REFUSED(symmcoll_f_all_reduce(
                       group, NULL, SYMMCOLL_SUM, NULL, &out, NULL),
               "found NULL") &&
           REFUSED(symmcoll_f_all_reduce_coalesced(
                       group, &in, 0, SYMMCOLL_SUM, NULL, &out, NULL),
               "expected one tensor or more, found 0") &&
           REFUSED(symmcoll_f_broadcast(group, &in, 2, NULL, &out, NULL),
               "expected a root of 0 to 1, found 2");
    bad = in;
    bad.data = NULL;
    good = good && REFUSED(symmcoll_f_all_reduce(
                               group, &bad, SYMMCOLL_SUM, NULL, &out, NULL),
                       "expected data of 6 elements, found NULL");
    bad = in;
    bad.shape[1] = -3;
    good = good && REFUSED(symmcoll_f_all_reduce(
                               group, &bad, SYMMCOLL_SUM, NULL, &out, NULL),
                       "dimension 1: expected a length of 0 or more");
    bad.shape[1] = INT64_MAX / 2;
    good = good && REFUSED(symmcoll_f_all_reduce(
                               group, &bad, SYMMCOLL_SUM, NULL, &out, NULL),
                       "found more");
    bad = in;
    bad.ndim = 9;
    good = good && REFUSED(symmcoll_f_all_reduce(
                               group, &bad, SYMMCOLL_SUM, NULL, &out, NULL),
                       "expected 0 to 8 dimensions, found 9");
    bad = in;
    bad.dtype = (enum symmcoll_dtype)99;
    good = good && REFUSED(symmcoll_f_all_reduce(
                               group, &bad, SYMMCOLL_SUM, NULL, &out, NULL),
                       "expected an element type");
    bad = in;
    bad.device = (enum symmcoll_device)7;
    good = good && says(symmcoll_f_all_reduce(
                            group, &bad, SYMMCOLL_SUM, NULL, &out, NULL),
                       SYMMCOLL_ERR_UNSUPPORTED, "found device 7");
    bad.device = SYMMCOLL_CUDA;
    bad.device_index = -1;
    return good && REFUSED(symmcoll_f_all_reduce(
                               group, &bad, SYMMCOLL_SUM, NULL, &out, NULL),
                       "device_index of 0 or more, found -1");
}

/* Passes strides with which the first or the last element would be outside of
 * the address space. */
static int strides_are_checked(struct symmcoll_group *group, int rank)
{
    static const int64_t wrong[] = {INT64_MAX, INT64_MIN, INT64_C(1) << 61,
        -(INT64_C(1) << 61), -(INT64_C(1) << 56)};
    float mine[12] = {0};
    struct symmcoll_tensor in =
        SYMMCOLL_TENSOR_SHAPE(mine, SYMMCOLL_FLOAT32, 4, 3);
    struct symmcoll_tensor out = SYMMCOLL_TENSOR_INIT, bad, place = in;
    uint64_t before = symmcoll_group_sequence(group);
    int good = 1;

    (void)rank;
    for (size_t i = 0; good && i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        const char *text = "expected strides that memory has room for, found";

        bad = in;
        bad.strides[i % 2] = wrong[i];
        good = REFUSED(symmcoll_f_all_reduce(
                           group, &bad, SYMMCOLL_SUM, NULL, &out, NULL),
                   text) &&
               REFUSED(symmcoll_f_all_gather(group, &bad, 0, NULL, &out, NULL),
                   text) &&
               REFUSED(symmcoll_f_reduce_scatter(
                           group, &bad, SYMMCOLL_SUM, 0, NULL, &out, NULL),
                   text) &&
               REFUSED(symmcoll_f_broadcast(group, &bad, 0, NULL, &out, NULL),
                   text);
        place.strides[i % 2] = wrong[i];
        good = good && REFUSED(symmcoll_f_all_reduce(group, &in, SYMMCOLL_SUM,
                                   NULL, &place, NULL),
                           text);
        place = in;
    }
    good = good && symmcoll_group_sequence(group) == before;
    /* The stride of a dimension with one index is not used, nor that of an
     * empty tensor. */
    bad = in;
    bad.ndim = 3;
    bad.shape[2] = 1;
    bad.strides[2] = INT64_MAX;
    good = good &&
           OK(symmcoll_f_all_gather(group, &bad, 0, NULL, &out, NULL)) &&
           waits(group, &out);
    release(group, &out);
    bad.shape[0] = 0;
    bad.strides[1] = INT64_MIN;
    good = good &&
           OK(symmcoll_f_all_gather(group, &bad, 0, NULL, &out, NULL)) &&
           waits(group, &out);
    release(group, &out);
    return good && OK(symmcoll_barrier(group, NULL, NULL));
}

/* Checks that the result's memory must have its shape and type (C29). */
static int places_are_checked(struct symmcoll_group *group, int rank)
{
    float mine[6] = {0}, place[12];
    struct symmcoll_tensor in =
        SYMMCOLL_TENSOR_SHAPE(mine, SYMMCOLL_FLOAT32, 2, 3);
    struct symmcoll_tensor same =
        SYMMCOLL_TENSOR_SHAPE(place, SYMMCOLL_FLOAT32, 2, 3);
    struct symmcoll_tensor turned = same, whole = SYMMCOLL_TENSOR_SHAPE(
                                              place, SYMMCOLL_FLOAT32, 4, 3);
    int good;

    turned.strides[0] = 1;
    turned.strides[1] = 2;
    fill(&in, (float)rank);
    good = REFUSED(symmcoll_f_all_gather(group, &in, 0, NULL, &same, NULL),
               "expected out of shape [4, 3] of float32, found [2, 3]") &&
           REFUSED(symmcoll_f_all_reduce(
                       group, &in, SYMMCOLL_SUM, NULL, &turned, NULL),
               "expected out contiguous") &&
           OK(symmcoll_f_all_gather(group, &in, 0, NULL, &whole, NULL)) &&
           whole.data == place && waits(group, &whole) && place[0] == 0 &&
           place[11] == 1;
    turned.data = same.data = mine;
    return good && REFUSED(symmcoll_f_all_reduce(
                               group, &turned, SYMMCOLL_SUM, NULL, &same, NULL),
                       "in place: expected a contiguous tensor");
}

/* Checks that ranks may pass different shapes with as many elements, but not
 * different types. */
static int counts_are_compared(struct symmcoll_group *group, int rank)
{
    float ones[6] = {1, 1, 1, 1, 1, 1};
    struct symmcoll_tensor in = SYMMCOLL_TENSOR_SHAPE(
        ones, SYMMCOLL_FLOAT32, rank == 0 ? 2 : 3, rank == 0 ? 3 : 2);
    struct symmcoll_tensor out = SYMMCOLL_TENSOR_INIT;
    int good;

    good =
        OK(symmcoll_f_all_reduce(group, &in, SYMMCOLL_SUM, NULL, &out, NULL)) &&
        waits(group, &out) &&
        is_shape(&out, 2, rank == 0 ? 2 : 3, rank == 0 ? 3 : 2, 0) &&
        all_are(&out, 2);
    release(group, &out);
    in.dtype = rank == 0 ? SYMMCOLL_INT32 : SYMMCOLL_UINT32;
    good =
        good &&
        OK(symmcoll_f_all_reduce(group, &in, SYMMCOLL_SUM, NULL, &out, NULL)) &&
        symmcoll_f_wait(group->world, &out, -1) == SYMMCOLL_ERR_MISMATCH;
    release(group, &out);
    return good && OK(symmcoll_barrier(group, NULL, NULL));
}

/* The collective is refused: nothing remains, and the group remains usable. */
static int errors_leave_nothing(struct symmcoll_group *group, int rank)
{
    float mine[6] = {0};
    struct symmcoll_tensor in[2] = {
        SYMMCOLL_TENSOR_FLAT(mine, 4, SYMMCOLL_FLOAT32),
        SYMMCOLL_TENSOR_FLAT(mine, 4, SYMMCOLL_FLOAT8_E5M2)};
    struct symmcoll_tensor out[2] = {
        SYMMCOLL_TENSOR_INIT, SYMMCOLL_TENSOR_INIT};
    struct symmcoll_adjoint *adjoint = NULL;
    uint64_t before = symmcoll_group_sequence(group);
    int good;

    good = symmcoll_f_all_reduce_coalesced(group, in, 2, SYMMCOLL_SUM, NULL,
               out, &adjoint) == SYMMCOLL_ERR_UNSUPPORTED &&
           adjoint == NULL && out[0].data == NULL &&
           symmcoll_group_sequence(group) == before;
    in[0].shape[0] = rank + 1; /* differs: the wait returns the error */
    good =
        good &&
        OK(symmcoll_f_all_reduce(group, in, SYMMCOLL_SUM, NULL, out, NULL)) &&
        symmcoll_f_wait(group->world, out, -1) == SYMMCOLL_ERR_MISMATCH &&
        waits(group, out);
    release(group, out);
    in[0].shape[0] = 0; /* no element: valid, with its own result */
    good =
        good &&
        OK(symmcoll_f_all_reduce(group, in, SYMMCOLL_SUM, NULL, out, NULL)) &&
        out[0].data != NULL && waits(group, out);
    release(group, out);
    return good && OK(symmcoll_barrier(group, NULL, NULL));
}

static void run_all(int (*run)(int n, rank_fn body), const char *kind)
{
    ok(run(2, shapes_alone),
        "%s: of shapes alone the results are shapes, without communication "
        "(F40)",
        kind);
    ok(run(2, dims_are_checked), "%s: dimensions are checked (F4 F5)", kind);
    ok(run(2, tensors_are_checked), "%s: tensors are checked", kind);
    ok(run(2, strides_are_checked),
        "%s: strides that lead to no address are refused", kind);
    ok(run(2, places_are_checked), "%s: memory for results is checked (F8)",
        kind);
    ok(run(2, counts_are_compared),
        "%s: ranks agree on types and counts, whatever the shapes are (C4)",
        kind);
    ok(run(2, errors_leave_nothing),
        "%s: errors of calls and of waits leave the group usable", kind);
}

int main(void)
{
    plan(14);
    run_all(ranks_run, "processes");
    run_all(threads_run, "threads");
    return done_testing();
}
