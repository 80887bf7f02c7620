/* SPDX-License-Identifier: BSD-3-Clause */
/* The interface of a test to the fake module: settings and counters. */
#ifndef T_BACKEND_FAKE_MODULE_H
#define T_BACKEND_FAKE_MODULE_H

#include <stdatomic.h>
#include <stddef.h>

#define FAKE_NBYTES ((size_t)1 << 20) /* its memory, half on each device */
#define FAKE_RANKS 8

/* The variable that the module exports as "fake_control". Numbers are ranks,
 * -1: none. */
struct fake_control {
    char *memory;
    _Atomic int refuses;      /* to open */
    _Atomic int refuses_late; /* after an exchange */
    _Atomic int tells_less;   /* than the others */
    _Atomic int dies_opening; /* at once */
    _Atomic int fails;        /* test() has an error */
    _Atomic int hangs;        /* never completes, but can be cancelled */
    _Atomic int keeps;        /* never completes, and is never fully
                               * cancelled */
    _Atomic(void *) stream;   /* of the latest operation */
    _Atomic int started;      /* operations started */
    /* Counts for all ranks together, at an address set by the test; or NULL. */
    _Atomic(_Atomic int *) all_started;
    _Atomic int devices[FAKE_RANKS]; /* as exchanged by the members */

    /* An operation with a number as its label completes once this has at least
     * that value; one with the label "captured" has nothing left to test. */
    _Atomic int turn;
    /* 1: the test of a completed operation labelled "held" waits until this is
     * 2. */
    _Atomic int held;
    _Atomic int lingers;      /* not 0: inside calls that must be one at a
                               * time */
    _Atomic int barriers;     /* not 0: served */
    _Atomic int lacks_gather; /* not 0: not served */
    _Atomic int no_follow;    /* not 0: fails */
    /* An operation labelled "useful" uses the resource of prepare(). */
    _Atomic int unprepared;    /* cannot make it */
    _Atomic int unprepared_by; /* the status of that failure */
    _Atomic int forgone;       /* how often a rank was refused because another
                                * cannot */
    _Atomic(void *) capturing; /* this stream is being captured */

    /* Counts for all ranks of this process. */
    _Atomic int direct;   /* operations started so */
    _Atomic int running;  /* started, and neither completed nor cancelled */
    _Atomic int most;     /* of them, at a time */
    _Atomic int marks;    /* owned by the backend or the group */
    _Atomic int marked;   /* operations started with a mark */
    _Atomic int followed; /* calls of follow() */
    _Atomic int prepared; /* calls of prepare() */
    _Atomic int captured; /* operations started that a member captures */
    _Atomic(void *) following; /* the stream of the latest */
    _Atomic int strange;       /* calls that break a rule */
};

#endif
