/* SPDX-License-Identifier: BSD-3-Clause */
/* Operations that only hash stores have. */
#ifndef SYMC_STORE_HASH_H
#define SYMC_STORE_HASH_H

#include <stdbool.h>

struct symmcoll_store;

/* Returns whether a store, or the store under a view with a prefix, is one of
 * symmcoll_store_create_hash(), which this process alone has. */
bool symc_store_is_hash(const struct symmcoll_store *store);

/* Ends all waits on a store of symmcoll_store_create_hash(), through any
 * handle, now and later, with CANCELED. */
void symc_store_stop_hash(struct symmcoll_store *store);

/* Returns whether symc_store_stop_hash() was called for the store, or for the
 * store under a view with a prefix; false for other kinds. */
bool symc_store_is_stopped(struct symmcoll_store *store);

#endif
