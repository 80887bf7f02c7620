/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The functions of NCCL that the library calls: the member of struct symc_nccl, the
 * name, the first version that has it, the return type and the parameters.  The user of
 * a list defines RESULT, COMM, ID, CONFIG, SIMULATED, DATATYPE, OP, RESIDENCE, WINDOW
 * and STREAM: the library as its own declarations, a test as those of NCCL's header, to
 * compare both.
 */
#ifndef SYMC_CUDA_NCCL_NCCL_FUNCTIONS_H
#define SYMC_CUDA_NCCL_NCCL_FUNCTIONS_H

/* A version in NCCL's encoding. */
#define SYMC_NCCL_CODE(major, minor, patch) \
    ((major)*10000 + (minor)*100 + (patch))

#define SYMC_NCCL_LEAST SYMC_NCCL_CODE(2, 22, 0)

/* Functions without which NCCL is not used. */
#define SYMC_NCCL_NEEDED(F)                                                 \
    F(get_version, ncclGetVersion, 22200, RESULT, (int *version))           \
    F(get_unique_id, ncclGetUniqueId, 22200, RESULT, (ID * id))             \
    F(comm_init_rank_config, ncclCommInitRankConfig, 22200, RESULT,         \
        (COMM * comm, int size, ID id, int rank, CONFIG *config))           \
    F(comm_finalize, ncclCommFinalize, 22200, RESULT, (COMM comm))          \
    F(comm_destroy, ncclCommDestroy, 22200, RESULT, (COMM comm))            \
    F(comm_abort, ncclCommAbort, 22200, RESULT, (COMM comm))                \
    F(comm_get_async_error, ncclCommGetAsyncError, 22200, RESULT,           \
        (COMM comm, RESULT * error))                                        \
    F(get_error_string, ncclGetErrorString, 22200, const char *,            \
        (RESULT result))                                                    \
    F(get_last_error, ncclGetLastError, 22200, const char *, (COMM comm))   \
    F(group_start, ncclGroupStart, 22200, RESULT, (void))                   \
    F(group_end, ncclGroupEnd, 22200, RESULT, (void))                       \
    F(red_op_create_pre_mul_sum, ncclRedOpCreatePreMulSum, 22200, RESULT,   \
        (OP * op, void *factor, DATATYPE type, RESIDENCE residence,         \
            COMM comm))                                                     \
    F(red_op_destroy, ncclRedOpDestroy, 22200, RESULT, (OP op, COMM comm))  \
    F(all_reduce, ncclAllReduce, 22200, RESULT,                             \
        (const void *in, void *out, size_t count, DATATYPE type, OP op,     \
            COMM comm, STREAM stream))                                      \
    F(reduce, ncclReduce, 22200, RESULT,                                    \
        (const void *in, void *out, size_t count, DATATYPE type, OP op,     \
            int root, COMM comm, STREAM stream))                            \
    F(reduce_scatter, ncclReduceScatter, 22200, RESULT,                     \
        (const void *in, void *out, size_t count, DATATYPE type, OP op,     \
            COMM comm, STREAM stream))                                      \
    F(all_gather, ncclAllGather, 22200, RESULT,                             \
        (const void *in, void *out, size_t count, DATATYPE type, COMM comm, \
            STREAM stream))                                                 \
    F(broadcast, ncclBroadcast, 22200, RESULT,                              \
        (const void *in, void *out, size_t count, DATATYPE type, int root,  \
            COMM comm, STREAM stream))                                      \
    F(send, ncclSend, 22200, RESULT,                                        \
        (const void *in, size_t count, DATATYPE type, int peer, COMM comm,  \
            STREAM stream))                                                 \
    F(recv, ncclRecv, 22200, RESULT,                                        \
        (void *out, size_t count, DATATYPE type, int peer, COMM comm,       \
            STREAM stream))

/* Functions that are NULL if the library is too old for them. */
#define SYMC_NCCL_OPTIONAL(F)                                               \
    F(group_simulate_end, ncclGroupSimulateEnd, 22200, RESULT,              \
        (SIMULATED * simulated))                                            \
    F(comm_register, ncclCommRegister, 22200, RESULT,                       \
        (COMM comm, void *at, size_t nbytes, void **handle))                \
    F(comm_deregister, ncclCommDeregister, 22200, RESULT,                   \
        (COMM comm, void *handle))                                          \
    F(comm_split, ncclCommSplit, 22200, RESULT,                             \
        (COMM comm, int color, int key, COMM *made, CONFIG *config))        \
    F(comm_shrink, ncclCommShrink, 22700, RESULT,                           \
        (COMM comm, int *excluded, int count, COMM *made, CONFIG *config,   \
            int flags))                                                     \
    F(comm_window_register, ncclCommWindowRegister, 22700, RESULT,          \
        (COMM comm, void *at, size_t nbytes, WINDOW *window, int flags))    \
    F(comm_window_deregister, ncclCommWindowDeregister, 22700, RESULT,      \
        (COMM comm, WINDOW window))                                         \
    F(all_to_all, ncclAlltoAll, 22800, RESULT,                              \
        (const void *in, void *out, size_t count, DATATYPE type, COMM comm, \
            STREAM stream))                                                 \
    F(comm_revoke, ncclCommRevoke, 22807, RESULT, (COMM comm, int flags))

#endif
