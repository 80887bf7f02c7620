#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Ranks of symmcoll-run that die while they compute, two at once, or in the
# middle of the rendezvous, or are stopped: the errors of the others, the
# records, and that no resource remains.  (t/bin/run_ranks.t has the launcher's own
# side.)
. "${T_SRCDIR:-.}/t/tap.sh"

run=$builddir/bin/symmcoll-run
rank=$builddir/t/world/launched_rank
SYMMCOLL_TRACE_DUMP_FILE="$scratch/dump_"
export SYMMCOLL_TRACE_DUMP_FILE

# start OPTIONS...: runs a job of four; its end is in $status
start()
{
    rm -f "$scratch"/dump_* "$scratch/err"
    "$run" -n 4 "$@" >"$scratch/out" 2>"$scratch/err"
    status=$?
}

# told PATTERN: prints how many ranks printed a line that matches
told()
{
    grep -c "^\[[0-9]\] .*$1" "$scratch/err"
}

left()
{
    for process in /proc/[0-9]*; do
        case $(readlink "$process/exe" 2>/dev/null) in
        "$rank" | *"/.libs/lt-launched_rank") echo "$process still runs" ;;
        esac
    done
}

plan 20

start "$rank" loop
is "$status" 0 "ranks make and leave worlds in a loop"
none "$(cat "$scratch/err")" "and no rendezvous takes a rank of the next"

start --verbose "$rank" exchange
is "$status" 0 "ranks exchange descriptors when they have joined"
is "$(grep -c 'have joined\|cannot follow' "$scratch/err")" 1 \
    "and the launcher takes that for no world"

start "$rank" compute
is "$status" 137 "a job whose rank is killed while it computes ends with 137"
is "$(told "barrier: PEER: .*rank 2 (pid [0-9]*) killed by SIGKILL after \
barrier seq 4 of group 0")" 3 "the others know rank, pid, signal and place"
[ -s "$scratch/dump_2" ]
ok $? "its record is written"
none "$(left)" "nothing is left"

start "$rank" pair
is "$status" 137 "a job that loses two ranks at once ends with 137"
# Rank 1 may still be in the barrier when rank 2 dies, and then has an error as well.
is "$(grep -c '^\[[03]\] barrier: PEER: .*rank [12] (pid [0-9]*) killed by SIGKILL' \
    "$scratch/err")" 2 "the others know why"
[ -s "$scratch/dump_1" ] && [ -s "$scratch/dump_2" ]
ok $? "both records are written"
none "$(left)" "nothing is left of two"

# Rank 3 is to join when rank 2 is dead, which a busy machine may spoil.
for try in 1 2 3 4 5; do
    start "$rank" hello
    [ "$(told 'init: PEER: .*killed by SIGKILL')" = 3 ] && break
    diag "try $try" && diag <"$scratch/err"
done
is "$status" 137 "a job whose rank is killed in the rendezvous ends with 137"
is "$(told 'init: PEER: .*rank 2 (pid [0-9]*) killed by SIGKILL')" 3 \
    "those who wait in the rendezvous know why, and so do those who join later"
is "$(ls "$scratch"/dump_* 2>/dev/null)" "" \
    "there is no record of those who have done nothing"
none "$(left)" "nothing is left of the rendezvous"

SYMMCOLL_TRACE_DUMP_GRACE=200ms
export SYMMCOLL_TIMEOUTS_COLLECTIVE SYMMCOLL_TRACE_DUMP_GRACE
# All but the stopped rank have to come in time, on a busy machine in a longer one.
for seconds in 0.3 2 10; do
    SYMMCOLL_TIMEOUTS_COLLECTIVE=${seconds}s
    start --grace 2 "$rank" stop
    [ "$(told "TIMEOUT: .*rank 2 did not come; rank 2 ")" = 3 ] && break
    diag "with $seconds s" && diag <"$scratch/err"
done
is "$status" 1 "a job whose rank is stopped ends with the others' status"
is "$(told "TIMEOUT: .*rank 2 did not come; rank 2 (pid [0-9]*) is after \
barrier seq 4")" 3 "the others know who did not come, and where it is"
[ -s "$scratch/dump_2" ]
ok $? "the record of the stopped rank is written"
none "$(left)" "the stopped rank is gone"
done_testing
