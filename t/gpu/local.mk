# SPDX-License-Identifier: BSD-3-Clause

# Scripts that need no GPU.
rehearsal = t/gpu/rehearse.t
other_scripts += t/gpu/verdicts.t
EXTRA_DIST += t/gpu/README t/gpu/run

if WITH_CUDA
# Programs that need a GPU, started by t/gpu/run.
gpu_tests = t/gpu/collectives.t t/gpu/faults.t t/gpu/functional.t t/gpu/fused.t \
    t/gpu/fused_times.t t/gpu/kernels.t t/gpu/limits.t t/gpu/messages.t t/gpu/nccl.t \
    t/gpu/nccl_groups.t t/gpu/nccl_one.t t/gpu/own_memory.t t/gpu/process.t \
    t/gpu/products.t t/gpu/ratios.t t/gpu/reducer.t t/gpu/settings.t \
    t/gpu/symm_access.t t/gpu/symm_ops.t
t_gpu_fused_t_SOURCES = t/gpu/eighths.c t/gpu/eighths.h t/gpu/fused.c
t_gpu_kernels_t_SOURCES = t/gpu/device_kernels.c t/gpu/kernels.c t/gpu/kernels.h \
    t/gpu/machine.c t/gpu/repeated.c t/gpu/repeated.h
t_gpu_kernels_t_LDADD = t/kernels/libkernels.a t/gpu/libgpu.a libsymc_cuda.la \
    libsymc_image.la $(host_ldadd)
gpu_blas_tests = t/gpu/fused.t t/gpu/fused_times.t t/gpu/products.t
$(gpu_blas_tests): t/blas/libcublasLt.la
gpu_nccl_tests = t/gpu/nccl.t t/gpu/nccl_groups.t t/gpu/nccl_one.t
$(gpu_nccl_tests): t/nccl/libnccl.la
check_LIBRARIES += t/gpu/libgpu.a
t_gpu_libgpu_a_SOURCES = t/gpu/cublaslt.c t/gpu/cublaslt.h t/gpu/driver.c t/gpu/gpu.c \
    t/gpu/gpu.h t/gpu/ranks.h t/gpu/standing.h
t_gpu_libgpu_a_CPPFLAGS = $(cuda_cppflags)
t_cuda_libmembers_a_SOURCES += t/gpu/measure.c t/gpu/measure.h t/gpu/nccl_exchange.c \
    t/gpu/nccl_exchange.h

# A driver for the rehearsal, which has all kernels and runs them on the host.
check_LTLIBRARIES += t/gpu/rehearsal/libcuda.la
t_gpu_rehearsal_libcuda_la_SOURCES = $(t_cuda_fake_libcuda_la_SOURCES) lib/base/half.c \
    t/gpu/device_kernels.c t/gpu/kernels.h t/gpu/rehearsal.c t/kernels/engine.c \
    t/kernels/engine.h t/kernels/fiber.c t/kernels/fiber.h t/kernels/multicast.c \
    t/kernels/multicast.h
t_gpu_rehearsal_libcuda_la_CPPFLAGS = $(cuda_cppflags) -DT_GPU_BODIES
# ThreadSanitizer reports thread-local memory that the loader allocates late.
t_gpu_rehearsal_libcuda_la_CFLAGS = $(AM_CFLAGS) -ftls-model=initial-exec
t_gpu_rehearsal_libcuda_la_LDFLAGS = $(t_cuda_fake_libcuda_la_LDFLAGS)
endif
