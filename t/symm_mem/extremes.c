/* SPDX-License-Identifier: BSD-3-Clause */
/* Tests sizes with sums and products that exceed 64 bits, and sizes of 0. */
#include "t/symm_mem/ops.h"

#include <stdint.h>

#define NBYTES 4096

static int tensors_without_elements(struct symmcoll_group *group, int rank)
{
    struct symmcoll_world *world = symmcoll_group_world(group);
    struct symmcoll_tensor empty = SYMMCOLL_TENSOR_INIT, huge = empty;
    struct symmcoll_symm *handle;
    void *data;
    bool right;

    empty.ndim = huge.ndim = 3;
    empty.shape[1] = 5;
    empty.shape[2] = 7;
    huge.shape[1] = huge.shape[2] = INT64_C(1) << 40;
    right = OK(symmcoll_symm_alloc_tensor(world, NULL, &empty)) &&
            HOLDS(empty.strides[0] == 35 && empty.strides[1] == 7) &&
            OK(symmcoll_symm_free(world, empty.data)) &&
            REFUSED(symmcoll_symm_alloc_tensor(world, NULL, &huge),
                SYMMCOLL_ERR_INVALID, "product") &&
            HOLDS(huge.data == NULL && huge.strides[0] == 0) &&
            join(group, NBYTES, &data, &handle) &&
            OK(symmcoll_symm_tensor(handle, rank, NBYTES, &empty)) &&
            REFUSED(symmcoll_symm_tensor(handle, rank, NBYTES + 1, &empty),
                SYMMCOLL_ERR_INVALID, "within 4096 bytes") &&
            REFUSED(symmcoll_symm_tensor(handle, rank, 0, &huge),
                SYMMCOLL_ERR_INVALID, "product");
    return right && part(group, data, handle);
}

static int views_that_wrap_around(struct symmcoll_group *group, int rank)
{
    struct symmcoll_tensor view = SYMMCOLL_TENSOR_INIT;
    struct symmcoll_symm *handle;
    uint32_t *pad;
    void *data, *at;
    bool right = join(group, NBYTES, &data, &handle);

    view.dtype = SYMMCOLL_FLOAT64;
    view.ndim = 1;
    view.shape[0] = INT64_C(1) << 61; /* times 8 is 0 */
    right = right &&
            REFUSED(symmcoll_symm_buffer(handle, rank, SIZE_MAX, 2, &at),
                SYMMCOLL_ERR_INVALID, "within 4096 bytes") &&
            REFUSED(symmcoll_symm_buffer(handle, rank, 2, SIZE_MAX, &at),
                SYMMCOLL_ERR_INVALID, "within 4096 bytes") &&
            OK(symmcoll_symm_buffer(handle, rank, NBYTES, 0, &at)) &&
            REFUSED(symmcoll_symm_pad(handle, rank, 1, SIZE_MAX, &pad),
                SYMMCOLL_ERR_INVALID, "words") &&
            REFUSED(symmcoll_symm_pad(handle, rank, SIZE_MAX / 4 + 1, 1, &pad),
                SYMMCOLL_ERR_INVALID, "words") &&
            REFUSED(symmcoll_symm_tensor(handle, rank, 0, &view),
                SYMMCOLL_ERR_INVALID, "expected") &&
            (view.shape[0] = 1, true) &&
            REFUSED(symmcoll_symm_tensor(handle, rank, INT64_C(1) << 61, &view),
                SYMMCOLL_ERR_INVALID, "expected");
    return right && part(group, data, handle);
}

static int one_sided_that_wraps_around(struct symmcoll_group *group, int rank)
{
    struct symmcoll_tensor views[8], tensor = SYMMCOLL_TENSOR_INIT;
    struct symmcoll_symm *handle;
    char bytes[8] = "";
    void *data;
    bool right = join(group, NBYTES, &data, &handle);

    for (int r = 0; r < 8; r++)
        views[r] = (struct symmcoll_tensor)SYMMCOLL_TENSOR_INIT;
    tensor.data = data;
    tensor.ndim = 1;
    tensor.shape[0] = 2;
    tensor.strides[0] = INT64_MIN;
    right =
        right &&
        REFUSED(symmcoll_symm_put_data(handle, rank, SIZE_MAX - 3, bytes, 8),
            SYMMCOLL_ERR_INVALID, "within") &&
        REFUSED(symmcoll_symm_get_data(handle, rank, 8, bytes, SIZE_MAX - 7),
            SYMMCOLL_ERR_INVALID, "within") &&
        REFUSED(symmcoll_symm_memset32(handle, rank, 0, 1, SIZE_MAX / 4 + 2),
            SYMMCOLL_ERR_INVALID, "within") &&
        REFUSED(symmcoll_symm_write_value32(handle, rank, SIZE_MAX - 3, 1),
            SYMMCOLL_ERR_INVALID, "within") &&
        REFUSED(symmcoll_symm_get_remote_tensors(handle, &tensor, views),
            SYMMCOLL_ERR_INVALID, "within the 4096 bytes") &&
        (tensor.strides[0] = INT64_MAX, true) &&
        REFUSED(symmcoll_symm_get_remote_tensors(handle, &tensor, views),
            SYMMCOLL_ERR_INVALID, "within the 4096 bytes");
    return OK(symmcoll_barrier(group, NULL, NULL)) && right &&
           part(group, data, handle);
}

/* Passes rows with a distance that would wrap around to 0 in bytes if it was
 * not refused. */
static int a_tile_whose_stride_wraps_around(
    struct symmcoll_group *group, int rank)
{
    struct symmcoll_symm *handle;
    double out[4];
    void *data;
    bool right =
        join(group, NBYTES, &data, &handle) &&
        REFUSED(symmcoll_symm_tile_reduce(handle, 0, out, (size_t)1 << 61, 2, 2,
                    16, SYMMCOLL_FLOAT64, SYMMCOLL_SUM, rank, NULL),
            SYMMCOLL_ERR_INVALID, "expected out of at most") &&
        REFUSED(
            symmcoll_symm_tile_reduce(handle, 0, out, 2, 2, 2, (size_t)1 << 61,
                SYMMCOLL_FLOAT64, SYMMCOLL_SUM, rank, NULL),
            SYMMCOLL_ERR_INVALID, "expected the input within") &&
        REFUSED(
            symmcoll_symm_tile_reduce(handle, 0, out, 2, 8, 2, (size_t)1 << 62,
                SYMMCOLL_FLOAT64, SYMMCOLL_SUM, rank, NULL),
            SYMMCOLL_ERR_INVALID,
            "expected the input within the buffer's 4096 bytes, found 8 rows, "
            "4611686018427387904 elements of 8 bytes from one to the next") &&
        REFUSED(symmcoll_symm_tile_reduce(handle, 0, out, (size_t)1 << 62, 8, 2,
                    16, SYMMCOLL_FLOAT64, SYMMCOLL_SUM, rank, NULL),
            SYMMCOLL_ERR_INVALID,
            "expected out in memory, found 8 rows, 4611686018427387904 "
            "elements") &&
        REFUSED(symmcoll_symm_tile_reduce(handle, 0, out, 1, 2, 2, 16,
                    SYMMCOLL_FLOAT64, SYMMCOLL_SUM, rank, NULL),
            SYMMCOLL_ERR_INVALID,
            "a stride of out of at least 2 columns, found 1") &&
        REFUSED(symmcoll_symm_tile_reduce(handle, 0, out, 2, 2, 2, 1,
                    SYMMCOLL_FLOAT64, SYMMCOLL_SUM, rank, NULL),
            SYMMCOLL_ERR_INVALID, "a stride of at least 2 columns, found 1") &&
        REFUSED(symmcoll_symm_tile_reduce(handle, 0, out, 2, SIZE_MAX, 2, 2,
                    SYMMCOLL_FLOAT64, SYMMCOLL_SUM, rank, NULL),
            SYMMCOLL_ERR_INVALID, "expected");

    return right && part(group, data, handle);
}

/* None of these errors is about NULL or overlaps. */
static int rows_that_no_memory_has(struct symmcoll_group *group, int rank)
{
    const int ranks[] = {0};
    const size_t rows[] = {0};
    const double in[1] = {0};
    struct symmcoll_symm *handle;
    void *data;
    bool right =
        join(group, NBYTES, &data, &handle) &&
        REFUSED(symmcoll_symm_push_rows(handle, 0, 4, in, (size_t)1 << 50, 4,
                    SYMMCOLL_FLOAT64, ranks, rows, NULL),
            SYMMCOLL_ERR_INVALID,
            "symm_push_rows: expected in of at most 281474976710655 bytes, "
            "found 1125899906842624 times 32 bytes") &&
        REFUSED(symmcoll_symm_push_rows(handle, 0, 0, in, 1, SIZE_MAX,
                    SYMMCOLL_UINT8, ranks, rows, NULL),
            SYMMCOLL_ERR_INVALID,
            "expected rows of at most 4096 bytes, as the buffer has, found "
            "18446744073709551615 elements of 1") &&
        REFUSED(symmcoll_symm_push_rows(handle, 0, 0, in, 0, SIZE_MAX,
                    SYMMCOLL_FLOAT64, ranks, rows, NULL),
            SYMMCOLL_ERR_INVALID, "expected rows of at most 4096 bytes") &&
        REFUSED(symmcoll_symm_push_rows(
                    handle, 0, 4, in, 1, 4, SYMMCOLL_FLOAT64, NULL, rows, NULL),
            SYMMCOLL_ERR_INVALID,
            "expected the ranks and rows of 1 rows, found NULL");

    (void)rank;
    return right && part(group, data, handle);
}

/* Sends an empty part, from the middle of the received range. */
static int an_empty_part_is_apart_from_all(
    struct symmcoll_group *group, int rank)
{
    struct symmcoll_symm_exchange exchange = SYMMCOLL_SYMM_EXCHANGE_INIT;
    struct symmcoll_symm *handle;
    void *data;
    bool right = join(group, NBYTES, &data, &handle);

    (void)rank;
    exchange.in_offset = 40;
    exchange.out_rows = 100;
    exchange.in_splits_offset = 1024;
    exchange.out_splits_offset = 2048;
    right = right && OK(symmcoll_symm_all_to_all_v(handle, &exchange, NULL));
    exchange.in_rows = 1;
    return right &&
           REFUSED(symmcoll_symm_all_to_all_v(handle, &exchange, NULL),
               SYMMCOLL_ERR_INVALID, "expected out apart from in") &&
           part(group, data, handle);
}

int main(void)
{
    plan(12);
    groups_both(2, tensors_without_elements,
        "tensors without elements, whose strides are numbers or are refused");
    groups_both(2, views_that_wrap_around,
        "views whose ends are no numbers are refused (S20, S21)");
    groups_both(
        2, one_sided_that_wraps_around, "and so are one-sided accesses (S32)");
    groups_both(2, a_tile_whose_stride_wraps_around,
        "and a tile whose rows are further apart than memory reaches");
    groups_both(2, rows_that_no_memory_has,
        "and rows, and lists of rows, that are longer than memory");
    groups_both(
        2, an_empty_part_is_apart_from_all, "what is empty overlaps nothing");
    return done_testing();
}
