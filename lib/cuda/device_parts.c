/* SPDX-License-Identifier: BSD-3-Clause */
#include "cuda/device_parts.h"
#include "cuda/device_group.h"

void symc_cuda_find_parts(const struct symc_cuda_group *group,
    const struct symc_op *op, struct symc_cuda_part *parts)
{
    const struct symc_kind_info *info = &group->core->kinds[op->kind];
    const struct symc_lists *lists = op->listed ? op->lists : NULL;
    const bool is_root = op->root == group->rank;
    const bool sends = is_root || (info->traits & SYMC_FROM_ROOT) == 0;
    const bool receives = is_root || (info->traits & SYMC_TO_ROOT) == 0;
    const char *in = op->in;
    char *out = op->out;

    for (int r = 0; r < group->size; r++) {
        struct symc_cuda_part *part = &parts[r];

        *part = (struct symc_cuda_part){.in_nbytes = 0};
        if (sends && (info->in_parts == SYMC_ALL_PARTS || r == op->root)) {
            part->in_nbytes = symc_op_in_count(op, r) * op->elem;
            part->in = lists != NULL && lists->ins != NULL ? lists->ins[r] : in;
            if (in != NULL)
                in += part->in_nbytes;
        }
        if (receives && (info->out_parts == SYMC_ALL_PARTS || r == op->root)) {
            part->out_nbytes = symc_op_out_count(op, r) * op->elem;
            part->out =
                lists != NULL && lists->outs != NULL ? lists->outs[r] : out;
            if (out != NULL)
                out += part->out_nbytes;
        }
    }
}
