/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Tests shards in symmetric memory, which other ranks read in place, and
 * memory that grows.
 */
#include "t/fused/made.h"

#include "symm_mem/symm_mem.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define COUNT 30000 /* of floats in a shard */
#define MOST 135300 /* of floats in one of any shape */
#define ROUNDS 40

/* Allocates a rank's shard. */
static float *make_shard(
    struct symmcoll_group *group, bool symmetric, size_t offset)
{
    struct symmcoll_symm *handle;
    void *data = NULL;

    if (!symmetric)
        return malloc(COUNT * sizeof(float));
    if (!OK(symmcoll_symm_alloc(symmcoll_group_world(group),
            (offset + MOST) * sizeof(float), NULL, &data)) ||
        !OK(symmcoll_symm_rendezvous(group, data, NULL, &handle)))
        return NULL;
    return (float *)data + offset;
}

/* Releases a shard's handle; the memory itself is released with the world. */
static void drop_shard(
    struct symmcoll_group *group, const float *shard, size_t offset)
{
    struct symmcoll_symm *handle = NULL;

    if (shard != NULL && OK(symmcoll_symm_get(group, shard - offset, &handle)))
        symmcoll_symm_release(handle);
}

struct looking {
    const void *own;
    int rank, in_place; /* others' shards passed from elsewhere */
    float wanted;
    int good;
};

static symmcoll_status_t look(void *context, int rank, const void *shard)
{
    struct looking *looking = context;
    const float *numbers = shard;

    for (int i = 0; i < COUNT; i++)
        looking->good = looking->good &&
                        numbers[i] == looking->wanted + (float)(rank * 1000);
    if (rank == looking->rank)
        looking->in_place += shard == looking->own;
    return SYMMCOLL_OK;
}

/* Every round overwrites the shard as soon as the call has returned. */
static int gathers(struct symmcoll_group *group, int rank, float *shard)
{
    struct looking looking = {
        .own = shard, .rank = rank, .good = shard != NULL};

    for (int round = 0; round < ROUNDS && looking.good; round++) {
        looking.wanted = (float)round;
        for (int i = 0; i < COUNT; i++)
            shard[i] = (float)(round + rank * 1000);
        looking.good =
            OK(symmcoll_all_gather_and_consume(group, shard,
                COUNT * sizeof(*shard), look, &looking, NULL, NULL)) &&
            looking.good;
    }
    return looking.good && looking.in_place == ROUNDS;
}

static int in_place(struct symmcoll_group *group, int rank)
{
    float *shard = make_shard(group, true, 0);
    int good = gathers(group, rank, shard);

    drop_shard(group, shard, 0);
    return good;
}

static int with_offset(struct symmcoll_group *group, int rank)
{
    float *shard = make_shard(group, true, 100);
    int good = gathers(group, rank, shard);

    drop_shard(group, shard, 100);
    return good;
}

static int copied(struct symmcoll_group *group, int rank)
{
    float *shard = make_shard(group, false, 0);
    int good = gathers(group, rank, shard);

    free(shard);
    return good;
}

/* Only rank 0 uses symmetric memory. */
static int mixed(struct symmcoll_group *group, int rank)
{
    float *symmetric = make_shard(group, true, 0);
    float *mine = make_shard(group, false, 0);
    int good = gathers(group, rank, rank == 0 ? symmetric : mine);

    drop_shard(group, symmetric, 0);
    free(mine);
    return good;
}

/* Makes the memory for chunks grow, and checks that memory in use is not
 * reused too early. */
static int grows(struct symmcoll_group *group, int rank)
{
    int good = 1;

    for (int i = 0; i < 30 && good; i++) {
        size_t nbytes = (size_t)1 << (4 + i * 7 % 18);
        unsigned char *mine = malloc(nbytes);
        unsigned char *all =
            malloc(nbytes * (size_t)symmcoll_group_size(group));

        memset(mine, rank * 16 + i % 16, nbytes);
        good = OK(symmcoll_all_gather_and_consume(
            group, mine, nbytes, NULL, NULL, NULL, all));
        for (int r = 0; r < symmcoll_group_size(group); r++)
            good = good && all[(size_t)r * nbytes] == r * 16 + i % 16 &&
                   all[(size_t)(r + 1) * nbytes - 1] == r * 16 + i % 16;
        free(mine);
        free(all);
    }
    return good;
}

static void write_shard(float *data, int64_t count, int rank)
{
    for (int64_t i = 0; i < count; i++)
        data[i] = (float)made_value(SYMMCOLL_FLOAT32, 6, rank, i);
}

/* Checks that a product of shards in place equals that of the plain sequence,
 * although each rank overwrites its shard as soon as the call returns.
 * gathers: rank 0 also requests the gathered tensor. */
static int same_product(struct symmcoll_group *group, int rank, float *data,
    const int64_t shape[2], bool gathers)
{
    const int64_t count = shape[0] * shape[1], b_shape[2] = {shape[1], 7};
    const struct symmcoll_tensor shard =
        SYMMCOLL_TENSOR_SHAPE(data, SYMMCOLL_FLOAT32, shape[0], shape[1]);
    struct symmcoll_tensor b =
        made_tensor(SYMMCOLL_FLOAT32, 2, b_shape, MADE_CONTIGUOUS, 0, 5, rank);
    struct symmcoll_tensor a = SYMMCOLL_TENSOR_INIT;
    struct symmcoll_tensor out[2] = {
        SYMMCOLL_TENSOR_INIT, SYMMCOLL_TENSOR_INIT};
    int good = 1;

    for (int i = 0; i < 2 && good; i++) {
        write_shard(data, count, rank);
        good = OK(symmcoll_fused_set_plain(group, i)) &&
               OK(symmcoll_fused_all_gather_matmul(group, &shard, &b, 1, 0,
                   NULL, gathers && rank == 0 && i == 0 ? &a : NULL, &out[i]));
        memset(data, 0, (size_t)count * sizeof(*data));
    }
    for (int64_t i = 0; good && i < made_count(&out[0]); i++)
        good = fabs(made_at(&out[0], i) - made_at(&out[1], i)) < 1e-3;
    for (int64_t i = 0; good && a.data != NULL && i < count; i++)
        good = made_at(&a, i) == made_value(SYMMCOLL_FLOAT32, 6, 0, i);
    if (!good)
        diag("rank %d: %lld x %lld", rank, (long long)shape[0],
            (long long)shape[1]);
    symmcoll_f_free(symmcoll_group_world(group), &a);
    symmcoll_f_free(symmcoll_group_world(group), &out[0]);
    symmcoll_f_free(symmcoll_group_world(group), &out[1]);
    free(b.data);
    return good;
}

/* Uses many rows, multiplied in place; few, which are copied; less than 8 KiB;
 * and a depth that is multiplied in blocks. */
static int same_numbers(struct symmcoll_group *group, int rank)
{
    static const int64_t shapes[][2] = {
        {600, 50}, {100, 200}, {20, 50}, {41, 3300}};
    float *data = make_shard(group, true, 0);
    int good = data != NULL;

    for (size_t i = 0; good && i < sizeof(shapes) / sizeof(shapes[0]); i++)
        good = same_product(group, rank, data, shapes[i], false) &&
               same_product(group, rank, data, shapes[i], true);
    drop_shard(group, data, 0);
    return good;
}

/* ---- released groups ---- */

struct slow {
    int rank, good;
    int64_t sleep_ns;
};

static symmcoll_status_t look_slowly(void *context, int rank, const void *shard)
{
    struct slow *slow = context;
    const unsigned char *bytes = shard;

    if (slow->rank == 1 && rank == 0)
        nanosleep(&(struct timespec){.tv_nsec = slow->sleep_ns}, NULL);
    for (int i = 0; i < 5000; i++)
        slow->good = slow->good && bytes[i] == 1 + rank;
    return SYMMCOLL_OK;
}

/* Allocates the memory that is free again, and overwrites it. */
static int overwrite(struct symmcoll_world *world)
{
    void *data;

    if (!OK(symmcoll_symm_alloc(world, 16384, NULL, &data)))
        return 0;
    memset(data, 0xff, 16384);
    return OK(symmcoll_symm_free(world, data));
}

static int memory_is_released(struct symmcoll_group *group, int rank)
{
    struct symmcoll_world *world = symmcoll_group_world(group);
    struct slow slow = {.rank = rank, .good = 1};
    unsigned char mine[5000];
    int good = 1;

    memset(mine, 1 + rank, sizeof(mine));
    for (int i = 0; i < 50 && good; i++) {
        struct symmcoll_group *half;

        slow.sleep_ns = i % 10 == 0 ? 20000000 : 0;
        good = OK(symmcoll_group_split(group, 0, rank, NULL, &half)) &&
               OK(symmcoll_all_gather_and_consume(
                   half, mine, sizeof(mine), look_slowly, &slow, NULL, NULL)) &&
               OK(symmcoll_group_free(half)) && overwrite(world);
    }
    return good && slow.good && symc_symm_of(world)->allocations == NULL &&
           symc_symm_of(world)->shares == NULL &&
           OK(symmcoll_barrier(group, NULL, NULL));
}

static void run_all(int (*run)(int n, rank_fn body), const char *kind)
{
    ok(run(2, in_place) && run(4, in_place),
        "%s: shards in symmetric memory are read where they are (M5 M6)", kind);
    ok(run(3, with_offset), "%s: and so they are inside an allocation", kind);
    ok(run(2, copied) && run(4, copied),
        "%s: others are copied, and may be written at once", kind);
    ok(run(3, mixed), "%s: all are copied if they are not alike", kind);
    ok(run(2, grows) && run(4, grows), "%s: chunks of all sizes in turn", kind);
    ok(run(2, same_numbers),
        "%s: products are those of the plain sequence (M4)", kind);
    ok(run(2, memory_is_released),
        "%s: a group that is released has left its memory", kind);
}

int main(void)
{
    plan(14);
    run_all(ranks_run, "processes");
    run_all(threads_run, "threads");
    return done_testing();
}
