/* SPDX-License-Identifier: BSD-3-Clause */
/* Compiled twice: with T_GPU_BODIES it contains the kernels. */
#include "kernels/device.h"
#include "t/gpu/kernels.h"

#include <stdint.h>
#include <stdlib.h>

#ifdef T_GPU_BODIES
#define BODY(type, body) body((const type *)args)
#else
#define BODY(type, body) \
    (void)args;          \
    abort() /* a device runs it */
#endif

#undef KERNEL
#define KERNEL(NAME, type, body)                                            \
    void NAME(const void *args);                                            \
    void NAME(const void *args)                                             \
    {                                                                       \
        BODY(type, body);                                                   \
    }                                                                       \
    static const struct gpu_kernel of_##NAME = {NAME, #NAME, sizeof(type)}; \
    static const struct gpu_kernel *const entry_##NAME                      \
        __attribute__((section("gpu_kernels"), used)) = &of_##NAME;

#include "t/kernels/kernels.c" /* NOLINT(bugprone-suspicious-include) */

/* The ends of the section, defined by the linker. */
#define OF_LINKER __attribute__((visibility("hidden")))
extern const struct gpu_kernel *const __start_gpu_kernels[] OF_LINKER;
extern const struct gpu_kernel *const __stop_gpu_kernels[] OF_LINKER;

const struct gpu_kernel *gpu_kernel(int number)
{
    const size_t n =
        ((uintptr_t)__stop_gpu_kernels - (uintptr_t)__start_gpu_kernels) /
        sizeof(__start_gpu_kernels[0]);

    return (size_t)number < n ? __start_gpu_kernels[number] : NULL;
}
