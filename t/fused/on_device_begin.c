/* SPDX-License-Identifier: BSD-3-Clause */
/* Runs before ranks that multiply with the stand-in for cuBLASLt. */
#include "t/fused/on_device.h"

#include <dlfcn.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>

#define CUBLASLT "libcublasLt.so.13"

void on_device_begin(const char *rows)
{
    const char *build = getenv("T_BUILDDIR");
    char path[PATH_MAX];

    device_begin();
    (void)snprintf(path, sizeof(path), "%s/t/blas/.libs/%s",
        build != NULL ? build : ".", CUBLASLT);
    setenv("SYMMCOLL_CUDA_CUBLASLT", path, 1);
    setenv("SYMMCOLL_FUSED_DEVICE_ROWS", rows, 1);
}

struct fake_cublaslt *on_device_cublaslt(void)
{
    void *library = dlopen(CUBLASLT, RTLD_NOW | RTLD_NOLOAD);

    return library != NULL ? dlsym(library, "fake_cublaslt") : NULL;
}
