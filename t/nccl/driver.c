/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Driver functions for the stand-in for NCCL, which is not linked with the
 * driver. NCCL is a program of the CUDA runtime: whatever context is current
 * it launches in the primary context of the communicator's device, and the
 * driver refuses a stream of another one.
 */
#include "t/nccl/comms.h"

#include <dlfcn.h>
#include <stdbool.h>
#include <string.h>

struct CUctx_st;

/* Returns whether the driver has a function; function (out) is the address of
 * a pointer. */
static bool find(const char *name, void *function)
{
    void *found = dlsym(RTLD_DEFAULT, name);
    void *driver =
        found != NULL ? NULL : dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);

    if (driver != NULL)
        found = dlsym(driver, name);
    memcpy(function, &found, sizeof(found));
    return found != NULL;
}

/* Returns the context of a stream; for a default stream the current one. */
static struct CUctx_st *context_of(struct CUstream_st *stream)
{
    int (*get)(struct CUstream_st * stream, struct CUctx_st * *context);
    struct CUctx_st *context = NULL;

    return find("cuStreamGetCtx", &get) && get(stream, &context) == 0 ? context
                                                                      : NULL;
}

static bool find_device(struct CUctx_st *context, int *device)
{
    int (*push)(struct CUctx_st * context);
    int (*pop)(struct CUctx_st * *context);
    int (*get)(int *device);
    bool found;

    if (!find("cuCtxPushCurrent_v2", &push) ||
        !find("cuCtxPopCurrent_v2", &pop) || !find("cuCtxGetDevice", &get) ||
        push(context) != 0)
        return false;
    found = get(device) == 0;
    (void)pop(&context);
    return found;
}

/* Returns whether a context is primary; true also if the driver does not
 * report it. */
static bool is_primary(struct CUctx_st *context)
{
    int (*retain)(struct CUctx_st * *context, int device);
    int (*release)(int device);
    struct CUctx_st *primary = NULL;
    int device;

    if (context == NULL || !find_device(context, &device) ||
        !find("cuDevicePrimaryCtxRetain", &retain) ||
        !find("cuDevicePrimaryCtxRelease_v2", &release) ||
        retain(&primary, device) != 0)
        return true;
    (void)release(device);
    return context == primary;
}

int fake_driver_launch(
    struct CUstream_st *stream, void (*call)(void *arg), void *arg)
{
    int (*launch)(struct CUstream_st * stream, void (*call)(void *), void *arg);

    if (!find("cuLaunchHostFunc", &launch))
        fake_nccl_die("there is no driver");
    return is_primary(context_of(stream)) && launch(stream, call, arg) == 0
               ? SYMC_NCCL_SUCCESS
               : SYMC_NCCL_CUDA_ERROR;
}
