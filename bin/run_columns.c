/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The columns that a text takes on a terminal, and where it must be cut so that
 * the cursor stays on its line.
 */
#include "run.h"

#include <string.h>
#include <sys/ioctl.h>
#include <wchar.h>

int run_columns_of(int fd)
{
    struct winsize size;

    return ioctl(fd, TIOCGWINSZ, &size) == 0 ? size.ws_col : 0;
}

/* Returns the length of a control sequence "ESC [ parameters letter", or 0. */
static size_t find_sequence(const char *text, size_t nbytes)
{
    size_t n = 2;

    if (nbytes < 3 || text[0] != '\033' || text[1] != '[')
        return 0;
    while (n < nbytes && text[n] >= ' ' && text[n] < '@')
        n++;
    return n < nbytes ? n + 1 : 0;
}

size_t run_columns_step(
    const char *text, size_t nbytes, int column, int *columns)
{
    mbstate_t state = {0};
    wchar_t wide;
    size_t n = find_sequence(text, nbytes);

    *columns = -1;
    if (n > 0)
        return n;
    *columns = *text == '\t' ? 8 - column % 8 : *text != '\033';
    n = mbrtowc(&wide, text, nbytes, &state);
    /* invalid character: displayed as one, if at all */
    if (n == 0 || n > nbytes)
        return 1;
    if (*text != '\t')
        *columns = wcwidth(wide) > 0 ? wcwidth(wide) : 0;
    return n;
}
