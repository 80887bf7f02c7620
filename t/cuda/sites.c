/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Tests the operations of one rank on memory of its device against the same in
 * host memory: sums of all types that have averages, at all alignments;
 * conversions; elements with gaps, and pieces of a buffer, in both directions;
 * and the order of two streams.
 */
#include "t/cuda/members.h"

#include "base/reduce.h"
#include "group/site.h"
#include "kernels/args.h"

#include <stdlib.h>
#include <string.h>

#define MOST 1100 /* elements: more than a block's threads load at once */
#define ROOM (MOST * 16 + 64)

/* ---- sums ---- */

struct arrays {
    char *host, *device; /* out, in and in, ROOM bytes each */
};

/* A sum to run in both memories; the seed reproduces it. */
struct point {
    enum symmcoll_dtype dtype;
    size_t count, at[3]; /* bytes by which each array is misaligned from 64 */
    int n;
    int place; /* out is the first source, the second one, or neither (2) */
    double factor;
};

static uint64_t draw(uint64_t *state, uint64_t below)
{
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return (*state >> 33) % below;
}

static struct point draw_point(uint64_t seed)
{
    static const enum symmcoll_dtype types[] = {SYMMCOLL_FLOAT16,
        SYMMCOLL_BFLOAT16, SYMMCOLL_FLOAT32, SYMMCOLL_FLOAT64,
        SYMMCOLL_COMPLEX64, SYMMCOLL_COMPLEX128};
    static const double factors[] = {1.0, 0.5, 1.0 / 3, 1.0 / 7};
    static const size_t counts[] = {0, 1, 2, 7, 8, 9, 63, 257, MOST};
    uint64_t state = seed * 977 + 5;
    struct point point = {.dtype = types[seed % 6],
        .count = counts[draw(&state, 9)],
        .n = 1 + (int)draw(&state, 2),
        .place = (int)draw(&state, 3),
        .factor = factors[draw(&state, 4)]};
    size_t elem = symmcoll_dtype_size(point.dtype);

    for (int i = 0; i < 3; i++)
        point.at[i] = elem * draw(&state, 64 / elem);
    if (point.place < point.n)
        point.at[2] = point.at[point.place];
    else
        point.place = 2;
    return point;
}

static struct symc_local_sum sum_of(const struct point *point, char *memory)
{
    struct symc_local_sum sum = {.dtype = point->dtype,
        .elem = symmcoll_dtype_size(point->dtype),
        .n = point->n,
        .count = point->count,
        .factor = point->factor};

    for (int i = 0; i < point->n; i++)
        sum.in[i] = memory + (size_t)i * ROOM + point->at[i];
    sum.out = memory + (size_t)point->place * ROOM + point->at[2];
    return sum;
}

static int sums_agree(
    struct symc_site *site, struct arrays *arrays, uint64_t seed)
{
    struct point point = draw_point(seed);
    struct symc_local_sum on_host = sum_of(&point, arrays->host);
    struct symc_local_sum on_device = sum_of(&point, arrays->device);
    char *found = malloc(3 * ROOM);
    int right;

    for (int i = 0; i < 3; i++)
        fill(point.dtype, arrays->host + i * ROOM + point.at[i], MOST,
            seed + (uint64_t)i);
    device_write(arrays->device, arrays->host, 3 * ROOM);
    right = say(symc_site_add(NULL, &on_host) == SYMMCOLL_OK &&
                    symc_site_add(site, &on_device) == SYMMCOLL_OK,
        "sums");
    device_wait(symc_site_stream(site));
    device_read(found, arrays->device, 3 * ROOM);
    right = right && memcmp(found, arrays->host, 3 * ROOM) == 0;
    if (!right)
        diag(
            "seed %llu: type %d, %zu elements, %d sources at %zu, %zu, out %zu",
            (unsigned long long)seed, (int)point.dtype, point.count, point.n,
            point.at[0], point.at[1], point.at[2]);
    free(found);
    return right;
}

static int sums_of_both_memories(struct symmcoll_group *group, int rank)
{
    struct arrays arrays = {.host = malloc(3 * ROOM)};
    struct symc_site *site = NULL;
    CUstream stream;
    int right;
    int device = device_use(rank);

    stream = device_stream();
    arrays.device = device_alloc(3 * ROOM);
    memset(arrays.host, 0, 3 * ROOM);
    right = say(symc_site_open("t", group, device, stream, NULL, true, &site) ==
                    SYMMCOLL_OK,
        "a site");
    for (uint64_t seed = 0; right && seed < 240; seed++)
        right = sums_agree(site, &arrays, seed);
    symc_site_close(site);
    device_end_stream(stream);
    device_free(arrays.device);
    free(arrays.host);
    return right;
}

/* ---- conversions ---- */

static int conversions_agree(
    struct symc_site *site, struct arrays *arrays, uint64_t seed)
{
    static const size_t counts[] = {0, 1, 7, 9, 257, MOST};
    const enum symmcoll_dtype half =
        seed % 2 == 0 ? SYMMCOLL_FLOAT16 : SYMMCOLL_BFLOAT16;
    const bool narrows = seed / 2 % 2 == 0;
    uint64_t state = seed * 977 + 5;
    struct symc_conversion on_host = {narrows ? SYMMCOLL_FLOAT32 : half,
        narrows ? half : SYMMCOLL_FLOAT32, arrays->host + ROOM, arrays->host,
        counts[draw(&state, 6)], draw(&state, 2) == 0 ? 1.0 : 1.0 / 3};
    struct symc_conversion on_device = on_host;
    size_t from = 4 * draw(&state, 16), to = 4 * draw(&state, 16);
    char *found = malloc(2 * ROOM);
    int right;

    fill(on_host.from, arrays->host, MOST, seed);
    memmove(arrays->host + from, arrays->host,
        MOST * symmcoll_dtype_size(on_host.from));
    memset(arrays->host + ROOM, 0x55, ROOM);
    device_write(arrays->device, arrays->host, 2 * ROOM);
    on_host.in = arrays->host + from;
    on_host.out = arrays->host + ROOM + to;
    on_device.in = arrays->device + from;
    on_device.out = arrays->device + ROOM + to;
    right = say(symc_site_convert(NULL, NULL, &on_host) == SYMMCOLL_OK &&
                    symc_site_convert(site, symc_site_stream(site),
                        &on_device) == SYMMCOLL_OK,
        "conversions");
    device_wait(symc_site_stream(site));
    device_read(found, arrays->device, 2 * ROOM);
    right = right && memcmp(found, arrays->host, 2 * ROOM) == 0;
    if (!right)
        diag("seed %llu", (unsigned long long)seed);
    free(found);
    return right;
}

static int conversions_of_both_memories(struct symmcoll_group *group, int rank)
{
    struct arrays arrays = {.host = calloc(2, ROOM)};
    struct symc_site *site = NULL;
    int device = device_use(rank), right;
    CUstream stream = device_stream();

    arrays.device = device_alloc(2 * ROOM);
    right = say(symc_site_open("t", group, device, stream, NULL, true, &site) ==
                    SYMMCOLL_OK,
        "a site");
    for (uint64_t seed = 0; right && seed < 100; seed++)
        right = conversions_agree(site, &arrays, seed);
    symc_site_close(site);
    device_end_stream(stream);
    device_free(arrays.device);
    free(arrays.host);
    return right;
}

/* ---- gaps ---- */

/* Packs elements of a matrix with gaps between rows and columns, and unpacks
 * them into another one; the bytes in between are unchanged. */
static int elements_go_back(struct symmcoll_group *group, int rank)
{
    static const int64_t shape[] = {3, 4, 5},
                         strides[][3] = {{1, 3, 12}, {50, 12, 2}, {30, 7, 1}};
    int device = device_use(rank), right = 1;
    struct symc_site *site = NULL;
    uint16_t host[160], found[160];
    char *from = device_alloc(sizeof(host)), *to = device_alloc(sizeof(host)),
         *packed = device_alloc(sizeof(host));

    right = symc_site_open("t", group, device, NULL, NULL, false, &site) ==
            SYMMCOLL_OK;
    for (int i = 0; i < 160; i++)
        host[i] = (uint16_t)(i + 1);
    device_write(from, host, sizeof(host));
    for (size_t s = 0; right && s < sizeof(strides) / sizeof(*strides); s++) {
        struct symc_strided copy = {
            packed, from, 2, 3, shape, strides[s], false};
        uint16_t wanted[160] = {0};

        memset(found, 0, sizeof(found));
        device_write(to, found, sizeof(found));
        right = symc_site_copy(site, &copy) == SYMMCOLL_OK;
        copy = (struct symc_strided){to, packed, 2, 3, shape, strides[s], true};
        right = right && symc_site_copy(site, &copy) == SYMMCOLL_OK;
        device_wait(NULL);
        device_read(found, to, sizeof(found));
        for (int64_t i = 0; i < 60; i++) {
            int64_t at = i / 20 * strides[s][0] + i / 5 % 4 * strides[s][1] +
                         i % 5 * strides[s][2];

            wanted[at] = host[at];
        }
        right = say(right && memcmp(found, wanted, sizeof(wanted)) == 0,
            "elements with gaps");
    }
    symc_site_close(site);
    device_free(from);
    device_free(to);
    device_free(packed);
    return right;
}

/* ---- pieces of a buffer ---- */

#define PIECES 300
#define PIECES_ROOM 65536

/* A buffer and tensors beside it, ROOM bytes each, in one kind of memory. */
struct pieces {
    struct symc_local_piece pieces[PIECES];
    struct symc_local_pieces all;
    char *memory;
};

/* Draws the same pieces for host memory and for device memory: odd sizes,
 * empty pieces, and one longer than the chunk of a block. */
static void draw_pieces(
    struct pieces *host, struct pieces *device, size_t n, uint64_t seed)
{
    uint64_t state = seed * 4099 + n;
    size_t offset = draw(&state, 3) * 16, at = draw(&state, 2) * 5;

    for (size_t i = 0; i < n; i++) {
        size_t nbytes = draw(&state, 4) == 0 ? 0 : draw(&state, 97);

        if (i == n / 2)
            nbytes = SYMC_KERNEL_CHUNK + draw(&state, 33);
        host->pieces[i] = device->pieces[i] =
            (struct symc_local_piece){.offset = offset, .nbytes = nbytes};
        host->pieces[i].at = host->memory + PIECES_ROOM + at;
        device->pieces[i].at = device->memory + PIECES_ROOM + at;
        offset += nbytes + draw(&state, 2) * draw(&state, 7);
        at += nbytes + draw(&state, 2) * draw(&state, 7);
    }
    host->all = (struct symc_local_pieces){
        host->memory, host->pieces, n, draw(&state, 2) == 1};
    device->all = host->all;
    device->all.buffer = device->memory;
    device->all.pieces = device->pieces;
}

static uint64_t count_full(const struct pieces *pieces)
{
    uint64_t n = 0;

    for (size_t i = 0; i < pieces->all.n; i++)
        n += pieces->pieces[i].nbytes > 0;
    return n;
}

/* Checks that both memories have the same bytes afterwards. With kernels, two
 * or more pieces take one launch for as many pieces as a kernel has. */
static int pieces_agree(struct symc_site *site, const struct pieces *host,
    const struct pieces *device, bool kernels)
{
    const uint64_t full = count_full(host),
                   launches = fake_calls("cuLaunchKernelEx"),
                   copies = fake_calls("cuMemcpyAsync");
    uint64_t expected = 0;
    char *found = malloc(2 * PIECES_ROOM);
    int right;

    if (kernels && full > 1)
        expected = (full + SYMC_KERNEL_PIECES - 1) / SYMC_KERNEL_PIECES;
    right = symc_site_move_pieces(NULL, &host->all) == SYMMCOLL_OK &&
            symc_site_move_pieces(site, &device->all) == SYMMCOLL_OK &&
            fake_calls("cuLaunchKernelEx") == launches + expected &&
            fake_calls("cuMemcpyAsync") == copies + (expected == 0 ? full : 0);
    device_wait(symc_site_stream(site));
    device_read(found, device->memory, 2 * PIECES_ROOM);
    right = right && memcmp(found, host->memory, 2 * PIECES_ROOM) == 0;
    free(found);
    return right;
}

static int move_pieces(struct symmcoll_group *group, int rank, bool kernels)
{
    static const size_t counts[] = {
        0, 1, 2, 3, 7, 31, SYMC_KERNEL_PIECES, SYMC_KERNEL_PIECES + 1, PIECES};
    struct pieces *both = calloc(2, sizeof(*both));
    struct symc_site *site = NULL;
    CUstream stream;
    int right, device = device_use(rank);

    stream = device_stream();
    both[0].memory = malloc(2 * PIECES_ROOM);
    both[1].memory = device_alloc(2 * PIECES_ROOM);
    right = say(symc_site_open("t", group, device, stream, NULL, kernels,
                    &site) == SYMMCOLL_OK,
        "a site");
    for (uint64_t seed = 0; right && seed < 54; seed++) {
        fill(SYMMCOLL_UINT8, both[0].memory, 2 * PIECES_ROOM, seed);
        device_write(both[1].memory, both[0].memory, 2 * PIECES_ROOM);
        draw_pieces(&both[0], &both[1], counts[seed % 9], seed);
        right = pieces_agree(site, &both[0], &both[1], kernels);
        if (!right)
            diag("seed %llu: %zu pieces %s the buffer: %s",
                (unsigned long long)seed, both[0].all.n,
                both[0].all.spread ? "from" : "to", symmcoll_last_error());
    }
    symc_site_close(site);
    device_end_stream(stream);
    device_free(both[1].memory);
    free(both[0].memory);
    free(both);
    return right;
}

static int pieces_of_both_memories(struct symmcoll_group *group, int rank)
{
    return move_pieces(group, rank, true);
}

static int pieces_without_kernels(struct symmcoll_group *group, int rank)
{
    return move_pieces(group, rank, false);
}

/* Makes the second launch fail, and the copy of a single piece; no context
 * stays current. */
static int pieces_that_fail(struct symmcoll_group *group, int rank)
{
    struct pieces *both = calloc(2, sizeof(*both));
    struct symc_site *site = NULL;
    int right, device = device_use(rank), pushed;

    both[0].memory = both[1].memory = device_alloc(2 * PIECES_ROOM);
    right = say(symc_site_open("t", group, device, NULL, NULL, true, &site) ==
                    SYMMCOLL_OK,
        "a site");
    pushed = fake_pushed();
    draw_pieces(&both[0], &both[1], PIECES, 1);
    both[1].all.spread = true;
    fake_configure("fail=cuLaunchKernelEx:2:400");
    right = right && ended(symc_site_move_pieces(site, &both[1].all),
                         SYMMCOLL_ERR_DEVICE, "of symc_unflatten with ");
    both[1].all.n = 1;
    both[1].pieces[0].nbytes = 7;
    fake_configure("fail=cuMemcpyAsync:1:400");
    right = right &&
            ended(symc_site_move_pieces(site, &both[1].all),
                SYMMCOLL_ERR_DEVICE, "cuMemcpyAsync of 7 bytes to 0x") &&
            say(fake_pushed() == pushed, "no context stays");
    symc_site_close(site);
    device_wait(NULL);
    device_free(both[0].memory);
    free(both);
    return right;
}

/* ---- streams ---- */

/* Checks that a site which changes its stream follows the work of the first
 * one. */
static int streams_follow(struct symmcoll_group *group, int rank)
{
    struct symc_site *site = NULL;
    int device = device_use(rank), right;
    CUstream first = device_stream(), second = device_stream();
    uint64_t one = 1, found = 0;
    char *words = device_alloc(2 * sizeof(one));

    right = symc_site_open("t", group, device, first, NULL, false, &site) ==
            SYMMCOLL_OK;
    fake_stall(first);
    device_write(words, &one, sizeof(one));
    right = right && symc_site_move(site, words + 8, words, 8) == SYMMCOLL_OK &&
            symc_site_set_stream(site, second) == SYMMCOLL_OK &&
            symc_site_stream(site) == second &&
            symc_site_clear(site, words + 8, 4) == SYMMCOLL_OK &&
            symc_site_query(site) == SYMMCOLL_IN_PROGRESS;
    fake_resume(first);
    device_wait(second);
    device_read(&found, words + 8, sizeof(found));
    right = say(right && found == 0, "the order of two streams");
    symc_site_close(site);
    device_wait(first);
    device_end_stream(first);
    device_end_stream(second);
    device_free(words);
    return right;
}

/* ---- errors ---- */

/* Makes each driver call of follow() and mark() fail. */
static int calls_are_named(struct symmcoll_group *group, int rank)
{
    static const struct {
        bool marks;
        const char *setting, *text;
    } calls[] = {{false, "fail=cuEventCreate:1:400", "cuEventCreate to have "},
        {false, "fail=cuEventRecord:1:400", "cuEventRecord to have stream 0x"},
        {false, "fail=cuStreamWaitEvent:1:400", "cuStreamWaitEvent to have "},
        {true, "fail=cuStreamIsCapturing:1:400",
            "cuStreamIsCapturing to note "},
        {true, "fail=cuEventCreate:1:400", "cuEventCreate to note how far "},
        {true, "fail=cuEventRecord:1:400", "cuEventRecord to note how far "}};
    struct symc_site *site = NULL;
    int device = device_use(rank), right;
    CUstream first = device_stream(), second = device_stream();
    void *mark = NULL;

    right = symc_site_open("t", group, device, first, NULL, false, &site) ==
            SYMMCOLL_OK;
    for (size_t i = 0; i < sizeof(calls) / sizeof(*calls) && right; i++) {
        fake_configure(calls[i].setting);
        right = ended(calls[i].marks ? symc_site_mark(site, &mark)
                                     : symc_site_follow(site, second),
                    SYMMCOLL_ERR_DEVICE, calls[i].text) &&
                mark == NULL;
    }
    symc_site_close(site);
    device_wait(first);
    device_end_stream(first);
    device_end_stream(second);
    return right;
}

int main(void)
{
    device_begin();
    on_both(1, sums_of_both_memories,
        "sums of one rank have the bits of host memory, at all alignments");
    on_both(1, conversions_of_both_memories,
        "so have conversions, and nothing else is written");
    on_both(1, elements_go_back, "elements with gaps are packed and spread");
    on_both(1, pieces_of_both_memories,
        "pieces of a buffer have the bytes of host memory, 128 with a launch");
    on_both(1, pieces_without_kernels,
        "so they have where no kernels are loaded, one by one");
    on_both(1, pieces_that_fail, "what fails of them is told");
    on_both(1, streams_follow, "what follows on another stream is done after");
    on_both(1, calls_are_named, "errors name the driver's call");
    return done_testing();
}
