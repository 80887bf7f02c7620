/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Memory of devices that has been let go of under the lock of a world's symmetric
 * memory, and is released after it: the driver may wait for what a device does, and
 * nobody else should meanwhile.  Who takes the lock releases what he lets go of,
 * before his call returns.
 */
#include "symm_mem/share.h"

#include <stdlib.h>

struct symc_left {
    struct symc_left *next;
    const struct symc_memory_ops *mem;
    struct symc_joined *joined; /* one of the two */
    void *memory;
};

static void release(const struct symc_left *left)
{
    if (left->joined != NULL)
        left->mem->leave(left->joined);
    if (left->memory != NULL)
        left->mem->free(left->memory);
}

/* Where there is no memory for that, at once. */
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
