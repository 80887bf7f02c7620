/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Buffers: tensors without gradients, such as running means, of which all ranks
 * get rank 0's elements before a forward.
 */
#include "ddp/reducer.h"

#include <stdio.h>
#include <stdlib.h>

/* ---- creation ---- */

const char *symc_buffer_text(
    const struct symmcoll_reducer *reducer, int number, char *buffer)
{
    const char *name = reducer->buffers.names[number];

    if (name != NULL)
        snprintf(buffer, SYMC_PARAM_TEXT, "buffer %d (%.64s)", number, name);
    else
        snprintf(buffer, SYMC_PARAM_TEXT, "buffer %d", number);
    return buffer;
}

static symmcoll_status_t take_buffer(struct symmcoll_reducer *reducer,
    const struct symmcoll_reducer_args *args, int number)
{
    struct symc_param *tensor = &reducer->buffers.tensors[number];
    const char *name =
        args->buffer_names != NULL ? args->buffer_names[number] : NULL;
    char text[SYMC_PARAM_TEXT];
    symmcoll_status_t status;

    if (name != NULL) {
        reducer->buffers.names[number] = symc_strdup(name);
        if (reducer->buffers.names[number] == NULL)
            return SYMMCOLL_ERR_NO_MEMORY;
    }
    if (symc_is_ignored(args, name)) {
        *tensor = (struct symc_param){.number = -1, .dense = true};
        return SYMMCOLL_OK;
    }
    symc_buffer_text(reducer, number, text);
    status = symc_param_init(tensor, args->buffers, number, false, text);
    return status == SYMMCOLL_OK
               ? symc_check_memory(reducer, &tensor->tensor, text)
               : status;
}

symmcoll_status_t symc_buffers_take(struct symmcoll_reducer *reducer,
    const struct symmcoll_reducer_args *args, size_t nbytes)
{
    struct symc_ddp_buffers *buffers = &reducer->buffers;
    size_t n = (size_t)args->nbuffers;

    if (args->nbuffers < 0 || (args->buffers == NULL) != (n == 0))
        return symc_fail(SYMMCOLL_ERR_INVALID,
            "reducer: expected buffers and their number, found %s and %d",
            args->buffers != NULL ? "an array" : "NULL", args->nbuffers);
    if (n == 0)
        return SYMMCOLL_OK;
    buffers->tensors = symc_alloc(n, sizeof(*buffers->tensors));
    buffers->names = symc_alloc(n, sizeof(*buffers->names));
    if (buffers->tensors == NULL || buffers->names == NULL)
        return SYMMCOLL_ERR_NO_MEMORY;
    buffers->n = args->nbuffers;
    for (int i = 0; i < buffers->n; i++) {
        symmcoll_status_t status = take_buffer(reducer, args, i);

        if (status != SYMMCOLL_OK)
            return status;
    }
    return symc_buffers_stage(reducer, nbytes);
}

symmcoll_status_t symc_buffers_stage(
    struct symmcoll_reducer *reducer, size_t nbytes)
{
    struct symc_ddp_buffers *buffers = &reducer->buffers;

    if (buffers->n == 0)
        return SYMMCOLL_OK;
    return symc_ddp_staging_open("reducer: a copy of buffers", reducer->site,
        buffers->tensors, buffers->n, nbytes, &buffers->staging);
}

void symc_buffers_free(struct symmcoll_reducer *reducer)
{
    struct symc_ddp_buffers *buffers = &reducer->buffers;

    symc_ddp_staging_close(reducer->site, &buffers->staging);
    for (int i = 0; i < buffers->n; i++)
        free(buffers->names[i]);
    free(buffers->names);
    free(buffers->tensors);
}

/* ---- broadcast ---- */

symmcoll_status_t symc_buffers_send(
    const struct symmcoll_reducer *reducer, int root)
{
    const struct symc_ddp_buffers *buffers = &reducer->buffers;

    return symc_broadcast_tensors(
        reducer, buffers->tensors, buffers->n, root, &buffers->staging);
}
