#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# The library asks its environment in one place alone, which knows when there is
# nothing to ask.
. "${T_SRCDIR:-.}/t/tap.sh"

cd "$srcdir" || exit 1

# Lines of C under the given folders that read the environment themselves.  One file
# passes the environment on to a library that it loads, and reads nothing of it.
readers()
{
    find "$@" -name '*.[ch]' ! -path lib/base/variable.c \
        ! -path lib/fused/blas_choice.c | LC_ALL=C sort |
        xargs grep -nE '\b(secure_)?getenv *\(|\benviron\b' |
        grep -vE ':[0-9]+: *(/\*|\*| \* )' |
        grep -vE '"[^"]*environ[^"]*"|getenv\(\)'
}

mkdir "$scratch/module"
cat >"$scratch/module/bad.c" <<'END'
const char *home = getenv("HOME");
const char *other = secure_getenv ("HOME");
char *const *all = environ;
END

plan 2
is "$(readers "$scratch/module" | wc -l)" 3 'a look past the one place is found'
none "$(readers lib)" 'lib/ reads the environment through symc_variable_get()'
done_testing
