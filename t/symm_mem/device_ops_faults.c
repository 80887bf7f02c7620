/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Tests invalid calls of operations on symmetric device memory, and ranks that
 * do not arrive: each rank's error names the rank and the place, and no byte
 * of other memory is accessed.
 */
#include "t/cuda/members.h"
#include "t/symm_mem/ops.h"

#include "group/group.h"

#include <unistd.h>

#define NBYTES ((size_t)32 * 1024)
#define OUT_AT ((size_t)8 * 1024)
#define SPLITS_AT ((size_t)16 * 1024)
#define OUT_SPLITS_AT ((size_t)20 * 1024)
#define COUNT 100

struct test {
    struct symmcoll_group *group;
    int rank, size;
    struct symmcoll_symm *handle, *on_host;
    void *data, *host_data;
    char *out; /* on the device */
    struct symmcoll_call call;
};

static bool begin(struct test *it, struct symmcoll_group *group, int rank)
{
    struct symmcoll_symm_args args = SYMMCOLL_SYMM_ARGS_INIT;

    *it = (struct test){.group = group,
        .rank = rank,
        .size = symmcoll_group_size(group),
        .call = SYMMCOLL_CALL_INIT};
    args.device = SYMMCOLL_CUDA;
    args.device_index = rank;
    device_use(rank);
    it->out = device_alloc(NBYTES);
    it->call.stream = device_stream();
    return join(group, NBYTES, &it->host_data, &it->on_host) &&
           OK(symmcoll_symm_alloc(group->world, NBYTES, &args, &it->data)) &&
           OK(symmcoll_symm_rendezvous(group, it->data, NULL, &it->handle));
}

static bool end(struct test *it, bool right)
{
    symmcoll_symm_release(it->handle);
    symmcoll_symm_release(it->on_host);
    right = OK(symmcoll_symm_free(it->group->world, it->data)) && right;
    right = OK(symmcoll_symm_free(it->group->world, it->host_data)) && right;
    device_free(it->out);
    device_end_stream(it->call.stream);
    return right;
}

static symmcoll_status_t sum(
    struct test *it, struct symmcoll_symm *handle, size_t offset, void *out)
{
    struct symmcoll_call call = it->call;

    if (handle == it->on_host)
        call.stream = NULL;
    return symmcoll_symm_one_shot_all_reduce(
        handle, offset, out, COUNT, F32, SYMMCOLL_SUM, &call);
}

/* Checks that the group is usable afterwards. */
static bool goes_on(struct test *it)
{
    float one = 1, found = 0;
    bool right;

    device_write(it->data, &one, sizeof(one));
    right = OK(sum(it, it->handle, 0, it->out));
    device_wait(it->call.stream);
    device_read(&found, it->out, sizeof(found));
    return right && HOLDS(found == (float)it->size);
}

/* ---- a failing device ---- */

static int breaks(struct symmcoll_group *group, int rank)
{
    struct test it;
    symmcoll_status_t status = SYMMCOLL_OK;
    bool right = begin(&it, group, rank);

    fake_stall(it.call.stream);
    right = right && OK(sum(&it, it.handle, 0, it.out));
    fake_break(device_use(rank), CUDA_ERROR_ILLEGAL_ADDRESS);
    for (int i = 0; i < 20000 && status == SYMMCOLL_OK; i++) {
        (void)usleep(1000);
        status = symmcoll_group_error(group);
    }
    right = REFUSED(status, SYMMCOLL_ERR_DEVICE, "ILLEGAL_ADDRESS") && right;
    right = HOLDS(strstr(symmcoll_last_error(), "(nil)") == NULL) && right;
    /* The device's own resources are released with it. */
    symmcoll_symm_release(it.handle);
    symmcoll_symm_release(it.on_host);
    right = OK(symmcoll_symm_free(group->world, it.data)) && right;
    return OK(symmcoll_symm_free(group->world, it.host_data)) && right;
}

/* ---- errors of one rank ---- */

static int other_memory(struct symmcoll_group *group, int rank)
{
    struct test it;
    bool right = begin(&it, group, rank);
    float host[COUNT] = {0};
    char *other, pointers[2][32];

    device_use(rank + 1);
    other = device_alloc(NBYTES);
    device_use(rank);
    snprintf(pointers[0], sizeof(pointers[0]), "%p", (void *)host);
    snprintf(pointers[1], sizeof(pointers[1]), "%p", it.data);
    right =
        right &&
        REFUSED(sum(&it, it.handle, 0, host), SYMMCOLL_ERR_INVALID,
            "symm_one_shot_all_reduce: expected out to be in memory of CUDA device") &&
        HOLDS(strstr(symmcoll_last_error(), pointers[0]) != NULL) &&
        HOLDS(strstr(symmcoll_last_error(), pointers[1]) != NULL) &&
        REFUSED(sum(&it, it.handle, 0, other), SYMMCOLL_ERR_INVALID,
            "in memory of CUDA device") &&
        REFUSED(sum(&it, it.on_host, 0, it.out), SYMMCOLL_ERR_INVALID,
            "expected out to be in host memory") &&
        REFUSED(symmcoll_symm_all_gather(it.handle, 0, host, 10, F32, &it.call),
            SYMMCOLL_ERR_INVALID,
            "expected in to be in memory of CUDA device") &&
        REFUSED(symmcoll_symm_low_contention_all_gather(
                    it.on_host, 0, it.out, 10, F32, NULL),
            SYMMCOLL_ERR_INVALID, "expected out to be in host memory") &&
        goes_on(&it);
    device_free(other);
    return end(&it, right);
}

static int overlapping(struct symmcoll_group *group, int rank)
{
    struct test it;
    bool right = begin(&it, group, rank);
    char pointers[2][32];

    snprintf(pointers[0], sizeof(pointers[0]), "%p", (void *)it.out);
    snprintf(pointers[1], sizeof(pointers[1]), "%p", (void *)(it.out + 64));
    right =
        right &&
        REFUSED(sum(&it, it.handle, 0, (char *)it.data + 4 * COUNT - 4),
            SYMMCOLL_ERR_INVALID, "found that they overlap") &&
        REFUSED(sum(&it, it.handle, 2, it.out), SYMMCOLL_ERR_INVALID,
            "expected the input in memory of a device on a multiple of 4 "
            "bytes") &&
        REFUSED(sum(&it, it.handle, 0, it.out + 1), SYMMCOLL_ERR_INVALID,
            "expected out in memory of a device on a multiple of 4 "
            "bytes") &&
        REFUSED(sum(&it, it.handle, NBYTES, it.out), SYMMCOLL_ERR_INVALID,
            "within the buffer's") &&
        REFUSED(symmcoll_symm_one_shot_all_reduce_copy(it.handle, 0,
                    it.out + 64, it.out, COUNT, F32, SYMMCOLL_SUM, &it.call),
            SYMMCOLL_ERR_INVALID,
            "symm_one_shot_all_reduce_copy: expected in and out in memory of a "
            "device that are the same or do not overlap, found 400 bytes at") &&
        HOLDS(strstr(symmcoll_last_error(), pointers[0]) != NULL &&
              strstr(symmcoll_last_error(), pointers[1]) != NULL) &&
        OK(symmcoll_symm_one_shot_all_reduce_copy(it.handle, 0, it.out, it.out,
            COUNT, F32, SYMMCOLL_SUM, &it.call)) &&
        (device_wait(it.call.stream), true) && goes_on(&it);
    return end(&it, right);
}

/* ---- errors in arguments that ranks compare ---- */

static int offsets_differ(struct symmcoll_group *group, int rank)
{
    struct test it;
    bool right = begin(&it, group, rank);
    const int ranks[] = {0};
    const size_t rows[] = {rank == 1 ? 5 : (size_t)rank};

    right =
        right &&
        REFUSED(sum(&it, it.handle, rank == 2 ? 64 : 0, it.out),
            SYMMCOLL_ERR_MISMATCH,
            "symm_one_shot_all_reduce: offset differs: ranks 0 and 1 passed 0, rank "
            "2 passed 64") &&
        REFUSED(symmcoll_symm_push_rows(
                    it.handle, 0, 4, it.out, 1, 8, F32, ranks, rows, &it.call),
            SYMMCOLL_ERR_INVALID,
            "rank 1: expected rows for ranks 0 to 2 and below 4, the rows of "
            "out, found rank 0 and row 5 for row 0 of its input") &&
        goes_on(&it);
    return end(&it, right);
}

static int memories_differ(struct symmcoll_group *group, int rank)
{
    struct test it;
    bool right = begin(&it, group, rank);
    char *out = rank == 1 ? malloc(4 * COUNT) : it.out;

    right = right &&
            REFUSED(sum(&it, rank == 1 ? it.on_host : it.handle, 0, out),
                SYMMCOLL_ERR_MISMATCH, "rank 1 passed host memory") &&
            goes_on(&it);
    if (rank == 1)
        free(out);
    return end(&it, right);
}

/* ---- splits ---- */

static struct symmcoll_symm_exchange exchange_of(size_t out_rows)
{
    struct symmcoll_symm_exchange exchange = SYMMCOLL_SYMM_EXCHANGE_INIT;

    exchange.dtype = F32;
    exchange.in_rows = 64;
    exchange.out_rows = out_rows;
    exchange.out_offset = OUT_AT;
    exchange.in_splits_offset = SPLITS_AT;
    exchange.out_splits_offset = OUT_SPLITS_AT;
    return exchange;
}

/* Splits of rank 1, or of the opposite direction with their offsets. */
static const struct mistake {
    int64_t splits[6];
    bool back;
    size_t out_rows;
    const char *text;
} mistakes[] = {
    {{1, 1, -1}, false, 64, "a split of at least 0, found -1 at piece 2"},
    {{1, 1, 1, 0, -7, 2}, true, 64,
        "an offset of at least 0, found -7 at piece 1"},
    {{1, 60, 9}, false, 64,
        "the end of a split at or before row 64, found 70 at piece 2"},
    {{1, 1, 1, 0, 1, 64}, true, 64,
        "the end of a split at or before row 64, found 65 at piece 2"},
    {{1, 8, 1}, false, 8, "room in out for at least 9, found 8 at piece 1"}};
static const struct mistake *mistake; /* the current one, on all ranks */

/* Checks that no row is moved, and that all ranks' errors name the rank and
 * its invalid split. */
static int wrong_splits(struct symmcoll_group *group, int rank)
{
    struct symmcoll_symm_exchange args = exchange_of(mistake->out_rows);
    struct test it;
    bool right = begin(&it, group, rank);
    int64_t splits[6] = {1, 1, 1, 0, 1, 2};
    float before[64], after[64];
    char text[160];

    if (rank == 1)
        memcpy(splits, mistake->splits, sizeof(splits));
    snprintf(text, sizeof(text),
        "the splits of rank 1 in memory of its device: expected %s",
        mistake->text);
    fill_elements(before, 64, F32, rank, 0);
    device_write((char *)it.data + OUT_AT, before, sizeof(before));
    device_write((char *)it.data + SPLITS_AT, splits, sizeof(splits));
    right = right &&
            OK((mistake->back ? symmcoll_symm_all_to_all_v_back
                              : symmcoll_symm_all_to_all_v)(
                it.handle, &args, &it.call)) &&
            HOLDS(symmcoll_barrier(group, NULL, NULL) != SYMMCOLL_OK) &&
            REFUSED(symmcoll_group_error(group), SYMMCOLL_ERR_INVALID,
                mistake->back ? "symm_all_to_all_v_back seq "
                              : "symm_all_to_all_v seq ") &&
            REFUSED(symmcoll_group_error(group), SYMMCOLL_ERR_INVALID, text);
    device_wait(it.call.stream);
    device_read(after, (char *)it.data + OUT_AT, sizeof(after));
    right = right && equal_bytes(after, before, sizeof(after), "out");
    return end(&it, right);
}

static int many_pieces(struct symmcoll_group *group, int rank)
{
    struct symmcoll_symm_exchange args = exchange_of(64);
    struct test it;
    bool right = begin(&it, group, rank);

    args.experts = 60;
    args.out_splits_offset = OUT_SPLITS_AT;
    right = right &&
            REFUSED(symmcoll_symm_all_to_all_v(it.handle, &args, &it.call),
                SYMMCOLL_ERR_UNSUPPORTED, "cuda.staging") &&
            goes_on(&it);
    return end(&it, right);
}

/* Checks the place of a piece in its error message. */
static bool has_place(struct test *it, const struct symmcoll_symm_plan *plan,
    size_t piece, int64_t expected)
{
    const char *said = "the row of piece ";
    size_t row, byte = 0, told = 0;
    int64_t *found = device_alloc(sizeof(*found)), place = -1;
    int to = -1;
    bool right = REFUSED(symmcoll_symm_plan_place(plan, piece, &to, &row),
        SYMMCOLL_ERR_UNSUPPORTED,
        "symm_plan_place: expected a plan in host memory");
    const char *at = strstr(symmcoll_last_error(), said);

    right =
        right && at != NULL &&
        HOLDS(sscanf(at,
                  "the row of piece %zu is the int64_t at byte %zu of rank "
                  "%d's buffer",
                  &told, &byte, &to) == 3) &&
        HOLDS(told == piece) &&
        OK(symmcoll_symm_get_data(it->handle, to, byte, found, sizeof(*found)));
    device_wait(it->call.stream);
    device_read(&place, found, sizeof(place));
    device_free(found);
    if (place != expected)
        diag("piece %zu: expected row %lld, found %lld", piece,
            (long long)expected, (long long)place);
    return right && place == expected;
}

/* Splits of two experts: rank r has r + i rows of piece i. */
static int places_are_told(struct symmcoll_group *group, int rank)
{
    struct symmcoll_symm_exchange args = exchange_of(64);
    struct symmcoll_symm_plan *plan = NULL;
    struct test it;
    bool right = begin(&it, group, rank);
    int64_t splits[6];

    args.experts = 2;
    for (int i = 0; i < 6; i++)
        splits[i] = rank + i;
    device_write((char *)it.data + SPLITS_AT, splits, sizeof(splits));
    right = right && OK(symmcoll_group_set_stream(group, it.call.stream)) &&
            OK(symmcoll_symm_plan_create(it.handle, &args, &it.call, &plan)) &&
            OK(symmcoll_symm_barrier(it.handle, 0, -1));
    for (int i = 0; i < 6 && right; i++) {
        int64_t row = 0;

        /* The rows before it: of earlier experts, and of earlier ranks. */
        for (int r = 0; r < 3 && i % 2 == 1; r++)
            row += r + i - 1;
        for (int r = 0; r < rank; r++)
            row += r + i;
        right = has_place(&it, plan, (size_t)i, row);
    }
    right = OK(symmcoll_barrier(group, NULL, NULL)) && right;
    symmcoll_symm_plan_free(plan);
    right = OK(symmcoll_group_set_stream(group, NULL)) && right;
    return end(&it, right);
}

/* ---- time ---- */

/* Waits until the other ranks have timed out: this rank does not join their
 * operation. */
static bool await_failure(const struct symmcoll_group *group)
{
    const struct timespec pause = {.tv_nsec = 1000 * 1000};

    while (atomic_load(&group->runner.members.stopped) == 0 &&
           !symc_members_failed(
               (struct symc_members *)(uintptr_t)&group->runner.members))
        nanosleep(&pause, NULL);
    return true;
}

static int never_called(struct symmcoll_group *group, int rank)
{
    struct test it;
    bool right = begin(&it, group, rank);

    right = right && goes_on(&it);
    it.call.timeout = 2;
    if (rank != 1)
        right = right && REFUSED(sum(&it, it.handle, 0, it.out),
                             SYMMCOLL_ERR_TIMEOUT, "rank 1 did not come");
    else
        right = right && await_failure(group);
    device_wait(it.call.stream);
    return end(&it, right);
}

int main(void)
{
    device_begin();
    on_both(2, other_memory, "buffers of another memory are named");
    on_both(2, overlapping, "buffers that overlap or are not aligned");
    on_both(3, offsets_differ, "calls that differ end so on all ranks");
    on_both(3, memories_differ, "handles on different memories");
    for (size_t i = 0; i < sizeof(mistakes) / sizeof(*mistakes); i++) {
        char what[120];

        mistake = &mistakes[i];
        snprintf(what, sizeof(what), "splits that cannot be: rank, %s",
            mistake->text);
        on_both(3, wrong_splits, what);
    }
    on_both(3, many_pieces, "more pieces than the staging has room for");
    on_both(3, places_are_told,
        "the place of a piece on a device is where the refusal says");
    on_both(3, never_called, "a rank that does not call");
    ok(ranks_run(1, breaks),
        "a device that breaks is told without addresses that are not");
    return done_testing();
}
