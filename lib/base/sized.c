/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Structs of callers that begin with their size.  A program may have been built
 * against headers older or newer than this library: members that its struct
 * lacks get defaults, and members beyond this library's struct must be zero,
 * which is the default of every later member.
 */
#include "base/base.h"

#include <string.h>

/* More than any struct can grow to. */
#define SIZE_LIMIT 4096

/* Checks that the caller's struct can be one of this kind. */
static symmcoll_status_t check(
    const struct symc_sized *kind, const char *where, const void *given)
{
    const unsigned char *bytes = given;
    size_t nbytes;

    memcpy(&nbytes, given, sizeof(nbytes));
    /* A size of whole words splits no member: a new member always begins a word
     * and never uses padding at the end, which programs built without it have
     * not set. */
    if (nbytes < kind->least || nbytes > SIZE_LIMIT ||
        nbytes % sizeof(size_t) != 0)
        return symc_fail(SYMMCOLL_ERR_INVALID,
            "%s: expected %s of size %zu, found %zu: use %s", where, kind->name,
            kind->nbytes, nbytes, kind->macro);
    for (size_t i = kind->nbytes; i < nbytes; i++) {
        if (bytes[i] != 0)
            return symc_fail(SYMMCOLL_ERR_INVALID,
                "%s: %s: expected 0 in what this library does not know, from "
                "byte %zu on, found %d in byte %zu",
                where, kind->name, kind->nbytes, bytes[i], i);
    }
    return SYMMCOLL_OK;
}

symmcoll_status_t symc_sized_read(const struct symc_sized *kind,
    const char *where, const void *given, void *copy)
{
    symmcoll_status_t status;
    size_t nbytes;

    memcpy(copy, kind->defaults, kind->nbytes);
    if (given == NULL)
        return SYMMCOLL_OK;
    status = check(kind, where, given);
    if (status != SYMMCOLL_OK)
        return status;
    memcpy(&nbytes, given, sizeof(nbytes));
    memcpy(copy, given, nbytes < kind->nbytes ? nbytes : kind->nbytes);
    memcpy(copy, &kind->nbytes, sizeof(kind->nbytes));
    return SYMMCOLL_OK;
}

symmcoll_status_t symc_sized_read_at(const struct symc_sized *kind,
    const char *where, const void *array, size_t index, void *copy)
{
    const char *given = array;
    size_t apart, nbytes;

    memcpy(&apart, array, sizeof(apart));
    given += index * apart;
    memcpy(&nbytes, given, sizeof(nbytes));
    if (nbytes != apart)
        return symc_fail(SYMMCOLL_ERR_INVALID,
            "%s: expected %s of size %zu as the first, found %zu: use %s",
            where, kind->name, apart, nbytes, kind->macro);
    return symc_sized_read(kind, where, given, copy);
}

symmcoll_status_t symc_sized_write(const struct symc_sized *kind,
    const char *where, const void *value, void *given)
{
    symmcoll_status_t status = check(kind, where, given);
    size_t nbytes;

    if (status != SYMMCOLL_OK)
        return status;
    memcpy(&nbytes, given, sizeof(nbytes));
    if (nbytes > kind->nbytes)
        nbytes = kind->nbytes;
    memcpy((char *)given + sizeof(nbytes), (const char *)value + sizeof(nbytes),
        nbytes - sizeof(nbytes));
    return SYMMCOLL_OK;
}
