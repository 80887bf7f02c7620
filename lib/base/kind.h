/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The kinds of operations: one table (kind.c) says what is particular to each,
 * and everything else asks it.  A new kind is a number here, a row there, and
 * an algorithm.
 */
#ifndef SYMC_BASE_KIND_H
#define SYMC_BASE_KIND_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Which operation.  Travels between ranks and in records: never renumbered. */
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
    SYMC_OPEN_BACKEND = 10, /* nobody calls it: the group runs it */
    SYMC_CREATE_GROUP = 11, /* rounds of the library's own */
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
    SYMC_SPLIT_GROUP = 22, /* as SYMC_CREATE_GROUP, to the end */
    SYMC_SPLIT_GROUP_LISTS = 23,
    SYMC_SPLIT_GROUP_RUNS = 24,
    SYMC_FIND_GROUP = 25,
    SYMC_SHRINK_GROUP = 26,
    SYMC_DETECT_CONNECTIVITY = 27,
    SYMC_SYMM_RENDEZVOUS = 28, /* rounds, likewise */
    SYMC_SYMM_PUT_SIGNAL = 29, /* of symmetric memory: no operation of a group,
                                  here for its name; as are the next */
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
    SYMC_SYMM_WAIT_VALUE = 49,      /* as SYMC_SYMM_WAIT_SIGNAL */
    SYMC_SYMM_WORKSPACE = 50,       /* as SYMC_SYMM_RENDEZVOUS */
    SYMC_SYMM_PUT_WITH_SIGNAL = 51, /* as SYMC_SYMM_WAIT_SIGNAL */
    SYMC_SYMM_PUT_DATA = 52,
    SYMC_SYMM_GET_DATA = 53,
    SYMC_SYMM_WRITE_VALUE = 54,
    SYMC_SYMM_MEMSET = 55,     /* to here */
    SYMC_SYMM_INTRA_NODE = 56, /* one or two shots */
    SYMC_SYMM_TILE_REDUCE_ROOTS = 57,
    SYMC_SYMM_REDUCE_SCATTER_LOW = 58, /* of low contention */
    SYMC_SYMM_ALL_GATHER_LOW = 59,
    SYMC_SYMM_ONE_SHOT_COPY = 60,
    SYMC_FUSED_GATHER = 61,  /* all_gather and matmul, of devices */
    SYMC_FUSED_SCATTER = 62, /* matmul and reduce_scatter, likewise */
    SYMC_KIND_COUNT          /* one more than the last of them */
};

enum symc_trait {
    SYMC_FROM_ROOT = 1, /* one rank, the root, alone contributes */
    SYMC_TO_ROOT = 2,   /* one rank, the root, alone receives */
    SYMC_ROOTED = SYMC_FROM_ROOT | SYMC_TO_ROOT,
    SYMC_REDUCES = 4, /* elements are combined by a reduce operation */
    SYMC_LIST = 8,    /* a buffer of all parts is recorded as a list of them */
    SYMC_PAIR = 16,   /* between two ranks: the caller and its peer */
    SYMC_UNEVEN = 32, /* each pair of ranks has a count of its own: an op with
                         lists, whose counts are compared in pairs */
    SYMC_COALESCED = 64,  /* several buffers; parts are those of each */
    SYMC_MONITORED = 128, /* ends with a list of who is missing */
    SYMC_MOVES = 256 /* who calls it moves the data, see struct symc_mover */
};

/* Kinds that only algorithms of their own serve. */
#define SYMC_TRAITS_APART \
    (SYMC_MONITORED | SYMC_UNEVEN | SYMC_COALESCED | SYMC_MOVES)

/* Which sequence numbers an operation takes. */
enum symc_counter {
    SYMC_COUNT_COLLECTIVE, /* operations of all members */
    SYMC_COUNT_P2P,        /* those of a pair, as this rank has called them */
    SYMC_COUNTERS,
    SYMC_COUNT_NONE = SYMC_COUNTERS /* its record has that of the collective
                                       before it, or which others call */
};

/* What must be the same on all ranks; on both, where there are two. */
enum symc_compared {
    SYMC_COMPARE_COUNT = 1,
    SYMC_COMPARE_DTYPE = 2,
    SYMC_COMPARE_OP = 4,
    SYMC_COMPARE_ROOT = 8, /* coalesced: the number of buffers */
    SYMC_COMPARE_MEMORY = 16
};

/* The size of a buffer in parts, each of the operation's count. */
enum symc_parts {
    SYMC_NO_PART,  /* there is no such buffer */
    SYMC_ONE_PART, /* of the call's count */
    SYMC_ALL_PARTS /* as many as the group has ranks */
};

struct symc_kind_info {
    const char *name;  /* to users: "all_gather" */
    const char *trace; /* in the flight recorder, as torch.distributed's */
    uint16_t traits;   /* enum symc_trait */
    uint8_t in_parts;  /* enum symc_parts, as out_parts */
    uint8_t out_parts;
    uint8_t counter;  /* enum symc_counter */
    uint8_t compared; /* enum symc_compared */
};

/* By enum symc_kind; row 0 is of no operation, all zero. */
extern const struct symc_kind_info symc_kinds[SYMC_KIND_COUNT]
    __attribute__((visibility("hidden")));

/* Whether a number, which may be another process's, is that of a kind. */
static inline bool symc_kind_is_known(unsigned int kind)
{
    return kind > 0 && kind < SYMC_KIND_COUNT;
}

/* Whether a kind has a trait. */
static inline bool symc_kind_has(enum symc_kind kind, enum symc_trait trait)
{
    return (symc_kinds[kind].traits & trait) != 0;
}

/* How many parts that is in a group of so many ranks. */
static inline size_t symc_parts_count(unsigned int parts, int size)
{
    return parts == SYMC_ALL_PARTS ? (size_t)size : parts;
}

/* Whether a rank contributes, and whether it receives; root is the
 * operation's. */
static inline bool symc_kind_sends(enum symc_kind kind, bool is_root)
{
    return is_root || !symc_kind_has(kind, SYMC_FROM_ROOT);
}

static inline bool symc_kind_receives(enum symc_kind kind, bool is_root)
{
    return is_root || !symc_kind_has(kind, SYMC_TO_ROOT);
}

/* "all_reduce"; "unknown" for an unknown number.  Static. */
const char *symc_kind_name(enum symc_kind kind);

#endif
