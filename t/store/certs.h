/* SPDX-License-Identifier: BSD-3-Clause */
/* A certificate for a loopback address and its key, created for one test. */
#ifndef T_STORE_CERTS_H
#define T_STORE_CERTS_H

#include "t/store/helpers.h"

struct certs {
    char cert[4200]; /* also the authority's */
    char key[4200];
};

/* Creates a certificate; false: openssl(1) is missing. */
static inline int make_certs_for(const char *address, struct certs *certs)
{
    const char *path = scratch_path();
    char command[12000];

    snprintf(certs->cert, sizeof certs->cert, "%s.crt", path);
    snprintf(certs->key, sizeof certs->key, "%s.key", path);
    snprintf(command, sizeof command,
        "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 "
        "-nodes -days 2 -subj /CN=test -addext subjectAltName=IP:%s "
        "-keyout %s -out %s >/dev/null 2>&1",
        address, certs->key, certs->cert);
    return system(command) == 0;
}

static inline int make_certs(struct certs *certs)
{
    return make_certs_for("127.0.0.1", certs);
}

static inline void remove_certs(const struct certs *certs)
{
    unlink(certs->cert);
    unlink(certs->key);
}

#endif
