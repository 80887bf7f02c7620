/* SPDX-License-Identifier: BSD-3-Clause */
/* The fake module's state for a group. */
#ifndef T_BACKEND_FAKE_STATE_H
#define T_BACKEND_FAKE_STATE_H

#include "t/backend/fake_module.h"

#include "backend/backend.h"

#include <pthread.h>

#define RANKS FAKE_RANKS
#define FLOATS 4096 /* of a contribution */

struct shared {
    _Atomic uint64_t ready;
    _Atomic uint64_t staged;
    _Atomic uint64_t read;
    float data[FLOATS];
};

/* A started operation: a token. */
struct job {
    struct job *next;
    struct symc_op op;
    uint64_t number;
    _Atomic int moved; /* its data has been moved */
    _Atomic int cancelled;
};

/* The mark made by mark(). */
struct mark {
    const struct fake *fake;
    void *stream;
};

struct fake {
    const struct symc_core *core;
    int rank;
    int size;
    struct shared *shared[RANKS];
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    struct job *first, **last; /* under the lock, like the next two members */
    struct job *current;       /* of the thread */
    uint64_t jobs;
    bool prepared;
    _Atomic int stopping;
    _Atomic int inside; /* calls that must be one at a time */
};

SYMMCOLL_API
extern struct fake_control fake_control;

/* ---- fake_open.c: opening, and the thread that moves data ---- */

symmcoll_status_t fake_probe(const struct symc_peers *peers);
symmcoll_status_t fake_open(
    const struct symc_core *core, const struct symc_peers *peers, void **state);
void fake_close(void *state);

#endif
