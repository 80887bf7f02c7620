/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Files that appear complete or not at all: see out.h.
 */
#include "trace/out.h"
#include "base/descriptor.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define NAMES_TRIED 100

/*
 * Blocks SIGXFSZ, which a write beyond RLIMIT_FSIZE sends to the writing thread
 * and which kills by default. Signal dispositions belong to the program, so the
 * thread blocks the signal during the dump and then consumes the one it caused.
 */
static void hold_limit_signal(struct symc_trace_out *out)
{
    sigset_t set;

    sigemptyset(&set);
    sigaddset(&set, SIGXFSZ);
    pthread_sigmask(SIG_BLOCK, &set, &out->mask);
    out->limit_was_blocked = sigismember(&out->mask, SIGXFSZ) == 1;
    out->limit_was_pending =
        sigpending(&set) == 0 && sigismember(&set, SIGXFSZ) == 1;
}

static void release_limit_signal(struct symc_trace_out *out)
{
    const struct timespec none = {0, 0};
    sigset_t set;

    sigemptyset(&set);
    sigaddset(&set, SIGXFSZ);
    if (out->error == EFBIG && !out->limit_was_pending)
        while (sigtimedwait(&set, NULL, &none) < 0 && errno == EINTR)
            continue;
    if (!out->limit_was_blocked)
        pthread_sigmask(SIG_SETMASK, &out->mask, NULL);
}

/* Creates a temporary file beside path with the permissions that the umask
 * leaves; 0600 in a privileged process, as its umask is the caller's. */
static symmcoll_status_t create_temporary(struct symc_trace_out *out)
{
    mode_t mode = symc_process_is_privileged() ? 0600 : 0666;

    errno = 0;
    for (int i = 0; i < NAMES_TRIED; i++) {
        if (!symc_trace_temporary_name(
                out->name, i, out->temporary, sizeof(out->temporary))) {
            errno = ENAMETOOLONG;
            break;
        }
        out->fd = symc_descriptor_raise(openat(out->folder, out->temporary,
            O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, mode));
        if (out->fd >= 0)
            return SYMMCOLL_OK;
        if (errno != EEXIST)
            break;
    }
    return symc_fail_errno(SYMMCOLL_ERR_SYSTEM, errno,
        "dump of the flight recorder: cannot create a file beside %s",
        out->path);
}

symmcoll_status_t symc_trace_out_open(
    struct symc_trace_out *out, const char *path)
{
    symmcoll_status_t status;
    struct stat old;

    out->path = path;
    out->error = 0;
    out->used = 0;
    status = symc_folder_open(path, &out->folder, &out->name);
    if (status != SYMMCOLL_OK)
        return symc_error_prefix(status, "dump of the flight recorder");
    /* rename() onto a device node would replace it. */
    if (fstatat(out->folder, out->name, &old, AT_SYMLINK_NOFOLLOW) == 0 &&
        !S_ISREG(old.st_mode) && !S_ISDIR(old.st_mode))
        status = symc_fail(SYMMCOLL_ERR_INVALID,
            "dump of the flight recorder: %s: expected a regular file or "
            "none, found something else",
            path);
    if (status == SYMMCOLL_OK) {
        symc_trace_remove_leftovers(out->folder);
        status = create_temporary(out);
    }
    if (status == SYMMCOLL_OK)
        hold_limit_signal(out);
    else
        close(out->folder);
    return status;
}

static void flush(struct symc_trace_out *out)
{
    size_t done = 0;

    while (done < out->used && out->error == 0) {
        ssize_t n = write(out->fd, out->buffer + done, out->used - done);

        if (n > 0)
            done += (size_t)n;
        else if (n == 0)
            out->error = EIO;
        else if (errno != EINTR)
            out->error = errno;
    }
    out->used = 0;
}

symmcoll_status_t symc_trace_out_close(struct symc_trace_out *out)
{
    symmcoll_status_t status = SYMMCOLL_OK;

    flush(out);
    if (close(out->fd) != 0 && out->error == 0)
        out->error = errno;
    release_limit_signal(out);
    if (out->error == 0 &&
        renameat(out->folder, out->temporary, out->folder, out->name) != 0)
        out->error = errno;
    if (out->error != 0) {
        (void)unlinkat(out->folder, out->temporary, 0);
        status = symc_fail_errno(SYMMCOLL_ERR_SYSTEM, out->error,
            "dump of the flight recorder: cannot write %s", out->path);
    }
    close(out->folder);
    return status;
}

void symc_trace_out_fail(struct symc_trace_out *out, int error)
{
    if (out->error == 0)
        out->error = error;
}

void symc_trace_out_put(
    struct symc_trace_out *out, const void *data, size_t nbytes)
{
    if (out->error != 0)
        return;
    if (nbytes > sizeof(out->buffer) - out->used)
        flush(out);
    memcpy(out->buffer + out->used, data, nbytes);
    out->used += nbytes;
}

void symc_trace_out_format(struct symc_trace_out *out, const char *format, ...)
{
    char text[512]; /* longer than any one piece of a dump */
    va_list args;
    int n;

    va_start(args, format);
    n = vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    if (n < 0 || (size_t)n >= sizeof(text)) {
        if (out->error == 0)
            out->error = n < 0 ? errno : EOVERFLOW;
        return;
    }
    symc_trace_out_put(out, text, (size_t)n);
}
