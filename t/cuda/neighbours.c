/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Tests buffers that extend past their allocations into an adjacent one: no
 * byte of the other allocation is read or written. Memory that a program
 * mapped in pieces counts as one allocation.
 */
#include "t/cuda/mapped.h"
#include "t/cuda/members.h"
#include "t/symm_mem/symm.h"

#include "group/site.h"

#define ALLOCATIONS 64
#define COUNT ((int)(PAGE / sizeof(float)))

/* ---- adjacent allocations ---- */

struct neighbours {
    char *all[ALLOCATIONS];
    char *first; /* an allocation with an adjacent one after it; NULL: none */
};

static bool is_one_of(const struct neighbours *of, const char *at)
{
    for (int i = 0; i < ALLOCATIONS; i++) {
        if (of->all[i] == at)
            return true;
    }
    return false;
}

/* Returns an allocation of exactly one page. */
static char *allocate_page(void)
{
    CUdeviceptr at = 0;

    return cuMemAlloc(&at, PAGE) == CUDA_SUCCESS ? (char *)(uintptr_t)at : NULL;
}

static struct neighbours make_neighbours(void)
{
    struct neighbours made = {.first = NULL};

    for (int i = 0; i < ALLOCATIONS; i++)
        made.all[i] = allocate_page();
    for (int i = 0; i < ALLOCATIONS && made.first == NULL; i++) {
        if (is_one_of(&made, made.all[i] + PAGE))
            made.first = made.all[i];
    }
    return made;
}

static void free_neighbours(const struct neighbours *made)
{
    for (int i = 0; i < ALLOCATIONS; i++)
        device_free(made->all[i]);
}

/* ---- operations ---- */

static symmcoll_status_t sum_at(struct symmcoll_group *group, void *out,
    const void *in, size_t count, CUstream stream)
{
    struct symmcoll_call call = SYMMCOLL_CALL_INIT;

    call.stream = stream;
    return symmcoll_all_reduce(group, out, in, count, F32, SUM, &call, NULL);
}

static int begin(struct symmcoll_group *group, int rank)
{
    struct collective one = {
        .kind = SYMC_ALL_REDUCE, .dtype = F32, .count = 100};

    device_use(rank);
    return same_as_host(group, rank, &one);
}

static int ends_in_the_next(struct symmcoll_group *group, int rank)
{
    struct neighbours all;
    CUstream stream;
    char *own, text[64];
    int right = begin(group, rank);

    all = make_neighbours();
    stream = device_stream();
    own = device_alloc(2 * PAGE);
    snprintf(text, sizeof(text), "another one begins at %p",
        (void *)(all.first + PAGE));
    right =
        say(all.first != NULL, "allocations side by side") &&
        ended(sum_at(group, all.first, own, (size_t)COUNT + 1, stream),
            SYMMCOLL_ERR_INVALID,
            "all_reduce: expected out of 4100 bytes at") &&
        strstr(symmcoll_last_error(), text) != NULL &&
        ended(sum_at(group, own, all.first + 4, COUNT, stream),
            SYMMCOLL_ERR_INVALID, "all_reduce: expected in of 4096 bytes at") &&
        OK(sum_at(group, own, all.first, COUNT, stream)) && right;
    device_wait(stream);
    device_end_stream(stream);
    device_free(own);
    free_neighbours(&all);
    return begin(group, rank) && right;
}

static int moves_to_the_next(struct symmcoll_group *group, int rank)
{
    struct symmcoll_symm_args args = SYMMCOLL_SYMM_ARGS_INIT;
    struct symmcoll_call call = SYMMCOLL_CALL_INIT;
    struct symmcoll_symm *handle = NULL;
    struct neighbours all;
    void *data = NULL;
    bool right;

    args.device = SYMMCOLL_CUDA;
    args.device_index = device_use(rank);
    all = make_neighbours();
    call.stream = device_stream();
    right =
        say(all.first != NULL, "allocations side by side") &&
        OK(symmcoll_symm_alloc(
            symmcoll_group_world(group), 2 * PAGE, &args, &data)) &&
        OK(symmcoll_symm_rendezvous(group, data, NULL, &handle)) &&
        ended(symmcoll_symm_one_shot_all_reduce(handle, 0, all.first,
                  (size_t)COUNT + 1, F32, SYMMCOLL_SUM, &call),
            SYMMCOLL_ERR_INVALID,
            "symm_one_shot_all_reduce: expected out to be 4100 bytes in memory "
            "of CUDA device") &&
        HOLDS(strstr(symmcoll_last_error(),
                  "whose last byte is in another allocation there") != NULL) &&
        ended(symmcoll_symm_put_data(handle, 0, 0, all.first + 1, PAGE),
            SYMMCOLL_ERR_INVALID, "another allocation there") &&
        OK(symmcoll_symm_one_shot_all_reduce(
            handle, 0, all.first, COUNT, F32, SYMMCOLL_SUM, &call));
    device_wait(call.stream);
    device_end_stream(call.stream);
    symmcoll_symm_release(handle);
    right = OK(symmcoll_symm_free(symmcoll_group_world(group), data)) && right;
    free_neighbours(&all);
    return right;
}

/* ---- addresses of elements ---- */

static int are_odd(struct symmcoll_group *group, int rank)
{
    struct symmcoll_call call = SYMMCOLL_CALL_INIT;
    CUstream stream;
    char *own, text[96];
    int right = begin(group, rank);

    call.stream = stream = device_stream();
    own = device_alloc(2 * PAGE);
    snprintf(text, sizeof(text),
        "all_reduce: expected in at a multiple of 4 bytes in device memory, "
        "found %p",
        (void *)(own + 2));
    right =
        ended(sum_at(group, own + PAGE, own + 2, COUNT - 1, stream),
            SYMMCOLL_ERR_INVALID, text) &&
        ended(sum_at(group, own + 1, own + PAGE, COUNT - 1, stream),
            SYMMCOLL_ERR_INVALID, "expected out at a multiple of 4 bytes") &&
        ended(symmcoll_reduce(group, own + 4, own + 4, 2, SYMMCOLL_COMPLEX128,
                  SYMMCOLL_SUM, 0, &call, NULL),
            SYMMCOLL_ERR_INVALID, "at a multiple of 8 bytes") &&
        OK(symmcoll_reduce(group, own + 8, own + 8, 2, SYMMCOLL_COMPLEX128,
            SYMMCOLL_SUM, 0, &call, NULL)) &&
        OK(symmcoll_all_gather(
            group, own + PAGE + 1, own + 3, 2, F32, &call, NULL)) &&
        OK(symmcoll_all_reduce(group, own + 1, own + 1, 3, SYMMCOLL_UINT8,
            SYMMCOLL_SUM, &call, NULL)) &&
        right;
    device_wait(stream);
    device_end_stream(stream);
    device_free(own);
    return begin(group, rank) && right;
}

/* ---- memory in pieces ---- */

/* Addresses of two pages, each mapped separately. */
struct pieces {
    CUdeviceptr at;
    CUmemGenericAllocationHandle handles[2];
};

static bool map_pieces(struct pieces *pieces, int device)
{
    const CUmemAllocationProp properties = {
        .type = CU_MEM_ALLOCATION_TYPE_PINNED,
        .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = device}};
    const CUmemAccessDesc access = {.location = properties.location,
        .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    bool right =
        cuMemAddressReserve(&pieces->at, 2 * PAGE, 0, 0, 0) == CUDA_SUCCESS;

    for (int i = 0; i < 2 && right; i++) {
        CUdeviceptr at = pieces->at + (size_t)i * PAGE;

        right = cuMemCreate(&pieces->handles[i], PAGE, &properties, 0) ==
                    CUDA_SUCCESS &&
                cuMemMap(at, PAGE, 0, pieces->handles[i], 0) == CUDA_SUCCESS &&
                cuMemSetAccess(at, PAGE, &access, 1) == CUDA_SUCCESS;
    }
    return right;
}

static bool unmap_pieces(const struct pieces *pieces)
{
    bool right = true;

    for (int i = 0; i < 2; i++)
        right =
            cuMemUnmap(pieces->at + (size_t)i * PAGE, PAGE) == CUDA_SUCCESS &&
            cuMemRelease(pieces->handles[i]) == CUDA_SUCCESS && right;
    return cuMemAddressFree(pieces->at, 2 * PAGE) == CUDA_SUCCESS && right;
}

static int is_in_two_pieces(struct symmcoll_group *group, int rank)
{
    const float one = 1;
    struct pieces pieces = {.at = 0};
    CUstream stream;
    float found = 0;
    char *at;
    int right, device = device_use(rank);

    right = begin(group, rank) && say(map_pieces(&pieces, device), "pages");
    if (!right)
        return 0;
    at = (char *)(uintptr_t)pieces.at;
    stream = device_stream();
    device_write(at + 2 * PAGE - sizeof(one), &one, sizeof(one));
    right = OK(sum_at(group, at, at, 2 * (size_t)COUNT, stream));
    device_wait(stream);
    device_read(&found, at + 2 * PAGE - sizeof(one), sizeof(found));
    device_end_stream(stream);
    return say(found == (float)symmcoll_group_size(group), "the sum") &&
           say(unmap_pieces(&pieces), "pages") && right;
}

/* ---- tensors ---- */

static symmcoll_status_t check_tensor(
    struct symmcoll_group *group, int device, char *at, int64_t count)
{
    struct symmcoll_tensor tensor = SYMMCOLL_TENSOR_FLAT(at, count, F32);

    tensor.device = SYMMCOLL_CUDA;
    tensor.device_index = device;
    return symc_site_check("t", group, &tensor);
}

static int have_a_last_byte(struct symmcoll_group *group, int rank)
{
    struct pieces pieces = {.at = 0};
    struct neighbours all;
    int right, device = device_use(rank);
    char *at;

    right = begin(group, rank) && say(map_pieces(&pieces, device), "pages");
    if (!right)
        return 0;
    at = (char *)(uintptr_t)pieces.at;
    all = make_neighbours();
    right =
        say(all.first != NULL, "allocations side by side") &&
        OK(check_tensor(group, device, all.first, COUNT)) &&
        ended(check_tensor(group, device, all.first, COUNT + 1),
            SYMMCOLL_ERR_INVALID, "t: expected a tensor in one allocation") &&
        ended(check_tensor(group, device, all.first + 4, COUNT),
            SYMMCOLL_ERR_INVALID, "another one begins between its first") &&
        OK(check_tensor(group, device, at, COUNT)) &&
        OK(check_tensor(group, device, at, 2 * COUNT)) &&
        say(cuMemUnmap(pieces.at + PAGE, PAGE) == CUDA_SUCCESS, "a page") &&
        OK(check_tensor(group, device, at, COUNT)) &&
        ended(check_tensor(group, device, at, 2 * COUNT), SYMMCOLL_ERR_INVALID,
            "found its last byte, ");
    free_neighbours(&all);
    right = cuMemUnmap(pieces.at, PAGE) == CUDA_SUCCESS && right;
    for (int i = 0; i < 2; i++)
        right = cuMemRelease(pieces.handles[i]) == CUDA_SUCCESS && right;
    return cuMemAddressFree(pieces.at, 2 * PAGE) == CUDA_SUCCESS && right;
}

int main(void)
{
    device_begin();
    on_both(2, ends_in_the_next,
        "a buffer that ends in the allocation after its own is refused");
    on_both(2, moves_to_the_next,
        "also by operations on symmetric memory, and by copies");
    on_both(2, are_odd,
        "elements that are added are at multiples of their size, bytes "
        "anywhere");
    on_both(2, is_in_two_pieces,
        "one that is mapped in pieces, at addresses reserved at once, is not");
    on_both(2, have_a_last_byte,
        "so are tensors, and those that end where nothing is mapped");
    return done_testing();
}
