/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The CUDA context in which a group calls the driver, from any thread.
 */
#ifndef SYMC_CUDA_CONTEXT_H
#define SYMC_CUDA_CONTEXT_H

#include "cuda/driver.h"

struct symc_cuda_context {
    const struct symc_cuda *cuda;
    CUcontext context;
    CUdevice device;
    bool retained; /* it is the primary context, and we hold one use of it */
};

/* The calling thread's state before symc_cuda_enter(). */
struct symc_cuda_entered {
    const struct symc_cuda_context *in; /* NULL: not entered */
    CUstreamCaptureMode mode;
};

/*
 * Opens a context of a device: the first of that device among wanted (may be NULL), the
 * calling thread's current context, and the device's primary context, which the CUDA
 * runtime uses.  cuda is borrowed until symc_cuda_context_close().
 * Errors: those of symc_cuda_fail(); INVALID (no such device; the detail says how many
 * there are).
 */
symmcoll_status_t symc_cuda_context_open(const struct symc_cuda *cuda,
    symc_cuda_fail_fn fail, int device, CUcontext wanted,
    struct symc_cuda_context *context);

/* Returns the context of an operation: the stream's, or, for a default stream, the
 * buffer's.  NULL if the driver names none.  Needs no current context. */
CUcontext symc_cuda_context_find(
    const struct symc_cuda *cuda, CUstream stream, const void *buffer);

/* Returns whether a buffer may be used in a context; true if its owner is unknown. */
bool symc_cuda_context_has(
    const struct symc_cuda_context *context, const void *buffer);

/* Returns whether symc_cuda_context_open() on this device would choose this context. */
bool symc_cuda_context_is_chosen(
    const struct symc_cuda_context *context, CUcontext wanted);

/* Copies a context; if it is the primary one, the copy holds its own use of it. */
CUresult symc_cuda_context_copy(
    const struct symc_cuda_context *context, struct symc_cuda_context *copy);

/* Releases a context.  Does nothing if it is zero or already closed. */
void symc_cuda_context_close(struct symc_cuda_context *context);

/*
 * Makes a context the calling thread's current one until symc_cuda_leave(), and keeps
 * the thread's calls from disturbing captures on other streams.  Pairs may nest.
 * Errors: the call that failed; then there is nothing to leave.
 */
struct symc_cuda_called symc_cuda_enter(
    const struct symc_cuda_context *context, struct symc_cuda_entered *entered);

/* symc_cuda_enter() with an error detail.  Errors: those of symc_cuda_fail(). */
symmcoll_status_t symc_cuda_enter_or_fail(
    const struct symc_cuda_context *context, symc_cuda_fail_fn fail,
    struct symc_cuda_entered *entered);
void symc_cuda_leave(struct symc_cuda_entered *entered);

/* Returns whether work of the context can use memory that was allocated in another one
 * (owner; NULL: in none).  Managed memory and memory of a pool can be used in any. */
bool symc_cuda_context_reaches(
    const struct symc_cuda_context *context, CUcontext owner, const void *at);
/* Fails because memory of another context cannot be reached.
 * where, what: "send", "the buffer".  Returns INVALID. */
symmcoll_status_t symc_cuda_refuse_reach(
    const struct symc_cuda_context *context, symc_cuda_fail_fn fail,
    const char *where, const char *what, CUcontext owner, const void *at);
/* Checks that the context can use the memory at an address; looks up its owner.
 * Errors: INVALID, with the detail of symc_cuda_refuse_reach(). */
symmcoll_status_t symc_cuda_check_reach(const struct symc_cuda_context *context,
    symc_cuda_fail_fn fail, const char *where, const char *what,
    const void *at);

/*
 * Checks that a caller's stream belongs to this context.  NULL and the default streams
 * pass: they belong to the current context.
 * Errors: INVALID (the detail names the stream's device), those of symc_cuda_fail().
 */
symmcoll_status_t symc_cuda_check_stream(
    const struct symc_cuda_context *context, symc_cuda_fail_fn fail,
    CUstream stream, const char *where);

/* Returns whether a stream of any context is being captured; false for a default stream
 * and if the driver cannot say. */
bool symc_cuda_stream_is_captured(void *stream);

/* Reads whether a stream of the context is being captured (out).  Errors: those of
 * symc_cuda_fail(). */
symmcoll_status_t symc_cuda_context_query_captured(
    const struct symc_cuda_context *context, symc_cuda_fail_fn fail,
    CUstream stream, bool *captured);

#endif
