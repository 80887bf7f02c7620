/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The context of a device in which a group's calls of the driver are made, from
 * whatever thread.
 */
#ifndef SYMC_CUDA_CONTEXT_H
#define SYMC_CUDA_CONTEXT_H

#include "cuda/driver.h"

struct symc_cuda_context {
    const struct symc_cuda *cuda;
    CUcontext context;
    CUdevice device;
    bool retained; /* the device's primary context, and one use of it is ours */
};

/* What a thread had before symc_cuda_enter(). */
struct symc_cuda_entered {
    const struct symc_cuda_context *in; /* NULL: not entered */
    CUstreamCaptureMode mode;
};

/*
 * The context for a device: the first one of that device among wanted, which may be
 * NULL, the calling thread's current one, and the device's primary one, which is the
 * CUDA runtime's.  cuda is borrowed until symc_cuda_context_close().
 * Errors: those of symc_cuda_fail(); INVALID (no such device, with how many there
 * are).
 */
symmcoll_status_t symc_cuda_context_open(const struct symc_cuda *cuda,
    symc_cuda_fail_fn fail, int device, CUcontext wanted,
    struct symc_cuda_context *context);

/* The context that an operation is in, from whatever thread it is asked: that of its
 * stream, or, of a default one, that of a buffer.  NULL: the driver says none. */
CUcontext symc_cuda_context_find(
    const struct symc_cuda *cuda, CUstream stream, const void *buffer);

/* Whether a buffer may be used in a context, as far as the driver says where it is. */
bool symc_cuda_context_has(
    const struct symc_cuda_context *context, const void *buffer);

/* Whether symc_cuda_context_open() would choose this one, of its device. */
bool symc_cuda_context_is_chosen(
    const struct symc_cuda_context *context, CUcontext wanted);

/* The same one again, with a use of its own. */
CUresult symc_cuda_context_copy(
    const struct symc_cuda_context *context, struct symc_cuda_context *copy);

/* Nothing if it is zero, or was closed before. */
void symc_cuda_context_close(struct symc_cuda_context *context);

/*
 * Make it the calling thread's current context, until symc_cuda_leave(); and let
 * this thread's calls not disturb a capture that other streams have begun.  One
 * inside the other is allowed.
 * Errors: the call that failed; then there is nothing to leave.
 */
struct symc_cuda_called symc_cuda_enter(
    const struct symc_cuda_context *context, struct symc_cuda_entered *entered);

/* The same with a detail, of the calls of one group or rank.  Errors: those of
 * symc_cuda_fail(). */
symmcoll_status_t symc_cuda_enter_or_fail(
    const struct symc_cuda_context *context, symc_cuda_fail_fn fail,
    struct symc_cuda_entered *entered);
void symc_cuda_leave(struct symc_cuda_entered *entered);

/* Whether work of the context reaches memory that was allocated in another one (owner;
 * NULL: in none): what is of a pool, or managed, that of all does. */
bool symc_cuda_context_reaches(
    const struct symc_cuda_context *context, CUcontext owner, const void *at);
/* The error where it does not; and the check of memory of the context's device, whose owner
 * is asked for.  where, what: "send", "the buffer".  Errors: INVALID. */
symmcoll_status_t symc_cuda_refuse_reach(
    const struct symc_cuda_context *context, symc_cuda_fail_fn fail,
    const char *where, const char *what, CUcontext owner, const void *at);
symmcoll_status_t symc_cuda_check_reach(const struct symc_cuda_context *context,
    symc_cuda_fail_fn fail, const char *where, const char *what,
    const void *at);

/*
 * Whether a caller's stream is one of this context; NULL and the default streams
 * are of whatever context is current.
 * Errors: INVALID (where: of which device and context it is), those of
 * symc_cuda_fail().
 */
symmcoll_status_t symc_cuda_check_stream(
    const struct symc_cuda_context *context, symc_cuda_fail_fn fail,
    CUstream stream, const char *where);

/* Whether a stream of whatever context is being captured; false where the driver
 * does not say, or there is none. */
bool symc_cuda_stream_is_captured(void *stream);

/* Whether a stream of a context is being captured (out).  Errors: those of
 * symc_cuda_fail(). */
symmcoll_status_t symc_cuda_context_ask_captured(
    const struct symc_cuda_context *context, symc_cuda_fail_fn fail,
    CUstream stream, bool *captured);

#endif
