#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# symmcoll-run while another user connects to it as fast as can be: output,
# signals and times go on.
. "${T_SRCDIR:-.}/t/tap.sh"

run=$builddir/bin/symmcoll-run
flood=$builddir/t/bin/run_flood
seconds=60

"$flood" symmcoll-none 65533 1 0 || skip_all "becoming another user needs root"

# start OPTIONS... SCRIPT: symmcoll-run in the background, and the flood; each
# rank says every 0.1 s that it is there
start()
{
    rm -f bootstrap out err
    "$run" -n 2 "$@" >out 2>err &
    launcher=$!
    start_left=600
    while [ ! -e bootstrap ] && [ $start_left -gt 0 ]; do
        sleep 0.1
        start_left=$((start_left - 1))
    done
    "$flood" "$(cat bootstrap)" 65533 4 $seconds &
    flooding=$!
    sleep 1
}

# finish: waits until the job has ended, at most until the flood is over
finish()
{
    while kill -0 $launcher 2>/dev/null && kill -0 $flooding 2>/dev/null; do
        sleep 0.1
    done
    kill -0 $flooding 2>/dev/null
    finish_beside=$?
    kill $flooding 2>/dev/null
    wait $flooding
    kill -KILL $launcher 2>/dev/null
    wait $launcher
    status=$?
    return $finish_beside
}

# shellcheck disable=SC2016
speak='echo "$SYMMCOLL_HUB" >name.$RANK; mv name.$RANK bootstrap
    while :; do echo line; sleep 0.1; done'

cd "$scratch" || exit 1
plan 5

# shellcheck disable=SC2016
start sh -c "trap 'echo asked; exit 5' TERM; $speak"
before=$(wc -l <out)
lines_left=300
while [ $(($(wc -l <out) - before)) -lt 12 ] && [ $lines_left -gt 0 ]; do
    sleep 0.1
    lines_left=$((lines_left - 1))
done
[ $lines_left -gt 0 ]
ok $? "lines of ranks are passed on, twelve in $((300 - lines_left)) tenths of a second"
kill -TERM $launcher
finish
ok $? "the job ends at SIGTERM"
is "$status $(grep -c asked out)" "5 2" "as the ranks end by it"

start --grace 1 sh -c "trap '' TERM; $speak"
kill -TERM $launcher
finish
ok $? "the grace of a job passes"
is $status 137 "after which its ranks are killed"
done_testing
