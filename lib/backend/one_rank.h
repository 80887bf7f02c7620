/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The functions of a backend of devices for one rank, without a group: memory,
 * copies, sums and times in the order of a stream, copies of messages, and
 * products of matrices.
 */
#ifndef SYMC_BACKEND_ONE_RANK_H
#define SYMC_BACKEND_ONE_RANK_H

#include "base/base.h"
#include "base/conversion.h"
#include "base/product.h"

struct symc_memory_request;

#define SYMC_STRIDED_DIMS 9 /* of a tensor, and one dimension split in two */

/* Elements that become contiguous, in row-major order.  Strides are in
 * elements. */
struct symc_strided {
    void *out;
    const void *in;
    size_t elem; /* bytes */
    int ndim;
    const int64_t *shape, *strides;
    bool spread; /* the reverse: in is contiguous, the strides are out's */
};

/* out = factor * in[0] + factor * in[1], as by symc_reduce(), for a type with
 * averages; out may be one of them.  One source with factor 1 is a copy. */
struct symc_local_sum {
    enum symmcoll_dtype dtype;
    size_t elem; /* bytes */
    void *out;
    const void *in[2];
    int n; /* sources, 1 or 2 */
    size_t count;
    double factor;
};

/* Bytes of a buffer, and the separate place of those bytes. */
struct symc_local_piece {
    void *at;
    size_t offset; /* in the buffer */
    size_t nbytes;
};

/* Pieces that are copied to their buffer, by ascending offset, without
 * overlap. */
struct symc_local_pieces {
    void *buffer;
    const struct symc_local_piece *pieces;
    size_t n;
    bool spread; /* the reverse: from the buffer */
};

/*
 * Functions for one rank on a device, without a group: memory that no other
 * rank maps, and copies.  They enqueue on a caller's stream (NULL: the device's
 * default one) and do not wait.  Any thread may call them at any time.
 */
struct symc_local_ops {
    /* Opens a device (out), until close().  Reads fail, device, sums and the
     * context of the request.  Errors: UNSUPPORTED (no driver), INVALID (no
     * such device), DEVICE. */
    symmcoll_status_t (*open)(
        const struct symc_memory_request *request, void **local);
    void (*close)(void *local);
    /* Returns whether open() of another request for the same device would have
     * the same result.  Reads the context of the request. */
    bool (*serves)(
        const void *local, const struct symc_memory_request *request);
    /* Allocates memory (out), uninitialised, for later work of the stream.
     * Errors: NO_MEMORY, UNSUPPORTED (the stream is captured), INVALID (it is
     * of another context), DEVICE. */
    symmcoll_status_t (*allocate)(
        void *local, void *stream, size_t nbytes, void **at);
    /* Frees memory after the stream's earlier work. */
    symmcoll_status_t (*free)(void *local, void *stream, void *at);
    symmcoll_status_t (*copy)(
        void *local, void *stream, const struct symc_strided *copy);
    symmcoll_status_t (*clear)(
        void *local, void *stream, void *at, size_t nbytes);
    symmcoll_status_t (*move)(
        void *local, void *stream, const struct symc_local_pieces *pieces);
    /* Addresses are multiples of the size of a type's parts. */
    symmcoll_status_t (*add)(
        void *local, void *stream, const struct symc_local_sum *sum);
    /* As symc_convert(); addresses are multiples of the size of elements. */
    symmcoll_status_t (*convert)(
        void *local, void *stream, const struct symc_conversion *conversion);
    /* Orders the stream's later work after the earlier work of another
     * stream. */
    symmcoll_status_t (*follow)(void *local, void *stream, void *other);
    /* Returns IN_PROGRESS if the stream has work left. */
    symmcoll_status_t (*query)(void *local, void *stream);
    /* Returns in captured whether the stream is being captured. */
    symmcoll_status_t (*query_captured)(
        void *local, void *stream, bool *captured);
    /* Marks the stream's position (out), to measure time from or to; NULL: it
     * is captured. */
    symmcoll_status_t (*mark)(void *local, void *stream, void **mark);
    /* Measures the device's time from one mark to another (out).  Returns
     * IN_PROGRESS until the later one has been reached. */
    symmcoll_status_t (*elapsed)(
        void *local, void *from, void *to, int64_t *ns);
    void (*unmark)(void *local, void *mark);
};

#define SYMC_STAGING_HANDLE 64 /* bytes */

/* Memory of a device that its owner has made readable for other ranks.  Travels
 * between ranks. */
struct symc_staging {
    unsigned char handle[SYMC_STAGING_HANDLE]; /* for other ranks; opaque */
    uint64_t at;                               /* its owner's address */
};

/*
 * Functions that copy messages between the devices of two ranks, for one of
 * them: the sender into its own staging, the receiver from it.  Copies are on a
 * stream of the backend, whose earlier work never waits for anything else.  One
 * thread calls reach(), copy() and reached(); any thread may call the others
 * concurrently.
 */
struct symc_transfer_ops {
    /* Opens a device (out), until close().  Reads fail, device and the context
     * of the request.  Errors: UNSUPPORTED (no driver), INVALID (no such
     * device), NO_MEMORY, DEVICE. */
    symmcoll_status_t (*open)(
        const struct symc_memory_request *request, void **transfer);
    /* Unmaps other ranks' staging.  All copies have ended. */
    void (*leave)(void *transfer);
    /* Closes it after leave(). keep: other ranks may still use this rank's
     * staging, which then stays as long as its context. */
    void (*close)(void *transfer, bool keep);
    /* As serves() in struct symc_local_ops. */
    bool (*serves)(
        const void *transfer, const struct symc_memory_request *request);
    /* Returns this rank's staging (out), until close(), with the size of the
     * first call.  It may wait for work on the device; any thread may call it
     * at any time.  Errors: NO_MEMORY, UNSUPPORTED (others cannot read it),
     * DEVICE. */
    symmcoll_status_t (*stage)(
        void *transfer, size_t nbytes, struct symc_staging *staging);
    /* Maps another rank's staging at an address (out), until close(). threads:
     * that rank is in this process.  Errors: NO_MEMORY, UNSUPPORTED, DEVICE. */
    symmcoll_status_t (*reach)(void *transfer,
        const struct symc_staging *staging, bool threads, void **at);
    /* Marks the position of a caller's stream (out; NULL: the device's default
     * one).  Errors: INVALID (it is captured, or of another context),
     * NO_MEMORY, DEVICE. */
    symmcoll_status_t (*mark)(void *transfer, void *stream, void **mark);
    /* Begins a copy; mark (out) is its end. */
    symmcoll_status_t (*copy)(
        void *transfer, void *to, const void *from, size_t nbytes, void **mark);
    /* Returns IN_PROGRESS if the device has not reached the mark yet. */
    symmcoll_status_t (*reached)(void *transfer, void *mark);
    void (*unmark)(void *transfer, void *mark);
};

/*
 * Products of matrices on a device, which movers enqueue.  Calls with one
 * result of open() are made one at a time, including those that enqueue.
 */
struct symc_compute_ops {
    /* Opens the products of a device (out), until close().  Reads settings,
     * fail, device and the context of the request.  Errors: UNSUPPORTED (no
     * driver; no library, with the reason), INVALID (no such device),
     * NO_MEMORY, DEVICE. */
    symmcoll_status_t (*open)(
        const struct symc_memory_request *request, void **compute);
    /* As serves() in struct symc_local_ops. */
    bool (*serves)(
        const void *compute, const struct symc_memory_request *request);
    /* Closes it.  Enqueued products may still run; plans are forgotten
     * before. */
    void (*close)(void *compute);
    /* Checks that products can access an address of device memory, which
     * another part of the program may have made private; where and what are for
     * the message.  Errors: INVALID. */
    symmcoll_status_t (*reach)(
        void *compute, const char *where, const char *what, const void *at);
    /* Makes a plan (out) for products of a shape, and returns the workspace
     * that they need (out), in bytes, no more than the product's.  Errors:
     * UNSUPPORTED (types or shapes), NO_MEMORY, DEVICE. */
    symmcoll_status_t (*plan)(void *compute, const struct symc_product *product,
        void **plan, size_t *workspace);
    void (*forget)(void *compute, void *plan);
    /* Runs a plan once, so that everything that its products need is loaded,
     * which may wait for all work of the device; enqueuing them later does not.
     * tried (out): false if there is no memory for that.  Errors: those of
     * plan(). */
    symmcoll_status_t (*load)(void *compute, void *plan, bool *tried);
    /* Enqueues a product on a caller's stream (NULL: the default one), outside
     * an operation.  Errors: DEVICE. */
    symmcoll_status_t (*multiply)(void *compute, void *plan,
        const struct symc_product_operands *operands, void *stream);
    /* Returns in captured whether a stream (NULL: the default one) is being
     * captured. */
    symmcoll_status_t (*query_captured)(
        void *compute, void *stream, bool *captured);
};

#endif
