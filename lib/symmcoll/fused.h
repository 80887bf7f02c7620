/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Matrix products fused with a collective, as tensor-parallel layers need them:
 * all_gather followed by matmul, and matmul followed by reduce_scatter.
 *
 * What all of them share:
 *
 * group    borrowed
 * a, b     tensors of one type: float32, float64, float16 or bfloat16, of any
 *          strides, in host memory or all on one CUDA device; the library's
 *          until the call returns, on a device until its stream has come there.
 *          Scaled products: of 8-bit floats, with scales in such memory; see there
 * call     timeout, label; stream, on a device; NULL for the defaults
 * results  begin as SYMMCOLL_TENSOR_INIT, and the library allocates their
 *          memory, which is released with symmcoll_f_free(); or with memory of
 *          the caller, of the result's type, shape and strides, which shares
 *          no byte with a, b and other results
 *
 * Where all tensors are shapes without memory (SYMMCOLL_META) so are the
 * results, with the shapes and strides that they would have, and nothing is
 * communicated.
 *
 * Every rank passes the same shapes, type, dimension and operation; the columns
 * of b, and how many there are, may differ between ranks in
 * symmcoll_fused_all_gather_matmul().  Calls block, and run on the calling
 * thread.  Products of 16-bit floats are added in float32 and rounded once.
 *
 * On a device symmcoll_fused_all_gather_matmul() and
 * symmcoll_fused_matmul_reduce_scatter() run, and their scaled forms.  They
 * return when all ranks have called them and what they do is enqueued on the
 * call's stream, in whose order results are there; what fails later fails the
 * group.  cuBLASLt multiplies (the setting cuda.cublaslt), and ranks' parts of
 * few rows (fused.device_rows) are one product, after or before they are
 * exchanged.  They may be captured, with results in memory of the caller.
 *
 * Matrices are multiplied by the library of the setting fused.blas, on as many
 * threads as that uses; where there is none, by a slower kernel of this
 * library.
 *
 * What is refused on one rank, or memory that it lacks, ends the calls of all
 * ranks: that of the others with its status and rank.  So each rank calls the
 * function, and waits for the others even then.  A rank whose group or options
 * are refused, or that passes a shape without memory, does not.
 *
 * Where a call returns an error the contents of its results are undefined, those
 * that the caller has memory for too; none is to be released.
 *
 * Errors of all: INVALID (also a shape that does not fit; names it; and a call in
 * a callback of the same group, which must not block, or in a function that one
 * of these has called for that group), UNSUPPORTED
 * (another type, device memory where that is not served, cuBLASLt that is not
 * there or does not multiply these), NO_MEMORY, CONFIG (fused.blas), and those of
 * collectives.  Manual: symmcoll_fused_all_gather_matmul(3).
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
 * Gather the ranks' shards of A along a dimension and multiply the whole by
 * matrices: out[i] = A @ bs[i].
 *
 * a_shard     [..., K]: 2 dimensions or more
 * bs          n matrices [K, columns], 0 or more; with gather_dim the last
 *             dimension of A, of the rows of all ranks' K
 * gather_dim  from 0
 * a           out: A, whose dimension gather_dim is that of a_shard times the
 *             number of ranks; NULL: not wanted
 * outs        out: n results, of A's shape with the columns of bs[i] last
 *
 * Results are in memory with gather_dim first, the other dimensions after it
 * in order: a result of gather_dim 1 of [B, M, K] has the strides of a
 * contiguous [M, B, columns].  With the last dimension they are contiguous.
 *
 * Where all ranks' shards are in one symmetric allocation, contiguous with
 * gather_dim first (with the last dimension: contiguous), the other ranks read
 * them where they are; else each rank copies its own once, also where its scales
 * are gathered with it, and where it has less than 512 rows and 8 KiB and
 * gather_dim is not the last.  Shards of less than 512 rows are then gathered by
 * a copy to each rank, which larger ones are only for `a`, and with the last
 * dimension none are but for `a`.  Few rows of float32 or float64, more than 1
 * MiB together and of a K of 1536 or more, are copied and multiplied in blocks
 * of K, if `a` is not wanted.
 *
 * Source: torch.ops.symm_mem.fused_all_gather_matmul.
 */
SYMMCOLL_CHECKED
symmcoll_status_t symmcoll_fused_all_gather_matmul(struct symmcoll_group *group,
    const struct symmcoll_tensor *a_shard, const struct symmcoll_tensor *bs,
    int n, int gather_dim, const struct symmcoll_call *call,
    struct symmcoll_tensor *a, struct symmcoll_tensor *outs);

/*
 * Multiply, add up the products of all ranks, and cut the result along a
 * dimension into as many parts as there are ranks; out is this rank's.
 *
 * a            [..., K]: 2 dimensions or more
 * b            [K, columns]
 * op           SYMMCOLL_SUM, or SYMMCOLL_AVG, which divides the sum by the
 *              number of ranks
 * scatter_dim  from 0; its length, or with the last one the columns of b, is a
 *              multiple of the number of ranks
 * out          out: contiguous, [..., columns] with scatter_dim divided by the
 *              number of ranks
 *
 * In host memory products are added in the order of ranks.  Those of other ranks are
 * made in memory that these read; nothing of them is copied.  They are exchanged in
 * blocks, of 512 KiB for each rank, where the sums for a rank are 4 MiB or more
 * (16-bit floats: as float32), all dimensions before scatter_dim are 1, it is not
 * the last, and a block has as many rows as b or more; else whole.  On devices a
 * rank's sum goes from rank to rank, each of which adds its product to it.
 *
 * Source: torch.ops.symm_mem.fused_matmul_reduce_scatter.
 */
SYMMCOLL_CHECKED
symmcoll_status_t symmcoll_fused_matmul_reduce_scatter(
    struct symmcoll_group *group, const struct symmcoll_tensor *a,
    const struct symmcoll_tensor *b, symmcoll_op_t op, int scatter_dim,
    const struct symmcoll_call *call, struct symmcoll_tensor *out);

/*
 * A matrix of 8-bit floats and what its product is multiplied by.  Element
 * (i, j) of a product is
 *
 *   (sum_k a[i, k] b[k, j] * a_scale[i] * b_scale[j] + bias[j]) * result_scale
 *
 * computed in float32 and rounded once: to 8-bit floats, to the largest where
 * that is exceeded.
 *
 * b             [K, columns], of float8_e4m3fn, float8_e5m2 or their fnuz forms,
 *               which may be another one than a's
 * b_scale       float32: one element, or [1, columns]; or, of the gathered
 *               product alone, scales of blocks
 * bias          [columns], of float32, float16 or bfloat16; NULL: none
 * result_scale  float32: one element; NULL: 1
 * out_dtype     of the result: float32, float16, bfloat16, or one of b's
 *
 * All are where b is.  On a device matrices are of float8_e4m3fn, or one of the two
 * of float8_e5m2; K, and the columns of each rank's part, are multiples of 16, and
 * what the caller has for results of symmcoll_fused_all_gather_scaled_matmul() is at
 * such addresses; there is no bias, no result_scale, no 8-bit result and no scale of
 * a block; and the device is of compute capability 8.9 or more, with scales of rows
 * or columns of 9.  Else: UNSUPPORTED, or INVALID (scales of blocks where sums are
 * scattered).  A matrix b whose columns are contiguous, at
 * multiples of 16 bytes, is read where it is.
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
 * symmcoll_fused_all_gather_matmul() of 8-bit floats with scales.
 *
 * a_shard     [..., K], of a type that b may have; gather_dim is not the last
 * a_scale     float32: the shape of a_shard with 1 last, which are scales of its
 *             rows and gathered with it; or one element for all of A; or the
 *             shape of A with 1 last, the same on all ranks.  The first where
 *             several fit, that is with shards of one row.  Or float8_e8m0fnu, in
 *             one dimension: scales of blocks, see below
 * bs          n matrices with their scales, 0 or more
 *
 * The rest, and results, as there; a has the type of a_shard.
 *
 * Scales of blocks: each 32 elements of A along K, and each 32 of a column of
 * b, are multiplied by one scale before they are multiplied, as float32, in the
 * place of a_scale and b_scale above; A's are gathered with its rows.
 * gather_dim is 0, and a_shard without its last dimension has a multiple of 128
 * rows.  All b_scale are such, too.  Scales are in tiles of 128 rows of A, or
 * columns of b, by 4 blocks, those of the same rows one after the other, as
 * cuBLAS has them: of a tile's 512 bytes, byte r % 32 * 16 + r / 32 * 4 + i is for
 * row r and block i.  So there are rows * blocks of them, rounded up to whole
 * tiles; what fills these up is not read.
 *
 * Source: torch.ops.symm_mem.fused_all_gather_scaled_matmul, and for scales of
 * blocks fused_all_gather_block_scaled_matmul of two mxfp8 operands, whose lists
 * for each matrix are members here; use_fast_accum has no equivalent.
 */
SYMMCOLL_CHECKED
symmcoll_status_t symmcoll_fused_all_gather_scaled_matmul(
    struct symmcoll_group *group, const struct symmcoll_tensor *a_shard,
    const struct symmcoll_tensor *a_scale,
    const struct symmcoll_scaled_matrix *bs, int n, int gather_dim,
    const struct symmcoll_call *call, struct symmcoll_tensor *a,
    struct symmcoll_tensor *outs);

/*
 * symmcoll_fused_matmul_reduce_scatter() of 8-bit floats with scales.
 *
 * a_scale      float32: the shape of a with 1 last, or one element; scales of
 *              blocks are refused: INVALID
 * scatter_dim  of the shape of a: A is passed with the dimensions that the
 *              result is to have, not flattened
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
 * Multiply a matrix whose rows arrive in chunks: out = a @ b.  Local.
 *
 * handle   of symmetric memory in which the signals are: as many words as there
 *          are chunks, from byte `signals` of this rank's buffer on, a multiple of
 *          4.  Chunk i is there when word i is 1, which rank i * ranks / chunks
 *          stores by symmcoll_symm_write_value32() after the rows.  The caller
 *          sets them to 0 before they are used again
 * chunks   of as many rows each; divides the rows of a
 * pivot    the chunk that is multiplied first; then those after it, and after the
 *          last one chunk 0
 * a, b     [M, K], in any memory of the host, or of the handle's device, and [K, N]
 * call     timeout of each wait; of a device the stream
 * out      out: contiguous, [M, N]; it shares no byte with the signals either
 *
 * In host memory no other fused call of this rank in the handle's group runs
 * meanwhile.  So no signal may depend on one: it would wait for this call, and this for
 * the signal.  On a device all is enqueued on the call's stream, and no signal may
 * depend on what is enqueued there later.
 * Errors besides: TIMEOUT and PEER, as of symmcoll_symm_wait_value32().
 * Source: torch.ops.symm_mem._async_input_mm.
 */
SYMMCOLL_CHECKED
symmcoll_status_t symmcoll_async_input_matmul(struct symmcoll_symm *handle,
    size_t signals, size_t chunks, size_t pivot,
    const struct symmcoll_tensor *a, const struct symmcoll_tensor *b,
    const struct symmcoll_call *call, struct symmcoll_tensor *out);

/*
 * Copy a tensor to the strides with which the first two functions copy nothing
 * more: contiguous with dimension dim first.  The last dimension needs none of
 * this, but a tensor that is contiguous.  Local; any type.
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
 * Have the functions of this header use the plain sequence of a collective and
 * a product in a group, for tests, from now on: plain 1; or no more: 0.  Local;
 * where one rank of a group asks for it all ranks do it.
 * Source: torch.distributed._symmetric_memory._test_mode.
 */
SYMMCOLL_CHECKED
symmcoll_status_t symmcoll_fused_set_plain(
    struct symmcoll_group *group, int plain);

/* What is done with a rank's shard: contiguous, and only to be read.  Another
 * status than OK is returned by the call that it was passed to. */
typedef symmcoll_status_t (*symmcoll_consume_fn)(
    void *context, int rank, const void *shard);

/*
 * Gather the ranks' shards, of nbytes each and in the order of ranks, and call a
 * function with each of them as soon as it is there: this rank's first, then
 * those of the ranks after it.
 *
 * shard    contiguous; read by the other ranks where it is if it is in symmetric
 *          memory on all ranks, unless consume is NULL and nbytes less than 8192
 * consume  called once for each rank, on the calling thread; NULL: nothing is
 *          called
 * out      as many times nbytes as there are ranks; NULL: not wanted.  It does
 *          not overlap shard, unless that is this rank's place in it
 *
 * Source: torch.distributed._symmetric_memory._pipelined_all_gather_and_consume.
 */
SYMMCOLL_CHECKED
symmcoll_status_t symmcoll_all_gather_and_consume(struct symmcoll_group *group,
    const void *shard, size_t nbytes, symmcoll_consume_fn consume,
    void *context, const struct symmcoll_call *call, void *out);

/* What makes the chunk for a rank: writes all of its bytes.  Another status than
 * OK is returned by the call that it was passed to. */
typedef symmcoll_status_t (*symmcoll_produce_fn)(
    void *context, int rank, void *chunk);

/*
 * Call a function that makes a chunk for each rank, and exchange them: out has
 * the chunks that the ranks have made for this one, of nbytes each and in the
 * order of ranks.
 *
 * produce  called once for each rank, on the calling thread, for this rank last;
 *          where it fails for another rank the others' calls return its error,
 *          or CANCELED where that is none of SYMMCOLL_ERR_*
 *
 * Source: torch.distributed._symmetric_memory._pipelined_produce_and_all2all.
 */
SYMMCOLL_CHECKED
symmcoll_status_t symmcoll_produce_and_all_to_all(struct symmcoll_group *group,
    size_t nbytes, symmcoll_produce_fn produce, void *context,
    const struct symmcoll_call *call, void *out);

SYMMCOLL_END_DECLS

#endif
