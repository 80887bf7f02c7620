#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Runs a world under valgrind, the tools of which are slow with much mapped memory.
. "${T_SRCDIR:-.}/t/tap.sh"

plan 1
if ! command -v valgrind >/dev/null; then
    skip 1 'no valgrind'
elif nm "$builddir/t/bin/run_victim" 2>/dev/null | grep -q '__[at]san_'; then
    skip 1 'a sanitizer build does not run under valgrind'
else
    export SYMMCOLL_TIMEOUTS_INIT=10min SYMMCOLL_TIMEOUTS_COLLECTIVE=10min
        try "two ranks join each other under valgrind, without an error" \
        "$builddir/bin/symmcoll-run" -n 2 valgrind -q --error-exitcode=9 \
        "$builddir/t/bin/run_victim" good 0
fi
done_testing
