/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Implements data.h. Expected sums come from the plain reference of t/base on
 * regenerated contributions, and use none of the library's algorithms.
 */
#include "data.h"

#include "../base/reference.h"
#include "../sanitized.h"
#include "../tap.h"

#include "group/group.h"

#include <malloc.h>
#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#define GUARD ((size_t)64)
#define GUARD_BYTE 0xa5
#define CLEAR_BYTE 0x5a
#define PIECE ((size_t)512) /* elements that are computed at once */

/* ---- guarded buffers ---- */

/* Lets the C library keep the memory of closed buffers: tests that open
 * megabytes for each case would otherwise spend most of their time in page
 * faults. */
__attribute__((constructor)) static void keep_memory(void)
{
    mallopt(M_MMAP_THRESHOLD, 32 << 20);
    mallopt(M_TRIM_THRESHOLD, 256 << 20);
}

struct guarded guarded_open(size_t nbytes, size_t shift)
{
    struct guarded buffer = {.nbytes = nbytes};

    buffer.base = aligned_alloc(64, (nbytes + shift + 3 * GUARD) / 64 * 64);
    if (buffer.base == NULL) {
        diag("no memory for %zu bytes", nbytes);
        abort();
    }
    buffer.at = buffer.base + GUARD + shift;
    memset(buffer.at - GUARD, GUARD_BYTE, GUARD);
    memset(buffer.at + nbytes, GUARD_BYTE, GUARD - shift % 64);
    buffer.nbytes = nbytes;
    guarded_clear(&buffer);
    return buffer;
}

void guarded_close(struct guarded *buffer)
{
    free(buffer->base);
    *buffer = (struct guarded){.base = NULL};
}

void guarded_clear(struct guarded *buffer)
{
    memset(buffer->at, CLEAR_BYTE, buffer->nbytes);
}

static bool holds_only(const unsigned char *at, size_t nbytes, int byte)
{
    return nbytes == 0 ||
           (at[0] == byte && memcmp(at, at + 1, nbytes - 1) == 0);
}

bool guarded_is_clear(const struct guarded *buffer)
{
    return holds_only(buffer->at, buffer->nbytes, CLEAR_BYTE);
}

bool guarded_is_intact(const struct guarded *buffer)
{
    return holds_only(buffer->at - GUARD, GUARD, GUARD_BYTE) &&
           holds_only(buffer->at + buffer->nbytes, GUARD / 4, GUARD_BYTE);
}

/* ---- contributions ---- */

/* Returns well mixed bits of an index (the finisher of splitmix64). */
static uint64_t mix(uint64_t x)
{
    x = (x ^ x >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ x >> 27) * UINT64_C(0x94d049bb133111eb);
    return x ^ x >> 31;
}

/* Returns a number for a float type: mostly of a few digits and very different
 * magnitudes, so that the order of a sum matters; rarely a special value. */
static double make_number(uint64_t bits)
{
    double value = (double)((int64_t)(bits % 20001) - 10000) / 128;

    switch (bits >> 20 & 127) {
    case 0:
        return -0.0;
    case 1:
        return 0.0;
    case 2:
        return (bits >> 30 & 15) == 0 ? (double)NAN : value;
    case 3:
        return (bits >> 30 & 15) == 0 ? (double)INFINITY : value;
    default:
        return (bits >> 40 & 3) == 0 ? value * 64 : value / 16;
    }
}

/* Eight bytes of a contribution. */
union word {
    uint64_t bits;
    unsigned char bytes[8];
    uint16_t halves[4];
    float singles[2];
    double twice;
};

/* Returns the bytes of a number of a float type, half of a complex one; 0 for
 * others. */
static size_t number_nbytes(enum symmcoll_dtype dtype)
{
    switch (dtype) {
    case SYMMCOLL_FLOAT16:
    case SYMMCOLL_BFLOAT16:
        return 2;
    case SYMMCOLL_FLOAT32:
    case SYMMCOLL_COMPLEX64:
        return 4;
    case SYMMCOLL_FLOAT64:
    case SYMMCOLL_COMPLEX128:
        return 8;
    default:
        return 0;
    }
}

/* Returns word `index` of a contribution of numbers. */
static union word make_numbers(
    enum symmcoll_dtype dtype, size_t number, uint64_t base, uint64_t index)
{
    union word word = {.bits = 0};
    size_t n = 8 / number;

    for (size_t i = 0; i < n; i++) {
        double value = make_number(mix(base + index * n + i));

        if (number == 8)
            word.twice = value / 3;
        else if (number == 4)
            word.singles[i] = (float)value;
        else if (dtype == SYMMCOLL_FLOAT16)
            word.halves[i] = symc_float_to_half((float)value);
        else
            word.halves[i] = symc_float_to_bfloat16((float)value);
    }
    return word;
}

/* Returns an element of any other type. A bool has various bytes for true. */
static union word make_bits(
    enum symmcoll_dtype dtype, uint64_t base, uint64_t index)
{
    union word word = {.bits = mix(base + index)};

    if (dtype == SYMMCOLL_BOOL)
        for (int i = 0; i < 8; i++)
            word.bytes[i] =
                word.bytes[i] % 5 == 0 ? word.bytes[i] : word.bytes[i] & 1;
    return word;
}

/*
 * A contribution consists of blocks taken from a table of its type at well
 * mixed places: computing each number separately took most of the time of
 * these tests.
 */
#define TABLE ((size_t)32 * 1024)
#define BLOCK ((size_t)64)

static const unsigned char *table_of(enum symmcoll_dtype dtype)
{
    static union word tables[SYMMCOLL_DTYPE_COUNT][TABLE / 8];
    static _Atomic bool made[SYMMCOLL_DTYPE_COUNT];
    static pthread_mutex_t making = PTHREAD_MUTEX_INITIALIZER;
    size_t number = number_nbytes(dtype);
    union word *table = tables[dtype];

    if (!atomic_load_explicit(&made[dtype], memory_order_acquire)) {
        pthread_mutex_lock(&making);
        for (size_t i = 0; i < TABLE / 8 && !made[dtype]; i++)
            table[i] = number != 0 ? make_numbers(dtype, number,
                                         (uint64_t)dtype << 32, i)
                                   : make_bits(dtype, (uint64_t)dtype << 32, i);
        atomic_store(&made[dtype], true);
        pthread_mutex_unlock(&making);
    }
    return table->bytes;
}

void data_fill(void *to, enum symmcoll_dtype dtype, size_t first, size_t count,
    int rank, unsigned seed)
{
    const unsigned char *table = table_of(dtype);
    unsigned char *out = to;
    size_t elem = symmcoll_dtype_size(dtype);
    size_t at = first * elem, end = (first + count) * elem;
    uint64_t base =
        mix((uint64_t)seed << 32 | (uint64_t)rank << 8 | (uint64_t)dtype);

    while (at < end) {
        size_t skip = at % BLOCK,
               nbytes = end - at < BLOCK - skip ? end - at : BLOCK - skip;
        size_t place = mix(base + at / BLOCK) % ((TABLE - BLOCK) / 8) * 8;

        memcpy(out, table + place + skip, nbytes);
        out += nbytes;
        at += nbytes;
    }
}

double data_factor(int rank)
{
    return (rank % 2 == 0 ? 1 : -1) * (double)(rank + 2) / 3;
}

/* ---- results ---- */

void data_reduce(void *to, enum symmcoll_dtype dtype, symmcoll_op_t op,
    size_t first, size_t count, int size, int block, unsigned seed)
{
    size_t elem = symmcoll_dtype_size(dtype);
    unsigned char *pieces = malloc((size_t)size * PIECE * elem);
    const unsigned char **sources = calloc((size_t)size, sizeof(*sources));
    double *factors = calloc((size_t)size, sizeof(*factors));
    struct symc_reduction reduction = {
        .dtype = dtype, .op = op, .block = block, .factors = factors};

    if (pieces == NULL || sources == NULL || factors == NULL)
        abort();
    for (size_t done = 0; done < count; done += PIECE) {
        size_t now = count - done < PIECE ? count - done : PIECE;

        for (int r = 0; r < size; r++) {
            sources[r] = pieces + (size_t)r * PIECE * elem;
            factors[r] = data_factor(r);
            data_fill(pieces + (size_t)r * PIECE * elem, dtype, first + done,
                now, r, seed);
        }
        reference_reduce(
            &reduction, (unsigned char *)to + done * elem, sources, size, now);
    }
    free(pieces);
    free(sources);
    free(factors);
}

bool data_is_same(
    const char *what, const void *found, const void *expected, size_t nbytes)
{
    const unsigned char *a = found, *b = expected;
    size_t i = 0;

    if (nbytes == 0 || memcmp(a, b, nbytes) == 0)
        return true;
    while (a[i] == b[i])
        i++;
    diag("%s: byte %zu of %zu: expected 0x%02x, found 0x%02x", what, i, nbytes,
        b[i], a[i]);
    return false;
}

symmcoll_op_t data_op(struct symmcoll_group *group, symmcoll_op_t op, int rank)
{
    if (op == SYMMCOLL_PREMUL_SUM && symmcoll_op_create_premul(group->world,
                                         data_factor(rank), &op) != SYMMCOLL_OK)
        abort();
    return op;
}

bool data_leaves_out(enum symmcoll_dtype dtype)
{
    static const bool one_of_its_size[SYMMCOLL_DTYPE_COUNT] = {
        [SYMMCOLL_INT8] = true,
        [SYMMCOLL_BFLOAT16] = true,
        [SYMMCOLL_FLOAT32] = true,
        [SYMMCOLL_FLOAT64] = true,
        [SYMMCOLL_COMPLEX128] = true};

    return THREADS_CHECKED && !one_of_its_size[dtype];
}

void data_counts(size_t elem, size_t *counts)
{
    const size_t nbytes[DATA_COUNTS] = {0, elem, 3 * elem, 32, 40, 40 + elem,
        10 * elem, 64 + elem, SMALL_MAX, SMALL_MAX + elem};

    for (int i = 0; i < DATA_COUNTS; i++)
        counts[i] = nbytes[i] / elem;
}

bool data_next_case(struct data_case *at, int size)
{
    enum {
        CASES = DATA_COUNTS + 2 /* of a type */
    };
    size_t counts[CASES], elem;
    int type, number;

    do {
        type = at->next / CASES;
        number = at->next % CASES;
        at->next++;
    } while (
        type < SYMMCOLL_DTYPE_COUNT &&
        (data_leaves_out((enum symmcoll_dtype)type) ||
            (!at->every && number < DATA_COUNTS && number % 2 != type % 2)));
    if (type >= SYMMCOLL_DTYPE_COUNT)
        return false;
    at->dtype = (enum symmcoll_dtype)type;
    at->root = (type + number) % size;
    elem = symmcoll_dtype_size(at->dtype);
    data_counts(elem, counts);
    counts[DATA_COUNTS] = SMALL_MAX / (size_t)size / elem;
    counts[DATA_COUNTS + 1] = counts[DATA_COUNTS] + 1;
    at->count = counts[number];
    return true;
}

/* ---- ranks of both kinds ---- */

void both_run(int n, rank_fn body, const char *sentence)
{
    if (THREADS_CHECKED && n > CHECKED_PROCESSES)
        ok(1, "%s (%d processes) # SKIP ThreadSanitizer sees the threads",
            sentence, n);
    else
        ok(ranks_run(n, body), "%s (%d process%s)", sentence, n,
            n == 1 ? "" : "es");
    ok(threads_run(n, body), "%s (%d thread%s)", sentence, n,
        n == 1 ? "" : "s");
}
