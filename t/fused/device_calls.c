/* SPDX-License-Identifier: BSD-3-Clause */
#include "t/fused/device_calls.h"

#include <stdlib.h>

void fused_call_begin(
    struct fused_call *it, struct symmcoll_group *group, int rank)
{
    fused_call_begin_there(it, group, rank, device_use(rank));
}

void fused_call_begin_there(
    struct fused_call *it, struct symmcoll_group *group, int rank, int device)
{
    const int64_t shape[] = {
        FUSED_CALL_ROWS * symmcoll_group_size(group), FUSED_CALL_DEPTH};
    const int64_t b_shape[] = {FUSED_CALL_DEPTH, FUSED_CALL_COLUMNS};
    struct symmcoll_tensor b;

    *it = (struct fused_call){.group = group,
        .device = device,
        .call = SYMMCOLL_CALL_INIT,
        .out = SYMMCOLL_TENSOR_INIT};
    it->call.stream = device_stream();
    it->host =
        made_tensor(SYMMCOLL_FLOAT32, 2, shape, MADE_CONTIGUOUS, 0, 1, rank);
    b = made_tensor(SYMMCOLL_FLOAT32, 2, b_shape, MADE_CONTIGUOUS, 0, 2, rank);
    it->a = on_device(&it->host, it->device);
    it->b = on_device(&b, it->device);
    free(b.data);
}

symmcoll_status_t fused_call_gather(struct fused_call *it)
{
    return symmcoll_fused_all_gather_matmul(
        it->group, &it->a, &it->b, 1, 0, &it->call, NULL, &it->out);
}

symmcoll_status_t fused_call_scatter(struct fused_call *it)
{
    return symmcoll_fused_matmul_reduce_scatter(
        it->group, &it->a, &it->b, SYMMCOLL_SUM, 0, &it->call, &it->out);
}

void fused_call_drop(struct fused_call *it)
{
    symmcoll_f_free(symmcoll_group_world(it->group), &it->out);
    it->out = (struct symmcoll_tensor)SYMMCOLL_TENSOR_INIT;
}

void fused_call_free(struct fused_call *it)
{
    device_wait(it->call.stream);
    on_device_free(&it->a);
    on_device_free(&it->b);
    free(it->host.data);
    device_end_stream(it->call.stream);
}

int fused_call_end(struct fused_call *it, int right)
{
    right = right && OK(fused_call_gather(it));
    fused_call_drop(it);
    right = right && OK(fused_call_scatter(it));
    fused_call_drop(it);
    fused_call_free(it);
    return right;
}

int fused_calls_fail(struct fused_call *it, int rank, symmcoll_status_t status,
    const char *of_victim, const char *of_others)
{
    const char *text = rank == VICTIM ? of_victim : of_others;

    return made_says(fused_call_gather(it), status, text) &&
           it->out.data == NULL &&
           made_says(fused_call_scatter(it), status, text) &&
           it->out.data == NULL;
}
