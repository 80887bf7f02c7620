/* SPDX-License-Identifier: BSD-3-Clause */
/* Digests of texts, from which unique names are made.  Not cryptographic. */
#ifndef SYMC_BASE_DIGEST_H
#define SYMC_BASE_DIGEST_H

#include "base/base.h"

/* Two 64-bit hashes over named texts; the order of the texts matters. */
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

/* Adds bytes instead of a text. */
void symc_digest_add_bytes(struct symc_digest *digest, const char *name,
    const void *bytes, size_t nbytes);

#endif
