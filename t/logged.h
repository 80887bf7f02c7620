/* SPDX-License-Identifier: BSD-3-Clause */
/* Captures the standard error of this process while a test runs. */
#ifndef T_LOGGED_H
#define T_LOGGED_H

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

struct logged {
    FILE *file;
    int saved; /* the standard error while it is redirected */
};

static inline void logged_begin(struct logged *logged)
{
    logged->saved = dup(STDERR_FILENO);
    logged->file = tmpfile();
    if (logged->file == NULL || logged->saved < 0 ||
        dup2(fileno(logged->file), STDERR_FILENO) < 0)
        abort();
}

/* Returns text, with what has been said since. */
static inline char *logged_end(struct logged *logged, char *text, size_t nbytes)
{
    size_t got;

    dup2(logged->saved, STDERR_FILENO);
    close(logged->saved);
    rewind(logged->file);
    got = fread(text, 1, nbytes - 1, logged->file);
    text[got] = '\0';
    fclose(logged->file);
    return text;
}

#endif
