#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# symmcoll-conf as scripts use it: output, messages and exit codes; and the
# sample file, in which the commented lines must be the defaults.

. "${T_SRCDIR:-.}/t/tap.sh"

conf=$builddir/bin/symmcoll-conf
tab=$(printf '\t')
[ -x "$conf" ] || skip_all 'symmcoll-conf was not built'

unset SYMMCOLL_TRACE_DUMP_FILE
SYMMCOLL_CONF=
export SYMMCOLL_CONF

# run EXPECTED-EXIT-STATUS ARGUMENT...
run()
{
    expected=$1
    shift
    "$conf" "$@" >"$scratch/out" 2>"$scratch/err"
    status=$?
    [ $status -eq "$expected" ] && return 0
    diag "symmcoll-conf $*: exit status $status, expected $expected"
    diag <"$scratch/out"
    diag <"$scratch/err"
    return 1
}

# says out|err TEXT: the stream has the text
says()
{
    grep -qF -e "$2" "$scratch/$1"
}

plan 26

# ---- list and get ----

run 0 list && [ ! -s "$scratch/err" ] &&
    grep -qx "host.chunk${tab}256KiB${tab}built-in" "$scratch/out"
ok $? "list prints key, value and origin, separated by tabs"

! grep -qv "^[a-z0-9_.]*${tab}[^${tab}]*${tab}[^${tab}][^${tab}]*\$" "$scratch/out"
ok $? "and every line has the three"

SYMMCOLL_HOST_CHUNK=65536 run 0 get host.chunk &&
    [ "$(cat "$scratch/out")" = \
        "host.chunk${tab}64KiB${tab}environment SYMMCOLL_HOST_CHUNK" ]
ok $? "get prints the line of one setting, with the variable as origin"

SYMMCOLL_STORE_URL=redis://u:se:s@me@h:1/2 run 0 list &&
    grep -qx "store.url${tab}redis://u:\*\*\*@h:1/2${tab}.*" "$scratch/out" &&
    SYMMCOLL_STORE_URL="redis://u:sesame@h$(printf '\001')" run 1 list &&
    says err 'redis://u:***@h?' && ! says err sesame
ok $? "a password in a URL is not shown, whether or not the value is good"

run 1 get host.chnk && says err "did you mean host.chunk?" &&
    [ ! -s "$scratch/out" ]
ok $? "get of an unknown key fails and names the nearest"

run 1 get '' && says err 'unknown key ""'
ok $? "an empty key is shown in quotes"

SYMMCOLL_HOST_CHUNKY=1 run 0 list && says err "warning: environment" &&
    says err "did you mean SYMMCOLL_HOST_CHUNK?"
ok $? "an unknown variable is a warning beside the list"

SYMMCOLL_HOST_CHUNK=1GiB run 1 list && [ ! -s "$scratch/out" ] &&
    says err "from 4KiB to 1MiB, found \"1GiB\""
ok $? "a bad value fails, with range and value, before anything is listed"

SYMMCOLL_CONF=$scratch/none run 1 list && says err "$scratch/none"
ok $? "a settings file that is not there fails by name"

# ---- files ----

if run 1 check /nonexistent && says err "without libconfig"; then
    skip 8 'built without libconfig'
else
    printf 'host: {\n    chunk = "64KiB";\n};\n' >"$scratch/good.conf"
    run 0 check "$scratch/good.conf" && [ ! -s "$scratch/out" ] &&
        [ ! -s "$scratch/err" ]
    ok $? "check of a good file says nothing"

    SYMMCOLL_CONF=$scratch/good.conf run 0 get host.chunk &&
        says out "${tab}64KiB${tab}$scratch/good.conf:2"
    ok $? "a value from a file has file and line as origin"

    printf 'host: {\n    chnk = "64KiB";\n};\n' >"$scratch/odd.conf"
    run 1 check "$scratch/odd.conf" &&
        says err "$scratch/odd.conf:2: unknown key host.chnk: did you mean host.chunk?"
    ok $? "check of an unknown key exits 1, with line and nearest key"

    printf 'host: {\n    chunk = "64";\n};\n' >"$scratch/bad.conf"
    run 1 check "$scratch/bad.conf" &&
        says err "$scratch/bad.conf:2: host.chunk: expected a size"
    ok $? "check of a bad value exits 1, with line and range"

    run 1 check "$scratch/none.conf" && says err "$scratch/none.conf" &&
        run 1 check "$scratch" && says err "found a directory"
    ok $? "check of a missing file, or of a directory, exits 1"

    sample=$srcdir/etc/symmcoll.conf
    run 0 check "$sample" && [ ! -s "$scratch/err" ]
    ok $? "the sample file is fine as it is"

    sed 's/^\( *\)#= /\1/' "$sample" >"$scratch/sample.conf"
    run 0 check "$scratch/sample.conf" && [ ! -s "$scratch/err" ]
    ok $? "and with each setting uncommented"

    run 0 list && cut -f 1,2 "$scratch/out" >"$scratch/built-in"
    SYMMCOLL_CONF=$scratch/sample.conf run 0 list &&
        cut -f 1,2 "$scratch/out" | diff "$scratch/built-in" - &&
        ! grep -q "${tab}built-in\$" "$scratch/out"
    ok $? "which sets every setting there is to its built-in value"
fi

# ---- the manual page's text ----

run 0 --mdoc && [ ! -s "$scratch/err" ] && cp "$scratch/out" "$scratch/mdoc" &&
    grep -qx '\.It Cm host\.chunk' "$scratch/mdoc" &&
    grep -qx '\.Ev SYMMCOLL_HOST_CHUNK \.' "$scratch/mdoc"
ok $? "--mdoc prints each setting with its variable"

SYMMCOLL_CONF=/nonexistent SYMMCOLL_HOST_CHUNK=bad run 0 --mdoc &&
    cmp -s "$scratch/out" "$scratch/mdoc"
ok $? "--mdoc is the same whatever files and variables say"

# ---- the command line ----

run 0 --help && says out "Usage: symmcoll-conf" && [ ! -s "$scratch/err" ]
ok $? "--help prints the usage"
run 0 --version && grep -q '^symmcoll-conf [0-9]' "$scratch/out"
ok $? "--version prints the version"
run 2 && says err "expected a command" && [ ! -s "$scratch/out" ]
ok $? "no command is a usage error"
run 2 lst && says err "unknown command: lst"
ok $? "so is an unknown one"
run 2 get && run 2 get a b && run 2 check && run 2 check a b && run 2 list a &&
    run 2 --mdoc list
ok $? "so is an argument too few or too many"
run 2 --nonsense && says err "symmcoll-conf: unrecognized option '--nonsense'"
ok $? "so is an unknown option"

if [ -w /dev/full ]; then
    "$conf" list >/dev/full 2>"$scratch/err"
    [ $? -eq 1 ] && says err "standard output"
    ok $? "output that gets lost is an error"
else
    skip 1 'no /dev/full here'
fi

done_testing
