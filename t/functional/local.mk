# SPDX-License-Identifier: BSD-3-Clause
program_tests += t/functional/adjoint.t t/functional/coalesced.t t/functional/copies.t \
    t/functional/exchange.t t/functional/forms.t t/functional/pending.t \
    t/functional/recording.t t/functional/rooted.t t/functional/shapes.t
t_libt_a_SOURCES += t/functional/made.h
if WITH_CUDA
device_tests += t/functional/device_streams.t t/functional/devices.t
t_cuda_libmembers_a_SOURCES += t/functional/on_device.c t/functional/on_device.h
endif
