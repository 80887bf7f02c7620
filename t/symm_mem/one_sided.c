/* SPDX-License-Identifier: BSD-3-Clause */
/* Tests one-sided access: data, signals after them, flags, and views. */
#include "t/symm_mem/ops.h"

#include <time.h>
#include <unistd.h>

#define NBYTES ((size_t)8192)

static int puts_and_gets(struct symmcoll_group *group, int rank)
{
    int size = symmcoll_group_size(group), next = (rank + 1) % size;
    int before = (rank + size - 1) % size;
    unsigned char mine[1000], theirs[1000], found[1000];
    struct symmcoll_symm *handle = NULL;
    void *data = NULL;
    bool good = join(group, NBYTES, &data, &handle);

    fill_bytes(mine, 1000, rank, 1);
    good = good && OK(symmcoll_symm_put_data(handle, next, 33, mine, 999)) &&
           OK(symmcoll_symm_barrier(handle, 0, -1));
    fill_bytes(theirs, 1000, before, 1);
    good = good && equal_bytes((char *)data + 33, theirs, 999, "put");
    for (int r = 0; good && r < size; r++) {
        fill_bytes(theirs, 1000, (r + size - 1) % size, 1);
        good = OK(symmcoll_symm_get_data(handle, r, 33, found, 999)) &&
               equal_bytes(found, theirs, 999, "get");
    }
    good = good && OK(symmcoll_symm_get_data(handle, rank, NBYTES, NULL, 0)) &&
           OK(symmcoll_symm_barrier(handle, 0, -1));
    return part(group, data, handle) && good;
}

/* Checks that data has arrived before its signal, in many rounds. Two slots
 * keep the writer from overwriting data that is still being compared. */
static int signals_follow(struct symmcoll_group *group, int rank)
{
    int size = symmcoll_group_size(group), next = (rank + 1) % size;
    int before = (rank + size - 1) % size;
    uint64_t sent[32], expected[32];
    struct symmcoll_symm *handle = NULL;
    void *data = NULL;
    bool good = join(group, NBYTES, &data, &handle);

    for (int i = 0; good && i < 2000; i++) {
        size_t slot = (size_t)(i % 2) * sizeof(sent);

        for (int w = 0; w < 32; w++) {
            sent[w] = (uint64_t)rank << 32 | (uint32_t)(i * 32 + w);
            expected[w] = (uint64_t)before << 32 | (uint32_t)(i * 32 + w);
        }
        good = OK(symmcoll_symm_put_with_signal(
                   handle, next, slot, sent, sizeof(sent), 1, -1)) &&
               OK(symmcoll_symm_wait_signal(handle, before, 1, -1)) &&
               equal_bytes((char *)data + slot, expected, sizeof(sent), "data");
        /* Signals the peer, which overwrites this slot in two rounds. */
        good = good && OK(symmcoll_symm_put_signal(handle, before, 2, -1)) &&
               OK(symmcoll_symm_wait_signal(handle, next, 2, -1));
    }
    return part(group, data, handle) && good;
}

static int writes_flags(struct symmcoll_group *group, int rank)
{
    int size = symmcoll_group_size(group), next = (rank + 1) % size;
    int before = (rank + size - 1) % size;
    struct symmcoll_symm *handle = NULL;
    uint32_t *words;
    void *data = NULL;
    bool good = join(group, NBYTES, &data, &handle);

    for (uint32_t i = 1; good && i < 500; i++) {
        uint64_t payload = (uint64_t)i << 8 | (uint64_t)rank;

        good = OK(symmcoll_symm_put_data(
                   handle, next, 64 + i % 2 * 8, &payload, sizeof(payload))) &&
               OK(symmcoll_symm_write_value32(handle, next, 8, i)) &&
               OK(symmcoll_symm_wait_value32(handle, before, 8, i, -1));
        payload = (uint64_t)i << 8 | (uint64_t)before;
        good = good &&
               equal_bytes((char *)data + 64 + i % 2 * 8, &payload,
                   sizeof(payload), "payload") &&
               OK(symmcoll_symm_write_value32(handle, before, 16, i)) &&
               OK(symmcoll_symm_wait_value32(handle, next, 16, i, -1));
    }
    good = good && OK(symmcoll_symm_memset32(handle, next, 400, 0xabcd, 7)) &&
           OK(symmcoll_symm_barrier(handle, 0, -1));
    words = data;
    for (int i = 0; good && i < 9; i++)
        good = HOLDS(words[99 + i] == (i == 0 || i == 8 ? 0 : 0xabcd));
    return part(group, data, handle) && good;
}

static double now(void)
{
    struct timespec time;

    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + (double)time.tv_nsec / 1e9;
}

static int compare_times(const void *a, const void *b)
{
    return (*(const double *)a > *(const double *)b) -
           (*(const double *)a < *(const double *)b);
}

/* The writer lets the other rank fall asleep first. A sleeper polls ten times
 * a second, so without a wake half of the delays would exceed the bound. Other
 * processes may cause that, too, so the test is repeated. */
static int wakes_who_sleeps(struct symmcoll_group *group, int rank)
{
    double delays[9], stamp;
    struct symmcoll_symm *handle = NULL;
    void *data = NULL;
    bool good = join(group, NBYTES, &data, &handle);

    for (uint32_t i = 1; good && i <= LENGTH(delays); i++) {
        if (rank == 0) {
            usleep(5000);
            stamp = now();
            good = OK(symmcoll_symm_put_data(
                       handle, 1, 64, &stamp, sizeof(stamp))) &&
                   OK(symmcoll_symm_write_value32(handle, 1, 0, i)) &&
                   OK(symmcoll_symm_wait_value32(handle, 1, 0, i, -1));
        } else {
            good = OK(symmcoll_symm_wait_value32(handle, 0, 0, i, -1));
            memcpy(&stamp, (char *)data + 64, sizeof(stamp));
            delays[i - 1] = now() - stamp;
            good = good && OK(symmcoll_symm_write_value32(handle, 0, 0, i));
        }
    }
    if (good && rank == 1) {
        qsort(delays, LENGTH(delays), sizeof(*delays), compare_times);
        good = HOLDS(delays[LENGTH(delays) / 2] < 0.03);
    }
    return part(group, data, handle) && good;
}

static int views_all(struct symmcoll_group *group, int rank)
{
    struct symmcoll_tensor views[8];
    struct symmcoll_symm *handle = NULL;
    int size = symmcoll_group_size(group);
    void *data = NULL;
    bool good = join(group, NBYTES, &data, &handle);
    float *mine = (float *)data + 5;
    struct symmcoll_tensor tensor =
        SYMMCOLL_TENSOR_SHAPE(mine, SYMMCOLL_FLOAT32, 3, 4);

    tensor.strides[0] = 1;
    tensor.strides[1] = 3;
    for (int i = 0; good && i < 12; i++)
        mine[i] = (float)(100 * rank + i);
    for (int r = 0; r < size; r++)
        views[r] = (struct symmcoll_tensor)SYMMCOLL_TENSOR_INIT;
    good = good && OK(symmcoll_symm_barrier(handle, 0, -1)) &&
           OK(symmcoll_symm_get_remote_tensors(handle, &tensor, views));
    for (int r = 0; good && r < size; r++) {
        const float *view = views[r].data;

        good = HOLDS(views[r].ndim == 2 && views[r].shape[1] == 4 &&
                     views[r].strides[1] == 3) &&
               HOLDS(view[1 * 1 + 2 * 3] == (float)(100 * r + 7));
    }
    tensor.strides[1] = (int64_t)NBYTES;
    good = good &&
           REFUSED(symmcoll_symm_get_remote_tensors(handle, &tensor, views),
               SYMMCOLL_ERR_INVALID, "within the 8192 bytes");
    tensor.strides[1] = -3;
    good = good &&
           REFUSED(symmcoll_symm_get_remote_tensors(handle, &tensor, views),
               SYMMCOLL_ERR_INVALID, "at byte 20");
    good = good && OK(symmcoll_symm_barrier(handle, 0, -1));
    return part(group, data, handle) && good;
}

static int checks_bounds(struct symmcoll_group *group, int rank)
{
    uint32_t word = 0;
    struct symmcoll_symm *handle = NULL;
    void *data = NULL;
    bool good = join(group, NBYTES, &data, &handle);

    good =
        good &&
        REFUSED(symmcoll_symm_put_data(handle, 0, NBYTES - 3, &word, 4),
            SYMMCOLL_ERR_INVALID, "within the buffer's 8192 bytes") &&
        REFUSED(symmcoll_symm_get_data(handle, 0, SIZE_MAX, &word, 4),
            SYMMCOLL_ERR_INVALID, "from byte 18446744073709551615") &&
        REFUSED(symmcoll_symm_get_data(handle, 2, 0, &word, 4),
            SYMMCOLL_ERR_INVALID, "rank of 0 to 1, found 2") &&
        REFUSED(symmcoll_symm_put_data(handle, -1, 0, &word, 4),
            SYMMCOLL_ERR_INVALID, "found -1") &&
        REFUSED(symmcoll_symm_put_data(handle, 0, 0, NULL, 4),
            SYMMCOLL_ERR_INVALID, "found NULL") &&
        REFUSED(symmcoll_symm_put_data(NULL, 0, 0, &word, 4),
            SYMMCOLL_ERR_INVALID, "found NULL") &&
        REFUSED(symmcoll_symm_put_with_signal(handle, 0, 0, &word, 4, 9999, 0),
            SYMMCOLL_ERR_INVALID, "found 9999") &&
        REFUSED(symmcoll_symm_write_value32(handle, 0, 2, 1),
            SYMMCOLL_ERR_INVALID, "symm_write_value32: expected an offset") &&
        REFUSED(symmcoll_symm_memset32(handle, 0, 8, 1, NBYTES),
            SYMMCOLL_ERR_INVALID, "8192 elements of 4 bytes from byte 8") &&
        REFUSED(symmcoll_symm_wait_value32(handle, 1 - rank, 0, 7, 0.01),
            SYMMCOLL_ERR_TIMEOUT, "to store 7 at byte 0, found 0") &&
        REFUSED(symmcoll_symm_wait_value32(handle, 1 - rank, 0, 7, 0),
            SYMMCOLL_ERR_TIMEOUT, "symm_wait_value32: expected rank") &&
        OK(symmcoll_symm_put_with_signal(handle, rank, 0, &word, 4, 1, 0)) &&
        REFUSED(
            symmcoll_symm_put_with_signal(handle, rank, 0, &word, 4, 1, 0.01),
            SYMMCOLL_ERR_TIMEOUT, "symm_put_with_signal: rank") &&
        OK(symmcoll_symm_wait_signal(handle, rank, 1, 0)) &&
        OK(symmcoll_barrier(group, NULL, NULL));
    return part(group, data, handle) && good;
}

static void run_all(int (*run)(int n, rank_fn body), const char *kind)
{
    bool woken = false;

    ok(run(2, puts_and_gets) && run(5, puts_and_gets),
        "%s: put and get reach the buffer of any rank (S32 S65)", kind);
    ok(run(2, signals_follow) && run(3, signals_follow),
        "%s: a signal finds the data of its put there (S32 S65 S70)", kind);
    ok(run(2, writes_flags) && run(4, writes_flags),
        "%s: words are stored after what was written before (S30 S62)", kind);
    for (int i = 0; i < 10 && !woken; i++)
        woken = run(2, wakes_who_sleeps);
    ok(woken, "%s: a rank that sleeps is woken by the word it waits for (S30)",
        kind);
    ok(run(3, views_all), "%s: a tensor has a view in every buffer (S64)",
        kind);
    ok(run(2, checks_bounds),
        "%s: ranks, bytes and channels that are not there are refused (S32)",
        kind);
}

int main(void)
{
    plan(12);
    run_all(ranks_run, "processes");
    run_all(threads_run, "threads");
    return done_testing();
}
