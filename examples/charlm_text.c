/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Reading of texts: the bytes that occur, the positions to learn from, and the
 * held-out ones: one whole file (MPL-2.0), and every tenth kilobyte of all
 * others, concatenated.
 */
#include "charlm.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define LICENCES "/usr/share/common-licenses"
#define HELD_OUT_FILE "MPL-2.0"
#define BLOCK 1024            /* bytes of one kilobyte */
#define HELD_OUT_EVERY 10     /* the last of every ten blocks */
#define LENGTH_MAX (1u << 30) /* bytes of all texts: positions have 32 bits */

static int append_bytes(struct charlm_text *text, int fd, size_t nbytes,
    const char *path, char *error)
{
    unsigned char *symbols;

    if (nbytes > LENGTH_MAX - text->length)
        return charlm_fail(
            error, "text: more than %u bytes with %s", LENGTH_MAX, path);
    symbols = realloc(text->symbols, text->length + nbytes + 1);
    if (symbols == NULL)
        return charlm_fail(error, "text: no memory for %s", path);
    text->symbols = symbols;
    for (size_t done = 0; done < nbytes;) {
        ssize_t n = read(fd, symbols + text->length, nbytes - done);

        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return charlm_fail(
                error, "text: cannot read %s: %s", path, strerror(errno));
        if (n == 0)
            return charlm_fail(error,
                "text: %s became shorter while it was read: expected %zu "
                "bytes, found %zu",
                path, nbytes, done);
        done += (size_t)n;
        text->length += (size_t)n;
    }
    return 0;
}

/* Appends the bytes of one file. */
static int append_file(struct charlm_text *text, const char *path, char *error)
{
    struct stat st;
    int status, fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);

    if (fd < 0)
        return charlm_fail(
            error, "text: cannot open %s: %s", path, strerror(errno));
    if (fstat(fd, &st) != 0)
        status = charlm_fail(
            error, "text: cannot look at %s: %s", path, strerror(errno));
    else if (!S_ISREG(st.st_mode))
        status = charlm_fail(error, "text: %s is not a regular file", path);
    else if (st.st_size == 0)
        status = charlm_fail(error, "text: %s is empty", path);
    else
        status = append_bytes(text, fd, (size_t)st.st_size, path, error);
    close(fd);
    text->nfiles++;
    return status;
}

static bool is_held_out(const char *path)
{
    const char *slash = strrchr(path, '/');

    return strcmp(slash != NULL ? slash + 1 : path, HELD_OUT_FILE) == 0;
}

/* Appends the files to learn from, then the held-out one, which begins at
 * *rest. */
static int append_files(struct charlm_text *text, const char *const *paths,
    int npaths, size_t *rest, char *error)
{
    for (int pass = 0; pass < 2; pass++) {
        if (pass == 1)
            *rest = text->length;
        for (int i = 0; i < npaths; i++)
            if (is_held_out(paths[i]) == (pass == 1) &&
                append_file(text, paths[i], error) != 0)
                return -1;
    }
    return 0;
}

static int is_plain_name(const struct dirent *entry)
{
    return entry->d_name[0] != '.';
}

/* In byte order; alphasort() uses the locale's. */
static int compare_names(const struct dirent **a, const struct dirent **b)
{
    return strcmp((*a)->d_name, (*b)->d_name);
}

static int append_licences(struct charlm_text *text, size_t *rest, char *error)
{
    struct dirent **entries;
    int nentries = scandir(LICENCES, &entries, is_plain_name, compare_names);
    int npaths = 0, status = -1;
    char **paths;

    if (nentries < 0)
        return charlm_fail(error,
            "text: cannot list %s: %s (name texts with "
            "--text)",
            LICENCES, strerror(errno));
    paths = calloc((size_t)nentries + 1, sizeof(*paths));
    for (int i = 0; paths != NULL && i < nentries; i++) {
        struct stat st;

        if (asprintf(&paths[npaths], "%s/%s", LICENCES, entries[i]->d_name) < 0)
            break;
        if (lstat(paths[npaths], &st) == 0 && S_ISREG(st.st_mode))
            npaths++;
        else
            free(paths[npaths]);
    }
    if (npaths == 0)
        charlm_fail(error,
            "text: no regular file in %s (name texts with "
            "--text)",
            LICENCES);
    else
        status =
            append_files(text, (const char *const *)paths, npaths, rest, error);
    for (int i = 0; i < npaths; i++)
        free(paths[i]);
    free(paths);
    for (int i = 0; i < nentries; i++)
        free(entries[i]);
    free(entries);
    return status;
}

/* Numbers the bytes that occur, in ascending order, and replaces each by its
 * number. */
static void number_bytes(struct charlm_text *text)
{
    bool occurs[256] = {false};
    unsigned char number[256] = {0};

    for (size_t i = 0; i < text->length; i++)
        occurs[text->symbols[i]] = true;
    for (int b = 0; b < 256; b++)
        if (occurs[b]) {
            text->byte[text->vocab] = (unsigned char)b;
            number[b] = (unsigned char)text->vocab++;
        }
    for (size_t i = 0; i < text->length; i++)
        text->symbols[i] = number[text->symbols[i]];
}

static bool in_held_out_block(size_t position)
{
    return position / BLOCK % HELD_OUT_EVERY == HELD_OUT_EVERY - 1;
}

/*
 * Sorts the positions into the three sets.  Positions without a whole context
 * before them are in none of them, nor are training positions with a context
 * that begins in a held-out block.
 */
static int sort_positions(
    struct charlm_text *text, size_t rest, size_t context, char *error)
{
    struct charlm_set *sets[] = {&text->train, &text->blocks, &text->licence};

    for (int i = 0; i < 3; i++) {
        sets[i]->positions = malloc((text->length + 1) * sizeof(uint32_t));
        if (sets[i]->positions == NULL)
            return charlm_fail(
                error, "text: no memory for %zu positions", text->length);
    }
    for (size_t p = context; p < text->length; p++) {
        struct charlm_set *set;

        if (p >= rest && p < rest + context)
            continue;
        if (p >= rest)
            set = &text->licence;
        else if (in_held_out_block(p))
            set = &text->blocks;
        else if (!in_held_out_block(p - context))
            set = &text->train;
        else
            continue;
        set->positions[set->count++] = (uint32_t)p;
    }
    return 0;
}

int charlm_read_text(const char *const *paths, int npaths, int context,
    struct charlm_text *text, char *error)
{
    size_t rest = 0;
    int status;

    *text = (struct charlm_text){0};
    status = npaths > 0 ? append_files(text, paths, npaths, &rest, error)
                        : append_licences(text, &rest, error);
    if (status == 0) {
        number_bytes(text);
        status = sort_positions(text, rest, (size_t)context, error);
    }
    if (status == 0 && text->train.count == 0)
        status = charlm_fail(error,
            "text: too short to learn from: expected more than %d bytes beside "
            "%s, found %zu",
            context, HELD_OUT_FILE, rest);
    if (status == 0 && text->vocab < 2)
        status = charlm_fail(error,
            "text: nothing to learn: only one byte value, 0x%02x, occurs",
            text->byte[0]);
    if (status != 0)
        charlm_free_text(text);
    return status;
}

void charlm_free_text(struct charlm_text *text)
{
    free(text->train.positions);
    free(text->blocks.positions);
    free(text->licence.positions);
    free(text->symbols);
    *text = (struct charlm_text){0};
}
