/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Digests of texts.
 */
#include "base/digest.h"

#include <string.h>

/* FNV-1a from two starts, the second over a bijection of the bytes. */
static void digest_text(struct symc_digest *digest, const char *text)
{
    const unsigned char *bytes = (const unsigned char *)text;
    size_t nbytes =
        strlen(text) + 1; /* its end too: "a" "bc" is not "ab" "c" */

    for (size_t i = 0; i < nbytes; i++) {
        digest->a = (digest->a ^ bytes[i]) * UINT64_C(0x100000001b3);
        digest->b =
            (digest->b ^ (bytes[i] ^ 0x5aU)) * UINT64_C(0x9e3779b97f4a7c15);
    }
}

void symc_digest_add(
    struct symc_digest *digest, const char *name, const char *value)
{
    digest_text(digest, name);
    digest_text(digest, value != NULL ? value : "");
}
