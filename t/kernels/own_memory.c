/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Checks the kernels that work on one rank's memory: conversions, the search
 * for NaN, buckets, and filling.
 */
#include "base/nan.h"
#include "base/reduce.h"
#include "t/kernels/checks.h"
#include "t/kernels/group.h"
#include "t/tap.h"

#include <string.h>

void symc_convert_f32_f16(const void *args);
void symc_convert_f32_bf16(const void *args);
void symc_convert_f16_f32(const void *args);
void symc_convert_bf16_f32(const void *args);
void symc_nan_scan(const void *args);
void symc_flatten(const void *args);
void symc_unflatten(const void *args);
void symc_fill32(const void *args);

/* Launches a kernel in a group of one rank. */
static bool run_alone(struct group *group, kernel_fn kernel, const void *args)
{
    const uint32_t blocks = machine_draw_blocks(),
                   threads = machine_draw_threads(1 + (int)(group_draw() % 4));

    group_launch(group, 0, kernel, args, blocks, threads);
    return group_run(group);
}

/* ---- conversions ---- */

static const struct conversion {
    kernel_fn kernel;
    enum symmcoll_dtype from, to;
} conversions[] = {
    {symc_convert_f32_f16, SYMMCOLL_FLOAT32, SYMMCOLL_FLOAT16},
    {symc_convert_f32_bf16, SYMMCOLL_FLOAT32, SYMMCOLL_BFLOAT16},
    {symc_convert_f16_f32, SYMMCOLL_FLOAT16, SYMMCOLL_FLOAT32},
    {symc_convert_bf16_f32, SYMMCOLL_BFLOAT16, SYMMCOLL_FLOAT32},
};
#define NCONVERSIONS ((int)(sizeof(conversions) / sizeof(conversions[0])))

static bool is_converted(
    const struct conversion *conversion, const struct symc_convert_args *args)
{
    const size_t to = symmcoll_dtype_size(conversion->to);
    const unsigned char *out = args->out;
    unsigned char expected[90 * 4];
    const struct symc_conversion reference = {conversion->from, conversion->to,
        expected, args->in, args->count, (double)args->factor};

    symc_convert(&reference);
    for (size_t i = 0; i < args->count; i++) {
        if (memcmp(out + i * to, expected + i * to, to) == 0)
            continue;
        diag("%s to %s, factor %g, %zu elements: element %zu",
            symmcoll_dtype_name(conversion->from),
            symmcoll_dtype_name(conversion->to), (double)args->factor,
            (size_t)args->count, i);
        return false;
    }
    return true;
}

static bool check_conversion(const struct conversion *conversion)
{
    static const float factors[] = {1, 0.125F, 3.7F, -1e-3F, 65536};
    const size_t count = group_draw() % 90,
                 shift = group_draw() % 2 == 0 ? 0 : 4 * (group_draw() % 4),
                 from = symmcoll_dtype_size(conversion->from),
                 to = symmcoll_dtype_size(conversion->to);
    const struct sizes sizes = {
        .in = count * from, .out = count * to, .shift = shift};
    struct symc_convert_args args;
    struct group group;
    bool right;

    group_open(&group, 1, &sizes);
    args = (struct symc_convert_args){.in = group.in[0],
        .out = group.out[0],
        .count = count,
        .factor = factors[group_draw() % 5]};
    right = run_alone(&group, conversion->kernel, &args) &&
            is_converted(conversion, &args);
    group_close(&group);
    return right;
}

static bool check_conversions(int rounds)
{
    bool right = true;

    for (int i = 0; right && i < rounds; i++)
        right = check_conversion(&conversions[i % NCONVERSIONS]);
    return right;
}

/* ---- NaN ---- */

static bool check_nan_of(enum symmcoll_dtype dtype)
{
    const size_t element = symmcoll_dtype_size(dtype),
                 count = group_draw() % 120,
                 shift = group_draw() % 3 * (element < 8 ? element : 8);
    const struct sizes sizes = {.in = count * element, .shift = shift};
    const uint32_t often = 1 + group_draw() % 40;
    struct symc_device_nan *found = machine_alloc(16, sizeof(*found));
    struct symc_nan_args args;
    struct group group;
    size_t first = 0, expected;
    bool right;

    *found = (struct symc_device_nan){UINT64_MAX, 0};
    group_open(&group, 1, &sizes);
    /* All bits set are NaN in most types, as are some random ones. */
    for (size_t i = 0; i < sizes.in; i++)
        if (group_draw() % often == 0)
            group.in[0][i] = group_draw() % 2 == 0 ? 0xff : 0x80;
        else
            group.in[0][i] &= often > 20 ? 0x1f : 0xff;
    args = (struct symc_nan_args){.in = group.in[0],
        .count = count,
        .type = (uint32_t)dtype,
        .found = found};
    right = run_alone(&group, symc_nan_scan, &args);
    expected = symc_nan_count(group.in[0], count, dtype, &first);
    right = right && found->count == expected &&
            found->first == (expected > 0 ? first : UINT64_MAX);
    if (!right)
        diag("%zu elements of %s shifted by %zu: expected %zu NaN from %zu on, "
             "found %llu from %llu",
            count, symmcoll_dtype_name(dtype), shift, expected, first,
            (unsigned long long)found->count, (unsigned long long)found->first);
    machine_free(found);
    group_close(&group);
    return right;
}

static bool check_nan(int rounds)
{
    bool right = true;

    for (int i = 0; right && i < rounds; i++)
        right = check_nan_of((enum symmcoll_dtype)(i % SYMMCOLL_DTYPE_COUNT));
    return right;
}

/* ---- buckets ---- */

#define FEW 12 /* pieces, which may be large */
#define PIECE_NBYTES 9000

struct bucket {
    struct symc_bucket_args args;
    size_t at[SYMC_KERNEL_PIECES]; /* of tensors, in `in` or `out` */
    size_t nbytes;                 /* of all tensors */
};

/* Draws the number of pieces: up to that of a launch, or few. */
static uint64_t draw_npieces(void)
{
    const uint64_t few = group_draw() % FEW;

    switch (group_draw() % 8) {
    case 0:
        return SYMC_KERNEL_PIECES;
    case 1:
        return group_draw() % SYMC_KERNEL_PIECES;
    default:
        return few;
    }
}

/* Draws tensors that are empty, small, and larger than a chunk, with gaps. */
static void draw_bucket(struct bucket *bucket)
{
    const uint64_t n = draw_npieces();
    uint64_t offset = 0;

    *bucket = (struct bucket){.args = {.npieces = n}};
    for (size_t i = 0; i < n; i++) {
        struct symc_bucket_piece *piece = &bucket->args.pieces[i];
        uint64_t nbytes = group_draw() % 60;

        if (group_draw() % 4 == 0)
            nbytes = group_draw() % (n < FEW ? PIECE_NBYTES : 2 * FEW);
        if (group_draw() % 16 == 0 && i < 2)
            nbytes = SYMC_KERNEL_CHUNK + group_draw() % 64;
        offset += group_draw() % 3 * (1 + group_draw() % 8);
        bucket->at[i] = bucket->nbytes + group_draw() % 5;
        piece->offset = offset;
        piece->nbytes = nbytes;
        offset += nbytes;
        bucket->nbytes = bucket->at[i] + nbytes;
    }
    bucket->args.nbytes = offset;
}

static bool is_flat(const struct bucket *bucket, const unsigned char *flat,
    const unsigned char *tensors)
{
    for (size_t i = 0; i < bucket->args.npieces; i++) {
        const struct symc_bucket_piece *piece = &bucket->args.pieces[i];

        if (memcmp(flat + piece->offset, tensors + bucket->at[i],
                piece->nbytes) == 0)
            continue;
        diag("bucket of %llu bytes in %llu tensors: %zu, of %llu bytes at %llu",
            (unsigned long long)bucket->args.nbytes,
            (unsigned long long)bucket->args.npieces, i,
            (unsigned long long)piece->nbytes,
            (unsigned long long)piece->offset);
        return false;
    }
    return true;
}

#define UNTOUCHED 0x11

/* Checks that bytes between pieces are unchanged, in the bucket or in the
 * tensors. */
static bool keeps_gaps(
    const struct bucket *bucket, const unsigned char *memory, bool flat)
{
    uint64_t at = 0;

    for (size_t i = 0; i < bucket->args.npieces; i++) {
        const struct symc_bucket_piece *piece = &bucket->args.pieces[i];
        const uint64_t begin = flat ? piece->offset : bucket->at[i];

        for (; at < begin; at++)
            if (memory[at] != UNTOUCHED) {
                diag("%s: byte %llu before piece %zu", flat ? "bucket" : "out",
                    (unsigned long long)at, i);
                return false;
            }
        at += piece->nbytes;
    }
    return true;
}

/* Sets the addresses of the tensors. */
static void place_pieces(struct bucket *bucket, unsigned char *tensors)
{
    for (size_t i = 0; i < bucket->args.npieces; i++)
        bucket->args.pieces[i].at = tensors + bucket->at[i];
}

static bool check_bucket(void)
{
    struct sizes sizes = {.shift = group_draw() % 2 * (group_draw() % 16)};
    struct bucket bucket;
    unsigned char *flat;
    struct group group;
    bool right;

    draw_bucket(&bucket);
    sizes.data = bucket.args.nbytes;
    sizes.in = bucket.nbytes;
    sizes.out = bucket.nbytes;
    group_open(&group, 1, &sizes);
    flat = group_data(&group, 0);
    bucket.args.bucket = flat;
    memset(flat, UNTOUCHED, sizes.data);
    memset(group.out[0], UNTOUCHED, sizes.out);
    place_pieces(&bucket, group.in[0]);
    right = run_alone(&group, symc_flatten, &bucket.args) &&
            is_flat(&bucket, flat, group.in[0]) &&
            keeps_gaps(&bucket, flat, true);
    place_pieces(&bucket, group.out[0]);
    right = right && run_alone(&group, symc_unflatten, &bucket.args) &&
            is_flat(&bucket, flat, group.out[0]) &&
            keeps_gaps(&bucket, group.out[0], false);
    group_close(&group);
    return right;
}

static bool check_buckets(int rounds)
{
    bool right = true;

    for (int i = 0; right && i < rounds; i++)
        right = check_bucket();
    return right;
}

/* ---- filling ---- */

static bool check_fill(int rounds)
{
    bool right = true;

    for (int i = 0; right && i < rounds; i++) {
        const size_t count = group_draw() % 70;
        const struct sizes sizes = {
            .out = count * 4, .shift = group_draw() % 4 * 4};
        struct symc_fill_args args = {.count = count, .value = group_draw()};
        struct group group;

        group_open(&group, 1, &sizes);
        args.at = (uint32_t *)(void *)group.out[0];
        right = run_alone(&group, symc_fill32, &args);
        for (size_t k = 0; k < count; k++)
            right = right && args.at[k] == args.value;
        group_close(&group);
    }
    return right;
}

const struct check checks_of_own_memory[] = {
    {"convert.h", "each number is multiplied, and rounded once",
        check_conversions, 700},
    {"nan.h", "the first NaN and their number are those of symc_nan_count()",
        check_nan, 1000},
    {"bucket.h", "tensors are in their places, and come back", check_buckets,
        100},
    {"fill.h", "each word is the value, and no other one", check_fill, 200},
    {.file = NULL},
};
