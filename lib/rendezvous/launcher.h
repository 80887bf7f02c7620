/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What the launcher has set in the environment: the rank of this process, and
 * what distinguishes its job from every other one on this machine.
 */
#ifndef SYMC_RENDEZVOUS_LAUNCHER_H
#define SYMC_RENDEZVOUS_LAUNCHER_H

#include "base/digest.h"

/* Numbers are -1 where they are not set, or are not numbers. */
struct symc_rendezvous_launch {
    const char *launcher; /* NULL: neither a rank nor a size was found */
    int rank;
    int size;
    int local_rank;
    int local_size;  /* ranks on this machine */
    const char *bad; /* a variable that should be a number and is not; NULL */
    const char *rank_name; /* the variables that were looked at */
    const char *size_name;
};

void symc_rendezvous_launch_read(struct symc_rendezvous_launch *launch);

/* Errors: INVALID (names the bad variable and its value). */
symmcoll_status_t symc_rendezvous_launch_check(
    const struct symc_rendezvous_launch *launch);

/* A variable's value; NULL where it is unset or empty. */
const char *symc_rendezvous_variable(const char *name);

/* A decimal number from 0 to most, and nothing else. */
bool symc_rendezvous_number_parse(const char *text, long most, int *number);

/* Add what identifies the job to its launcher.  False: nothing distinguishes it
 * from another job on this machine. */
bool symc_rendezvous_launch_mark(
    const struct symc_rendezvous_launch *launch, struct symc_digest *digest);

#endif
