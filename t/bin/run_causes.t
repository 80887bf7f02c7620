#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# symmcoll-run with ranks that fail together and exit one after another: its last
# line, and every rank's error, name what failed first.
. "${T_SRCDIR:-.}/t/tap.sh"

run=$builddir/bin/symmcoll-run
failing=$builddir/t/bin/run_failing
export SYMMCOLL_TRACE_DUMP_FILE="$scratch/dump_"
export SYMMCOLL_TIMEOUTS_COLLECTIVE=200ms
err=$scratch/err

# last: the launcher's last line, without process numbers
last()
{
    tail -n 1 "$err" | sed 's/pid [0-9]*/pid P/g'
}

# repeat RANKS HOW LINE STATUS: runs HOW with several orders of exit; whether the
# last line and the status are these each time, and no rank speaks of an exit
repeat()
{
    for order in up down over; do
        for pause in 0 0 5 40; do
            "$run" -n "$1" "$failing" "$2" $order $pause 2>"$err" >&2
            found=$?
            if [ "$(last)" != "symmcoll-run: $3" ] || [ $found -ne "$4" ] ||
                grep -q '^\[.*exited' "$err"; then
                diag "$order, $pause ms between exits: status $found"
                diag "expected: symmcoll-run: $3, status $4"
                diag <"$err"
                return 1
            fi
        done
    done
}

# told RANK PATTERN: whether a rank's first line matches, except the library's own
# about its dump
told()
{
    sed -n "s/^\[$1\] //p" "$err" | grep -v "^symmcoll " | head -n 1 |
        grep -q "^$2\$"
}

# repeat_mismatch RANKS TEXT: repeats it for ranks that differ; all their lines have
# the cause, also the error of the rank that continues
repeat_mismatch()
{
    for order in up down over; do
        for pause in 0 0 5 40; do
            "$run" -n "$1" "$failing" mismatch $order $pause 2>"$err" >&2
            found=$?
            if [ "$(last)" != "symmcoll-run: all_reduce: count differs: $2 \
(group 0, seq 2)" ] || [ $found -ne 1 ] ||
                [ "$(grep '^\[.*: ' "$err" | grep -v '\] symmcoll' | grep -vc "$2")" != 0 ]; then
                diag "$order, $pause ms between exits: status $found"
                diag <"$err"
                return 1
            fi
        done
    done
}

# in_time COMMAND...: with a timeout of 0.2 s, or with longer ones where a busy
# machine has held up one of the ranks that come; how long it was is in $seconds
in_time()
{
    for seconds in 0.2 1.5 10; do
        SYMMCOLL_TIMEOUTS_COLLECTIVE=${seconds}s
        "$@" && return
    done
    return 1
}

# ends RANKS EXPECTED ARGUMENT...: whether the status and the last line are these
ends()
{
    ends_ranks=$1
    ends_as=$2
    shift 2
    "$run" -n "$ends_ranks" "$@" 2>"$err"
    set -- "$? $(last)"
    case $1 in "$ends_as"*) return ;; esac
    diag "with $seconds s: $1"
    return 1
}

plan 30

in_time repeat 2 late "rank 1 did not come to all_reduce seq 2 (timed out on \
rank 0)" 1
ok $? "2 ranks: the rank that did not come is named"
told 1 "ABORTED: .*all_reduce seq 2 of group 0 timed out after $seconds s: rank 1 \
did not come.*"
ok $? "and told of the timeout"
in_time repeat 4 late "rank 1 did not come to all_reduce seq 2 (timed out on \
ranks 0, 2, 3)" 1
ok $? "4 ranks: the rank that did not come is named"
told 1 "ABORTED: .*all_reduce seq 2 of group 0 timed out after $seconds s: rank 1 \
did not come.*"
ok $? "and told of the timeout"
in_time ends 4 "1 symmcoll-run: rank 1 did not come to all_reduce seq 2 (timed \
out on ranks 0, 2, 3)" --grace 2 "$failing" gone up 0
ok $? "a rank that never comes is named, with the others' status"
LABEL=loss
export LABEL
in_time ends 2 "1 symmcoll-run: rank 1 did not come to all_reduce seq 2 'loss' \
(timed out on rank 0)" "$failing" late up 0
ok $? "the operation is named with its label"
unset LABEL

# late_in_a_group: the timeout is part of the line
late_in_a_group()
{
    ends 3 "1 symmcoll-run: all_reduce seq 2 of group pipe timed out after \
$seconds s: rank 1 did not come" "$failing" late up 0
}
GROUP=pipe
export GROUP
in_time late_in_a_group
ok $? "of another group than that of all ranks, too"
unset GROUP

SYMMCOLL_TIMEOUTS_COLLECTIVE=60s
GROUP=pipe "$run" -n 3 "$failing" abort up 0 2>"$err"
is "$? $(last)" "1 symmcoll-run: rank 0 aborted group pipe: out of disk" \
    "an abort of another group is named"
repeat 2 abort "rank 0 aborted group 0: out of disk" 1
ok $? "2 ranks: an abort is named"
told 1 "\(CANCELED\|ABORTED\): .*rank 0 aborted group 0: out of disk"
ok $? "and told to the others"
repeat 4 abort "rank 0 aborted group 0: out of disk" 1
ok $? "4 ranks: an abort is named"
told 3 "\(CANCELED\|ABORTED\): .*rank 0 aborted group 0: out of disk"
ok $? "and told to the others"

repeat 2 death "rank 1 (pid P) killed by SIGKILL after barrier seq 1 of group \
0" 137
ok $? "2 ranks: a death is named"
told 0 "PEER: .*rank 1 (pid [0-9]*) killed by SIGKILL after barrier seq 1 of \
group 0"
ok $? "and told to the others"
repeat 4 death "rank 1 (pid P) killed by SIGKILL after barrier seq 1 of group \
0" 137
ok $? "4 ranks: a death is named"
told 3 "PEER: .*rank 1 (pid [0-9]*) killed by SIGKILL after barrier seq 1 of \
group 0"
ok $? "and told to the others"

repeat 3 split "rank 1 (pid P) killed by SIGKILL after group_split of group 0" 137
ok $? "a death after a split is named, with the split"
repeat 3 differ "group_create: groups differ: rank 0 passed ranks 0-2 with name \
tp, ranks 1 and 2 passed ranks 0-2 with name dp (group 0)" 1
ok $? "groups that differ are named, not the exits that they caused"
repeat 4 finished "rank 1 (pid P) has finalized, and all_reduce seq 2 of group 0 \
needs it" 1
ok $? "4 ranks: one that has finalized too early is named"

repeat_mismatch 2 "rank 0 passed 4, rank 1 passed 8"
ok $? "2 ranks: a mismatch is named, not the exits that it caused"
repeat_mismatch 4 "rank 0 passed 4, the other 3 passed 8"
ok $? "4 ranks: a mismatch is named, not the exits that it caused"

# says TEXT: waits until the launcher has said that, at most 60 s
says()
{
    says_left=600
    while ! grep -q -e "$1" "$err" && [ $says_left -gt 0 ]; do
        sleep 0.1
        says_left=$((says_left - 1))
    done
    grep -q -e "$1" "$err"
}

cd "$scratch" || exit 1
"$run" -n 4 --verbose --grace 0 --max-restarts 3 "$failing" shrink up 0 2>"$err" &
launcher=$!
says "shrunk a group and go on"
ok $? "a job whose ranks have shrunk a group goes on after the grace"
touch over
wait $launcher
is "$? $(last)" "3 symmcoll-run: rank 1 (pid P) exited with status 3 after \
barrier seq 1 of group 0; ranks 0, 2 and 3 went on and ended with status 0" \
    "its status is that of the failed rank, and the last line has what happened"
grep -q 'starting again' "$err"
is $? 1 "and it is not started again"
rm -f over shrunk.* through.*
: >"$err" # before the launcher opens it, says would read what the last one wrote
"$run" -n 3 --verbose --grace 0 "$failing" stay up 0 2>"$err" &
launcher=$!
says "shrunk a group and go on"
kill -TERM $launcher
wait $launcher
is $? 3 "SIGTERM ends it, after the grace at the latest"
rm -f shrunk.* through.*
"$run" -n 3 --verbose --grace 0 "$failing" stay up 0 2>"$err" &
launcher=$!
says "shrunk a group and go on"
kill -INT $launcher
asked_left=600
while [ ! -e asked ] && [ $asked_left -gt 0 ]; do
    sleep 0.1
    asked_left=$((asked_left - 1))
done
kill -INT $launcher
wait $launcher
is $? 3 "so does a second SIGINT"

# interrupt RANKS HOW LINE: whether SIGHUP to a job that hangs leaves this as the last
# line, as SIGINT does, which commands in the background of a script ignore; again later
# where a busy machine has held up one of the ranks that wait
interrupt()
{
    for pause in 0.3 2 15; do
        : >"$err" # of the run before
        "$run" -n "$1" --verbose "$failing" "$2" up 0 2>"$err" &
        launcher=$!
        says "ranks have joined"
        sleep $pause
        kill -HUP $launcher
        wait $launcher
        found=$(last | sed 's/waited [0-9.]* s/waited S s/')
        [ "$found" = "symmcoll-run: interrupted by SIGHUP; $3" ] && return
        diag "after $pause s: $found"
    done
    return 1
}

interrupt 4 gone "ranks 0, 2 and 3 waited S s in all_reduce seq 2 of group 0; rank 1 \
had not come, outside of any operation (after barrier seq 1 of group 0)"
ok $? "a signal to a job that hangs names the rank that others wait for"
GROUP=pipe
LABEL=loss
export GROUP LABEL
interrupt 3 gone "ranks 0 and 2 waited S s in all_reduce seq 2 'loss' of group pipe; \
rank 1 had not come, outside of any operation (after barrier seq 1 of group pipe)"
ok $? "in another group than that of all ranks, too"
unset GROUP LABEL
interrupt 3 chain "rank 0 waited S s in all_reduce seq 2 of group 0; rank 1 had not \
come, in recv seq 1 of group 0; rank 2 had not come, outside of any operation (after \
barrier seq 1 of group 0)"
ok $? "and what a rank waits in that has not come either"
interrupt 2 chain "rank 0 waited S s in all_reduce seq 2 of group 0; rank 1 had not \
come, in recv seq 1 of group 0"
ok $? "also where no rank is outside of an operation"
done_testing
