/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Ids of the stand-in for NCCL: each names a file in memory of the process
 * that has created it, which all ranks map. The file disappears when they have
 * ended.
 */
#include "t/nccl/comms.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define DRAWN 0x5a /* the last byte of an id */

/* The contents of an id. */
struct name {
    int pid;
    int fd;
};

/* The cliques known to the process: its threads share one mapping of each. */
static struct {
    pthread_mutex_t lock;
    int count;
    struct name names[FAKE_CLIQUES];
    struct fake_clique *cliques[FAKE_CLIQUES];
} known = {.lock = PTHREAD_MUTEX_INITIALIZER};

/* Called with the lock. */
static struct fake_clique *map(struct name name, int fd)
{
    void *at = mmap(NULL, sizeof(struct fake_clique), PROT_READ | PROT_WRITE,
        MAP_SHARED, fd, 0);

    if (at == MAP_FAILED)
        return NULL;
    if (known.count == FAKE_CLIQUES)
        fake_nccl_die("there are too many ids");
    known.names[known.count] = name;
    known.cliques[known.count] = at;
    return known.cliques[known.count++];
}

int fake_clique_draw(struct symc_nccl_id *id)
{
    struct name name = {getpid(), memfd_create("nccl", MFD_CLOEXEC)};
    struct fake_clique *clique = NULL;

    if (name.fd < 0 || ftruncate(name.fd, sizeof(struct fake_clique)) != 0)
        return SYMC_NCCL_SYSTEM_ERROR;
    pthread_mutex_lock(&known.lock);
    clique = map(name, name.fd);
    pthread_mutex_unlock(&known.lock);
    memset(id, DRAWN, sizeof(*id));
    memcpy(id, &name, sizeof(name));
    return clique != NULL ? SYMC_NCCL_SUCCESS : SYMC_NCCL_SYSTEM_ERROR;
}

static struct fake_clique *open_other(struct name name)
{
    struct fake_clique *clique;
    char path[64];
    int fd;

    snprintf(path, sizeof(path), "/proc/%d/fd/%d", name.pid, name.fd);
    fd = open(path, O_RDWR | O_CLOEXEC);
    if (fd < 0)
        return NULL;
    clique = map(name, fd);
    close(fd);
    return clique;
}

struct fake_clique *fake_clique_find(const struct symc_nccl_id *id)
{
    struct fake_clique *clique = NULL;
    struct name name;

    if (id->bytes[sizeof(id->bytes) - 1] != DRAWN)
        fake_nccl_die("an id is none that was drawn");
    memcpy(&name, id, sizeof(name));
    pthread_mutex_lock(&known.lock);
    for (int i = 0; i < known.count && clique == NULL; i++) {
        if (known.names[i].pid == name.pid && known.names[i].fd == name.fd)
            clique = known.cliques[i];
    }
    if (clique == NULL)
        clique = open_other(name);
    pthread_mutex_unlock(&known.lock);
    return clique;
}
