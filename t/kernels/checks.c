/* SPDX-License-Identifier: BSD-3-Clause */
#include "t/kernels/checks.h"

#include "t/kernels/machine.h"
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

static void run(const struct check *check)
{
    alarm(machine.seconds);
    ok(check->run(machine_rounds(check->rounds)), "%s: %s", check->file,
        check->says);
}

int checks_run(const struct check *const *arrays)
{
    machine_begin();
    plan(count(arrays));
    for (; *arrays != NULL; arrays++)
        for (const struct check *check = *arrays; check->file != NULL; check++)
            run(check);
    return done_testing();
}
