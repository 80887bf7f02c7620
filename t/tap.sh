# SPDX-License-Identifier: BSD-3-Clause
# Test points from shell scripts, in the words of tap.h.  A script begins with
#
#   . "${T_SRCDIR:-.}/t/tap.sh"
#
# and then has: $srcdir and $builddir, the tops of the source and build trees;
# $scratch, an empty folder of its own, gone at the end.  Run by hand at the top
# of a tree that was built in place it needs no variable.

# shellcheck shell=sh

srcdir=${T_SRCDIR:-$PWD}
builddir=${T_BUILDDIR:-$PWD}
scratch=$builddir/t/scratch/$(basename "$0" .t).$$
mkdir -p "$scratch" || exit 1
trap 'chmod -R u+w "$scratch" 2>/dev/null; rm -rf "$scratch"' EXIT
trap 'exit 130' INT TERM HUP

tap_run=0
tap_failed=0

# plan N
plan()
{
    tap_planned=$1
    echo "1..$1"
}

# diag TEXT..., or standard input without text: lines for the log.
diag()
{
    if [ $# -gt 0 ]; then
        echo "$*" | sed 's/^/# /' >&2
    else
        sed 's/^/# /' >&2
    fi
}

# ok STATUS SENTENCE: 0 is good.  Gives the status.
ok()
{
    tap_run=$((tap_run + 1))
    if [ "$1" -eq 0 ]; then
        echo "ok $tap_run - $2"
    else
        echo "not ok $tap_run - $2"
        tap_failed=$((tap_failed + 1))
    fi
    return "$1"
}

# try SENTENCE COMMAND...: the command's output is shown where it fails.
try()
{
    tap_sentence=$1
    shift
    if "$@" >"$scratch/try.out" 2>&1; then
        ok 0 "$tap_sentence"
    else
        tap_status=$?
        diag <"$scratch/try.out"
        ok 1 "$tap_sentence"
        return $tap_status
    fi
}

# is FOUND EXPECTED SENTENCE: the same text.
is()
{
    if [ "$1" = "$2" ]; then
        ok 0 "$3"
    else
        diag "expected: $2"
        diag "found:    $1"
        ok 1 "$3"
    fi
}

# none TEXT SENTENCE: there is nothing to complain about.
none()
{
    [ -z "$1" ] || diag "$1"
    [ -z "$1" ]
    ok $? "$2"
}

# no_terminal: why script(1) cannot make a terminal here, or nothing where it can
no_terminal()
{
    if ! command -v script >/dev/null 2>&1; then
        echo 'no script(1)'
    elif ! script -qec true /dev/null </dev/null >"$scratch/script.out" 2>&1; then
        echo "no terminal: $(tr '\r\n' '  ' <"$scratch/script.out")"
    fi
}

# skip N REASON
skip()
{
    tap_left=$1
    while [ "$tap_left" -gt 0 ]; do
        tap_run=$((tap_run + 1))
        echo "ok $tap_run # SKIP $2"
        tap_left=$((tap_left - 1))
    done
}

# skip_all REASON, in place of plan
skip_all()
{
    echo "1..0 # SKIP $*"
    exit 0
}

done_testing()
{
    if [ -z "${tap_planned:-}" ]; then
        tap_planned=$tap_run
        echo "1..$tap_run"
    fi
    [ "$tap_failed" -eq 0 ] && [ "$tap_run" -eq "$tap_planned" ]
    exit
}
