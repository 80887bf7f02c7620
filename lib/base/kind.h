/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The kinds of operations.  The table in kind.c has the properties of each, and
 * all other code reads them there.  A new kind needs a number here, a row
 * there, and an algorithm.
 */
#ifndef SYMC_BASE_KIND_H
#define SYMC_BASE_KIND_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The kind of an operation.  Travels between ranks and in records: never
 * renumbered. */
enum symc_kind {
    SYMC_BARRIER = 1,
    SYMC_ALL_REDUCE = 2,
    SYMC_REDUCE = 3,
    SYMC_REDUCE_SCATTER = 4,
    SYMC_ALL_GATHER = 5,
    SYMC_GATHER = 6,
    SYMC_BROADCAST = 7,
    SYMC_SEND = 8,
    SYMC_RECV = 9,
    SYMC_OPEN_BACKEND = 10, /* run by the group, not by callers */
    SYMC_CREATE_GROUP = 11, /* internal rounds */
    SYMC_SCATTER = 12,
    SYMC_ALL_TO_ALL = 13,
    SYMC_MONITORED_BARRIER = 14,
    SYMC_ALL_TO_ALL_V = 15,
    SYMC_ALL_TO_ALL_LIST = 16,
    SYMC_ALL_GATHER_LIST = 17,
    SYMC_REDUCE_SCATTER_LIST = 18,
    SYMC_ALL_REDUCE_COALESCED = 19,
    SYMC_ALL_GATHER_COALESCED = 20,
    SYMC_REDUCE_SCATTER_COALESCED = 21,
    SYMC_SPLIT_GROUP = 22, /* internal rounds, to SYMC_SHRINK_GROUP */
    SYMC_SPLIT_GROUP_LISTS = 23,
    SYMC_SPLIT_GROUP_RUNS = 24,
    SYMC_FIND_GROUP = 25,
    SYMC_SHRINK_GROUP = 26,
    SYMC_DETECT_CONNECTIVITY = 27,
    SYMC_SYMM_RENDEZVOUS = 28, /* internal rounds */
    SYMC_SYMM_PUT_SIGNAL = 29, /* not an operation of a group, only for its
                                  name; also the next two */
    SYMC_SYMM_WAIT_SIGNAL = 30,
    SYMC_SYMM_BARRIER = 31,
    SYMC_SYMM_ONE_SHOT = 32,
    SYMC_SYMM_TWO_SHOT = 33,
    SYMC_SYMM_REDUCE = 34,
    SYMC_SYMM_REDUCE_SCATTER = 35,
    SYMC_SYMM_ALL_GATHER = 36,
    SYMC_SYMM_TILE_REDUCE = 37,
    SYMC_SYMM_REDUCE_SCATTER_OFFSET = 38,
    SYMC_SYMM_ALL_TO_ALL_V = 39,
    SYMC_SYMM_ALL_TO_ALL_V_BACK = 40,
    SYMC_SYMM_MAKE_PLAN = 41,
    SYMC_SYMM_RUN_PLAN = 42,
    SYMC_SYMM_PUSH_ROWS = 43,
    SYMC_SYMM_BROADCAST = 44,
    SYMC_SYMM_ALL_TO_ALL = 45,
    SYMC_SYMM_ALL_GATHER_OFFSET = 46,
    SYMC_SYMM_PERMUTE = 47,
    SYMC_SYMM_RESHARD = 48,
    SYMC_SYMM_WAIT_VALUE = 49,      /* as SYMC_SYMM_PUT_SIGNAL */
    SYMC_SYMM_WORKSPACE = 50,       /* internal rounds */
    SYMC_SYMM_PUT_WITH_SIGNAL = 51, /* as SYMC_SYMM_PUT_SIGNAL, to
                                       SYMC_SYMM_MEMSET */
    SYMC_SYMM_PUT_DATA = 52,
    SYMC_SYMM_GET_DATA = 53,
    SYMC_SYMM_WRITE_VALUE = 54,
    SYMC_SYMM_MEMSET = 55,
    SYMC_SYMM_INTRA_NODE = 56, /* one or two shots */
    SYMC_SYMM_TILE_REDUCE_ROOTS = 57,
    SYMC_SYMM_REDUCE_SCATTER_LOW = 58, /* low contention */
    SYMC_SYMM_ALL_GATHER_LOW = 59,
    SYMC_SYMM_ONE_SHOT_COPY = 60,
    SYMC_FUSED_GATHER = 61,  /* all_gather and matmul, on devices */
    SYMC_FUSED_SCATTER = 62, /* matmul and reduce_scatter, on devices */
    SYMC_KIND_COUNT          /* number of rows, with row 0 */
};

enum symc_trait {
    SYMC_FROM_ROOT = 1, /* only the root contributes */
    SYMC_TO_ROOT = 2,   /* only the root receives */
    SYMC_ROOTED = SYMC_FROM_ROOT | SYMC_TO_ROOT,
    SYMC_REDUCES = 4, /* elements are combined by a reduce operation */
    SYMC_LIST = 8,    /* a buffer of all parts is recorded as a list */
    SYMC_PAIR = 16,   /* between two ranks: the caller and its peer */
    SYMC_UNEVEN = 32, /* each pair of ranks has its own count: an op with lists,
                         compared in pairs */
    SYMC_COALESCED = 64,  /* several buffers, each with its own parts */
    SYMC_MONITORED = 128, /* ends with a list of the missing ranks */
    SYMC_MOVES = 256      /* the caller moves the data, see struct symc_mover */
};

/* Traits that only dedicated algorithms support. */
#define SYMC_TRAITS_APART \
    (SYMC_MONITORED | SYMC_UNEVEN | SYMC_COALESCED | SYMC_MOVES)

/* The sequence counter that an operation advances. */
enum symc_counter {
    SYMC_COUNT_COLLECTIVE, /* operations of all members */
    SYMC_COUNT_P2P,        /* sends and receives, as called on this rank */
    SYMC_COUNTERS,
    SYMC_COUNT_NONE = SYMC_COUNTERS /* not counted: its record has the number of
                                       the collective before it, or of the one
                                       that the other ranks call */
};

/* Properties that must be equal on all ranks, or on both ranks of a pair. */
enum symc_compared {
    SYMC_COMPARE_COUNT = 1,
    SYMC_COMPARE_DTYPE = 2,
    SYMC_COMPARE_OP = 4,
    SYMC_COMPARE_ROOT = 8, /* coalesced: the number of buffers */
    SYMC_COMPARE_MEMORY = 16
};

/* The size of a buffer, in parts of the operation's count. */
enum symc_parts {
    SYMC_NO_PART,  /* there is no such buffer */
    SYMC_ONE_PART, /* of the call's count */
    SYMC_ALL_PARTS /* as many parts as the group has ranks */
};

struct symc_kind_info {
    const char *name;  /* public name: "all_gather" */
    const char *trace; /* in the flight recorder: torch.distributed's name */
    uint16_t traits;   /* enum symc_trait */
    uint8_t in_parts;  /* enum symc_parts, as out_parts */
    uint8_t out_parts;
    uint8_t counter;  /* enum symc_counter */
    uint8_t compared; /* enum symc_compared */
};

/* Indexed by enum symc_kind; row 0 is all zeros. */
extern const struct symc_kind_info symc_kinds[SYMC_KIND_COUNT]
    __attribute__((visibility("hidden")));

/* Returns whether a number, which may come from another process, is a kind. */
static inline bool symc_kind_is_known(unsigned int kind)
{
    return kind > 0 && kind < SYMC_KIND_COUNT;
}

/* Returns whether a kind has a trait. */
static inline bool symc_kind_has(enum symc_kind kind, enum symc_trait trait)
{
    return (symc_kinds[kind].traits & trait) != 0;
}

/* Returns the number of parts in a group of size ranks. */
static inline size_t symc_parts_count(unsigned int parts, int size)
{
    return parts == SYMC_ALL_PARTS ? (size_t)size : parts;
}

/* Return whether a rank contributes data, and whether it receives data.
 * is_root: it is the operation's root. */
static inline bool symc_kind_sends(enum symc_kind kind, bool is_root)
{
    return is_root || !symc_kind_has(kind, SYMC_FROM_ROOT);
}

static inline bool symc_kind_receives(enum symc_kind kind, bool is_root)
{
    return is_root || !symc_kind_has(kind, SYMC_TO_ROOT);
}

/* Returns the name, as "all_reduce", or "unknown"; a static string. */
const char *symc_kind_name(enum symc_kind kind);

#endif
