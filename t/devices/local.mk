# SPDX-License-Identifier: BSD-3-Clause
program_tests += t/devices/links.t t/devices/ras.t
other_scripts += t/devices/info.t

# Stand-ins for NVIDIA's driver and for NVML, under their names.
check_LTLIBRARIES += t/devices/libcuda.la t/devices/libnvidia-ml.la
t_devices_libcuda_la_SOURCES = t/devices/fake_driver.c
t_devices_libcuda_la_CFLAGS = $(AM_CFLAGS) -fvisibility=default
t_devices_libcuda_la_LDFLAGS = $(stand_in_ldflags) -version-info 1:0:0
t_devices_libnvidia_ml_la_SOURCES = t/devices/fake_nvml.c
t_devices_libnvidia_ml_la_CFLAGS = $(AM_CFLAGS) -fvisibility=default
t_devices_libnvidia_ml_la_LDFLAGS = $(stand_in_ldflags) -version-info 1:0:0
