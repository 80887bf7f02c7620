/* SPDX-License-Identifier: BSD-3-Clause */
#include "t/kernels/checks.h"

#include "t/kernels/machine.h"
#include "t/sanitized.h"
#include "t/tap.h"

#include <unistd.h>

static int count(const struct check *const *arrays)
{
    int n = 0;

    for (; *arrays != NULL; arrays++)
        for (const struct check *check = *arrays; check->file != NULL; check++)
            n++;
    return n;
}

/* Sanitizers are slow, and find in a few rounds what they find. */
static int rounds_of(const struct check *check)
{
    return SANITIZED ? check->rounds / 8 + 1 : check->rounds;
}

int checks_run(const struct check *const *arrays)
{
    alarm(600);
    machine_begin();
    plan(count(arrays));
    for (; *arrays != NULL; arrays++)
        for (const struct check *check = *arrays; check->file != NULL; check++)
            ok(check->run(rounds_of(check)), "%s: %s", check->file,
                check->says);
    return done_testing();
}
