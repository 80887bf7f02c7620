/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The table of the kinds of operations.
 */
#include "base/kind.h"

#include <symmcoll/types.h>

#define COMPARE_MOVED \
    (SYMC_COMPARE_COUNT | SYMC_COMPARE_DTYPE | SYMC_COMPARE_MEMORY)
#define COMPARE_UNEVEN (SYMC_COMPARE_DTYPE | SYMC_COMPARE_MEMORY)
#define COMPARE_REDUCED (COMPARE_MOVED | SYMC_COMPARE_OP)
#define REDUCES_MOVES (SYMC_REDUCES | SYMC_MOVES)

/* Internal rounds.  Records name them as the all_gather that they are made of,
 * because readers reject names that torch.distributed does not have. */
#define BY_ALL_GATHER(kind_name)                                \
    {                                                           \
        .name = kind_name, .trace = "_all_gather_base",         \
        .in_parts = SYMC_ONE_PART, .out_parts = SYMC_ALL_PARTS, \
        .counter = SYMC_COUNT_NONE, .compared = COMPARE_MOVED   \
    }

/* Calls of one rank, which are not recorded. */
#define OF_ONE_RANK(kind_name)                                           \
    {                                                                    \
        .name = kind_name, .trace = kind_name, .in_parts = SYMC_NO_PART, \
        .out_parts = SYMC_NO_PART, .counter = SYMC_COUNT_NONE            \
    }

/* clang-format off */
const struct symc_kind_info symc_kinds[SYMC_KIND_COUNT] = {
    [SYMC_BARRIER] = {
        .name = "barrier", .trace = "all_reduce_barrier",
        .in_parts = SYMC_NO_PART, .out_parts = SYMC_NO_PART},
    [SYMC_ALL_REDUCE] = {
        .name = "all_reduce", .trace = "all_reduce",
        .in_parts = SYMC_ONE_PART, .out_parts = SYMC_ONE_PART,
        .traits = SYMC_REDUCES, .compared = COMPARE_REDUCED},
    [SYMC_REDUCE] = {
        .name = "reduce", .trace = "reduce",
        .in_parts = SYMC_ONE_PART, .out_parts = SYMC_ONE_PART,
        .traits = SYMC_REDUCES | SYMC_TO_ROOT,
        .compared = COMPARE_REDUCED | SYMC_COMPARE_ROOT},
    [SYMC_REDUCE_SCATTER] = {
        .name = "reduce_scatter", .trace = "_reduce_scatter_base",
        .in_parts = SYMC_ALL_PARTS, .out_parts = SYMC_ONE_PART,
        .traits = SYMC_REDUCES, .compared = COMPARE_REDUCED},
    [SYMC_ALL_GATHER] = {
        .name = "all_gather", .trace = "_all_gather_base",
        .in_parts = SYMC_ONE_PART, .out_parts = SYMC_ALL_PARTS,
        .compared = COMPARE_MOVED},
    [SYMC_GATHER] = {
        .name = "gather", .trace = "gather",
        .in_parts = SYMC_ONE_PART, .out_parts = SYMC_ALL_PARTS,
        .traits = SYMC_TO_ROOT | SYMC_LIST,
        .compared = COMPARE_MOVED | SYMC_COMPARE_ROOT},
    [SYMC_BROADCAST] = {
        .name = "broadcast", .trace = "broadcast",
        .in_parts = SYMC_ONE_PART, .out_parts = SYMC_ONE_PART,
        .traits = SYMC_FROM_ROOT,
        .compared = COMPARE_MOVED | SYMC_COMPARE_ROOT},
    [SYMC_SEND] = {
        .name = "send", .trace = "send",
        .in_parts = SYMC_ONE_PART, .out_parts = SYMC_NO_PART,
        .traits = SYMC_PAIR, .counter = SYMC_COUNT_P2P,
        .compared = COMPARE_MOVED},
    [SYMC_RECV] = {
        .name = "recv", .trace = "recv",
        .in_parts = SYMC_NO_PART, .out_parts = SYMC_ONE_PART,
        .traits = SYMC_PAIR, .counter = SYMC_COUNT_P2P,
        .compared = COMPARE_MOVED},
    [SYMC_MONITORED_BARRIER] = {
        .name = "monitored_barrier", .trace = "monitored_barrier",
        .in_parts = SYMC_NO_PART, .out_parts = SYMC_NO_PART,
        .traits = SYMC_MONITORED},
    [SYMC_ALL_REDUCE_COALESCED] = {
        .name = "all_reduce_coalesced", .trace = "allreduce_coalesced",
        .in_parts = SYMC_ONE_PART, .out_parts = SYMC_ONE_PART,
        .traits = SYMC_REDUCES | SYMC_COALESCED,
        .compared = COMPARE_REDUCED | SYMC_COMPARE_ROOT},
    [SYMC_ALL_GATHER_COALESCED] = {
        .name = "all_gather_coalesced",
        .trace = "all_gather_into_tensor_coalesced",
        .in_parts = SYMC_ONE_PART, .out_parts = SYMC_ALL_PARTS,
        .traits = SYMC_COALESCED,
        .compared = COMPARE_MOVED | SYMC_COMPARE_ROOT},
    [SYMC_REDUCE_SCATTER_COALESCED] = {
        .name = "reduce_scatter_coalesced",
        .trace = "reduce_scatter_tensor_coalesced",
        .in_parts = SYMC_ALL_PARTS, .out_parts = SYMC_ONE_PART,
        .traits = SYMC_REDUCES | SYMC_COALESCED,
        .compared = COMPARE_REDUCED | SYMC_COMPARE_ROOT},
    [SYMC_OPEN_BACKEND] = {
        .name = "open_backend", .trace = "open_backend",
        .in_parts = SYMC_ONE_PART, .out_parts = SYMC_ALL_PARTS,
        .counter = SYMC_COUNT_NONE, .compared = COMPARE_MOVED},
    [SYMC_CREATE_GROUP] = BY_ALL_GATHER("group_create"),
    [SYMC_SPLIT_GROUP] = BY_ALL_GATHER("group_split"),
    [SYMC_SPLIT_GROUP_LISTS] = BY_ALL_GATHER("group_split_lists"),
    [SYMC_SPLIT_GROUP_RUNS] = BY_ALL_GATHER("group_split_runs"),
    [SYMC_FIND_GROUP] = BY_ALL_GATHER("group_find_or_create"),
    [SYMC_SHRINK_GROUP] = BY_ALL_GATHER("group_shrink"),
    [SYMC_SYMM_RENDEZVOUS] = BY_ALL_GATHER("symm_rendezvous"),
    [SYMC_SYMM_PUT_SIGNAL] = OF_ONE_RANK("symm_put_signal"),
    [SYMC_SYMM_WAIT_SIGNAL] = OF_ONE_RANK("symm_wait_signal"),
    [SYMC_SYMM_BARRIER] = OF_ONE_RANK("symm_barrier"),
    [SYMC_SCATTER] = {
        .name = "scatter", .trace = "scatter",
        .in_parts = SYMC_ALL_PARTS, .out_parts = SYMC_ONE_PART,
        .traits = SYMC_FROM_ROOT | SYMC_LIST,
        .compared = COMPARE_MOVED | SYMC_COMPARE_ROOT},
    [SYMC_ALL_TO_ALL] = {
        .name = "all_to_all", .trace = "all_to_all",
        .in_parts = SYMC_ALL_PARTS, .out_parts = SYMC_ALL_PARTS,
        .compared = COMPARE_MOVED},
    [SYMC_ALL_TO_ALL_V] = {
        .name = "all_to_all_v", .trace = "all_to_all",
        .in_parts = SYMC_ALL_PARTS, .out_parts = SYMC_ALL_PARTS,
        .traits = SYMC_UNEVEN, .compared = COMPARE_UNEVEN},
    [SYMC_ALL_TO_ALL_LIST] = {
        .name = "all_to_all_list", .trace = "all_to_all",
        .in_parts = SYMC_ALL_PARTS, .out_parts = SYMC_ALL_PARTS,
        .traits = SYMC_UNEVEN | SYMC_LIST, .compared = COMPARE_UNEVEN},
    [SYMC_ALL_GATHER_LIST] = {
        .name = "all_gather_list", .trace = "all_gather",
        .in_parts = SYMC_ONE_PART, .out_parts = SYMC_ALL_PARTS,
        .traits = SYMC_UNEVEN | SYMC_LIST, .compared = COMPARE_UNEVEN},
    [SYMC_REDUCE_SCATTER_LIST] = {
        .name = "reduce_scatter_list", .trace = "reduce_scatter",
        .in_parts = SYMC_ALL_PARTS, .out_parts = SYMC_ONE_PART,
        .traits = SYMC_REDUCES | SYMC_UNEVEN | SYMC_LIST,
        .compared = COMPARE_UNEVEN | SYMC_COMPARE_OP},
    [SYMC_DETECT_CONNECTIVITY] = {
        .name = "connectivity_detect", .trace = "connectivity_detect",
        .in_parts = SYMC_ONE_PART, .out_parts = SYMC_ALL_PARTS,
        .counter = SYMC_COUNT_NONE, .compared = COMPARE_MOVED},
    [SYMC_SYMM_ONE_SHOT] = {
        .name = "symm_one_shot_all_reduce", .trace = "all_reduce",
        .in_parts = SYMC_ONE_PART, .out_parts = SYMC_ONE_PART,
        .traits = REDUCES_MOVES, .compared = COMPARE_REDUCED},
    [SYMC_SYMM_TWO_SHOT] = {
        .name = "symm_two_shot_all_reduce", .trace = "all_reduce",
        .in_parts = SYMC_ONE_PART, .out_parts = SYMC_ONE_PART,
        .traits = REDUCES_MOVES, .compared = COMPARE_REDUCED},
    [SYMC_SYMM_REDUCE] = {
        .name = "symm_one_shot_reduce", .trace = "reduce",
        .in_parts = SYMC_ONE_PART, .out_parts = SYMC_ONE_PART,
        .traits = REDUCES_MOVES | SYMC_TO_ROOT,
        .compared = COMPARE_REDUCED | SYMC_COMPARE_ROOT},
    [SYMC_SYMM_REDUCE_SCATTER] = {
        .name = "symm_reduce_scatter", .trace = "_reduce_scatter_base",
        .in_parts = SYMC_ALL_PARTS, .out_parts = SYMC_ONE_PART,
        .traits = REDUCES_MOVES, .compared = COMPARE_REDUCED},
    [SYMC_SYMM_ALL_GATHER] = {
        .name = "symm_all_gather", .trace = "_all_gather_base",
        .in_parts = SYMC_ONE_PART, .out_parts = SYMC_ALL_PARTS,
        .traits = SYMC_MOVES, .compared = COMPARE_MOVED},
    [SYMC_SYMM_TILE_REDUCE] = {
        .name = "symm_tile_reduce", .trace = "reduce",
        .in_parts = SYMC_ONE_PART, .out_parts = SYMC_ONE_PART,
        .traits = REDUCES_MOVES, .compared = COMPARE_REDUCED},
    [SYMC_SYMM_REDUCE_SCATTER_OFFSET] = {
        .name = "symm_reduce_scatter_offset", .trace = "reduce_scatter",
        .in_parts = SYMC_ONE_PART, .out_parts = SYMC_ONE_PART,
        .traits = REDUCES_MOVES, .compared = COMPARE_REDUCED},
    [SYMC_SYMM_ALL_TO_ALL_V] = {
        .name = "symm_all_to_all_v", .trace = "all_to_all",
        .in_parts = SYMC_ALL_PARTS, .out_parts = SYMC_ALL_PARTS,
        .traits = SYMC_MOVES, .compared = COMPARE_MOVED},
    [SYMC_SYMM_ALL_TO_ALL_V_BACK] = {
        .name = "symm_all_to_all_v_back", .trace = "all_to_all",
        .in_parts = SYMC_ALL_PARTS, .out_parts = SYMC_ALL_PARTS,
        .traits = SYMC_MOVES, .compared = COMPARE_MOVED},
    [SYMC_SYMM_MAKE_PLAN] = {
        .name = "symm_plan_create", .trace = "all_to_all",
        .in_parts = SYMC_ALL_PARTS, .out_parts = SYMC_ALL_PARTS,
        .traits = SYMC_MOVES, .compared = COMPARE_MOVED},
    [SYMC_SYMM_RUN_PLAN] = {
        .name = "symm_plan_run", .trace = "all_to_all",
        .in_parts = SYMC_ALL_PARTS, .out_parts = SYMC_ALL_PARTS,
        .traits = SYMC_MOVES, .compared = COMPARE_MOVED},
    [SYMC_SYMM_PUSH_ROWS] = {
        .name = "symm_push_rows", .trace = "all_to_all",
        .in_parts = SYMC_ALL_PARTS, .out_parts = SYMC_ALL_PARTS,
        .traits = SYMC_MOVES, .compared = COMPARE_MOVED},
    [SYMC_SYMM_BROADCAST] = {
        .name = "symm_broadcast", .trace = "broadcast",
        .in_parts = SYMC_ONE_PART, .out_parts = SYMC_ONE_PART,
        .traits = SYMC_FROM_ROOT | SYMC_MOVES, .compared = COMPARE_MOVED | SYMC_COMPARE_ROOT},
    [SYMC_SYMM_ALL_TO_ALL] = {
        .name = "symm_all_to_all", .trace = "all_to_all",
        .in_parts = SYMC_ALL_PARTS, .out_parts = SYMC_ALL_PARTS,
        .traits = SYMC_MOVES, .compared = COMPARE_MOVED},
    [SYMC_SYMM_ALL_GATHER_OFFSET] = {
        .name = "symm_all_gather_offset", .trace = "all_gather",
        .in_parts = SYMC_ONE_PART, .out_parts = SYMC_ALL_PARTS,
        .traits = SYMC_MOVES, .compared = COMPARE_MOVED},
    [SYMC_SYMM_PERMUTE] = {
        .name = "symm_permute", .trace = "all_to_all",
        .in_parts = SYMC_ONE_PART, .out_parts = SYMC_ONE_PART,
        .traits = SYMC_MOVES, .compared = COMPARE_MOVED},
    [SYMC_SYMM_RESHARD] = {
        .name = "symm_reshard", .trace = "all_to_all",
        .in_parts = SYMC_ONE_PART, .out_parts = SYMC_ONE_PART,
        .traits = SYMC_MOVES, .compared = COMPARE_MOVED},
    [SYMC_SYMM_WAIT_VALUE] = OF_ONE_RANK("symm_wait_value32"),
    [SYMC_SYMM_WORKSPACE] = BY_ALL_GATHER("symm_workspace"),
    [SYMC_SYMM_PUT_WITH_SIGNAL] = OF_ONE_RANK("symm_put_with_signal"),
    [SYMC_SYMM_PUT_DATA] = OF_ONE_RANK("symm_put_data"),
    [SYMC_SYMM_GET_DATA] = OF_ONE_RANK("symm_get_data"),
    [SYMC_SYMM_WRITE_VALUE] = OF_ONE_RANK("symm_write_value32"),
    [SYMC_SYMM_MEMSET] = OF_ONE_RANK("symm_memset32"),
    [SYMC_SYMM_INTRA_NODE] = {
        .name = "symm_intra_node_all_reduce", .trace = "all_reduce",
        .in_parts = SYMC_ONE_PART, .out_parts = SYMC_ONE_PART,
        .traits = REDUCES_MOVES, .compared = COMPARE_REDUCED},
    [SYMC_SYMM_TILE_REDUCE_ROOTS] = {
        .name = "symm_multi_root_tile_reduce", .trace = "reduce",
        .in_parts = SYMC_ONE_PART, .out_parts = SYMC_ONE_PART,
        .traits = REDUCES_MOVES, .compared = COMPARE_REDUCED},
    [SYMC_SYMM_REDUCE_SCATTER_LOW] = {
        .name = "symm_low_contention_reduce_scatter",
        .trace = "_reduce_scatter_base",
        .in_parts = SYMC_ALL_PARTS, .out_parts = SYMC_ONE_PART,
        .traits = REDUCES_MOVES, .compared = COMPARE_REDUCED},
    [SYMC_SYMM_ALL_GATHER_LOW] = {
        .name = "symm_low_contention_all_gather", .trace = "_all_gather_base",
        .in_parts = SYMC_ONE_PART, .out_parts = SYMC_ALL_PARTS,
        .traits = SYMC_MOVES, .compared = COMPARE_MOVED},
    [SYMC_SYMM_ONE_SHOT_COPY] = {
        .name = "symm_one_shot_all_reduce_copy", .trace = "all_reduce",
        .in_parts = SYMC_ONE_PART, .out_parts = SYMC_ONE_PART,
        .traits = REDUCES_MOVES, .compared = COMPARE_REDUCED},
    [SYMC_FUSED_GATHER] = {
        .name = "fused_all_gather_matmul", .trace = "_all_gather_base",
        .in_parts = SYMC_ONE_PART, .out_parts = SYMC_ALL_PARTS,
        .traits = SYMC_MOVES, .compared = COMPARE_MOVED},
    [SYMC_FUSED_SCATTER] = {
        .name = "fused_matmul_reduce_scatter", .trace = "_reduce_scatter_base",
        .in_parts = SYMC_ALL_PARTS, .out_parts = SYMC_ONE_PART,
        .traits = REDUCES_MOVES, .compared = COMPARE_REDUCED},
};
/* clang-format on */

const char *symc_kind_name(enum symc_kind kind)
{
    return symc_kind_is_known(kind) ? symc_kinds[kind].name : "unknown";
}

/* Public kinds have the same numbers. */
#define SAME(ours, public)                                          \
    _Static_assert((int)SYMC_##ours == (int)SYMMCOLL_KIND_##public, \
        "a public kind has the number of the internal one")
SAME(BARRIER, BARRIER);
SAME(ALL_REDUCE, ALL_REDUCE);
SAME(REDUCE, REDUCE);
SAME(REDUCE_SCATTER, REDUCE_SCATTER);
SAME(ALL_GATHER, ALL_GATHER);
SAME(GATHER, GATHER);
SAME(BROADCAST, BROADCAST);
SAME(SEND, SEND);
SAME(RECV, RECV);
SAME(SCATTER, SCATTER);
SAME(ALL_TO_ALL, ALL_TO_ALL);
SAME(MONITORED_BARRIER, MONITORED_BARRIER);
SAME(ALL_TO_ALL_V, ALL_TO_ALL_V);
SAME(ALL_TO_ALL_LIST, ALL_TO_ALL_LIST);
SAME(ALL_GATHER_LIST, ALL_GATHER_LIST);
SAME(REDUCE_SCATTER_LIST, REDUCE_SCATTER_LIST);
SAME(ALL_REDUCE_COALESCED, ALL_REDUCE_COALESCED);
SAME(ALL_GATHER_COALESCED, ALL_GATHER_COALESCED);
SAME(REDUCE_SCATTER_COALESCED, REDUCE_SCATTER_COALESCED);
SAME(SYMM_ONE_SHOT, SYMM_ONE_SHOT_ALL_REDUCE);
SAME(SYMM_TWO_SHOT, SYMM_TWO_SHOT_ALL_REDUCE);
SAME(SYMM_REDUCE, SYMM_ONE_SHOT_REDUCE);
SAME(SYMM_REDUCE_SCATTER, SYMM_REDUCE_SCATTER);
SAME(SYMM_ALL_GATHER, SYMM_ALL_GATHER);
SAME(SYMM_TILE_REDUCE, SYMM_TILE_REDUCE);
SAME(SYMM_REDUCE_SCATTER_OFFSET, SYMM_REDUCE_SCATTER_OFFSET);
SAME(SYMM_ALL_TO_ALL_V, SYMM_ALL_TO_ALL_V);
SAME(SYMM_ALL_TO_ALL_V_BACK, SYMM_ALL_TO_ALL_V_BACK);
SAME(SYMM_MAKE_PLAN, SYMM_PLAN_CREATE);
SAME(SYMM_RUN_PLAN, SYMM_PLAN_RUN);
SAME(SYMM_PUSH_ROWS, SYMM_PUSH_ROWS);
SAME(SYMM_BROADCAST, SYMM_BROADCAST);
SAME(SYMM_ALL_TO_ALL, SYMM_ALL_TO_ALL);
SAME(SYMM_ALL_GATHER_OFFSET, SYMM_ALL_GATHER_OFFSET);
SAME(SYMM_PERMUTE, SYMM_PERMUTE);
SAME(SYMM_RESHARD, SYMM_RESHARD);
SAME(SYMM_INTRA_NODE, SYMM_INTRA_NODE_ALL_REDUCE);
SAME(SYMM_TILE_REDUCE_ROOTS, SYMM_MULTI_ROOT_TILE_REDUCE);
SAME(SYMM_REDUCE_SCATTER_LOW, SYMM_LOW_CONTENTION_REDUCE_SCATTER);
SAME(SYMM_ALL_GATHER_LOW, SYMM_LOW_CONTENTION_ALL_GATHER);
SAME(SYMM_ONE_SHOT_COPY, SYMM_ONE_SHOT_ALL_REDUCE_COPY);
SAME(FUSED_GATHER, FUSED_ALL_GATHER_MATMUL);
SAME(FUSED_SCATTER, FUSED_MATMUL_REDUCE_SCATTER);
#undef SAME
