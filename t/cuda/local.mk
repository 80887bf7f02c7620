# SPDX-License-Identifier: BSD-3-Clause
other_scripts += t/cuda/module.t

if WITH_CUDA
# A CUDA driver on the host, under the name of the real one.
check_LTLIBRARIES += t/cuda/fake/libcuda.la
t_cuda_fake_libcuda_la_SOURCES = t/cuda/fake/address.c t/cuda/fake/between.c \
    t/cuda/fake/capture.c t/cuda/fake/context.c t/cuda/fake/control.c \
    t/cuda/fake/device.c t/cuda/fake/entries.c t/cuda/fake/event.c t/cuda/fake/fake.h \
    t/cuda/fake/files.c t/cuda/fake/handle.c t/cuda/fake/launch.c t/cuda/fake/memory.c \
    t/cuda/fake/multicast.c t/cuda/fake/mutate.c t/cuda/fake/order.c \
    t/cuda/fake/order.h t/cuda/fake/physical.c t/cuda/fake/physical.h \
    t/cuda/fake/pool.c t/cuda/fake/queue.c t/cuda/fake/run.c t/cuda/fake/state.h \
    t/cuda/fake/stream.c
t_cuda_fake_libcuda_la_CPPFLAGS = $(cuda_cppflags)
t_cuda_fake_libcuda_la_LDFLAGS = $(stand_in_ldflags) -version-info 1:0:0

# The same with kernels, for programs that are linked with neither.
check_LTLIBRARIES += t/cuda/whole/libcuda.la
t_cuda_whole_libcuda_la_SOURCES = $(t_cuda_fake_libcuda_la_SOURCES) lib/base/half.c \
    t/cuda/kernels.c t/cuda/kernels.h t/cuda/whole.c t/kernels/device_host.h \
    t/kernels/engine.c t/kernels/engine.h t/kernels/fiber.c t/kernels/fiber.h \
    t/kernels/kernels.c t/kernels/multicast.c t/kernels/multicast.h
t_cuda_whole_libcuda_la_CPPFLAGS = $(cuda_cppflags)
t_cuda_whole_libcuda_la_LDFLAGS = $(t_cuda_fake_libcuda_la_LDFLAGS)

# The engine of the module in a module of its own, none of it in the program.
check_LTLIBRARIES += t/cuda/finding.la
t_cuda_finding_la_SOURCES = t/cuda/finding.c t/cuda/finding.h t/cuda/image.c
t_cuda_finding_la_CPPFLAGS = $(cuda_cppflags)
t_cuda_finding_la_LDFLAGS = $(fake_module_ldflags) \
    -Wl,--wrap=dl_iterate_phdr -Wl,--wrap=dlopen
t_cuda_finding_la_LIBADD = libsymc_cuda.la

# The module with kernels that the engine runs on the host, of the program, in
# place of code for devices.
check_LTLIBRARIES += t/cuda/symmcoll_cuda.la
t_cuda_symmcoll_cuda_la_SOURCES = t/cuda/image.c
t_cuda_symmcoll_cuda_la_LDFLAGS = $(fake_module_ldflags)
t_cuda_symmcoll_cuda_la_LIBADD = libsymc_cuda.la

# Programs over the driver alone, and without a driver.
driver_tests = t/cuda/context.t t/cuda/driver.t t/cuda/fake_capture.t \
    t/cuda/fake_handles.t t/cuda/fake_kernels.t t/cuda/fake_memory.t \
    t/cuda/fake_streams.t
t_cuda_fake_kernels_t_LDADD = t/kernels/libkernels.a $(LDADD)
program_tests += t/cuda/absent.t t/cuda/find.t t/cuda/no_devices.t
t_cuda_absent_t_LDADD = libsymc_cuda.la $(LDADD)
t_cuda_find_t_LDADD = libsymc_cuda.la $(LDADD)
EXTRA_t_cuda_absent_t_DEPENDENCIES = t/cuda/fake/libcuda.la
EXTRA_t_cuda_find_t_DEPENDENCIES = t/cuda/fake/libcuda.la t/cuda/finding.la \
    t/backend/symmcoll_fake_module.la
EXTRA_t_cuda_no_devices_t_DEPENDENCIES = symmcoll_cuda.la

# Programs over the module.
device_tests += t/cuda/any_thread.t t/cuda/default_streams.t t/cuda/device_faults.t \
    t/cuda/exchange_faults.t t/cuda/exchanges.t t/cuda/first_uses.t \
    t/cuda/full_queue.t t/cuda/graphs.t t/cuda/halfway.t t/cuda/importing.t \
    t/cuda/joining.t t/cuda/joining_faults.t t/cuda/late.t t/cuda/memories.t \
    t/cuda/message_faults.t t/cuda/messages.t t/cuda/multicast.t t/cuda/named.t \
    t/cuda/nans.t t/cuda/neighbours.t t/cuda/opening.t t/cuda/operations.t \
    t/cuda/own_context.t t/cuda/releasing.t t/cuda/settings.t t/cuda/several.t \
    t/cuda/several_faults.t t/cuda/sharing.t t/cuda/sites.t t/cuda/standing.t \
    t/cuda/streams.t t/cuda/timing.t t/cuda/unserved.t t/cuda/waits.t \
    t/cuda/watching.t
t_libt_a_SOURCES += t/cuda/alike.h t/cuda/device.h t/cuda/later.h t/cuda/loading.h \
    t/cuda/loaded.h t/cuda/mapped.h t/cuda/sums.h
check_LIBRARIES += t/cuda/libmembers.a
t_cuda_libmembers_a_SOURCES += t/cuda/begin.c t/cuda/collective.c t/cuda/every.c \
    t/cuda/every.h t/cuda/every_graph.c t/cuda/joined.c t/cuda/joined.h \
    t/cuda/kernels.c t/cuda/kernels.h t/cuda/members.c t/cuda/members.h \
    t/cuda/message.c t/cuda/message.h t/cuda/searched.c t/cuda/searched.h \
    t/cuda/unlike.c t/cuda/unlike.h
t_cuda_libmembers_a_CPPFLAGS = $(cuda_cppflags)
endif
