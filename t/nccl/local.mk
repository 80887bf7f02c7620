# SPDX-License-Identifier: BSD-3-Clause
program_tests += t/nccl/abi.t t/nccl/comm.t t/nccl/load.t t/nccl/revoke.t \
    t/nccl/variables.t
t_nccl_abi_t_SOURCES = t/nccl/abi.c lib/cuda/library.c lib/cuda/nccl/nccl.c
t_nccl_abi_t_CPPFLAGS = $(AM_CPPFLAGS) $(CUDA_CPPFLAGS)
nccl_opened_sources = t/nccl/gathering.h t/nccl/opened.h lib/cuda/library.c \
    lib/cuda/nccl/nccl.c lib/cuda/nccl/nccl_calls.c lib/cuda/nccl/nccl_comm.c \
    lib/cuda/nccl/nccl_grouped.c lib/cuda/nccl/nccl_keeper.c
t_nccl_comm_t_SOURCES = t/nccl/comm.c $(nccl_opened_sources)
t_nccl_revoke_t_SOURCES = t/nccl/revoke.c $(nccl_opened_sources)
t_nccl_load_t_SOURCES = t/nccl/load.c lib/cuda/library.c lib/cuda/nccl/nccl.c \
    lib/cuda/nccl/nccl_grouped.c
t_nccl_load_t_LDFLAGS = $(AM_LDFLAGS) -Wl,--wrap=dlsym
t_nccl_variables_t_SOURCES = t/nccl/variables.c lib/cuda/nccl/nccl_variables.c
t_nccl_variables_t_LDFLAGS = $(AM_LDFLAGS) -Wl,--wrap=open -Wl,--wrap=open64 \
    -Wl,--wrap=getpwuid_r
EXTRA_t_nccl_comm_t_DEPENDENCIES = t/nccl/libnccl.la
EXTRA_t_nccl_load_t_DEPENDENCIES = t/nccl/libnccl.la t/nccl/old/libnccl.la
EXTRA_t_nccl_revoke_t_DEPENDENCIES = t/nccl/libnccl.la
t_libt_a_SOURCES += t/nccl/by.h t/nccl/exchanged.h t/nccl/lost.h t/nccl/named.h \
    t/nccl/windowed.h

# Stand-ins for NCCL: as it is, and two that lack functions.
check_LTLIBRARIES += t/nccl/libnccl.la t/nccl/few/libnccl.la t/nccl/old/libnccl.la
t_nccl_libnccl_la_SOURCES = lib/base/half.c t/base/reference.c t/base/reference.h \
    t/nccl/cliques.c t/nccl/collectives.c t/nccl/comms.c t/nccl/comms.h \
    t/nccl/driver.c t/nccl/fake_nccl.h t/nccl/messages.c t/nccl/registered.c \
    t/nccl/splits.c t/nccl/stubs.c t/nccl/version.c
t_nccl_libnccl_la_CPPFLAGS = $(AM_CPPFLAGS)
t_nccl_libnccl_la_LDFLAGS = $(stand_in_ldflags) -version-info 2:0:0
t_nccl_few_libnccl_la_SOURCES = $(t_nccl_libnccl_la_SOURCES)
t_nccl_few_libnccl_la_CPPFLAGS = $(AM_CPPFLAGS) -DNCCL_FEW
t_nccl_few_libnccl_la_LDFLAGS = $(t_nccl_libnccl_la_LDFLAGS)
t_nccl_old_libnccl_la_SOURCES = t/nccl/stubs.c t/nccl/version.c
t_nccl_old_libnccl_la_CPPFLAGS = $(AM_CPPFLAGS) -DNCCL_OLD
t_nccl_old_libnccl_la_LDFLAGS = $(t_nccl_libnccl_la_LDFLAGS)

if WITH_CUDA
nccl_device_tests = t/nccl/config.t t/nccl/contexts.t t/nccl/exchange.t \
    t/nccl/grouped.t t/nccl/large.t t/nccl/own.t t/nccl/ras.t t/nccl/shrink.t \
    t/nccl/split.t t/nccl/sums.t t/nccl/windows.t
device_tests += $(nccl_device_tests)
$(nccl_device_tests): t/nccl/libnccl.la t/nccl/few/libnccl.la
EXTRA_t_nccl_exchange_faults_t_DEPENDENCIES = t/nccl/libnccl.la
endif
