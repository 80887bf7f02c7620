# SPDX-License-Identifier: BSD-3-Clause
program_tests += t/ddp/bucket.t t/ddp/buffers.t t/ddp/compress.t \
    t/ddp/compress_faults.t t/ddp/deaths.t t/ddp/forms.t t/ddp/hook_end.t t/ddp/hook_kinds.t t/ddp/hooks.t t/ddp/join.t t/ddp/memory.t t/ddp/move.t \
    t/ddp/mistakes.t t/ddp/options.t t/ddp/overlap.t t/ddp/powersgd.t t/ddp/ready_tensor.t t/ddp/reducer.t t/ddp/shard.t t/ddp/shared.t \
    t/ddp/static_graph.t t/ddp/stats.t t/ddp/tensor.t t/ddp/unused.t t/ddp/views.t \
    t/ddp/wide.t t/ddp/write_back.t
t_libt_a_SOURCES += t/ddp/model.c t/ddp/model.h
if WITH_CUDA
device_tests += t/ddp/device_buffers.t t/ddp/device_deaths.t t/ddp/device_faults.t t/ddp/device_graphs.t \
    t/ddp/device_join.t t/ddp/device_memory.t t/ddp/device_mistakes.t t/ddp/device_pieces.t t/ddp/device_shard.t t/ddp/device_streams.t \
    t/ddp/devices.t
t_cuda_libmembers_a_SOURCES += t/ddp/alone.h t/ddp/many.c t/ddp/many.h \
    t/ddp/on_device.c t/ddp/on_device.h t/ddp/twins.c t/ddp/twins.h
endif
