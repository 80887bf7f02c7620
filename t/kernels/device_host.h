/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Implements kernels/device.h on the engine of the tests. Each operation
 * without which a kernel would be wrong is a place that a test can remove.
 */
#ifndef T_KERNELS_DEVICE_HOST_H
#define T_KERNELS_DEVICE_HOST_H

#include "base/reduce.h"
#include "t/kernels/engine.h"
#include "t/kernels/multicast.h"

#define DEVICE static inline __attribute__((unused))
#define UNROLL
#define KEEP_LOOP
#define SHARED(TYPE, NAME) \
    TYPE *const NAME = (TYPE *)engine_shared(#NAME, sizeof(TYPE))
#define TAKEN_OUT(WHAT) engine_is_out(ENGINE_PLACE(WHAT, false))

#define KERNEL(NAME, type, body)  \
    void NAME(const void *args);  \
    void NAME(const void *args)   \
    {                             \
        body((const type *)args); \
    }

#define thread_index engine_thread_index
#define thread_count engine_thread_count
#define block_index engine_block_index
#define block_count engine_block_count
#define clock_ns engine_clock_ns
#define relax engine_relax
#define half_to_float symc_half_to_float
#define float_to_half symc_float_to_half
#define bfloat16_to_float symc_bfloat16_to_float
#define float_to_bfloat16 symc_float_to_bfloat16

/* ---- the threads of a block ---- */

DEVICE bool host_block_any(const struct engine_place *place, bool value)
{
    return engine_is_out(place) ? value : engine_block_any(value);
}

#define block_any(value) \
    host_block_any(ENGINE_PLACE("barrier of the block", false), value)
#define block_barrier() (void)block_any(false)

/* ---- memory ---- */

/* Traps like a device if a vector is misaligned. */
DEVICE void check_vector(const void *at)
{
    if ((uintptr_t)at % SYMC_VECTOR != 0)
        __builtin_trap();
}

DEVICE struct symc_vector load_vector(const void *from)
{
    engine_perturb();
    check_vector(from);
    return *(const struct symc_vector *)__builtin_assume_aligned(from, 16);
}

DEVICE void store_vector(void *to, struct symc_vector vector)
{
    engine_perturb();
    check_vector(to);
    *(struct symc_vector *)__builtin_assume_aligned(to, 16) = vector;
}

DEVICE unsigned char *entry_of(
    unsigned char *const *table, uint32_t index, unsigned char *other)
{
    return table != NULL ? table[index] : other;
}

DEVICE uint32_t host_load_acquire(
    const struct engine_place *place, const uint32_t *word)
{
    return engine_is_out(place) ? __atomic_load_n(word, __ATOMIC_RELAXED)
                                : __atomic_load_n(word, __ATOMIC_ACQUIRE);
}

DEVICE void host_store_release(
    const struct engine_place *place, uint32_t *word, uint32_t value)
{
    if (engine_is_out(place))
        __atomic_store_n(word, value, __ATOMIC_RELAXED);
    else
        __atomic_store_n(word, value, __ATOMIC_RELEASE);
    engine_perturb();
}

#define load_acquire(word) \
    host_load_acquire(ENGINE_PLACE("acquire", true), word)
#define store_release(word, value) \
    host_store_release(ENGINE_PLACE("release", true), word, value)

/* ThreadSanitizer does not model fences, so each store carries the order
 * instead. */
#define fence_release() (!engine_is_out(ENGINE_PLACE("release fence", true)))

DEVICE void store_fenced(uint32_t *word, uint32_t value, bool fenced)
{
    if (fenced)
        __atomic_store_n(word, value, __ATOMIC_RELEASE);
    else
        __atomic_store_n(word, value, __ATOMIC_RELAXED);
    engine_perturb();
}

DEVICE void store_fenced_four(uint32_t *words, uint32_t value, bool fenced)
{
    uint32_t *four = (uint32_t *)__builtin_assume_aligned(words, 16);

    for (uint32_t i = 0; i < 4; i++)
        store_fenced(&four[i], value, fenced);
}

DEVICE uint32_t load_relaxed(const uint32_t *word)
{
    return __atomic_load_n(word, __ATOMIC_RELAXED);
}

/* Removed: the number is seen before the data. */
DEVICE void host_store_packet(
    const struct engine_place *place, uint64_t *packet, uint64_t value)
{
    if (engine_is_out(place)) {
        const uint32_t data =
            (uint32_t)__atomic_load_n(packet, __ATOMIC_RELAXED);

        __atomic_store_n(packet, (value >> 32 << 32) | data, __ATOMIC_RELAXED);
        engine_relax();
    }
    __atomic_store_n(packet, value, __ATOMIC_RELAXED);
    engine_perturb();
}

/* Removed: the data is read before the number. */
DEVICE uint64_t host_load_packet(
    const struct engine_place *place, const uint64_t *packet)
{
    const uint64_t value = __atomic_load_n(packet, __ATOMIC_RELAXED);

    if (!engine_is_out(place))
        return value;
    engine_relax();
    return (__atomic_load_n(packet, __ATOMIC_RELAXED) >> 32 << 32) |
           (uint32_t)value;
}

#define store_packet(packet, value) \
    host_store_packet(ENGINE_PLACE("packet in one store", false), packet, value)
#define load_packet(packet) \
    host_load_packet(ENGINE_PLACE("packet in one load", false), packet)

DEVICE bool host_claim_word(
    const struct engine_place *place, uint32_t *word, uint32_t value)
{
    uint32_t none = 0;

    if (!engine_is_out(place))
        return __atomic_compare_exchange_n(
            word, &none, value, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED);
    none = __atomic_load_n(word, __ATOMIC_RELAXED);
    engine_relax();
    __atomic_store_n(word, value, __ATOMIC_RELAXED);
    return none == 0;
}

#define claim_word(word, value) \
    host_claim_word(ENGINE_PLACE("compare and swap", true), word, value)

DEVICE void host_add_to(
    const struct engine_place *place, uint64_t *sum, uint64_t value)
{
    if (engine_is_out(place)) {
        value += __atomic_load_n(sum, __ATOMIC_RELAXED);
        engine_relax();
        __atomic_store_n(sum, value, __ATOMIC_RELAXED);
    } else {
        (void)__atomic_fetch_add(sum, value, __ATOMIC_RELAXED);
    }
}

#define add_to(sum, value) \
    host_add_to(ENGINE_PLACE("atomic addition", false), sum, value)

DEVICE void host_keep_least(
    const struct engine_place *place, uint64_t *least, uint64_t value)
{
    uint64_t found = __atomic_load_n(least, __ATOMIC_RELAXED);

    if (engine_is_out(place)) {
        engine_relax();
        if (value < found)
            __atomic_store_n(least, value, __ATOMIC_RELAXED);
        return;
    }
    while (value < found && !__atomic_compare_exchange_n(least, &found, value,
                                false, __ATOMIC_RELAXED, __ATOMIC_RELAXED))
        ;
}

#define keep_least(least, value) \
    host_keep_least(ENGINE_PLACE("atomic minimum", false), least, value)

/* Here each place has only one address. */
DEVICE void fence_aliases(void)
{
}

/* ---- multicast, for float32, float16 and bfloat16 ---- */

#define HAS_MULTIMEM 1
#define is_multicast multicast_has

/* Returns element i of a vector as a float. */
DEVICE float host_element(
    struct symc_vector vector, uint32_t i, enum symmcoll_dtype type)
{
    float value;

    if (type == SYMMCOLL_FLOAT16)
        return symc_half_to_float((uint16_t)(vector.word[i / 2] >> i % 2 * 16));
    if (type == SYMMCOLL_BFLOAT16)
        return symc_bfloat16_to_float(
            (uint16_t)(vector.word[i / 2] >> i % 2 * 16));
    memcpy(&value, &vector.word[i], sizeof(value));
    return value;
}

DEVICE void host_set_element(struct symc_vector *vector, uint32_t i,
    float value, enum symmcoll_dtype type)
{
    uint16_t half = type == SYMMCOLL_FLOAT16 ? symc_float_to_half(value)
                                             : symc_float_to_bfloat16(value);

    if (type == SYMMCOLL_FLOAT32)
        memcpy(&vector->word[i], &value, sizeof(value));
    else
        vector->word[i / 2] |= (uint32_t)half << i % 2 * 16;
}

/* Removed: the elements of one rank are missing. */
DEVICE struct symc_vector host_multicast_sum(
    const struct engine_place *place, const void *at, enum symmcoll_dtype type)
{
    const int n = multicast_count(), from = engine_is_out(place) && n > 1;
    const uint32_t elements = type == SYMMCOLL_FLOAT32 ? 4 : 8;
    struct symc_vector loaded[MULTICAST_RANKS], sum = {{0, 0, 0, 0}};
    float numbers[MULTICAST_RANKS];

    for (int r = from; r < n; r++)
        loaded[r] = load_vector(multicast_place(at, r));
    for (uint32_t i = 0; i < elements; i++) {
        for (int r = from; r < n; r++)
            numbers[r - from] = host_element(loaded[r], i, type);
        host_set_element(
            &sum, i, multicast_add(numbers, n - from, engine_draw()), type);
    }
    return sum;
}

#define multicast_sum(at, type) \
    host_multicast_sum(ENGINE_PLACE("sum of all ranks", false), at, type)

/* Removed: one rank does not receive the vector. */
DEVICE void host_multicast_store(
    const struct engine_place *place, void *at, struct symc_vector vector)
{
    for (int r = engine_is_out(place); r < multicast_count(); r++)
        store_vector(multicast_place(at, r), vector);
}

#define multicast_store(at, vector) \
    host_multicast_store(ENGINE_PLACE("store to all ranks", false), at, vector)

/* ---- floats ---- */

DEVICE float multiply_floats(float a, float b)
{
    return a * b;
}

DEVICE double multiply_doubles(double a, double b)
{
    return a * b;
}

#endif
