/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The file by which a rank that serves a store passes its password to the
 * others.
 */
#include "store/secret.h"

#include "base/descriptor.h"
#include "base/digest.h"
#include "base/process.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#define SECRET_BYTES 16 /* of randomness */
#define FOLDER_MAX (SYMC_SECRET_PATH - 48)

/* ---- the path ---- */

static bool is_loopback(const struct sockaddr *address)
{
    struct in_addr four;

    if (address->sa_family == AF_INET6) {
        const struct in6_addr *six =
            &((const struct sockaddr_in6 *)address)->sin6_addr;

        return IN6_IS_ADDR_LOOPBACK(six);
    }
    if (address->sa_family != AF_INET)
        return false;
    four = ((const struct sockaddr_in *)address)->sin_addr;
    return ntohl(four.s_addr) >> 24 == IN_LOOPBACKNET;
}

/* Checks whether all addresses of a place are this machine's loopback. */
static symmcoll_status_t check_loopback(
    const struct symc_place *place, int64_t deadline_ns, bool *loopback)
{
    struct symc_addresses addresses;
    symmcoll_status_t status;

    *loopback = false;
    if (place->local)
        return SYMMCOLL_OK;
    status = symc_resolve(place, false, deadline_ns, &addresses);
    if (status != SYMMCOLL_OK)
        return status;
    *loopback = true;
    for (const struct addrinfo *at = addresses.list; at != NULL;
         at = at->ai_next)
        *loopback = *loopback && is_loopback(at->ai_addr);
    symc_resolve_free(&addresses);
    return SYMMCOLL_OK;
}

/* Checks that a folder belongs to this user and that no other user may use
 * it. */
static bool is_private(const char *folder)
{
    struct stat info;

    return lstat(folder, &info) == 0 && S_ISDIR(info.st_mode) &&
           info.st_uid == geteuid() && (info.st_mode & 077) == 0;
}

static symmcoll_status_t find_folder(char folder[FOLDER_MAX])
{
    const char *runtime = symc_variable_get("XDG_RUNTIME_DIR");

    if (runtime != NULL && runtime[0] == '/' && strlen(runtime) < FOLDER_MAX &&
        is_private(runtime)) {
        snprintf(folder, FOLDER_MAX, "%s", runtime);
        return SYMMCOLL_OK;
    }
    snprintf(folder, FOLDER_MAX, "/run/user/%ld", (long)geteuid());
    if (is_private(folder))
        return SYMMCOLL_OK;
    snprintf(folder, FOLDER_MAX, "/tmp/symmcoll-%ld", (long)geteuid());
    if (mkdir(folder, 0700) != 0 && errno != EEXIST)
        return symc_fail_errno(SYMMCOLL_ERR_SYSTEM, errno,
            "tcp store: making %s for the password of the store; "
            "store.password_file can name a file instead",
            folder);
    if (is_private(folder))
        return SYMMCOLL_OK;
    return symc_fail(SYMMCOLL_ERR_INVALID,
        "tcp store: the password of the store: expected %s to be a folder of "
        "this user alone, found something else; store.password_file can name "
        "a file instead",
        folder);
}

symmcoll_status_t symc_secret_find(
    const char *url, int64_t deadline_ns, char path[SYMC_SECRET_PATH])
{
    struct symc_digest digest = SYMC_DIGEST_INIT;
    struct symc_place place = {.host = ""};
    char machine[SYMC_MACHINE_NAME], folder[FOLDER_MAX], text[SYMC_PLACE_TEXT];
    bool loopback;
    symmcoll_status_t status = symc_place_parse(url, &place);

    path[0] = '\0';
    if (status != SYMMCOLL_OK)
        goto clear_place;
    status = check_loopback(&place, deadline_ns, &loopback);
    if (status != SYMMCOLL_OK || !loopback)
        goto clear_place;
    status = symc_machine_name(machine);
    if (status != SYMMCOLL_OK)
        goto clear_place;
    status = find_folder(folder);
    if (status != SYMMCOLL_OK)
        goto clear_place;
    /* A port in another network namespace belongs to another server. */
    symc_digest_add(&digest, "machine", machine);
    if (strcmp(place.host, "localhost") == 0)
        snprintf(place.host, sizeof(place.host), "127.0.0.1");
    symc_digest_add(&digest, "place", symc_place_text(&place, text));
    snprintf(path, SYMC_SECRET_PATH, "%s/symmcoll-store-%016" PRIx64, folder,
        digest.a);
clear_place:
    symc_place_clear(&place);
    return status;
}

/* ---- the password ---- */

symmcoll_status_t symc_secret_make(struct symc_secret *secret)
{
    unsigned char random[SECRET_BYTES];

    if (getrandom(random, sizeof(random), 0) != sizeof(random))
        return symc_fail_errno(
            SYMMCOLL_ERR_SYSTEM, errno, "tcp store: a random password");
    for (size_t i = 0; i < sizeof(random); i++)
        snprintf(secret->password + 2 * i, 3, "%02x", random[i]);
    explicit_bzero(random, sizeof(random));
    return SYMMCOLL_OK;
}

bool symc_secret_read(struct symc_secret *secret)
{
    int fd = symc_descriptor_raise(open(secret->path,
        O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY));
    ssize_t n =
        fd >= 0 ? read(fd, secret->password, sizeof(secret->password) - 1) : -1;

    if (fd >= 0)
        close(fd);
    if (n != 2 * SECRET_BYTES)
        n = 0;
    explicit_bzero(secret->password + n, sizeof(secret->password) - (size_t)n);
    return n > 0;
}

/* Writes by rename, so that another rank reads the old file or the new one,
 * never a part. */
symmcoll_status_t symc_secret_write(const struct symc_secret *secret)
{
    char draft[SYMC_SECRET_PATH + 8];
    size_t length = strlen(secret->password);
    int fd, error = 0;

    snprintf(draft, sizeof(draft), "%s.XXXXXX", secret->path);
    fd = symc_descriptor_raise(mkostemp(draft, O_CLOEXEC)); /* mode 0600 */
    if (fd < 0)
        return symc_fail_errno(SYMMCOLL_ERR_SYSTEM, errno,
            "tcp store: writing the password of the store: %s", draft);
    if (write(fd, secret->password, length) != (ssize_t)length)
        error = errno;
    close(fd);
    if (error == 0 && rename(draft, secret->path) != 0)
        error = errno;
    if (error == 0)
        return SYMMCOLL_OK;
    unlink(draft);
    return symc_fail_errno(SYMMCOLL_ERR_SYSTEM, error,
        "tcp store: writing the password of the store: %s", secret->path);
}
