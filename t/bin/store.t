#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# symmcoll-store: its command line, its address, its clients and its end.
. "${T_SRCDIR:-.}/t/tap.sh"

tool=$builddir/bin/symmcoll-store

# refuses SENTENCE PATTERN ARGUMENT...: status 2, one message, nothing printed.
refuses()
{
    sentence=$1
    pattern=$2
    shift 2
    "$tool" "$@" >"$scratch/out" 2>"$scratch/err"
    status=$?
    if [ $status -eq 2 ] && [ ! -s "$scratch/out" ] &&
        grep -q -e "$pattern" "$scratch/err"; then
        ok 0 "$sentence"
    else
        diag "status $status, wanted in the message: $pattern"
        diag <"$scratch/err"
        ok 1 "$sentence"
    fi
}

# start ARGUMENT...: in the background; $port is where it serves.
start()
{
    rm -f "$scratch/served"
    "$tool" --port 0 "$@" >"$scratch/served" 2>"$scratch/err" &
    pid=$!
    start_left=600
    while [ ! -s "$scratch/served" ] && kill -0 $pid 2>/dev/null &&
        [ $start_left -gt 0 ]; do
        sleep 0.1
        start_left=$((start_left - 1))
    done
    port=$(sed -n 's/.*serving at .*:\([0-9]*\).*/\1/p' "$scratch/served")
}

plan 13
refuses 'an unknown option is refused' unrecognized --no-such
refuses 'a word is refused' "found 'word'" word
refuses 'a port that is none is refused' "0 to 65535, found '65536'" -p 65536
refuses 'a size that is none is refused' "such as 64M, found '1X'" \
    --max-memory 1X
refuses 'a path that is none is refused' "found 'socket'" --unix socket
refuses 'a socket has no TLS' 'no TLS' --unix /tmp/x --tls-cert x
try 'it has a help and a version' \
    sh -c "'$tool' --help | grep -q 'max-clients' && '$tool' -V | grep -q store"

if "$tool" --port 0 --bind 192.0.2.1 2>&1 | grep -q 'built without'; then
    skip 6 'built without the server'
    exit
fi
"$tool" --port 0 --bind 192.0.2.1 >"$scratch/out" 2>"$scratch/err"
is "$? $(grep -c '192.0.2.1' "$scratch/err")" '1 1' \
    'an address of another machine is an error that names it'

echo sesame >"$scratch/password"
start --password-file "$scratch/password" --bind 127.0.0.1
try 'it says where it serves' test "${port:-0}" -gt 0
if command -v redis-cli >/dev/null 2>&1; then
    is "$(redis-cli -p "$port" -a sesame --no-auth-warning set k v)" OK \
        'redis-cli sets a value'
else
    skip 1 'no redis-cli'
fi
if grep -q sesame "$scratch/served" "$scratch/err" ||
    tr '\0' ' ' <"/proc/$pid/cmdline" | grep -q sesame; then
    ok 1 'the password is nowhere to be read'
else
    ok 0 'the password is nowhere to be read'
fi
kill -TERM $pid
wait $pid
is $? 0 'SIGTERM ends it cleanly'

start --unix "$scratch/socket"
kill -TERM $pid
wait $pid
is "$?:$(grep -c 'serving at unix:' "$scratch/served"):$(ls "$scratch/socket" \
    2>/dev/null)" '0:1:' 'it serves at a socket, and removes it'
