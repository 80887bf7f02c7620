# SPDX-License-Identifier: BSD-3-Clause
program_tests += t/fused/apart.t t/fused/async_input.t t/fused/block_scales.t \
    t/fused/blocks.t t/fused/faults.t t/fused/gather.t t/fused/kernel.t \
    t/fused/layout.t t/fused/local.t t/fused/nan.t t/fused/poor.t t/fused/scaled.t \
    t/fused/scales.t t/fused/scatter.t t/fused/symmetric.t t/fused/threads.t
t_libt_a_SOURCES += t/fused/eighths.c t/fused/eighths.h t/fused/gathered.c \
    t/fused/gathered.h t/fused/made.c t/fused/made.h t/fused/scattered.c \
    t/fused/scattered.h
t_fused_poor_t_LDFLAGS = $(AM_LDFLAGS) -Wl,--wrap=symmcoll_symm_alloc \
    -Wl,--wrap=symc_alloc -Wl,--wrap=symc_thread_start

# A BLAS that is built as two, for the choice among those that are installed.
if HAVE_CBLAS
check_LTLIBRARIES += t/fused/fakes/libopenblas.la t/fused/fakes/libblis.la
t_fused_fakes_libopenblas_la_SOURCES = t/fused/fakes/blas.c
t_fused_fakes_libopenblas_la_CPPFLAGS = $(AM_CPPFLAGS) -DNUMBER=4
t_fused_fakes_libopenblas_la_LDFLAGS = $(AM_LDFLAGS) -shared -rpath /nowhere \
    -version-info 0:0:0
t_fused_fakes_libblis_la_SOURCES = t/fused/fakes/blas.c
t_fused_fakes_libblis_la_CPPFLAGS = $(AM_CPPFLAGS) -DNUMBER=5
t_fused_fakes_libblis_la_LDFLAGS = $(AM_LDFLAGS) -shared -rpath /nowhere \
    -version-info 4:0:0
program_tests += t/fused/choice.t
EXTRA_t_fused_choice_t_DEPENDENCIES = t/fused/fakes/libopenblas.la \
    t/fused/fakes/libblis.la
endif

if WITH_CUDA
fused_device_tests = t/fused/device_async.t t/fused/device_contexts.t \
    t/fused/device_destroyed.t t/fused/device_driver.t t/fused/device_enqueue.t \
    t/fused/device_faults.t t/fused/device_gather.t t/fused/device_memory.t \
    t/fused/device_mutants.t t/fused/device_order.t t/fused/device_refused.t \
    t/fused/device_scatter.t t/fused/device_streams.t
device_tests += $(fused_device_tests)
$(fused_device_tests): t/blas/libcublasLt.la
EXTRA_t_fused_device_scaled_t_DEPENDENCIES = t/blas/libcublasLt.la
t_cuda_libmembers_a_SOURCES += t/fused/async_on_device.c t/fused/async_on_device.h \
    t/fused/device_calls.c t/fused/device_calls.h t/fused/eighths_on_device.c \
    t/fused/eighths_on_device.h t/fused/on_device.c t/fused/on_device.h \
    t/fused/on_device_begin.c
endif
