/* SPDX-License-Identifier: BSD-3-Clause */
#include "t/gpu/eighths.h"
#include "t/fused/eighths_on_device.h"
#include "t/gpu/gpu.h"
#include "t/gpu/ranks.h"

#define EIGHTHS_ERROR 0x1p-13 /* of each sum: devices have them in 14 bits */

static int repeated;
static bool lines; /* scales are of rows and columns; or one of each matrix */

static int capability(void)
{
    const struct symc_cuda *cuda = gpu_open();
    int major = 0, minor = 0;

    GPU_CHECK(cuda->device_get_attribute(
        &major, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, 0));
    GPU_CHECK(cuda->device_get_attribute(
        &minor, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, 0));
    return major * 10 + minor;
}

static int has_eighths(void)
{
    return capability() >= 89;
}

/* Returns whether cuBLASLt supports scales of lines on the device. */
static int has_lines(void)
{
    return capability() / 10 == 9;
}

static int each_eighth(struct symmcoll_group *group, int rank)
{
    static const enum symmcoll_dtype types[][2] = {
        {SYMMCOLL_FLOAT8_E4M3FN, SYMMCOLL_FLOAT8_E4M3FN},
        {SYMMCOLL_FLOAT8_E5M2, SYMMCOLL_FLOAT8_E4M3FN},
        {SYMMCOLL_FLOAT8_E4M3FN, SYMMCOLL_FLOAT8_E5M2}};
    int right = 1;

    for (int i = 0; i < 6 && right; i++) {
        int64_t depth = 16 * gpu_choose(8, 1, 1);
        struct eighths test = {.a_dtype = types[i / 2][0],
            .b_dtype = types[i / 2][1],
            .ndim = 3,
            .shape = {3, gpu_choose(43, 3, 3), depth},
            .dim = i % 2,
            .order = (enum made_order)(i % 3),
            .mode = lines ? ROWS : ONE_SCALE,
            .kind = lines ? i / 2 * 2 + 1 : i / 2 * 2,
            .n = 1,
            .op = i % 2 == 0 ? SYMMCOLL_SUM : SYMMCOLL_AVG,
            .of_devices = true,
            .repeated = repeated,
            .inexact = (double)(depth + 1) * EIGHTHS_ERROR};

        right = eighths_gather_on_device(group, rank, &test);
        for (; right && test.dim < 3; test.dim += 2 - i % 2)
            right = eighths_scatter_on_device(group, rank, &test);
    }
    return right;
}

static int eighths(struct symmcoll_group *group, int rank)
{
    int right = 1;

    for (int plain = 0; plain < 2 && right; plain++)
        right = OK(symmcoll_fused_set_plain(group, plain)) &&
                each_eighth(group, rank);
    return right;
}

void gpu_test_eighths(int n)
{
    repeated = gpu_choose(50, 2, 2);
    lines = false;
    if (process_run(has_eighths))
        ok(threads_run(n, eighths),
            "8-bit floats with one scale of each matrix, %d times with the same "
            "bits (%d threads)",
            repeated, n);
    else
        skip(1, "a device of a compute capability below 8.9");
    lines = true;
    if (process_run(has_lines))
        ok(threads_run(n, eighths),
            "8-bit floats with scales of rows and columns, %d times with the "
            "same bits (%d threads)",
            repeated, n);
    else
        skip(1, "a device of another compute capability than 9");
}
