/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Key patterns of SCAN: * ? [abc] [^a-c] \x.
 *
 * A pattern is a list of tokens that match one byte each.  A match tracks all
 * possible states at once, one bit for each number of tokens that the bytes up
 * to here can have matched (Baeza-Yates and Gonnet, "A New Approach to Text
 * Searching", 1992): its time depends only on both lengths, not on the
 * contents.
 */
#include "store/command.h"

#include <string.h>

#define WORD_BITS 64

struct symc_glob {
    size_t ntokens, nwords;
    /* nwords each: the states, the loops (bit i: a star before token i, or at
     * the end), then for each byte the tokens that match it. */
    uint64_t words[];
};

static void set_bit(uint64_t *words, size_t bit)
{
    words[bit / WORD_BITS] |= UINT64_C(1) << bit % WORD_BITS;
}

static uint64_t *loops_of(struct symc_glob *glob)
{
    return glob->words + glob->nwords;
}

static uint64_t *matches_of(struct symc_glob *glob, unsigned char byte)
{
    return glob->words + glob->nwords * (2 + (size_t)byte);
}

/* Reads a set after its "["; returns the position after it. */
static const unsigned char *read_set(const unsigned char *at, bool bytes[256])
{
    bool negate = *at == '^';

    at += negate;
    for (; *at != '\0' && *at != ']'; at++) {
        unsigned char first, last;

        if (*at == '\\' && at[1] != '\0')
            at++;
        first = last = *at;
        if (at[1] == '-' && at[2] != '\0' && at[2] != ']') {
            last = at[2];
            at += 2;
        }
        for (int byte = first; byte <= last; byte++)
            bytes[byte] = true;
    }
    for (int byte = 0; negate && byte < 256; byte++)
        bytes[byte] = !bytes[byte];
    return *at != '\0' ? at + 1 : at;
}

/* Reads one token; returns the position after it. */
static const unsigned char *read_token(
    struct symc_glob *glob, const unsigned char *at)
{
    bool any = *at == '?', bytes[256] = {false};

    if (!any && *at != '[') {
        at += *at == '\\' && at[1] != '\0';
        set_bit(matches_of(glob, *at), glob->ntokens++);
        return at + 1;
    }
    at++;
    if (!any)
        at = read_set(at, bytes);
    for (int byte = 0; byte < 256; byte++)
        if (any || bytes[byte])
            set_bit(matches_of(glob, (unsigned char)byte), glob->ntokens);
    glob->ntokens++;
    return at;
}

struct symc_glob *symc_glob_create(const char *pattern)
{
    const unsigned char *at = (const unsigned char *)pattern;
    size_t nwords = strlen(pattern) / WORD_BITS + 1;
    struct symc_glob *glob =
        symc_alloc(1, sizeof(*glob) + (2 + 256) * nwords * sizeof(uint64_t));

    if (glob == NULL)
        return NULL;
    glob->nwords = nwords;
    while (*at != '\0') {
        if (*at == '*') {
            set_bit(loops_of(glob), glob->ntokens);
            at++;
        } else {
            at = read_token(glob, at);
        }
    }
    return glob;
}

/* Advances the states by one byte.  Returns false if no state remains. */
static bool take_byte(struct symc_glob *glob, unsigned char byte)
{
    const uint64_t *loops = loops_of(glob), *matches = matches_of(glob, byte);
    uint64_t *ways = glob->words, carry = 0, open = 0;

    for (size_t i = 0; i < glob->nwords; i++) {
        uint64_t matched = ways[i] & matches[i];

        ways[i] = matched << 1 | carry | (ways[i] & loops[i]);
        carry = matched >> (WORD_BITS - 1);
        open |= ways[i];
    }
    return open != 0;
}

bool symc_glob_match(struct symc_glob *glob, const char *text)
{
    memset(glob->words, 0, glob->nwords * sizeof(uint64_t));
    set_bit(glob->words, 0);
    for (; *text != '\0'; text++)
        if (!take_byte(glob, (unsigned char)*text))
            return false;
    return (glob->words[glob->ntokens / WORD_BITS] >>
                   glob->ntokens % WORD_BITS &
               1) != 0;
}

size_t symc_glob_steps(const struct symc_glob *glob, size_t length)
{
    return glob->nwords * (length + 1);
}
