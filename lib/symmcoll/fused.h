/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Matrix products fused with a collective, as tensor-parallel layers need them:
 * all_gather followed by matmul, and matmul followed by reduce_scatter.
 *
 * Common arguments:
 *
 * group    borrowed
 * a, b     tensors of one type: float32, float64, float16 or bfloat16, of any
 *          strides, in host memory or all on one CUDA device; the library's
 *          until the call returns, on a device until its stream has executed
 *          it.  Scaled products take 8-bit floats and scales, as described
 *          there
 * call     timeout, label; stream, on a device; NULL for the defaults
 * results  initialised with SYMMCOLL_TENSOR_INIT: the library allocates their
 *          memory, which symmcoll_f_free() releases.  Or they describe memory
 *          of the caller, of the result's type, shape and strides, that does
 *          not overlap a, b and other results
 *
 * If all tensors are shapes without memory (SYMMCOLL_META), so are the results,
 * with the shapes and strides that they would have, and nothing is
 * communicated.
 *
 * Every rank passes the same shapes, type, dimension and operation, except that
 * in symmcoll_fused_all_gather_matmul() the number of matrices b and their
 * columns may differ between ranks.  Calls block, and multiply on the calling
 * thread.  Products of 16-bit floats are added in float32 and rounded once.
 *
 * On devices, symmcoll_fused_all_gather_matmul(),
 * symmcoll_fused_matmul_reduce_scatter() and their scaled forms return when all
 * ranks have called them and their work is enqueued on the call's stream, which
 * orders the results; later errors fail the group.  cuBLASLt multiplies
 * (setting cuda.cublaslt).  If the ranks' parts have fewer rows than
 * fused.device_rows, they are multiplied as one product, after or before the
 * exchange.  Calls may be captured, with results in memory of the caller.
 *
 * On the host, the library of the setting fused.blas multiplies, with its own
 * number of threads; without one, a slower kernel of this library.
 *
 * A bad argument or a lack of memory on one rank ends the calls of all ranks;
 * the others return its status and its rank.  So each rank has to call the
 * function, and waits for the others even then; except if its group or options
 * are bad, or its tensors are shapes without memory.
 *
 * After an error the contents of results are undefined, also in memory of the
 * caller, and no result is to be released.
 *
 * Common errors: INVALID (also a shape that does not fit: the detail names it;
 * a call in a callback of the same group, which must not block, or in a
 * function that one of these functions has called for that group), UNSUPPORTED
 * (another type; device memory in symmcoll_fused_restride_a_shard() and
 * symmcoll_fused_restride_a(); cuBLASLt is missing or does not multiply such
 * matrices), NO_MEMORY, CONFIG (fused.blas), and those of collectives.
 * Manual: symmcoll_fused_all_gather_matmul(3).
 */
#ifndef SYMMCOLL_FUSED_H
#define SYMMCOLL_FUSED_H

#include <symmcoll/tensor.h>
#include <symmcoll/types.h>

SYMMCOLL_BEGIN_DECLS

struct symmcoll_call;
struct symmcoll_group;
struct symmcoll_symm;

/*
 * Gathers the ranks' shards of A along a dimension and multiplies A by
 * matrices: out[i] = A @ bs[i].
 *
 * a_shard     [..., K]: 2 dimensions or more
 * bs          n matrices [K, columns], 0 or more; if gather_dim is the last
 *             dimension, their rows are the K of all ranks together
 * gather_dim  from 0
 * a           out: A, with gather_dim's length multiplied by the number of
 *             ranks; NULL: not wanted
 * outs        out: n results, of A's shape with the columns of bs[i] last
 *
 * Results are stored with gather_dim first and the other dimensions after it in
 * order: with gather_dim 1, a result [B, M, columns] has the strides of a
 * contiguous [M, B, columns].  With the last dimension they are contiguous.
 *
 * Copies in host memory: if all ranks' shards are in one symmetric allocation,
 * contiguous with gather_dim first (for the last dimension: contiguous), the
 * other ranks read them in place.  Otherwise each rank copies its shard once;
 * it also does if scales are gathered with the shard, or if the shard has less
 * than 512 rows and 8 KiB and gather_dim is not the last.  Shards of less than
 * 512 rows are gathered by a copy to each rank, larger ones and those of the
 * last dimension only for `a`.  Exception: if `a` is not wanted, few rows of
 * float32 or float64, of more than 1 MiB in all and a K of 1536 or more, are
 * copied and multiplied in blocks of K.
 *
 * Source: torch.ops.symm_mem.fused_all_gather_matmul.
 */
SYMMCOLL_CHECKED
symmcoll_status_t symmcoll_fused_all_gather_matmul(struct symmcoll_group *group,
    const struct symmcoll_tensor *a_shard, const struct symmcoll_tensor *bs,
    int n, int gather_dim, const struct symmcoll_call *call,
    struct symmcoll_tensor *a, struct symmcoll_tensor *outs);

/*
 * Multiplies, adds the products of all ranks, and divides the sum along a
 * dimension into one part for each rank; out is this rank's part.
 *
 * a            [..., K]: 2 dimensions or more
 * b            [K, columns]
 * op           SYMMCOLL_SUM, or SYMMCOLL_AVG, which divides the sum by the
 *              number of ranks
 * scatter_dim  from 0; its length (for the last dimension, the columns of b) is
 *              a multiple of the number of ranks
 * out          out: contiguous, [..., columns] with scatter_dim divided by the
 *              number of ranks
 *
 * In host memory products are added in the order of ranks.  Those for other
 * ranks are written to memory that these ranks read, without a copy.  They are
 * exchanged in blocks of 512 KiB for each rank, if the sums for a rank are 4
 * MiB or more (16-bit floats count as float32), all dimensions before
 * scatter_dim are 1, it is not the last, and a block has at least as many rows
 * as b; otherwise as a whole.  On devices the sum for a rank passes from rank
 * to rank, each of which adds its product.
 *
 * Source: torch.ops.symm_mem.fused_matmul_reduce_scatter.
 */
SYMMCOLL_CHECKED
symmcoll_status_t symmcoll_fused_matmul_reduce_scatter(
    struct symmcoll_group *group, const struct symmcoll_tensor *a,
    const struct symmcoll_tensor *b, symmcoll_op_t op, int scatter_dim,
    const struct symmcoll_call *call, struct symmcoll_tensor *out);

/*
 * A matrix of 8-bit floats, and the factors of its product.  Element (i, j) of
 * a product is
 *
 *   (sum_k a[i, k] b[k, j] * a_scale[i] * b_scale[j] + bias[j]) * result_scale
 *
 * computed in float32 and rounded once; to 8-bit floats with saturation.
 *
 * b             [K, columns], of float8_e4m3fn, float8_e5m2 or their fnuz
 *               forms; a may have another of these types
 * b_scale       float32: one element, or [1, columns]; in the gathered product
 *               also scales of blocks
 * bias          [columns], of float32, float16 or bfloat16; NULL: none
 * result_scale  float32: one element; NULL: 1
 * out_dtype     of the result: float32, float16, bfloat16, or one of b's types
 *
 * All are in the memory that b is in.  Limits on devices, otherwise
 * UNSUPPORTED: matrices are of float8_e4m3fn, at most one of the two of
 * float8_e5m2; K, and the columns of each rank's part, are multiples of 16, as
 * are the addresses of the caller's memory for results of
 * symmcoll_fused_all_gather_scaled_matmul(); no bias, no result_scale, no 8-bit
 * result and no scales of blocks; compute capability 8.9 or more, with scales
 * of rows or columns exactly 9.x.  Scales of blocks are INVALID in the product
 * that is scattered.  A matrix b with columns that are contiguous, at multiples
 * of 16 bytes, is read in place.
 */
struct symmcoll_scaled_matrix {
    size_t size; /* sizeof(struct symmcoll_scaled_matrix) */
    const struct symmcoll_tensor *b;
    const struct symmcoll_tensor *b_scale;
    const struct symmcoll_tensor *bias;
    const struct symmcoll_tensor *result_scale;
    enum symmcoll_dtype out_dtype;
};
#define SYMMCOLL_SCALED_MATRIX_INIT                                    \
    {                                                                  \
        sizeof(struct symmcoll_scaled_matrix), NULL, NULL, NULL, NULL, \
            SYMMCOLL_FLOAT32                                           \
    }

/*
 * Gathers shards of 8-bit floats and multiplies them by matrices with scales;
 * otherwise as symmcoll_fused_all_gather_matmul().
 *
 * a_shard     [..., K], of a type that b may have; gather_dim is not the last
 * a_scale     float32, one of: a_shard's shape with 1 last, scales of its rows,
 *             gathered with it; one element for all of A; A's shape with 1
 *             last, the same on all ranks.  The first that fits applies, which
 *             matters for shards of one row.  Or float8_e8m0fnu, in one
 *             dimension: scales of blocks
 * bs          n matrices with their scales, 0 or more
 * a           out: of the type of a_shard
 *
 * Scales of blocks: one factor for each 32 elements of A along K, and for each
 * 32 elements of a column of b, applied in float32 before the multiplication,
 * in place of a_scale and b_scale.  Those of A are gathered with its rows.
 * gather_dim is 0, a_shard has a multiple of 128 rows (all dimensions but the
 * last together), and every b_scale has scales of blocks too.  As in cuBLAS,
 * scales are stored in tiles of 128 rows of A, or columns of b, by 4 blocks,
 * all tiles of the first 128 rows first: in a tile of 512 bytes, byte r % 32 *
 * 16 + r / 32 * 4 + i belongs to row r and block i.  Their number is rounded up
 * to whole tiles; the padding is not read.
 *
 * Source: torch.ops.symm_mem.fused_all_gather_scaled_matmul, and for scales of
 * blocks fused_all_gather_block_scaled_matmul of two mxfp8 operands, whose
 * lists for each matrix are members here; use_fast_accum has no equivalent.
 */
SYMMCOLL_CHECKED
symmcoll_status_t symmcoll_fused_all_gather_scaled_matmul(
    struct symmcoll_group *group, const struct symmcoll_tensor *a_shard,
    const struct symmcoll_tensor *a_scale,
    const struct symmcoll_scaled_matrix *bs, int n, int gather_dim,
    const struct symmcoll_call *call, struct symmcoll_tensor *a,
    struct symmcoll_tensor *outs);

/*
 * Multiplies matrices of 8-bit floats with scales and scatters the sum of all
 * ranks' products; otherwise as symmcoll_fused_matmul_reduce_scatter().
 *
 * a_scale      float32: a's shape with 1 last, or one element; scales of blocks
 *              are INVALID
 * scatter_dim  a dimension of a, which has the dimensions of the result and is
 *              not flattened
 *
 * Each rank scales its product, and adds its bias, before products are added;
 * the sum is rounded.
 *
 * Source: torch.ops.symm_mem.fused_scaled_matmul_reduce_scatter.
 */
SYMMCOLL_CHECKED
symmcoll_status_t symmcoll_fused_scaled_matmul_reduce_scatter(
    struct symmcoll_group *group, const struct symmcoll_tensor *a,
    const struct symmcoll_tensor *a_scale,
    const struct symmcoll_scaled_matrix *b, symmcoll_op_t op, int scatter_dim,
    const struct symmcoll_call *call, struct symmcoll_tensor *out);

/*
 * Multiplies a matrix of which the rows arrive in chunks: out = a @ b.  Local.
 *
 * handle   of the symmetric memory with the signals, one word for each chunk,
 *          from byte `signals` (a multiple of 4) of this rank's buffer on.
 *          Rank i * ranks / chunks writes the rows of chunk i, then stores 1 in
 *          word i by symmcoll_symm_write_value32().  The caller resets the
 *          words to 0
 * chunks   number of chunks of equal size; divides the rows of a
 * pivot    the chunk that is multiplied first; the following ones come next,
 *          after the last one chunk 0
 * a, b     [M, K] and [K, N], both in host memory or both on the device, as the
 *          handle's memory is
 * call     timeout of each wait; on a device, the stream
 * out      out: contiguous, [M, N]; does not overlap the signals either
 *
 * In host memory, other fused calls of this rank in the handle's group wait
 * until it returns, so a signal must not depend on such a call: each would wait
 * for the other until TIMEOUT.  On a device the work is enqueued on the call's
 * stream, and a signal must not depend on work that is enqueued there later.
 * Errors besides: TIMEOUT and PEER, as in symmcoll_symm_wait_value32().
 * Source: torch.ops.symm_mem._async_input_mm.
 */
SYMMCOLL_CHECKED
symmcoll_status_t symmcoll_async_input_matmul(struct symmcoll_symm *handle,
    size_t signals, size_t chunks, size_t pivot,
    const struct symmcoll_tensor *a, const struct symmcoll_tensor *b,
    const struct symmcoll_call *call, struct symmcoll_tensor *out);

/*
 * Copy a tensor to the strides that symmcoll_fused_all_gather_matmul() and
 * symmcoll_fused_matmul_reduce_scatter() use in place: contiguous with
 * dimension dim first (for the last dimension: contiguous).  Local; any type.
 *
 * out  out: of the shape of in
 *
 * Source: torch.distributed._symmetric_memory.
 *         restride_A_shard_for_fused_all_gather_matmul,
 *         restride_A_for_fused_matmul_reduce_scatter.
 */
SYMMCOLL_CHECKED
symmcoll_status_t symmcoll_fused_restride_a_shard(
    const struct symmcoll_tensor *in, int gather_dim,
    struct symmcoll_tensor *out);
SYMMCOLL_CHECKED
symmcoll_status_t symmcoll_fused_restride_a(const struct symmcoll_tensor *in,
    int scatter_dim, struct symmcoll_tensor *out);

/*
 * Selects, for tests, the plain sequence of a collective and a product in place
 * of the fused functions of a group: plain 1 on, 0 off.  Local; if one rank has
 * set it, all ranks use the plain sequence.
 * Source: torch.distributed._symmetric_memory._test_mode.
 */
SYMMCOLL_CHECKED
symmcoll_status_t symmcoll_fused_set_plain(
    struct symmcoll_group *group, int plain);

/* Consumes a rank's contiguous shard, read only.  The call that it was passed
 * to returns any status other than OK. */
typedef symmcoll_status_t (*symmcoll_consume_fn)(
    void *context, int rank, const void *shard);

/*
 * Gathers the ranks' shards, of nbytes each and in the order of ranks, and
 * calls a function with each as soon as it has arrived: this rank's first, then
 * those of the following ranks.
 *
 * shard    contiguous; other ranks read it in place if it is in symmetric
 *          memory on all ranks, unless consume is NULL and nbytes less than
 *          8192
 * consume  called once for each rank, on the calling thread; NULL: not called
 * out      room for nbytes of each rank; NULL: not wanted.  shard is this
 *          rank's place in it, or does not overlap it
 *
 * Source:
 * torch.distributed._symmetric_memory._pipelined_all_gather_and_consume.
 */
SYMMCOLL_CHECKED
symmcoll_status_t symmcoll_all_gather_and_consume(struct symmcoll_group *group,
    const void *shard, size_t nbytes, symmcoll_consume_fn consume,
    void *context, const struct symmcoll_call *call, void *out);

/* Produces the chunk for a rank: writes all of its bytes.  The call that it was
 * passed to returns any status other than OK. */
typedef symmcoll_status_t (*symmcoll_produce_fn)(
    void *context, int rank, void *chunk);

/*
 * Calls a function that produces a chunk for each rank, and exchanges the
 * chunks: out receives those that the ranks have produced for this one, of
 * nbytes each and in the order of ranks.
 *
 * produce  called once for each rank, on the calling thread, for this rank
 *          last; if it fails for another rank, the calls of the others return
 *          its error, or CANCELED if that is none of SYMMCOLL_ERR_*
 *
 * Source: torch.distributed._symmetric_memory._pipelined_produce_and_all2all.
 */
SYMMCOLL_CHECKED
symmcoll_status_t symmcoll_produce_and_all_to_all(struct symmcoll_group *group,
    size_t nbytes, symmcoll_produce_fn produce, void *context,
    const struct symmcoll_call *call, void *out);

SYMMCOLL_END_DECLS

#endif
