/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Digests of texts.
 */
#include "base/digest.h"

#include <string.h>

/* FNV-1a, and a variant with another start value and multiplier on flipped
 * bytes. */
static void digest_bytes(
    struct symc_digest *digest, const unsigned char *bytes, size_t nbytes)
{
    for (size_t i = 0; i < nbytes; i++) {
        digest->a = (digest->a ^ bytes[i]) * UINT64_C(0x100000001b3);
        digest->b =
            (digest->b ^ (bytes[i] ^ 0x5aU)) * UINT64_C(0x9e3779b97f4a7c15);
    }
}

/* Includes the terminating zero: "a" "bc" differs from "ab" "c". */
static void digest_text(struct symc_digest *digest, const char *text)
{
    digest_bytes(digest, (const unsigned char *)text, strlen(text) + 1);
}

void symc_digest_add(
    struct symc_digest *digest, const char *name, const char *value)
{
    digest_text(digest, name);
    digest_text(digest, value != NULL ? value : "");
}

void symc_digest_add_bytes(struct symc_digest *digest, const char *name,
    const void *bytes, size_t nbytes)
{
    digest_text(digest, name);
    digest_bytes(digest, bytes, nbytes);
}
