/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What a test tells the fake module, and what that has seen.
 */
#ifndef T_BACKEND_FAKE_MODULE_H
#define T_BACKEND_FAKE_MODULE_H

#include <stdatomic.h>
#include <stddef.h>

#define FAKE_NBYTES ((size_t)1 << 20) /* its memory, half on each device */
#define FAKE_RANKS 8

/* Exported by the module as "fake_control".  Numbers of ranks, -1: none. */
struct fake_control {
    char *memory;
    _Atomic int refuses;      /* to open */
    _Atomic int refuses_late; /* after an exchange */
    _Atomic int tells_less;   /* than the others */
    _Atomic int dies_opening; /* at once */
    _Atomic int fails;        /* test() has an error */
    _Atomic int hangs;        /* never completes, and can be cancelled */
    _Atomic int keeps;        /* never completes, and goes on being cancelled */
    _Atomic(void *) stream;   /* of the latest operation */
    _Atomic int started;      /* operations, so far */
    /* Of all ranks together, where the test has a place for it; or NULL. */
    _Atomic(_Atomic int *) all_started;
    _Atomic int devices[FAKE_RANKS]; /* as the members have told each other */
};

#endif
