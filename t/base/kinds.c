/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Tests the table of the kinds of operations: properties that hold for every
 * row, on which all users of the table rely.
 */
#include "../tap.h"

#include "base/op.h"

#include <string.h>

/* Checks that a condition holds for all rows, and prints the rows for which it
 * does not. */
static int every_row(int (*holds)(const struct symc_kind_info *info, int kind))
{
    int right = 1;

    for (int kind = 1; kind < SYMC_KIND_COUNT; kind++) {
        if (holds(&symc_kinds[kind], kind))
            continue;
        diag("not of kind %d, %s", kind, symc_kind_name((enum symc_kind)kind));
        right = 0;
    }
    return right;
}

static int has_names(const struct symc_kind_info *info, int kind)
{
    if (info->name == NULL || info->trace == NULL)
        return 0;
    for (int other = 1; other < kind; other++) {
        bool both = strcmp(info->trace, symc_kinds[other].trace) == 0;

        /* torch.distributed has one name for all forms of all_to_all, and none
         * for creating groups; operations on symmetric memory move data like
         * others. */
        if (strcmp(info->name, symc_kinds[other].name) == 0 ||
            (both && strcmp(info->trace, "all_to_all") != 0 &&
                (info->traits & SYMC_MOVES) == 0 &&
                info->counter != SYMC_COUNT_NONE &&
                symc_kinds[other].counter != SYMC_COUNT_NONE))
            return 0;
    }
    return strcmp(symc_kind_name((enum symc_kind)kind), info->name) == 0;
}

static int has_parts(const struct symc_kind_info *info, int kind)
{
    bool in = info->in_parts != SYMC_NO_PART;
    bool out = info->out_parts != SYMC_NO_PART;
    bool pair = (info->traits & SYMC_PAIR) != 0;

    (void)kind;
    return info->in_parts <= SYMC_ALL_PARTS &&
           info->out_parts <= SYMC_ALL_PARTS && pair == (in != out);
}

/* A number that all members take must be taken by all. */
static int pairs_count_apart(const struct symc_kind_info *info, int kind)
{
    bool pair = (info->traits & SYMC_PAIR) != 0;

    (void)kind;
    return info->counter <= SYMC_COUNT_NONE &&
           pair == (info->counter == SYMC_COUNT_P2P) &&
           !(pair && (info->traits & SYMC_ROOTED) != 0);
}

/* There is one root, and all ranks must agree on it. */
static int has_one_root(const struct symc_kind_info *info, int kind)
{
    bool rooted = (info->traits & SYMC_ROOTED) != 0;

    (void)kind;
    return (info->traits & SYMC_ROOTED) != SYMC_ROOTED &&
           !(rooted && (info->traits & SYMC_COALESCED) != 0) &&
           (rooted || (info->traits & SYMC_COALESCED) != 0) ==
               ((info->compared & SYMC_COMPARE_ROOT) != 0);
}

static int compares_what_it_reads(const struct symc_kind_info *info, int kind)
{
    bool reduces = (info->traits & SYMC_REDUCES) != 0;
    bool moves =
        info->in_parts != SYMC_NO_PART || info->out_parts != SYMC_NO_PART;
    bool uneven = (info->traits & SYMC_UNEVEN) != 0;
    unsigned int moved = (uneven ? 0 : SYMC_COMPARE_COUNT) |
                         SYMC_COMPARE_DTYPE | SYMC_COMPARE_MEMORY;

    (void)kind;
    return reduces == ((info->compared & SYMC_COMPARE_OP) != 0) &&
           (info->compared & moved) == (moves ? moved : 0) &&
           (moves || !reduces);
}

/* A list consists of parts, and a part of several is placed by its rank. */
static int lists_are_parts(const struct symc_kind_info *info, int kind)
{
    (void)kind;
    return (info->traits & SYMC_LIST) == 0 ||
           info->out_parts == SYMC_ALL_PARTS ||
           info->in_parts == SYMC_ALL_PARTS;
}

static int fits_the_wire(const struct symc_kind_info *info, int kind)
{
    (void)info;
    return kind <= UINT8_MAX; /* a byte of a header line and of a record */
}

static int sizes_follow(void)
{
    struct symc_op op = {.count = 6, .elem = 4};
    size_t in[3], out[3];
    static const enum symc_kind kinds[] = {
        SYMC_ALL_REDUCE, SYMC_ALL_GATHER, SYMC_REDUCE_SCATTER};

    for (int i = 0; i < 3; i++) {
        op.kind = kinds[i];
        in[i] = symc_op_in_nbytes(&op, 5);
        out[i] = symc_op_out_nbytes(&op, 5);
    }
    op.kind = SYMC_BARRIER;
    return in[0] == 24 && out[0] == 24 && in[1] == 24 && out[1] == 120 &&
           in[2] == 120 && out[2] == 24 && symc_op_in_nbytes(&op, 5) == 0 &&
           symc_op_out_nbytes(&op, 5) == 0;
}

static int unknown_numbers_have_no_row(void)
{
    return !symc_kind_is_known(0) && !symc_kind_is_known(SYMC_KIND_COUNT) &&
           !symc_kind_is_known(UINT32_MAX) &&
           strcmp(symc_kind_name((enum symc_kind)0), "unknown") == 0 &&
           strcmp(symc_kind_name(SYMC_KIND_COUNT), "unknown") == 0;
}

static int roots_send_and_receive(void)
{
    return symc_kind_sends(SYMC_BROADCAST, true) &&
           !symc_kind_sends(SYMC_BROADCAST, false) &&
           symc_kind_receives(SYMC_BROADCAST, false) &&
           symc_kind_sends(SYMC_GATHER, false) &&
           !symc_kind_receives(SYMC_GATHER, false) &&
           symc_kind_receives(SYMC_REDUCE, true) &&
           symc_kind_sends(SYMC_ALL_GATHER, false) &&
           symc_kind_receives(SYMC_ALL_GATHER, false);
}

int main(void)
{
    plan(10);
    ok(every_row(has_names), "each kind has names of its own");
    ok(every_row(has_parts),
        "who sends nothing receives nothing, but of pairs");
    ok(every_row(pairs_count_apart), "pairs have numbers of their own");
    ok(every_row(has_one_root), "a root is compared just where there is one");
    ok(every_row(compares_what_it_reads),
        "what an operation reads is compared, and nothing else");
    ok(every_row(lists_are_parts), "what is listed has parts");
    ok(every_row(fits_the_wire), "a kind is a byte");
    ok(sizes_follow(), "the sizes of buffers follow from the parts");
    ok(roots_send_and_receive(), "the root alone sends, or receives");
    ok(unknown_numbers_have_no_row(), "a number that is no kind is unknown");
    return done_testing();
}
