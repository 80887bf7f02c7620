/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Forwarding of the terminal's lines to rank 0.
 */
#include "run.h"

#include <errno.h>
#include <poll.h>
#include <unistd.h>

short run_input_events(const struct run_input *input, int *fd)
{
    if (input->from < 0)
        return 0;
    if (input->start < input->end) {
        *fd = input->to;
        return POLLOUT;
    }
    /* Reading in the background would stop this process. */
    if (tcgetpgrp(input->from) != getpgrp())
        return 0;
    *fd = input->from;
    return POLLIN;
}

void run_input_close(struct run_input *input)
{
    if (input->from >= 0)
        close(input->to);
    input->from = -1;
}

void run_input_serve(struct run_input *input)
{
    ssize_t n;

    if (input->start < input->end) {
        n = write(
            input->to, input->data + input->start, input->end - input->start);
        if (n > 0)
            input->start += (size_t)n;
    } else {
        n = read(input->from, input->data, sizeof(input->data));
        input->start = 0;
        input->end = n > 0 ? (size_t)n : 0;
        if (n == 0)
            run_input_close(input);
    }
    if (n < 0 && errno != EINTR && errno != EAGAIN)
        run_input_close(input);
}
