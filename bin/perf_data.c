/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The data of symmcoll-perf: each rank's input, the expected result, and
 * comparison.  All inputs are small integers, chosen by element type so that
 * every sum is exact; so results are compared bit by bit.
 */
#include "perf.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>

/* An exact result: averages stay divided until the element type is known. */
struct ratio {
    int64_t numerator;
    int divisor;
};

static bool is_complex(enum symmcoll_dtype dtype)
{
    return dtype == SYMMCOLL_COMPLEX64 || dtype == SYMMCOLL_COMPLEX128;
}

/* Returns the limit up to which a type distinguishes all integers. */
static int64_t exact_limit(enum symmcoll_dtype dtype)
{
    switch (dtype) {
    case SYMMCOLL_INT8:
        return INT8_MAX;
    case SYMMCOLL_INT16:
        return INT16_MAX;
    case SYMMCOLL_UINT16:
        return UINT16_MAX;
    case SYMMCOLL_FLOAT16:
        return 1 << 11;
    case SYMMCOLL_BFLOAT16:
        return 1 << 8;
    default:
        return symmcoll_dtype_size(dtype) == 1 ? UINT8_MAX : 1 << 24;
    }
}

/* Returns an element for sums and data movement: it grows with rank and place
 * as long as the sum over all ranks is exact. */
static int64_t summand(const struct perf_data *data, int rank, int place)
{
    int64_t ranks = data->size, sum = ranks * (ranks + 1) / 2 * PERF_PERIOD;
    int64_t limit = exact_limit(data->dtype);
    int64_t distinct;

    if (data->op == SYMMCOLL_PREMUL_SUM)
        limit /= 2;
    if (sum <= limit)
        return (int64_t)(rank + 1) * (place + 1);
    distinct = limit / ranks;
    if (distinct > PERF_PERIOD)
        distinct = PERF_PERIOD;
    return (place + rank) % (distinct < 2 ? 2 : distinct);
}

/*
 * Returns a rank's element at a place of the period.  For each operation every
 * rank decides the result at some place, so that a missing rank is noticed.
 */
static int64_t contribution(const struct perf_data *data, int rank, int place)
{
    int turns = data->size < PERF_PERIOD ? data->size : PERF_PERIOD;
    int my_turn = place % turns == rank % PERF_PERIOD && place % 2 == 1;
    int is_bool = data->dtype == SYMMCOLL_BOOL;

    switch (data->op) {
    case SYMMCOLL_PRODUCT:
        if (is_bool)
            return !my_turn;
        if (rank < 4)
            return 1 + (place + rank) % 3;
        return place >> rank % 5 & 1 ? -1 : 1;
    case SYMMCOLL_MIN:
        return is_bool ? !my_turn : (place + rank * 17) % PERF_PERIOD;
    case SYMMCOLL_MAX:
        return is_bool ? my_turn : (place + rank * 17) % PERF_PERIOD;
    case SYMMCOLL_BAND:
        return is_bool ? !my_turn : 0x7f ^ my_turn << place % 7;
    case SYMMCOLL_BOR:
        return is_bool ? my_turn : my_turn << place % 7;
    case SYMMCOLL_BXOR:
        if (is_bool)
            return place >> rank % 5 & 1;
        return (place * 37 + rank * 101) & 0x7f;
    default:
        return is_bool ? my_turn : summand(data, rank, place);
    }
}

double perf_premul_factor(int rank)
{
    return 1 + rank % 2;
}

/* Returns the reduction of all ranks' elements at a place. */
static struct ratio reduce_place(const struct perf_data *data, int place)
{
    struct ratio result = {contribution(data, 0, place), 1};
    int64_t *sum = &result.numerator;

    for (int rank = 1; rank < data->size; rank++) {
        int64_t next = contribution(data, rank, place);

        switch (data->op) {
        case SYMMCOLL_PRODUCT:
            *sum *= next;
            break;
        case SYMMCOLL_MIN:
            *sum = next < *sum ? next : *sum;
            break;
        case SYMMCOLL_MAX:
            *sum = next > *sum ? next : *sum;
            break;
        case SYMMCOLL_BAND:
            *sum &= next;
            break;
        case SYMMCOLL_BOR:
            *sum |= next;
            break;
        case SYMMCOLL_BXOR:
            *sum ^= next;
            break;
        case SYMMCOLL_PREMUL_SUM:
            *sum += (int64_t)perf_premul_factor(rank) * next;
            break;
        default:
            *sum += next;
        }
    }
    if (data->op == SYMMCOLL_AVG)
        result.divisor = data->size;
    else if (data->dtype == SYMMCOLL_BOOL)
        *sum = *sum != 0;
    return result;
}

/* Rounds to the nearest half, ties to even; for values of normal size, as all
 * here are. */
static uint16_t round_to_half(float value)
{
    uint32_t bits;

    memcpy(&bits, &value, sizeof(bits));
    if ((bits & 0x7fffffff) == 0)
        return (uint16_t)(bits >> 16);
    return (uint16_t)((bits >> 16 & 0x8000) |
                      (((bits & 0x7fffffff) - ((uint32_t)112 << 23) + 0xfff +
                           (bits >> 13 & 1)) >>
                          13));
}

static uint16_t round_to_bfloat16(float value)
{
    uint32_t bits;

    memcpy(&bits, &value, sizeof(bits));
    return (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

/* Writes one component in its type. */
static void encode(enum symmcoll_dtype dtype, struct ratio value, void *out)
{
    float single = (float)value.numerator / (float)value.divisor;
    double twice = (double)value.numerator / (double)value.divisor;
    int64_t whole = value.numerator / value.divisor;
    uint16_t half = dtype == SYMMCOLL_FLOAT16 ? round_to_half(single)
                                              : round_to_bfloat16(single);

    switch (dtype) {
    case SYMMCOLL_FLOAT32:
    case SYMMCOLL_COMPLEX64:
        memcpy(out, &single, sizeof(single));
        return;
    case SYMMCOLL_FLOAT64:
    case SYMMCOLL_COMPLEX128:
        memcpy(out, &twice, sizeof(twice));
        return;
    case SYMMCOLL_FLOAT16:
    case SYMMCOLL_BFLOAT16:
        memcpy(out, &half, sizeof(half));
        return;
    default:
        break;
    }
    switch (symmcoll_dtype_size(dtype)) {
    case 1:
        *(uint8_t *)out = (uint8_t)whole;
        return;
    case 2:
        memcpy(out, &(uint16_t){(uint16_t)whole}, 2);
        return;
    case 4:
        memcpy(out, &(uint32_t){(uint32_t)whole}, 4);
        return;
    default:
        memcpy(out, &whole, 8);
    }
}

static void start_pattern(
    struct perf_pattern *pattern, const struct perf_data *data)
{
    pattern->dtype = data->dtype;
    pattern->components = is_complex(data->dtype) ? 2 : 1;
    pattern->component = symmcoll_dtype_size(data->dtype) / pattern->components;
}

/* Repeats the first period. */
static void repeat_pattern(struct perf_pattern *pattern)
{
    size_t nbytes = PERF_PERIOD * pattern->component;

    for (size_t i = 1; i <= PERF_REPEATS; i++)
        memcpy(pattern->bytes + i * nbytes, pattern->bytes, nbytes);
}

void perf_pattern_input(
    struct perf_pattern *pattern, const struct perf_data *data, int rank)
{
    start_pattern(pattern, data);
    for (int i = 0; i < PERF_PERIOD; i++)
        encode(data->dtype, (struct ratio){contribution(data, rank, i), 1},
            pattern->bytes + (size_t)i * pattern->component);
    repeat_pattern(pattern);
}

void perf_pattern_result(
    struct perf_pattern *pattern, const struct perf_data *data)
{
    start_pattern(pattern, data);
    for (int i = 0; i < PERF_PERIOD; i++)
        encode(data->dtype, reduce_place(data, i),
            pattern->bytes + (size_t)i * pattern->component);
    repeat_pattern(pattern);
}

const void *perf_pattern_at(const struct perf_pattern *pattern, size_t index)
{
    size_t place = index % PERF_PERIOD * pattern->components % PERF_PERIOD;

    return pattern->bytes + place * pattern->component;
}

/* Returns whole periods, so that the next piece begins at the same place. */
static size_t piece_nbytes(const struct perf_pattern *pattern)
{
    return (size_t)PERF_PERIOD * (PERF_REPEATS - 1) * pattern->component;
}

void perf_pattern_fill(
    const struct perf_pattern *pattern, size_t first, void *out, size_t count)
{
    const void *from = perf_pattern_at(pattern, first);
    size_t piece = piece_nbytes(pattern);
    size_t left = count * pattern->component * pattern->components;
    unsigned char *to = out;

    for (; left > piece; left -= piece, to += piece)
        memcpy(to, from, piece);
    memcpy(to, from, left);
}

size_t perf_pattern_compare(const struct perf_pattern *pattern, size_t first,
    const void *found, size_t count)
{
    const unsigned char *want = perf_pattern_at(pattern, first);
    const unsigned char *got = found;
    size_t piece = piece_nbytes(pattern);
    size_t elem = pattern->component * pattern->components;
    size_t nbytes = count * elem;

    for (size_t done = 0; done < nbytes; done += piece) {
        size_t here = nbytes - done < piece ? nbytes - done : piece;

        if (memcmp(got + done, want, here) == 0)
            continue;
        for (size_t i = 0; i < here; i++)
            if (got[done + i] != want[i])
                return (done + i) / elem;
    }
    return count;
}

static double half_to_double(uint16_t half)
{
    uint32_t bits = (uint32_t)(half & 0x7fff) << 13;
    float value;

    memcpy(&value, &bits, sizeof(value));
    /* Scaling by 2^112 moves the exponent, also for subnormals; inf and NaN are
     * shown as large numbers. */
    value *= 0x1p112f;
    return half & 0x8000 ? -(double)value : (double)value;
}

static double decode(enum symmcoll_dtype dtype, const void *in)
{
    uint16_t two;
    uint32_t four;
    float single;
    double twice;

    switch (dtype) {
    case SYMMCOLL_FLOAT64:
    case SYMMCOLL_COMPLEX128:
        memcpy(&twice, in, sizeof(twice));
        return twice;
    case SYMMCOLL_FLOAT16:
        memcpy(&two, in, sizeof(two));
        return half_to_double(two);
    case SYMMCOLL_BFLOAT16:
        memcpy(&two, in, sizeof(two));
        four = (uint32_t)two << 16;
        memcpy(&single, &four, sizeof(single));
        return (double)single;
    default:
        memcpy(&single, in, sizeof(single));
        return (double)single;
    }
}

/* Returns an integer, sign-extended if its type is signed. */
static int64_t decode_integer(enum symmcoll_dtype dtype, const void *in)
{
    int8_t one;
    int16_t two;
    int32_t four;
    int64_t eight;

    switch (symmcoll_dtype_size(dtype)) {
    case 1:
        memcpy(&one, in, 1);
        return dtype == SYMMCOLL_INT8 ? one : (uint8_t)one;
    case 2:
        memcpy(&two, in, 2);
        return dtype == SYMMCOLL_INT16 ? two : (uint16_t)two;
    case 4:
        memcpy(&four, in, 4);
        return dtype == SYMMCOLL_INT32 ? four : (int64_t)(uint32_t)four;
    default:
        memcpy(&eight, in, 8);
        return eight;
    }
}

const char *perf_format_element(
    enum symmcoll_dtype dtype, const void *element, char *buffer)
{
    switch (dtype) {
    case SYMMCOLL_FLOAT16:
    case SYMMCOLL_BFLOAT16:
    case SYMMCOLL_FLOAT32:
    case SYMMCOLL_FLOAT64:
        snprintf(buffer, PERF_NAME_MAX, "%.9g", decode(dtype, element));
        break;
    case SYMMCOLL_COMPLEX64:
    case SYMMCOLL_COMPLEX128:
        snprintf(buffer, PERF_NAME_MAX, "%.9g%+.9gi", decode(dtype, element),
            decode(
                dtype, (const char *)element + symmcoll_dtype_size(dtype) / 2));
        break;
    case SYMMCOLL_UINT64:
        snprintf(buffer, PERF_NAME_MAX, "%llu",
            (unsigned long long)decode_integer(dtype, element));
        break;
    default:
        snprintf(buffer, PERF_NAME_MAX, "%lld",
            (long long)decode_integer(dtype, element));
    }
    return buffer;
}
