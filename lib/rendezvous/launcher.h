/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Variables that the launcher has set: the rank of this process, and marks that
 * distinguish its job from all others on this machine.
 */
#ifndef SYMC_RENDEZVOUS_LAUNCHER_H
#define SYMC_RENDEZVOUS_LAUNCHER_H

#include "base/digest.h"

/* The launcher's values. Numbers are -1 if unset or invalid. */
struct symc_rendezvous_launch {
    const char *launcher; /* NULL: there is neither a rank nor a size */
    int rank;
    int size;
    int local_rank;
    int local_size;        /* ranks on this machine */
    const char *bad;       /* variable with an invalid number; NULL: none */
    const char *rank_name; /* variables that were read */
    const char *size_name;
};

void symc_rendezvous_launch_read(struct symc_rendezvous_launch *launch);

/* Checks the numbers. Errors: INVALID (names the variable and its value). */
symmcoll_status_t symc_rendezvous_launch_check(
    const struct symc_rendezvous_launch *launch);

/* Returns a variable's value; NULL: unset or empty. */
const char *symc_rendezvous_variable(const char *name);

/* Parses a decimal number from 0 to most, with nothing before or after it. */
bool symc_rendezvous_number_parse(const char *text, long most, int *number);

/* Adds what identifies the job to a digest. False: nothing distinguishes the
 * job from others on this machine. */
bool symc_rendezvous_launch_mark(
    const struct symc_rendezvous_launch *launch, struct symc_digest *digest);

#endif
