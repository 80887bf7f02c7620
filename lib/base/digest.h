/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Digests of texts, for names that tell one thing from another; not a secret.
 */
#ifndef SYMC_BASE_DIGEST_H
#define SYMC_BASE_DIGEST_H

#include "base/base.h"

/* Two hashes of 64 bits over named texts; their order matters. */
struct symc_digest {
    uint64_t a;
    uint64_t b;
};
#define SYMC_DIGEST_INIT                                           \
    {                                                              \
        UINT64_C(0xcbf29ce484222325), UINT64_C(0x6c62272e07bb0142) \
    }
void symc_digest_add(
    struct symc_digest *digest, const char *name, const char *value);

/* Bytes instead of a text. */
void symc_digest_add_bytes(struct symc_digest *digest, const char *name,
    const void *bytes, size_t nbytes);

#endif
