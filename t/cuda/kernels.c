/* SPDX-License-Identifier: BSD-3-Clause */
/* Declares kernels as lib/cuda/launch.c does; a missing one is not found at
 * load time. */
#include "t/cuda/kernels.h"
#include "t/cuda/fake/fake.h"
#include "t/kernels/engine.h"

#include "kernels/args.h"

#include <stdatomic.h>
#include <stddef.h>
#include <string.h>

#define KERNELS 128

/* The registered kernels. */
static struct {
    const char *name;
    fake_kernel_fn kernel;
    _Atomic int runs;
} kernels[KERNELS];
static int nkernels;

#define DECLARE_TYPE(name)                             \
    void symc_packets_##name(const void *args);        \
    void symc_one_shot_##name(const void *args);       \
    void symc_two_shot_##name(const void *args);       \
    void symc_reduce_scatter_##name(const void *args); \
    void symc_reduce_rows_##name(const void *args);

#define EACH(what)                                                       \
    what(u8) what(i8) what(i16) what(i32) what(i64) what(f16) what(bf16) \
        what(f32) what(f64) what(bool) what(u16) what(u32) what(u64)

#define DECLARE_MULTIMEM(name)                            \
    void symc_multimem_one_shot_##name(const void *args); \
    void symc_multimem_two_shot_##name(const void *args);

EACH(DECLARE_TYPE)
DECLARE_MULTIMEM(f16)
DECLARE_MULTIMEM(bf16)
DECLARE_MULTIMEM(f32)
void symc_multimem_all_gather(const void *args);
void symc_pull(const void *args);
void symc_exchange(const void *args);
void symc_plan(const void *args);
void symc_plan_run(const void *args);
void symc_push_rows(const void *args);
void symc_barrier(const void *args);
void symc_put_signal(const void *args);
void symc_wait_signal(const void *args);
void symc_signal_barrier(const void *args);
void symc_wait32(const void *args);
void symc_write32(const void *args);
void symc_fill32(const void *args);
void symc_nan_scan(const void *args);
void symc_convert_f32_f16(const void *args);
void symc_convert_f32_bf16(const void *args);
void symc_flatten(const void *args);
void symc_unflatten(const void *args);
void symc_convert_f16_f32(const void *args);
void symc_convert_bf16_f32(const void *args);

static void run(fake_kernel_fn kernel, const void *args, uint32_t blocks,
    uint32_t threads, uint64_t seed)
{
    const struct engine_launch launch = {kernel, args, blocks, threads};
    const struct engine_stream stream = {&launch, 1};

    for (int i = 0; i < nkernels; i++) {
        if (kernels[i].kernel == kernel)
            atomic_fetch_add(&kernels[i].runs, 1);
    }
    engine_run(&stream, 1, seed);
}

static void add(const char *name, fake_kernel_fn kernel, size_t args_nbytes)
{
    kernels[nkernels].name = name;
    kernels[nkernels++].kernel = kernel;
    fake_register_kernel(name, kernel, args_nbytes);
}

int kernels_runs(const char *name)
{
    for (int i = 0; i < nkernels; i++) {
        if (strcmp(kernels[i].name, name) == 0)
            return atomic_load(&kernels[i].runs);
    }
    return -1;
}

#define REGISTER(name, type) add(#name, name, sizeof(type))

#define REGISTER_TYPE(name)                                        \
    REGISTER(symc_packets_##name, struct symc_reduce_args);        \
    REGISTER(symc_one_shot_##name, struct symc_reduce_args);       \
    REGISTER(symc_two_shot_##name, struct symc_reduce_args);       \
    REGISTER(symc_reduce_scatter_##name, struct symc_reduce_args); \
    REGISTER(symc_reduce_rows_##name, struct symc_reduce_args);
#define REGISTER_MULTIMEM(name)                                       \
    REGISTER(symc_multimem_one_shot_##name, struct symc_reduce_args); \
    REGISTER(symc_multimem_two_shot_##name, struct symc_reduce_args);

void kernels_register(void)
{
    EACH(REGISTER_TYPE)
    REGISTER_MULTIMEM(f16)
    REGISTER_MULTIMEM(bf16)
    REGISTER_MULTIMEM(f32)
    REGISTER(symc_multimem_all_gather, struct symc_move_args);
    REGISTER(symc_pull, struct symc_move_args);
    REGISTER(symc_exchange, struct symc_exchange_args);
    REGISTER(symc_plan, struct symc_plan_args);
    REGISTER(symc_plan_run, struct symc_plan_run_args);
    REGISTER(symc_push_rows, struct symc_push_args);
    REGISTER(symc_barrier, struct symc_device_group);
    REGISTER(symc_put_signal, struct symc_signal_args);
    REGISTER(symc_wait_signal, struct symc_signal_args);
    REGISTER(symc_signal_barrier, struct symc_signal_args);
    REGISTER(symc_wait32, struct symc_wait_args);
    REGISTER(symc_write32, struct symc_fill_args);
    REGISTER(symc_fill32, struct symc_fill_args);
    REGISTER(symc_nan_scan, struct symc_nan_args);
    REGISTER(symc_convert_f32_f16, struct symc_convert_args);
    REGISTER(symc_convert_f32_bf16, struct symc_convert_args);
    REGISTER(symc_flatten, struct symc_bucket_args);
    REGISTER(symc_unflatten, struct symc_bucket_args);
    REGISTER(symc_convert_f16_f32, struct symc_convert_args);
    REGISTER(symc_convert_bf16_f32, struct symc_convert_args);
    fake_set_engine(run);
}
