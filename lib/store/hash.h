/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What only hash stores can do.
 */
#ifndef SYMC_STORE_HASH_H
#define SYMC_STORE_HASH_H

#include <stdbool.h>

struct symmcoll_store;

/* Of a store that symmcoll_store_create_hash() has made: end all waits through
 * any handle, now and later, with CANCELED. */
void symc_store_stop_hash(struct symmcoll_store *store);

/* Whether that was done to the store, or to the one that a view with a prefix is
 * of; false for other kinds. */
bool symc_store_is_stopped(struct symmcoll_store *store);

#endif
