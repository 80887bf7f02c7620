/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Parts of up to 16 bytes, for processors without masked loads.  Two words are
 * combined in registers, because loading a vector from bytes that were just
 * stored stalls until the stores have completed.  Little endian, as all
 * supported processors are.
 */
#ifndef SYMC_BASE_REDUCE_PART_H
#define SYMC_BASE_REDUCE_PART_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#if __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "words of a part are combined for little endian processors only"
#endif

/* Loads the lower n bytes of a word, 0 < n <= 8; the others are zero. */
static inline uint64_t load_word(const unsigned char *from, size_t n)
{
    uint64_t word = 0;

    if (n == 8) {
        memcpy(&word, from, 8);
    } else if (n >= 4) {
        uint32_t low;
        uint32_t high; /* overlaps low with equal bytes */

        memcpy(&low, from, 4);
        memcpy(&high, from + n - 4, 4);
        word = low | (uint64_t)high << (8 * (n - 4));
    } else {
        word = from[0];
        if (n > 1)
            word |= (uint64_t)from[1] << 8;
        if (n > 2)
            word |= (uint64_t)from[2] << 16;
    }
    return word;
}

static inline void store_word(unsigned char *to, uint64_t word, size_t n)
{
    if (n == 8) {
        memcpy(to, &word, 8);
    } else if (n >= 4) {
        uint32_t low = (uint32_t)word;
        uint32_t high = (uint32_t)(word >> (8 * (n - 4)));

        memcpy(to, &low, 4);
        memcpy(to + n - 4, &high, 4);
    } else {
        to[0] = (unsigned char)word;
        if (n > 1)
            to[1] = (unsigned char)(word >> 8);
        if (n > 2)
            to[2] = (unsigned char)(word >> 16);
    }
}

typedef uint64_t symc_words __attribute__((vector_size(16), may_alias));

/* Loads the lower n bytes of two words, 0 < n <= 16; the others are zero. */
static inline symc_words load_words(const unsigned char *from, size_t n)
{
    symc_words words = {0, 0};

    if (n <= 8) {
        words[0] = load_word(from, n);
    } else {
        words[0] = load_word(from, 8);
        words[1] = load_word(from + 8, n - 8);
    }
    return words;
}

static inline void store_words(unsigned char *to, symc_words words, size_t n)
{
    if (n <= 8) {
        store_word(to, words[0], n);
    } else {
        store_word(to, words[0], 8);
        store_word(to + 8, words[1], n - 8);
    }
}

#endif
