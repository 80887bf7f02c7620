/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * N-gram tables that the network is compared with: the number of times each
 * byte followed each sequence of bytes in the training set.  A table of order 1
 * counts pairs; one of order 6 nearly stores the text, which helps if texts
 * repeat each other.
 *
 * Witten and Bell's smoothing: if a context was seen n times, followed by t
 * different bytes, a byte that followed it c times has the probability
 *
 *     (c + t * p) / (n + t)
 *
 * where p is the probability after the context without its first byte; for the
 * empty context p is the same for all bytes.
 */
#include "charlm.h"

#include <math.h>
#include <stdlib.h>

/* A count in a hash table with open addressing; key 0 marks a free slot. */
struct slot {
    uint64_t key;
    uint32_t total;     /* n of a context, c of a context and a byte */
    uint32_t different; /* t of a context */
};

struct table {
    struct slot *slots;
    size_t nslots; /* power of two, more than the keys */
};

/* Returns the slot of a key, or the free one for it. */
static struct slot *find_slot(const struct table *table, uint64_t key)
{
    size_t i = (size_t)charlm_mix(key) & (table->nslots - 1);

    while (table->slots[i].key != 0 && table->slots[i].key != key)
        i = (i + 1) & (table->nslots - 1);
    return &table->slots[i];
}

/*
 * Returns the key of the `length` bytes before a position, with the byte at it
 * or without.  Up to 7 symbols fit; the length and the kind keep keys distinct
 * and nonzero.
 */
static uint64_t make_key(
    const unsigned char *symbols, uint32_t position, int length, bool with_byte)
{
    uint64_t key = 0;

    for (int i = length; i >= (with_byte ? 0 : 1); i--)
        key = key << 8 | symbols[position - (uint32_t)i];
    return key << 4 | (uint64_t)length << 1 | (with_byte ? 1 : 0) |
           UINT64_C(1) << 63;
}

static void count_position(const struct table *table,
    const unsigned char *symbols, uint32_t position, int order)
{
    for (int length = 0; length <= order; length++) {
        struct slot *context =
            find_slot(table, make_key(symbols, position, length, false));
        context->key = make_key(symbols, position, length, false);
        struct slot *byte =
            find_slot(table, make_key(symbols, position, length, true));
        byte->key = make_key(symbols, position, length, true);

        if (byte->total == 0)
            context->different++;
        byte->total++;
        context->total++;
    }
}

static double predict(const struct table *table, const unsigned char *symbols,
    uint32_t position, int order, int vocab)
{
    double p = 1.0 / vocab;

    for (int length = 0; length <= order; length++) {
        const struct slot *context =
            find_slot(table, make_key(symbols, position, length, false));
        const struct slot *byte =
            find_slot(table, make_key(symbols, position, length, true));

        if (context->total == 0)
            break; /* no longer context has been seen either */
        p = (byte->total + context->different * p) /
            ((double)context->total + context->different);
    }
    return p;
}

static double mean_loss(const struct table *table,
    const struct charlm_text *text, const struct charlm_set *set, int order)
{
    double loss = 0.0;

    for (size_t i = 0; i < set->count; i++)
        loss -= log(predict(
            table, text->symbols, set->positions[i], order, text->vocab));
    return set->count > 0 ? loss / (double)set->count : 0.0;
}

int charlm_count_losses(const struct charlm_text *text, int order,
    double *blocks_loss, double *licence_loss)
{
    struct table table = {NULL, 1024};
    size_t nkeys = 2 * (size_t)(order + 1) * text->train.count;

    while (table.nslots < nkeys + nkeys / 2)
        table.nslots *= 2;
    table.slots = calloc(table.nslots, sizeof(*table.slots));
    if (table.slots == NULL)
        return -1;
    for (size_t i = 0; i < text->train.count; i++)
        count_position(&table, text->symbols, text->train.positions[i], order);
    *blocks_loss = mean_loss(&table, text, &text->blocks, order);
    *licence_loss = mean_loss(&table, text, &text->licence, order);
    free(table.slots);
    return 0;
}
