/* SPDX-License-Identifier: BSD-3-Clause */
/* Formats operations and kinds of memory for messages. */
#include "base/op.h"

#include <stdio.h>

const char *symc_memory_name(unsigned int memory)
{
    static const char *const names[SYMC_MEMORY_KINDS] = {
        [SYMC_MEMORY_HOST] = "host memory",
        [SYMC_MEMORY_DEVICE] = "device memory"};

    return memory < SYMC_MEMORY_KINDS ? names[memory] : "unknown memory";
}

const char *symc_memory_format(
    unsigned int memory, int device, char buffer[SYMC_MEMORY_TEXT])
{
    if (memory == SYMC_MEMORY_HOST)
        snprintf(buffer, SYMC_MEMORY_TEXT, "%s", symc_memory_name(memory));
    else
        snprintf(buffer, SYMC_MEMORY_TEXT, "%s of device %d",
            symc_memory_name(memory), device);
    return buffer;
}

const char *symc_op_format(enum symc_kind kind, uint64_t seq, const char *label,
    char *buffer, size_t nbytes)
{
    char number[32] = "", quoted[SYMC_LABEL_MAX + 8] = "";

    if (seq != 0 && symc_kinds[symc_kind_is_known(kind) ? kind : 0].counter !=
                        SYMC_COUNT_NONE)
        snprintf(number, sizeof(number), " seq %llu", (unsigned long long)seq);
    if (label[0] != '\0')
        snprintf(quoted, sizeof(quoted), " '%.*s'", SYMC_LABEL_MAX, label);
    snprintf(buffer, nbytes, "%s%s%s", symc_kind_name(kind), number, quoted);
    return buffer;
}

const char *symc_op_format_placed(
    const struct symc_op *op, char buffer[SYMC_OP_PLACED_TEXT])
{
    char name[SYMC_OP_TEXT];

    symc_op_format(op->kind, op->seq, op->label, name, sizeof(name));
    if (op->stream != NULL)
        snprintf(buffer, SYMC_OP_PLACED_TEXT, "%s on stream %p", name,
            (const void *)op->stream);
    else
        snprintf(buffer, SYMC_OP_PLACED_TEXT, "%s on the default stream", name);
    return buffer;
}
