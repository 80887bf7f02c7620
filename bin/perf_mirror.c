/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Buffers on a device and their expected contents: the same bytes on the host,
 * on which the same operation runs in host memory.  So data may be random:
 * floating-point numbers between 0.5 and 1 of either sign, other numbers from 0
 * to 15.
 */
#include "perf_device.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define UNTOUCHED 0xa5 /* content of buffers before the operation */

struct perf_mirror {
    size_t nbytes;         /* bytes of each buffer */
    unsigned char *random; /* elements, from PERF_MARGIN on */
    unsigned char *in;     /* copies of the rank's buffers */
    unsigned char *out;
    unsigned char *seen;   /* read back from the device */
    unsigned char *source; /* `random` on the device */
};

/* ---- random elements ---- */

/* xorshift64* */
static uint64_t draw(uint64_t *state)
{
    *state ^= *state >> 12;
    *state ^= *state << 25;
    *state ^= *state >> 27;
    return *state * UINT64_C(2685821657736338717);
}

/* Returns a random number in the encoding of its type, in the lowest bits. */
static uint64_t draw_component(enum symmcoll_dtype dtype, uint64_t *state)
{
    uint64_t bits = draw(state);

    switch (dtype) {
    case SYMMCOLL_FLOAT16:
        return (bits & 0x83ff) | 0x3800;
    case SYMMCOLL_BFLOAT16:
        return (bits & 0x807f) | 0x3f00;
    case SYMMCOLL_FLOAT32:
    case SYMMCOLL_COMPLEX64:
        return (bits & 0x807fffff) | 0x3f000000;
    case SYMMCOLL_FLOAT64:
    case SYMMCOLL_COMPLEX128:
        return (bits & UINT64_C(0x800fffffffffffff)) |
               UINT64_C(0x3fe0000000000000);
    case SYMMCOLL_BOOL:
        return bits & 1;
    default:
        return bits & 15;
    }
}

static void fill_random(
    enum symmcoll_dtype dtype, unsigned char *at, size_t nbytes, uint64_t seed)
{
    size_t component = symmcoll_dtype_size(dtype);
    uint64_t state = (seed + 1) * UINT64_C(0x9e3779b97f4a7c15);

    if (dtype == SYMMCOLL_COMPLEX64 || dtype == SYMMCOLL_COMPLEX128)
        component /= 2;
    for (size_t i = 0; i + component <= nbytes; i += component) {
        uint64_t bits = draw_component(dtype, &state);

        /* little-endian: the lowest bytes come first */
        memcpy(at + i, &bits, component);
    }
}

/* ---- opening ---- */

bool perf_mirror_open(struct perf_rank *rank, size_t nbytes)
{
    struct perf_mirror *mirror = calloc(1, sizeof(*mirror));

    rank->mirror = mirror;
    if (mirror == NULL)
        return false;
    mirror->nbytes = nbytes;
    mirror->random = perf_allocate(rank, nbytes);
    mirror->in = perf_allocate(rank, nbytes);
    mirror->out = perf_allocate(rank, nbytes);
    mirror->seen = perf_allocate(rank, nbytes);
    mirror->source = perf_device_allocate(rank->device, nbytes);
    if (!mirror->random || !mirror->in || !mirror->out || !mirror->seen ||
        !mirror->source)
        return false;
    fill_random(
        rank->options->dtype, mirror->random, nbytes, (uint64_t)rank->rank);
    return perf_device_copy(
               rank->device, mirror->source, mirror->random, nbytes) &&
           perf_device_wait(rank->device);
}

void perf_mirror_close(struct perf_rank *rank)
{
    struct perf_mirror *mirror = rank->mirror;

    if (mirror == NULL)
        return;
    perf_device_free(rank->device, mirror->source);
    free(mirror->random);
    free(mirror->in);
    free(mirror->out);
    free(mirror->seen);
    free(mirror);
}

/* ---- one case ---- */

/* Returns the offset of an address in the rank's buffer that has it. */
static size_t offset_of(const struct perf_rank *rank, const void *at)
{
    const unsigned char *byte = at;
    bool in_in = byte >= rank->in && byte < rank->in + rank->mirror->nbytes;

    return (size_t)(byte - (in_in ? rank->in : rank->out));
}

static void *on_host(const struct perf_rank *rank, const void *at)
{
    const unsigned char *byte = at;
    bool in_in = byte >= rank->in && byte < rank->in + rank->mirror->nbytes;

    return (in_in ? rank->mirror->in : rank->mirror->out) + offset_of(rank, at);
}

static size_t input_nbytes(const struct perf_case *it)
{
    return perf_case_elements(it, it->choice->op->in) *
           symmcoll_dtype_size(it->dtype);
}

/* Writes both buffers, on the host and on the device. */
static bool write_buffers(const struct perf_case *it, size_t nbytes)
{
    const struct perf_rank *rank = it->rank;
    struct perf_mirror *mirror = rank->mirror;

    memset(mirror->in, UNTOUCHED, nbytes);
    memset(mirror->out, UNTOUCHED, nbytes);
    memcpy(on_host(rank, it->in), mirror->random + offset_of(rank, it->in),
        input_nbytes(it));
    /* The host's operation writes to the host copies. */
    return perf_device_copy(rank->device, rank->in, mirror->in, nbytes) &&
           perf_device_copy(rank->device, rank->out, mirror->out, nbytes) &&
           perf_device_wait(rank->device);
}

/* Runs the same operation in host memory, in its own group. */
static symmcoll_status_t run_on_host(const struct perf_case *it)
{
    struct perf_rank rank = *it->rank;
    struct perf_case host = *it;

    rank.group = rank.all;
    rank.groups = NULL;
    rank.call = NULL;
    host.rank = &rank;
    host.in = on_host(it->rank, it->in);
    host.out = on_host(it->rank, it->out);
    return it->choice->op->run(&host);
}

static int report(const struct perf_case *it, const char *buffer, size_t bad,
    const unsigned char *want, const unsigned char *got)
{
    size_t elem = symmcoll_dtype_size(it->dtype);
    size_t begin = offset_of(it->rank, it->out);
    char texts[2][PERF_NAME_MAX];

    fprintf(stderr,
        "symmcoll-perf: rank %d of %d: %s, %zu elements of %s, device %d: ",
        it->rank->rank, it->rank->size, it->choice->name, it->count,
        symmcoll_dtype_name(it->dtype), perf_device_ordinal(it->rank->device));
    if (want < it->rank->mirror->out ||
        want >= it->rank->mirror->out + it->rank->mirror->nbytes ||
        bad < begin ||
        bad >= begin + elem * perf_case_elements(it, it->choice->op->out)) {
        fprintf(stderr, "byte %zu of the %s's memory: got %#x, want %#x\n", bad,
            buffer, got[bad], want[bad]);
        return PERF_FAILED;
    }
    bad -= (bad - begin) % elem;
    fprintf(stderr, "result: element %zu: got %s, want %s\n",
        (bad - begin) / elem,
        perf_format_element(it->dtype, got + bad, texts[0]),
        perf_format_element(it->dtype, want + bad, texts[1]));
    return PERF_FAILED;
}

static int compare(const struct perf_case *it, const char *buffer,
    const unsigned char *device, const unsigned char *want, size_t nbytes)
{
    const struct perf_rank *rank = it->rank;
    const unsigned char *got = rank->mirror->seen;
    size_t bad = 0;

    if (!perf_device_copy(rank->device, rank->mirror->seen, device, nbytes) ||
        !perf_device_wait(rank->device))
        return PERF_FAILED;
    if (memcmp(got, want, nbytes) == 0)
        return PERF_PASSED;
    while (got[bad] == want[bad])
        bad++;
    return report(it, buffer, bad, want, got);
}

int perf_mirror_check(struct perf_case *it, symmcoll_status_t *status)
{
    const struct perf_rank *rank = it->rank;
    size_t nbytes = it->nbytes + 2 * PERF_MARGIN;
    bool written = write_buffers(it, nbytes);
    int verdict;

    perf_next_group(it->rank);
    *status = it->choice->op->run(it);
    if (*status == SYMMCOLL_OK && !it->choice->op->unordered)
        *status = run_on_host(it);
    if (*status != SYMMCOLL_OK)
        return PERF_PASSED;
    if (!written)
        return PERF_FAILED;
    if (it->choice->op->unordered)
        return perf_device_wait(rank->device) ? PERF_PASSED : PERF_FAILED;
    verdict = compare(it, "input", rank->in, rank->mirror->in, nbytes);
    if (verdict != PERF_PASSED)
        return verdict;
    return compare(it, "output", rank->out, rank->mirror->out, nbytes);
}

bool perf_mirror_rewrite(const struct perf_case *it)
{
    const struct perf_rank *rank = it->rank;

    return perf_device_copy(rank->device, it->in,
        rank->mirror->source + offset_of(rank, it->in), input_nbytes(it));
}
