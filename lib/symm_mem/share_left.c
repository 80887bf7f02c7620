/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Device memory that was left under the lock of a world's symmetric memory and
 * is released after it: the driver may wait for a device, and other threads
 * shall not wait for the lock during that. The thread that holds the lock
 * releases what it has queued, before its call returns.
 */
#include "symm_mem/share.h"

#include <stdlib.h>

struct symc_left {
    struct symc_left *next;
    const struct symc_memory_ops *mem;
    struct symc_joined *joined; /* one of joined and memory is set */
    void *memory;
};

static void release(const struct symc_left *left)
{
    if (left->joined != NULL)
        left->mem->leave(left->joined);
    if (left->memory != NULL)
        left->mem->free(left->memory);
}

/* Queues memory for release. Releases it at once if no entry can be
 * allocated. */
static void add(struct symc_symm *symm, struct symc_left left)
{
    struct symc_left *made = malloc(sizeof(*made));

    if (made == NULL) {
        release(&left);
        return;
    }
    *made = left;
    if (symm->left != NULL)
        symm->left_tail->next = made;
    else
        symm->left = made;
    symm->left_tail = made;
}

void symc_left_joined(struct symc_symm *symm, const struct symc_memory_ops *mem,
    struct symc_joined *joined)
{
    if (joined != NULL)
        add(symm, (struct symc_left){.mem = mem, .joined = joined});
}

void symc_left_memory(
    struct symc_symm *symm, const struct symc_memory_ops *mem, void *memory)
{
    if (memory != NULL)
        add(symm, (struct symc_left){.mem = mem, .memory = memory});
}

void symc_symm_unlock(struct symc_symm *symm)
{
    struct symc_left *left = symm->left, *next;

    symm->left = NULL;
    pthread_mutex_unlock(&symm->lock);
    for (; left != NULL; left = next) {
        next = left->next;
        release(left);
        free(left);
    }
}
