/* SPDX-License-Identifier: BSD-3-Clause */
/* A device of the fake driver, for tests that call the driver directly. */
#ifndef T_CUDA_DEVICE_H
#define T_CUDA_DEVICE_H

#include "t/cuda/fake/fake.h"
#include "t/segment/child.h"
#include "t/tap.h"

/* Checks that a driver call returned the expected result, and prints both if
 * not. */
static inline int returned(CUresult result, CUresult expected)
{
    const char *found = NULL, *wanted = NULL;

    if (result == expected)
        return 1;
    (void)cuGetErrorName(result, &found);
    (void)cuGetErrorName(expected, &wanted);
    diag("expected %s (%d), found %s (%d)", wanted != NULL ? wanted : "?",
        (int)expected, found != NULL ? found : "?", (int)result);
    return 0;
}

static inline int good(CUresult result)
{
    return returned(result, CUDA_SUCCESS);
}

/* Initialises the driver with settings, and makes a device's primary context
 * current. */
static inline int open_device(const char *settings, int device)
{
    CUcontext context = NULL;

    return fake_configure(settings) && good(cuInit(0)) &&
           good(cuDevicePrimaryCtxRetain(&context, device)) &&
           good(cuCtxPushCurrent(context));
}

/* Releases the context of open_device(). Returns whether nothing remains. */
static inline int close_device(int device)
{
    CUcontext context = NULL;
    int left = 0;

    if (!good(cuCtxPopCurrent(&context)) ||
        !good(cuDevicePrimaryCtxRelease(device)))
        return 0;
    fake_finish();
    for (int i = 0; i < FAKE_OBJECTS; i++) {
        if (fake_live((enum fake_object)i) != 0)
            diag("%d objects of kind %d are left",
                fake_live((enum fake_object)i), i);
        left += fake_live((enum fake_object)i);
    }
    fake_reset();
    return left == 0;
}

/* Allocates zeroed device memory for n words. */
static inline CUdeviceptr make_words(size_t n)
{
    CUdeviceptr words = 0;

    if (!good(cuMemAlloc(&words, n * sizeof(uint32_t))) ||
        !good(cuMemsetD32Async(words, 0, n, CU_STREAM_LEGACY)) ||
        !good(cuStreamSynchronize(CU_STREAM_LEGACY)))
        return 0;
    return words;
}

/* Reads a word in device memory, which is host memory here, possibly mapped at
 * two addresses. */
static inline uint32_t word_at(CUdeviceptr words, size_t index)
{
    return ((const volatile uint32_t *)(uintptr_t)words)[index];
}

#endif
