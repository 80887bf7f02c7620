/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What a backend of devices does for one rank alone, without a group: memory,
 * copies, sums and times in the order of a stream, copies of messages, and products of
 * matrices.
 */
#ifndef SYMC_BACKEND_ONE_RANK_H
#define SYMC_BACKEND_ONE_RANK_H

#include "base/base.h"
#include "base/conversion.h"
#include "base/product.h"

struct symc_memory_request;

#define SYMC_STRIDED_DIMS 9 /* a tensor's, and one that was cut in two */

/* Elements that become contiguous, in row-major order; strides in elements. */
struct symc_strided {
    void *out;
    const void *in;
    size_t elem; /* bytes */
    int ndim;
    const int64_t *shape, *strides;
    bool spread; /* the other way: in is contiguous, the strides are out's */
};

/* out = factor * in[0] + factor * in[1], as symc_reduce() does it, of a type that
 * has averages; out may be one of them.  One source times 1 is a copy. */
struct symc_local_sum {
    enum symmcoll_dtype dtype;
    size_t elem; /* bytes */
    void *out;
    const void *in[2];
    int n; /* sources, 1 or 2 */
    size_t count;
    double factor;
};

/* Bytes of a buffer, and where they are beside it. */
struct symc_local_piece {
    void *at;
    size_t offset; /* in the buffer */
    size_t nbytes;
};

/* Pieces that are copied to their buffer: offsets ascend, and none overlaps another. */
struct symc_local_pieces {
    void *buffer;
    const struct symc_local_piece *pieces;
    size_t n;
    bool spread; /* the other way: from the buffer */
};

/*
 * What one rank does alone on a device, without a group: memory that no other
 * rank maps, and copies.  All of it is enqueued on a stream of the caller's (NULL:
 * the device's default one), in whose order it happens; no call waits.  Any thread
 * may call it at any time.
 */
struct symc_local_ops {
    /* A device (out), until close(); of the request, fail, device, sums and where
     * that is are read.
     * Errors: UNSUPPORTED (no driver), INVALID (no such device), DEVICE. */
    symmcoll_status_t (*open)(
        const struct symc_memory_request *request, void **local);
    void (*close)(void *local);
    /* Whether open() of another request of the same device would be as good: of it,
     * where that is is read. */
    bool (*serves)(
        const void *local, const struct symc_memory_request *request);
    /* Memory (out) for what comes later in the stream, of any content.
     * Errors: NO_MEMORY, UNSUPPORTED (the stream is captured), INVALID (it is of
     * another context), DEVICE. */
    symmcoll_status_t (*allocate)(
        void *local, void *stream, size_t nbytes, void **at);
    /* After what has come in the stream. */
    symmcoll_status_t (*free)(void *local, void *stream, void *at);
    symmcoll_status_t (*copy)(
        void *local, void *stream, const struct symc_strided *copy);
    symmcoll_status_t (*clear)(
        void *local, void *stream, void *at, size_t nbytes);
    symmcoll_status_t (*move)(
        void *local, void *stream, const struct symc_local_pieces *pieces);
    /* Addresses are multiples of what the type's parts have bytes. */
    symmcoll_status_t (*add)(
        void *local, void *stream, const struct symc_local_sum *sum);
    /* As symc_convert(); addresses are multiples of the elements'. */
    symmcoll_status_t (*convert)(
        void *local, void *stream, const struct symc_conversion *conversion);
    /* What comes later in the stream is done after what has come in another one. */
    symmcoll_status_t (*follow)(void *local, void *stream, void *other);
    /* IN_PROGRESS: the stream has work left. */
    symmcoll_status_t (*query)(void *local, void *stream);
    /* Whether the stream is being captured (out). */
    symmcoll_status_t (*ask_captured)(
        void *local, void *stream, bool *captured);
    /* Where the stream is (out), to measure time from or to; NULL: it is captured. */
    symmcoll_status_t (*mark)(void *local, void *stream, void **mark);
    /* How long the device took from one to another (out): IN_PROGRESS until the
     * later one has been reached. */
    symmcoll_status_t (*elapsed)(
        void *local, void *from, void *to, int64_t *ns);
    void (*unmark)(void *local, void *mark);
};

#define SYMC_STAGING_HANDLE 64 /* bytes */

/* Memory of a device that its owner has made for other ranks to read.  Travels between
 * ranks. */
struct symc_staging {
    unsigned char
        handle[SYMC_STAGING_HANDLE]; /* for others, in the backend's form */
    uint64_t at;                     /* where its owner has it */
};

/*
 * What copies messages between devices of two ranks, for one of them: the sender into
 * its own staging, the receiver out of that.  Copies are on a stream of the backend's, and
 * what is before them there has no more to wait for.  One thread makes the calls of
 * reach(), copy() and reached(), and any may make the others beside it.
 */
struct symc_transfer_ops {
    /* A device (out), until close(); of the request, fail, device and where that is are
     * read.  Errors: UNSUPPORTED (no driver), INVALID (no such device), NO_MEMORY,
     * DEVICE. */
    symmcoll_status_t (*open)(
        const struct symc_memory_request *request, void **transfer);
    /* All that copy() has begun has ended: other ranks' staging is not used any more. */
    void (*leave)(void *transfer);
    /* After leave().  keep: other ranks may use this one's, which remains as long as its
     * context. */
    void (*close)(void *transfer, bool keep);
    /* As that of struct symc_local_ops. */
    bool (*serves)(
        const void *transfer, const struct symc_memory_request *request);
    /* This rank's staging (out), until close(), of so many bytes, as the first call said.
     * It may wait for what runs on the device; any thread may call it at any time.
     * Errors: NO_MEMORY, UNSUPPORTED (others
     * cannot read it), DEVICE. */
    symmcoll_status_t (*stage)(
        void *transfer, size_t nbytes, struct symc_staging *staging);
    /* Where another rank's staging is here (out), until close(); threads: that rank is of
     * this process.  Errors: NO_MEMORY, UNSUPPORTED, DEVICE. */
    symmcoll_status_t (*reach)(void *transfer,
        const struct symc_staging *staging, bool threads, void **at);
    /* How far a caller's stream is (out; NULL: the device's default one).
     * Errors: INVALID (it is captured, or of another context), NO_MEMORY, DEVICE. */
    symmcoll_status_t (*mark)(void *transfer, void *stream, void **mark);
    /* Begin to copy; its end (out). */
    symmcoll_status_t (*copy)(
        void *transfer, void *to, const void *from, size_t nbytes, void **mark);
    /* IN_PROGRESS: the device is not so far yet. */
    symmcoll_status_t (*reached)(void *transfer, void *mark);
    void (*unmark)(void *transfer, void *mark);
};

/*
 * Products of matrices on a device, which movers enqueue.  Calls of what open()
 * returns are made one at a time, those that enqueue included.
 */
struct symc_compute_ops {
    /* What multiplies on a device (out), until close(); of the request, settings,
     * fail, device and where that is are read.
     * Errors: UNSUPPORTED (no driver; no library, with the reason), INVALID (no
     * such device), NO_MEMORY, DEVICE. */
    symmcoll_status_t (*open)(
        const struct symc_memory_request *request, void **compute);
    /* As that of struct symc_local_ops. */
    bool (*serves)(
        const void *compute, const struct symc_memory_request *request);
    /* What has been enqueued may run still; plans are forgotten before. */
    void (*close)(void *compute);
    /* Whether products reach an address of the device's memory, which another part of the
     * program may have for itself; where, what: of the message.  Errors: INVALID. */
    symmcoll_status_t (*reach)(
        void *compute, const char *where, const char *what, const void *at);
    /* A plan (out) for products of a shape, and how many bytes of workspace they
     * need (out), no more than those of the product.
     * Errors: UNSUPPORTED (types or shapes that are not multiplied), NO_MEMORY,
     * DEVICE. */
    symmcoll_status_t (*plan)(void *compute, const struct symc_product *product,
        void **plan, size_t *workspace);
    void (*forget)(void *compute, void *plan);
    /* Try a plan once, so that all is loaded that its products need, which may wait for
     * all that the device does; enqueuing them does not then.  tried (out): false where
     * there is no memory for that.  Errors: those of plan(). */
    symmcoll_status_t (*load)(void *compute, void *plan, bool *tried);
    /* Enqueue one on a stream of the caller's (NULL: the default one), in no operation.
     * Errors: DEVICE. */
    symmcoll_status_t (*multiply)(void *compute, void *plan,
        const struct symc_product_operands *operands, void *stream);
    /* Whether a stream (NULL: the default one) is being captured (out). */
    symmcoll_status_t (*ask_captured)(
        void *compute, void *stream, bool *captured);
};

#endif
