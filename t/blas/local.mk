# SPDX-License-Identifier: BSD-3-Clause
program_tests += t/blas/abi.t t/blas/load.t
t_blas_abi_t_CPPFLAGS = $(AM_CPPFLAGS) $(CUDA_CPPFLAGS)
t_blas_load_t_SOURCES = t/blas/load.c lib/cuda/cublaslt/cublaslt.c lib/cuda/library.c
t_blas_load_t_LDFLAGS = $(AM_LDFLAGS) -Wl,--wrap=dlsym
EXTRA_t_blas_load_t_DEPENDENCIES = t/blas/stubs/libcublasLt.la

# Stand-ins for cuBLASLt: names alone, and over the stand-in for the driver, one
# that multiplies.
check_LTLIBRARIES += t/blas/stubs/libcublasLt.la
t_blas_stubs_libcublasLt_la_SOURCES = t/blas/stubs.c
t_blas_stubs_libcublasLt_la_LDFLAGS = $(stand_in_ldflags) -version-info 13:0:0
if WITH_CUDA
check_LTLIBRARIES += t/blas/libcublasLt.la
t_blas_libcublasLt_la_SOURCES = lib/base/float8.c lib/base/half.c \
    t/blas/fake_cublaslt.h t/blas/multiply.c t/blas/objects.c t/blas/objects.h \
    t/blas/stubs.c
t_blas_libcublasLt_la_CPPFLAGS = $(cuda_cppflags)
t_blas_libcublasLt_la_LDFLAGS = $(t_blas_stubs_libcublasLt_la_LDFLAGS)
t_blas_libcublasLt_la_LIBADD = t/cuda/fake/libcuda.la
device_tests += t/blas/matmul.t
t_cuda_libmembers_a_SOURCES += t/blas/product.c t/blas/product.h
t_blas_matmul_t_SOURCES = lib/cuda/cublaslt/cublaslt.c \
    lib/cuda/cublaslt/cublaslt_matmul.c lib/cuda/library.c t/blas/elements.h \
    t/blas/fake_cublaslt.h t/blas/matmul.c
t_blas_matmul_t_CPPFLAGS = $(cuda_cppflags)
EXTRA_t_blas_matmul_t_DEPENDENCIES = t/blas/libcublasLt.la
endif
